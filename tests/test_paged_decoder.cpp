// The decoder over a paged cache: chapter 5 computes what chapter 4 computes.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "kv/agreement.hpp"
#include "kv/cache/contiguous.hpp"
#include "kv/cache/paged.hpp"
#include "kv/decoder.hpp"
#include "kv/fast/thread_team.hpp"
#include "kv/generate.hpp"
#include "support/paged_check.hpp"
#include "support/random_model.hpp"
#include "support/real_models.hpp"

namespace {

using kv::Model, kv::TokenId;
using Pool = std::shared_ptr<kv::PagedPool>;
using Tokens = std::vector<TokenId>;
using Logits = std::vector<float>;

Pool make_pool(const kv::ModelConfig& config, std::int64_t num_tokens, std::int32_t block_size,
               kv::KvDType dtype = kv::DType::f32) {
  const auto num_blocks = static_cast<kv::BlockId>(kv::num_blocks_for(num_tokens, block_size));
  const Pool pool =
      kv::make_host_pool({config.heads, config.num_layers, num_blocks, block_size, dtype});
  kv_test::shuffle_free_blocks(pool, 3);
  return pool;
}

Tokens random_tokens(std::size_t count, int vocab_size, unsigned seed) {
  std::mt19937 random(seed);
  Tokens tokens(count);
  for (TokenId& token : tokens)
    token = static_cast<TokenId>(random() % static_cast<unsigned>(vocab_size));
  return tokens;
}

void require_close(const kv::ModelConfig& config, kv::KvDType dtype, const Logits& actual,
                   const Logits& expected, double looseness = 1.0) {
  REQUIRE(actual.size() == expected.size());
  double largest = 0.0;
  for (const float x : expected) largest = std::max(largest, std::fabs(double{x}));
  const double bound = looseness * kv::logits_atol(config, dtype, largest);
  for (std::size_t i = 0; i < actual.size(); ++i)
    if (!(std::fabs(double{actual[i]} - expected[i]) <= bound)) {
      INFO("logit " << i << ": actual " << actual[i] << ", expected " << expected[i]);
      REQUIRE(std::fabs(double{actual[i]} - expected[i]) <= bound);
    }
}

// Whether the arithmetic is the same to the last bit. Many rows: attention copies tiles of 64 keys
// together, wherever they lie. Few rows read keys where they lie, 16 at a time and in four places
// of whole groups of 16 each; below one tile of 64, in groups of 4.
bool same_arithmetic(std::int32_t block_size, std::int64_t kv_len) {
  return block_size % 16 == 0 || (block_size % 4 == 0 && kv_len < 64);
}

// Prompt in chunks, then single tokens: contiguous and paged side by side.
void compare(const Model& model, const Tokens& tokens, std::size_t prompt, std::size_t chunk,
             std::int32_t block_size, kv::KvDType dtype) {
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  const Pool pool = make_pool(model.config, num_tokens + 2 * block_size, block_size, dtype);
  kv::PagedCache paged(pool);
  kv::ContiguousCache contiguous(model.config, num_tokens, dtype);
  for (std::size_t first = 0; first < tokens.size();) {
    const std::size_t count = first < prompt ? std::min(chunk, prompt - first) : 1;
    const std::span<const TokenId> part = std::span(tokens).subspan(first, count);
    kv::Work work, expected_work;
    const Logits actual = kv::forward(model, paged, part, &work);
    const Logits expected = kv::forward(model, contiguous, part, &expected_work);
    first += count;
    INFO("block size " << block_size << ", chunk " << chunk << ", tokens " << first);
    require_close(model.config, dtype, actual, expected);
    if (same_arithmetic(block_size, static_cast<std::int64_t>(first))) REQUIRE(actual == expected);
    REQUIRE(work.scores == expected_work.scores);
    REQUIRE(work.kv_bytes_read == expected_work.kv_bytes_read);
    REQUIRE(work.kv_bytes_written == expected_work.kv_bytes_written);
  }
  REQUIRE(paged.length() == num_tokens);
}

}  // namespace

