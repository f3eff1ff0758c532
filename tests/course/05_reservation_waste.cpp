// Exercise 05_reservation_waste: reserved_tokens() and add_reservation().
#include "course/support.hpp"
#include "kv/cost/reservation.hpp"

namespace {

using kv_course::pick;

// Some requests whose lengths come from the seed.
std::vector<kv::Request> requests(std::mt19937_64& random) {
  std::vector<kv::Request> found;
  for (int i = 0; i < 20; ++i) found.push_back({pick(random, 3, 60), pick(random, 2, 90), 0});
  return found;
}

constexpr std::int64_t kNoLimit = 100000;

}  // namespace

TEST_CASE("the longest request decides what all reserve") {
  auto random = kv_course::random_numbers(1);
  for (const kv::Request& request : requests(random)) {
    const std::int64_t max_len = pick(random, 200, 4000);
    CHECK(kv::reserved_tokens(kv::Reserve::max_length, request, max_len) == max_len);
  }
}

TEST_CASE("an output is rounded up to a power of two") {
  auto random = kv_course::random_numbers(2);
  std::vector<kv::Request> tried = requests(random);
  const std::int64_t exact = std::int64_t{1} << pick(random, 2, 8);  // is itself a power of two
  for (const std::int64_t output : {exact, exact + 1}) tried.push_back({5, output, 0});
  for (const kv::Request& request : tried) {
    INFO("prompt of " << request.prompt_tokens << ", output of " << request.output_tokens);
    std::int64_t power = 1;
    while (power < request.output_tokens) power += power;
    CHECK(kv::reserved_tokens(kv::Reserve::power_of_two, request, kNoLimit) ==
          request.prompt_tokens + power);
  }
}

TEST_CASE("no reservation is longer than the longest request") {
  auto random = kv_course::random_numbers(3);
  for (const kv::Request& request : requests(random)) {
    // The request may become so long; its output rounded up may not.
    const kv::Request long_one{request.prompt_tokens, 129 + request.output_tokens, 0};
    const std::int64_t max_len = long_one.final_length() + pick(random, 0, 5);
    CHECK(kv::reserved_tokens(kv::Reserve::power_of_two, long_one, max_len) == max_len);
  }
}

TEST_CASE("the last output token takes no place") {
  auto random = kv_course::random_numbers(4);
  for (const kv::Request& request : requests(random)) {
    std::int64_t held = request.prompt_tokens;  // then each output token but the last is fed back
    for (std::int64_t fed_back = 1; fed_back < request.output_tokens; ++fed_back) ++held;
    CHECK(kv::reserved_tokens(kv::Reserve::true_length, request, kNoLimit) == held);
  }
}

TEST_CASE("the four uses of a reservation are told apart") {
  auto random = kv_course::random_numbers(5);
  kv::MemoryUse got, expected;
  for (const kv::Request& request : requests(random)) {
    const std::int64_t end = request.prompt_tokens + request.output_tokens - 1;
    const std::int64_t held = pick(random, request.prompt_tokens, end);
    const std::int64_t reserved = end + pick(random, 1, 50), size = reserved + pick(random, 1, 50);
    for (std::int64_t place = 0; place < size; ++place) {
      if (place < held)
        ++expected.used;
      else if (place < end)
        ++expected.reserved;
      else if (place < reserved)
        ++expected.internal;
      else
        ++expected.rounding;
    }
    kv::add_reservation(request, held, reserved, size, got);
  }
  CHECK(got.used == expected.used);
  CHECK(got.reserved == expected.reserved);
  CHECK(got.internal == expected.internal);
  CHECK(got.rounding == expected.rounding);
  CHECK(got.holes + got.free == 0);
}
