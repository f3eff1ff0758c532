// Exercise 05_prefix_hash: PrefixIndex::hash() and prefix_salt().
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "course/support.hpp"
#include "kv/cache/prefix_index.hpp"

namespace {

using Tokens = std::vector<std::int32_t>;

Tokens random_tokens(std::mt19937_64& random, std::int64_t count) {
  Tokens tokens;
  for (std::int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int32_t>(kv_course::pick(random, 0, 60000)));
  return tokens;
}

std::string random_name(std::mt19937_64& random) {
  std::string name;
  for (std::int64_t i = kv_course::pick(random, 3, 9); i > 0; --i)
    name += static_cast<char>('a' + kv_course::pick(random, 0, 25));
  return name;
}

}  // namespace

TEST_CASE("the hash of the parent counts") {
  auto random = kv_course::random_numbers(1);
  const Tokens tokens = random_tokens(random, 4);
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t parent = random();
    CHECK(kv::PrefixIndex::hash(parent, tokens) == kv::PrefixIndex::hash(parent, tokens));
    CHECK(kv::PrefixIndex::hash(parent, tokens) !=
          kv::PrefixIndex::hash(parent ^ (std::uint64_t{1} << bit), tokens));
  }
}

TEST_CASE("every token and its place count") {
  auto random = kv_course::random_numbers(2);
  const std::uint64_t parent = random();
  for (std::size_t i = 0; i < 8; ++i) {
    const Tokens tokens = random_tokens(random, 8);
    Tokens changed = tokens;
    ++changed[i];
    CHECK(kv::PrefixIndex::hash(parent, tokens) != kv::PrefixIndex::hash(parent, changed));
    --changed[(i + 3) % 8];  // the sum is as before
    CHECK(kv::PrefixIndex::hash(parent, tokens) != kv::PrefixIndex::hash(parent, changed));
    Tokens turned = tokens;
    turned[(i + 1) % 8] = tokens[i] + 1;  // surely two different tokens
    Tokens swapped = turned;
    std::swap(swapped[i], swapped[(i + 1) % 8]);
    CHECK(kv::PrefixIndex::hash(parent, turned) != kv::PrefixIndex::hash(parent, swapped));
  }
  // Written one after the other as text, the two would be the same.
  CHECK(kv::PrefixIndex::hash(parent, Tokens{1, 23}) !=
        kv::PrefixIndex::hash(parent, Tokens{12, 3}));
}

TEST_CASE("another token changes each bit about every second time") {
  auto random = kv_course::random_numbers(3);
  constexpr int kNumPairs = 2000;  // a fair coin is off by 0.1 once in 10^18 times
  std::vector<int> num_changed(64, 0);
  for (int pair = 0; pair < kNumPairs; ++pair) {
    const std::uint64_t parent = random();
    Tokens tokens = random_tokens(random, 4);
    const std::uint64_t before = kv::PrefixIndex::hash(parent, tokens);
    std::int32_t& token = tokens[static_cast<std::size_t>(kv_course::pick(random, 0, 3))];
    token = (token + static_cast<std::int32_t>(kv_course::pick(random, 1, 60000))) % 60001;
    const std::uint64_t changed = before ^ kv::PrefixIndex::hash(parent, tokens);
    for (std::size_t bit = 0; bit < 64; ++bit)
      num_changed[bit] += static_cast<int>(changed >> bit & 1);
  }
  for (std::size_t bit = 0; bit < 64; ++bit) {
    INFO("bit " << bit << " changed " << num_changed[bit] << " times of " << kNumPairs);
    CHECK(num_changed[bit] > kNumPairs * 4 / 10);
    CHECK(num_changed[bit] < kNumPairs * 6 / 10);
  }
}

TEST_CASE("adapter and tenant are kept apart") {
  auto random = kv_course::random_numbers(4);
  const std::string a = random_name(random), b = a + random_name(random);
  CHECK(kv::prefix_salt(a, "") != kv::prefix_salt("", a));
  CHECK(kv::prefix_salt(a, b) != kv::prefix_salt(b, a));
  CHECK(kv::prefix_salt(a, b) != kv::prefix_salt(a, ""));
  CHECK(kv::prefix_salt(a, b) != kv::prefix_salt("", b));
  // The same letters, cut in another place.
  CHECK(kv::prefix_salt(a, b) != kv::prefix_salt(a + b.substr(0, 1), b.substr(1)));
}

TEST_CASE("only no names at all make the salt 0") {
  auto random = kv_course::random_numbers(5);
  const std::string name = random_name(random);
  CHECK(kv::prefix_salt("", "") == 0);
  CHECK(kv::prefix_salt(name, "") != 0);
  CHECK(kv::prefix_salt("", name) != 0);
  CHECK(kv::prefix_salt(name, name) != 0);
}