TEST_CASE("paged decoder: the logits are the contiguous cache's, whatever the block size",
          "[paged][chapter5]") {
  const Model model = kv_test::random_model({.num_layers = 2, .num_q_heads = 6, .head_dim = 16});
  const std::int32_t block_size = GENERATE(1, 2, 3, 4, 5, 7, 8, 16, 24, 32, 64, 128, 256);
  const auto dtype = GENERATE(kv::DType::f32, kv::DType::f16, kv::DType::bf16);
  const Tokens tokens = random_tokens(80, model.config.vocab_size, 5);
  for (const std::size_t chunk : {1, 4, 5, 12, 70})
    compare(model, tokens, 70, chunk, block_size, dtype);
}

TEST_CASE("paged decoder: the embedded model, every block size and chunked prompts",
          "[paged][chapter5]") {
  const auto [model, tokenizer] = kv_test::load_or_skip(kv_test::shakespeare_path());
  const std::int32_t block_size = GENERATE(1, 2, 4, 8, 16, 32, 64, 128, 256);
  const Tokens tokens = random_tokens(150, model.config.vocab_size, 6);
  for (const std::size_t chunk : {16, 37, 130})
    compare(model, tokens, 130, chunk, block_size, kv::DType::f32);
}

TEST_CASE("paged decoder: stories260K, every block size and chunked prompts", "[paged][chapter5]") {
  const auto [model, tokenizer] = kv_test::load_or_skip(kv_test::stories_path());
  const std::int32_t block_size = GENERATE(1, 2, 4, 8, 16, 32, 64, 128, 256);
  const Tokens tokens = random_tokens(150, model.config.vocab_size, 6);
  for (const std::size_t chunk : {16, 37, 130})
    compare(model, tokens, 130, chunk, block_size, kv::DType::f32);
}

TEST_CASE("paged decoder: SmolLM2, block sizes from 1 to 256", "[paged][chapter5]") {
  const auto [model, tokenizer] = kv_test::load_or_skip(kv_test::smollm2_path());
  const std::int32_t block_size = GENERATE(1, 4, 16, 256);
  const Tokens tokens = random_tokens(72, model.config.vocab_size, 6);
  compare(model, tokens, 68, block_size == 16 ? 25 : 68, block_size, kv::DType::f16);
}

TEST_CASE("paged decoder: greedy text of the embedded model is that of chapter 1",
          "[paged][chapter5]") {
  const auto [model, tokenizer] = kv_test::load_or_skip(kv_test::shakespeare_path());
  const std::int32_t block_size = GENERATE(1, 5, 16);
  const Pool pool = make_pool(model.config, 64, block_size);
  kv::PagedCache paged(pool);
  Tokens tokens = tokenizer.encode("ROMEO:");
  Logits logits = kv::forward(model, paged, tokens);
  for (int i = 0; i < 24; ++i) {
    const Logits expected = kv::recompute(model, tokens, kv::DType::f32);
    require_close(model.config, kv::DType::f32, logits, expected);
    const auto best = std::ranges::max_element(expected);
    REQUIRE(std::ranges::max_element(logits) - logits.begin() == best - expected.begin());
    tokens.push_back(static_cast<TokenId>(best - expected.begin()));
    logits = kv::forward(model, paged, std::span(tokens).last(1));
  }
}

