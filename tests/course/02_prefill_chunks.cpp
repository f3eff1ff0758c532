// Exercise 02_prefill_chunks: prefill().
#include <stdexcept>

#include "course/model_support.hpp"
#include "kv/cache/contiguous.hpp"
#include "kv/generate.hpp"

namespace {

// A prompt whose length is no multiple of the chunk, and a cache for it.
struct Prompt {
  explicit Prompt(std::uint64_t salt) : random(kv_course::random_numbers(salt)) {}

  // Runs the exercise and writes down the rows of each pass.
  std::vector<float> prefill(std::int64_t rows_of_chunk) {
    kv_course::WatchedMath watched;
    const std::vector<float> logits =
        kv::prefill(model, cache, tokens, rows_of_chunk, &work, watched.math);
    passes.clear();
    for (std::size_t i = 0; i < watched.layers.size(); ++i)
      if (watched.layers[i] == 0) passes.push_back(watched.row_counts[i]);
    return logits;
  }

  std::int64_t num_tokens() const { return static_cast<std::int64_t>(tokens.size()); }

  std::mt19937_64 random;
  kv::Model model = kv_course::random_model(random);
  std::int64_t chunk = kv_course::pick(random, 3, 5);
  std::vector<kv::TokenId> tokens = kv_course::random_tokens(
      random, model, kv_course::pick(random, 3, 5) * chunk + kv_course::pick(random, 1, chunk - 1));
  kv::ContiguousCache cache{model.config, 2 * num_tokens()};
  kv::Work work;
  std::vector<std::int64_t> passes;
};

}  // namespace

TEST_CASE("the logits are those after the last token") {
  Prompt p(1);
  for (const std::int64_t chunk : {p.chunk, std::int64_t{1}, p.num_tokens(), p.num_tokens() + 3}) {
    INFO(p.num_tokens() << " tokens in chunks of " << chunk);
    p.cache.truncate(0);
    kv_course::expect_logits_after(p.model, p.tokens, p.prefill(chunk));
  }
}

TEST_CASE("no pass has more rows than a chunk") {
  Prompt p(2);
  for (const std::int64_t chunk : {p.chunk, std::int64_t{1}}) {
    p.cache.truncate(0);
    p.prefill(chunk);
    INFO(p.num_tokens() << " tokens in chunks of " << chunk);
    REQUIRE_FALSE(p.passes.empty());
    CHECK(*std::max_element(p.passes.begin(), p.passes.end()) <= chunk);
  }
}

TEST_CASE("there are no more passes than needed") {
  Prompt p(3);
  for (const std::int64_t chunk : {p.chunk, p.num_tokens() + 3}) {
    p.cache.truncate(0);
    p.prefill(chunk);
    INFO(p.num_tokens() << " tokens in chunks of " << chunk);
    std::int64_t needed = 0;
    for (std::int64_t done = 0; done < p.num_tokens(); done += chunk) ++needed;
    CHECK(static_cast<std::int64_t>(p.passes.size()) == needed);
  }
}

TEST_CASE("every token goes through the model once") {
  Prompt p(4);
  p.prefill(p.chunk);
  CHECK(p.work.rows == p.num_tokens());
  CHECK(p.cache.length() == p.num_tokens());
}

TEST_CASE("no tokens and no rows are refused") {
  Prompt p(5);
  REQUIRE_THROWS_AS(kv::prefill(p.model, p.cache, {}, p.chunk), std::invalid_argument);
  REQUIRE_THROWS_AS(p.prefill(0), std::invalid_argument);
  REQUIRE_THROWS_AS(p.prefill(-p.chunk), std::invalid_argument);
  CHECK(p.cache.length() == 0);
}
