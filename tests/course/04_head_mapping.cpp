// Exercise 04_head_mapping: HeadConfig::group_size() and HeadConfig::kv_head().
#include <vector>

#include "course/support.hpp"
#include "kv/config.hpp"

namespace {

// The KV head of every query head.
std::vector<int> mapping(const kv::HeadConfig& heads) {
  std::vector<int> kv_heads;
  for (int h = 0; h < heads.num_q_heads; ++h) kv_heads.push_back(heads.kv_head(h));
  return kv_heads;
}

// Head counts from the seed: at least two groups of at least two, and not as many as they are
// large.
struct Shared {
  explicit Shared(std::uint64_t salt) {
    auto random = kv_course::random_numbers(salt);
    group = static_cast<int>(kv_course::pick(random, 2, 5));
    heads.num_kv_heads = group + static_cast<int>(kv_course::pick(random, 1, 6));
    heads.num_q_heads = group * heads.num_kv_heads;
    heads.head_dim = 64;
  }
  int group = 0;
  kv::HeadConfig heads;
};

}  // namespace

TEST_CASE("the query heads of a group are neighbours") {
  const Shared shared(1);
  std::vector<int> expected;
  for (int g = 0; g < shared.heads.num_kv_heads; ++g)
    expected.insert(expected.end(), static_cast<std::size_t>(shared.group), g);
  kv_course::expect_close("KV head of each query head", {shared.heads.num_q_heads},
                          mapping(shared.heads), expected);
}

TEST_CASE("every KV head serves equally many query heads") {
  const Shared shared(2);
  CHECK(shared.heads.group_size() == shared.group);
  std::vector<int> served(static_cast<std::size_t>(shared.heads.num_kv_heads), 0);
  for (const int g : mapping(shared.heads)) {
    REQUIRE(g >= 0);
    REQUIRE(g < shared.heads.num_kv_heads);
    ++served[static_cast<std::size_t>(g)];
  }
  kv_course::expect_close("query heads of each KV head", {shared.heads.num_kv_heads}, served,
                          std::vector<int>(served.size(), shared.group));
}

TEST_CASE("without sharing each query head reads its own KV head") {
  auto random = kv_course::random_numbers(3);
  const int num_heads = static_cast<int>(kv_course::pick(random, 3, 40));
  std::vector<int> own;
  for (int h = 0; h < num_heads; ++h) own.push_back(h);
  kv_course::expect_close("KV head of each query head", {num_heads},
                          mapping({num_heads, num_heads, 64}), own);
}

TEST_CASE("a single KV head serves all query heads") {
  auto random = kv_course::random_numbers(4);
  const kv::HeadConfig heads{static_cast<int>(kv_course::pick(random, 3, 40)), 1, 64};
  CHECK(heads.group_size() == heads.num_q_heads);
  const std::vector<int> kv_heads = mapping(heads);
  kv_course::expect_close("KV head of each query head", {heads.num_q_heads}, kv_heads,
                          std::vector<int>(kv_heads.size(), 0));
}
