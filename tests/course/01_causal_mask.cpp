// Exercise 01_causal_mask: num_visible_keys().
#include "course/support.hpp"
#include "kv/attention/causal.hpp"

namespace {

// What every query row of a pass sees.
std::vector<std::int64_t> visible(std::int64_t q_len, std::int64_t kv_len) {
  std::vector<std::int64_t> counts;
  for (std::int64_t t = 0; t < q_len; ++t) counts.push_back(kv::num_visible_keys(t, q_len, kv_len));
  return counts;
}

}  // namespace

TEST_CASE("the last row sees every key") {
  auto random = kv_course::random_numbers(1);
  for (int i = 0; i < 10; ++i) {
    const std::int64_t q_len = kv_course::pick(random, 1, 20);
    const std::int64_t kv_len = q_len + kv_course::pick(random, 0, 50);
    INFO("q_len " << q_len << ", kv_len " << kv_len);
    CHECK(kv::num_visible_keys(q_len - 1, q_len, kv_len) == kv_len);
  }
}

TEST_CASE("each row sees one key more than the row before it") {
  auto random = kv_course::random_numbers(2);
  const std::int64_t q_len = kv_course::pick(random, 5, 20);
  const std::int64_t kv_len = q_len + kv_course::pick(random, 1, 50);
  const std::vector<std::int64_t> counts = visible(q_len, kv_len);
  std::vector<std::int64_t> expected = {counts.front()};
  for (std::int64_t t = 1; t < q_len; ++t) expected.push_back(expected.back() + 1);
  kv_course::expect_close("keys seen by each row", {q_len}, counts, expected);
}

TEST_CASE("a text in two passes sees what it sees in one") {
  auto random = kv_course::random_numbers(3);
  const std::int64_t first = kv_course::pick(random, 3, 12),
                     second = kv_course::pick(random, 3, 12);
  std::vector<std::int64_t> counts = visible(first, first), expected;
  for (const std::int64_t count : visible(second, first + second)) counts.push_back(count);
  for (std::int64_t position = 0; position < first + second; ++position)
    expected.push_back(position + 1);  // itself and all before it
  kv_course::expect_close("keys seen at each position", {first + second}, counts, expected);
}

TEST_CASE("rows before the first key see none") {
  auto random = kv_course::random_numbers(4);
  const std::int64_t kv_len = kv_course::pick(random, 2, 9), none = kv_course::pick(random, 2, 9);
  std::vector<std::int64_t> expected(static_cast<std::size_t>(none), 0);
  for (std::int64_t j = 1; j <= kv_len; ++j) expected.push_back(j);
  kv_course::expect_close("keys seen by each row", {none + kv_len}, visible(none + kv_len, kv_len),
                          expected);
}