TEST_CASE("paged decoder: each sequence of a ragged batch equals its solo run",
          "[paged][chapter5]") {
  const Model model = kv_test::random_model({.num_layers = 2, .num_q_heads = 4, .head_dim = 16});
  const std::int32_t block_size = GENERATE(1, 3, 4, 16);
  const Pool pool = make_pool(model.config, 300, block_size);
  const std::vector<std::size_t> lengths = {1, 17, 64, 5};
  std::vector<kv::PagedCache> paged;
  std::vector<kv::ContiguousCache> contiguous;
  std::vector<Tokens> tokens;
  for (const std::size_t length : lengths) {
    paged.emplace_back(pool);
    contiguous.emplace_back(model.config, 80);
    tokens.push_back(random_tokens(length, model.config.vocab_size, static_cast<unsigned>(length)));
  }
  for (int step = 0; step < 5; ++step) {  // the prompts, then ragged continuations
    std::vector<kv::BatchItem> batch;
    for (std::size_t i = 0; i < paged.size(); ++i) batch.push_back({&paged[i], tokens[i]});
    const kv::RowMajor logits = kv::forward(model, batch);
    for (std::size_t i = 0; i < paged.size(); ++i) {
      const auto row = logits.row(static_cast<std::int64_t>(i));
      require_close(model.config, kv::DType::f32, {row.data(), row.data() + row.size()},
                    kv::forward(model, contiguous[i], tokens[i]));
      tokens[i] = random_tokens(1 + (i + static_cast<std::size_t>(step)) % 3,
                                model.config.vocab_size, static_cast<unsigned>(step));
    }
  }
}

// Case E1.
TEST_CASE("paged decoder: a prompt that is known gives the same first token from fewer rows",
          "[paged][prefix][cases]") {
  const Model model = kv_test::random_model({.num_layers = 2, .head_dim = 16});
  const std::size_t prompt = GENERATE(4, 5, 8, 9);
  const Pool pool = make_pool(model.config, 40, 4);
  const Tokens tokens = random_tokens(prompt, model.config.vocab_size, 8);
  kv::PagedCache first(pool);
  const Logits expected = kv::forward(model, first, tokens);
  first.publish(tokens);
  kv::PagedCache second(pool);
  const std::int64_t found = second.adopt_prefix(tokens);
  CHECK(found == static_cast<std::int64_t>((prompt - 1) / 4 * 4));
  kv::Work work;
  const Logits actual =
      kv::forward(model, second, std::span(tokens).subspan(static_cast<std::size_t>(found)), &work);
  CHECK(work.rows == static_cast<std::int64_t>(prompt) - found);
  require_close(model.config, kv::DType::f32, actual, expected);
}

// Case E3, with logits.
TEST_CASE("paged decoder: a prompt whose blocks were reused in between is computed afresh",
          "[paged][prefix][cases]") {
  const Model model = kv_test::random_model({.num_layers = 1, .head_dim = 16});
  const Pool pool = make_pool(model.config, 8, 4);
  const Tokens x = {1, 2, 3, 4, 5}, y = {9, 9, 9, 9, 8, 8, 8, 8};
  const auto serve = [&](const Tokens& tokens) {
    kv::PagedCache cache(pool);
    CHECK(cache.adopt_prefix(tokens) == 0);
    const Logits logits = kv::forward(model, cache, tokens);
    cache.publish(tokens);
    return logits;
  };
  const Logits first = serve(x);
  serve(y);
  CHECK(serve(x) == first);
}

namespace {

// Of the server's comparisons. There are thousands, of a tiny model: now and then one of its norms
// divides by little and enlarges a rounding (1.1 of the bound is the most seen). One wrong token
// moves logits by 28,000 bounds at least (2,427 cases of this test).
constexpr double kLooseness = 8.0;

// Random requests on one small pool; every sequence remembers its tokens.
class RandomServer {
 public:
  RandomServer(const Model& model, std::int32_t block_size, kv::BlockId num_blocks, unsigned seed)
      : model_(model),
        pool_(make_pool(model.config, std::int64_t{num_blocks} * block_size, block_size)),
        random_(seed) {}

  void step() {
    const int id = static_cast<int>(below(4));
    if (!sequences_.contains(id)) return begin(id);
    Sequence& s = sequences_.at(id);
    switch (below(8)) {
      case 0:
        sequences_.erase(id);
        return;
      case 1: {
        const auto length = below(static_cast<unsigned>(s.tokens.size()) + 1);
        s.cache.truncate(length);
        s.tokens.resize(length);
        return;
      }
      case 2:
        s.cache.publish(s.tokens);
        return;
      default:
        extend(s, some(1 + below(4)));
    }
  }

  // One more token, on a fork: nothing of the sequence itself may change.
  void check_all() {
    for (auto& [id, s] : sequences_) {
      kv::PagedCache probe = s.cache.fork();
      if (!probe.reserve(1)) continue;
      Tokens tokens = s.tokens;
      tokens.push_back(7);
      require_close(model_.config, kv::DType::f32,
                    kv::forward(model_, probe, std::span(tokens).last(1)),
                    kv::recompute(model_, tokens, kv::DType::f32), kLooseness);
      ++num_checked;
    }
    REQUIRE(kv_test::free_blocks_are_nan(*pool_));
  }

  void finish() {
    sequences_.clear();
    const kv::BlockAllocator& allocator = pool_->allocator;
    CHECK(allocator.pool().num_free() + allocator.index().num_idle() ==
          allocator.pool().num_blocks());
    CHECK(kv_test::free_blocks_are_nan(*pool_));
  }

  int num_checked = 0, num_refused = 0;
  std::int64_t num_adopted = 0;
  std::int64_t num_copies() const { return pool_->num_copies; }

 private:
  struct Sequence {
    kv::PagedCache cache;
    Tokens tokens;
  };

  void begin(int id) {
    if (!sequences_.empty() && below(2) == 0) {
      Sequence& parent = sequences_.begin()->second;
      sequences_.insert_or_assign(id, Sequence{parent.cache.fork(id), parent.tokens});
      return;
    }
    Sequence s{kv::PagedCache(pool_, id), {}};
    const Tokens prompt =
        some(1 + below(12 + static_cast<unsigned>(2 * pool_->allocator.block_size())));
    const std::int64_t found = s.cache.adopt_prefix(prompt);
    num_adopted += found;
    s.tokens.assign(prompt.begin(), prompt.begin() + found);
    if (extend(s, Tokens(prompt.begin() + found, prompt.end())))
      sequences_.insert_or_assign(id, std::move(s));
  }

  bool extend(Sequence& s, const Tokens& tokens) {
    if (!s.cache.reserve(static_cast<std::int64_t>(tokens.size()))) {
      ++num_refused;
      return false;
    }
    s.tokens.insert(s.tokens.end(), tokens.begin(), tokens.end());
    const Logits logits = kv::forward(model_, s.cache, tokens);
    require_close(model_.config, kv::DType::f32, logits,
                  kv::recompute(model_, s.tokens, kv::DType::f32), kLooseness);
    return true;
  }

  std::uint32_t below(unsigned limit) { return static_cast<std::uint32_t>(random_() % limit); }
  Tokens some(std::uint32_t count) {
    Tokens tokens;
    for (std::uint32_t i = 0; i < count; ++i) tokens.push_back(below(8) == 0 ? 2 : 1);
    return tokens;
  }

  const Model& model_;
  Pool pool_;
  std::mt19937 random_;
  std::map<int, Sequence> sequences_;
};

}  // namespace

TEST_CASE(
    "paged decoder: whatever is appended, forked, cut, freed and evicted, logits are those "
    "of an unshared recompute",
    "[paged][random]") {
  const std::int32_t block_size = GENERATE(1, 3, 4, 16);
  const Model model = kv_test::random_model(
      {.num_layers = 2, .num_q_heads = 2, .num_kv_heads = 1, .head_dim = 8, .vocab_size = 11});
  const int threads = kv::num_threads();
  kv::set_num_threads(1);  // the rows are too short to share
  RandomServer server(model, block_size, 36 / block_size + 2, 4);
  for (int i = 0; i < 1500; ++i) {
    INFO("block size " << block_size << ", operation " << i);
    server.step();
    if (i % 4 == 0) server.check_all();
  }
  CHECK(server.num_checked > 300);
  CHECK(server.num_refused > 20);
  CHECK(server.num_adopted >= 16);
  if (block_size > 1) CHECK(server.num_copies() > 50);
  server.finish();
  kv::set_num_threads(threads);
}
