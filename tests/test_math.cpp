// The plain path and the fast one: equal to each other and to the double-precision decoder, and
// what a batch may and may not change.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kv/agreement.hpp"
#include "kv/cache/contiguous.hpp"
#include "kv/cache/paged.hpp"
#include "kv/decoder.hpp"
#include "kv/fast/thread_team.hpp"
#include "support/random_model.hpp"
#include "support/real_models.hpp"
#include "support/reference_decoder.hpp"

namespace {

using kv_test::RandomModelShape;
using Tokens = std::vector<kv::TokenId>;

// Group sizes 1, 3 and 7; widths that fill no vector; every storage format of a random model.
const std::vector<RandomModelShape> kShapes = {
    {.num_layers = 2, .num_q_heads = 4, .num_kv_heads = 2, .head_dim = 32, .seed = 1},
    {.num_layers = 2,
     .num_q_heads = 3,
     .num_kv_heads = 1,
     .head_dim = 10,
     .d_model = 23,
     .ffn_dim = 17,
     .rope_dim = 6,
     .vocab_size = 37,
     .seed = 2},
    {.num_layers = 1,
     .num_q_heads = 7,
     .num_kv_heads = 1,
     .head_dim = 66,
     .d_model = 50,
     .tied = false,
     .seed = 3},
    {.num_layers = 3,
     .num_q_heads = 3,
     .num_kv_heads = 3,
     .head_dim = 32,
     .dtype = kv::DType::f16,
     .seed = 4},
    {.num_layers = 2,
     .num_q_heads = 4,
     .num_kv_heads = 2,
     .head_dim = 48,
     .dtype = kv::DType::bf16,
     .seed = 5},
    {.num_layers = 2,
     .num_q_heads = 6,
     .num_kv_heads = 2,
     .head_dim = 32,
     .dtype = kv::DType::q8_0,
     .seed = 6},
};

const RandomModelShape& any_shape() { return kShapes[GENERATE(0u, 1u, 2u, 3u, 4u, 5u)]; }

kv::Model widened(kv::Model model) {
  kv::widen_weights(model);
  return model;
}

Tokens random_tokens(std::int64_t count, const kv::Model& model, std::mt19937& random) {
  Tokens tokens(static_cast<std::size_t>(count));
  for (kv::TokenId& token : tokens)
    token = static_cast<kv::TokenId>(random() % static_cast<unsigned>(model.config.vocab_size));
  return tokens;
}

template <class Row>
double max_abs(const Row& row) {
  double largest = 0.0;
  for (const auto value : row) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  return largest;
}

std::vector<float> row(const kv::RowMajor& m, std::int64_t r) {
  return {m.row(r).data(), m.row(r).data() + m.cols()};
}

template <class Row>
void require_close(const std::vector<float>& actual, const Row& expected, double atol) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    if (!(std::fabs(double{actual[i]} - static_cast<double>(expected[i])) <= atol))
      FAIL("logit " << i << ": actual " << actual[i] << ", expected " << expected[i] << ", bound "
                    << atol);
}

struct Threads {
  explicit Threads(int count) { kv::set_num_threads(count); }
  ~Threads() { kv::set_num_threads(before); }
  int before = kv::num_threads();
};

// A sequence of a batch: what its state holds before the pass, and the pass's own tokens.
struct Sequence {
  Tokens before, now;
};

// The logits after the last token of each sequence, all of them in one pass.
kv::RowMajor run_batch(const kv::Model& model, const std::vector<Sequence>& sequences,
                       kv::KvDType dtype, const kv::Math& math) {
  std::vector<std::unique_ptr<kv::ContiguousCache>> states;
  std::vector<kv::BatchItem> batch;
  for (const Sequence& s : sequences) {
    const auto length = static_cast<std::int64_t>(s.before.size() + s.now.size());
    states.push_back(std::make_unique<kv::ContiguousCache>(model.config, length, dtype));
    if (!s.before.empty()) kv::forward(model, *states.back(), s.before, nullptr, math);
    batch.push_back({states.back().get(), s.now});
  }
  return kv::forward(model, batch, nullptr, math);
}

Sequence random_sequence(std::int64_t before, std::int64_t now, const kv::Model& model,
                         std::mt19937& random) {
  return {random_tokens(before, model, random), random_tokens(now, model, random)};
}

// Lengths (before, now) of the sequences of a batch: decode alone in every number of rows at which
// the products change, then prompts, chunks and decode steps together.
std::vector<std::vector<std::pair<int, int>>> batch_shapes() {
  std::vector<std::vector<std::pair<int, int>>> shapes;
  for (const int num_rows : {2, 4, 5, 6, 9, 50}) shapes.emplace_back(num_rows, std::pair{3, 1});
  shapes.push_back({{0, 20}, {7, 1}, {11, 3}, {1, 1}, {0, 1}});
  shapes.push_back({{70, 1}, {0, 40}, {64, 30}, {3, 1}});
  return shapes;
}

}  // namespace

TEST_CASE("math: both paths give the oracle's logits for prompt, chunk, decode and ragged batch",
          "[math][oracle]") {
  const kv::Model model = widened(kv_test::random_model(any_shape()));
  const kv::Math& math = *GENERATE(&kv::plain_math(), &kv::fast_math());
  const Threads threads(GENERATE(1, 3));
  std::mt19937 random(7);
  const std::vector<Sequence> sequences = {
      random_sequence(0, 19, model, random), random_sequence(12, 1, model, random),
      random_sequence(5, 4, model, random), random_sequence(0, 1, model, random)};
  const kv::RowMajor actual = run_batch(model, sequences, kv::DType::f32, math);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    Tokens all = sequences[i].before;
    all.insert(all.end(), sequences[i].now.begin(), sequences[i].now.end());
    const kv_test::Row expected = kv_test::reference_forward(model, all).back();
    INFO(math.name << ", sequence " << i);
    require_close(row(actual, static_cast<std::int64_t>(i)), expected,
                  kv::logits_atol(model.config, kv::DType::f32, max_abs(expected)));
  }
}

TEST_CASE("math: the plain path equals the fast one on trained models", "[math]") {
  const std::string path = GENERATE(kv_test::shakespeare_path(), kv_test::smollm2_path());
  kv::LoadedModel loaded = kv_test::load_or_skip(path);
  const kv::Model model = widened(std::move(loaded.model));
  const kv::KvDType dtype = GENERATE(kv::DType::f32, kv::DType::bf16);
  std::mt19937 random(8);
  const std::vector<Sequence> sequences = {random_sequence(0, 61, model, random),
                                           random_sequence(40, 1, model, random),
                                           random_sequence(17, 8, model, random)};
  const kv::RowMajor plain = run_batch(model, sequences, dtype, kv::plain_math());
  const kv::RowMajor fast = run_batch(model, sequences, dtype, kv::fast_math());
  for (std::int64_t i = 0; i < plain.rows(); ++i) {
    INFO("sequence " << i);
    require_close(row(plain, i), row(fast, i),
                  kv::logits_atol(model.config, dtype, max_abs(row(fast, i))));
  }
}

TEST_CASE("math: both paths give the oracle's logits on the embedded model", "[math][oracle]") {
  kv::LoadedModel loaded = kv_test::load_or_skip(kv_test::shakespeare_path());
  const kv::Model model = widened(std::move(loaded.model));
  const Tokens tokens = loaded.tokenizer.encode("To be, or not to be, that is the question");
  const kv_test::Row expected = kv_test::reference_forward(model, tokens).back();
  for (const kv::Math* math : {&kv::plain_math(), &kv::fast_math()}) {
    kv::ContiguousCache state(model.config, static_cast<std::int64_t>(tokens.size()));
    INFO(math->name);
    require_close(kv::forward(model, state, tokens, nullptr, *math), expected,
                  kv::logits_atol(model.config, kv::DType::f32, max_abs(expected)));
  }
}

TEST_CASE("math: a paged state gives the plain path the rows of a contiguous one", "[math]") {
  const kv::Model model = widened(kv_test::random_model(kShapes[0]));
  std::mt19937 random(9);
  const Tokens tokens = random_tokens(30, model, random);
  kv::ContiguousCache contiguous(model.config, 30);
  kv::PagedCache paged(
      kv::make_host_pool({model.config.heads, model.config.num_layers, 8, 4, kv::DType::f32}));
  const std::vector<float> expected =
      kv::forward(model, contiguous, tokens, nullptr, kv::plain_math());
  require_close(kv::forward(model, paged, tokens, nullptr, kv::plain_math()), expected,
                kv::logits_atol(model.config, kv::DType::f32, max_abs(expected)));
}

// The order of a row's sums depends on shapes alone: how many rows, how long, how many threads.
TEST_CASE("batch: what another sequence holds never changes a bit of a row", "[math][batch]") {
  const kv::Model model = widened(kv_test::random_model(any_shape()));
  const kv::Math& math = *GENERATE(&kv::plain_math(), &kv::fast_math());
  const kv::KvDType dtype = GENERATE(kv::DType::f32, kv::DType::f16);
  const Threads threads(GENERATE(1, 3));
  std::mt19937 random(10);
  for (const auto& shape : batch_shapes()) {
    std::vector<Sequence> one, other;
    for (const auto& [before, now] : shape) {
      one.push_back(random_sequence(before, now, model, random));
      other.push_back(random_sequence(before, now, model, random));
    }
    const kv::RowMajor expected = run_batch(model, one, dtype, math);
    for (const std::size_t kept : {std::size_t{0}, shape.size() - 1}) {
      std::vector<Sequence> mixed = other;
      mixed[kept] = one[kept];
      INFO(math.name << ", " << shape.size() << " sequences, number " << kept << " kept");
      const auto r = static_cast<std::int64_t>(kept);
      REQUIRE(row(run_batch(model, mixed, dtype, math), r) == row(expected, r));
    }
  }
}

TEST_CASE("batch: joining one changes a row by rounding only", "[math][batch]") {
  const kv::Model model = widened(kv_test::random_model(any_shape()));
  const kv::Math& math = *GENERATE(&kv::plain_math(), &kv::fast_math());
  const kv::KvDType dtype = GENERATE(kv::DType::f32, kv::DType::bf16);
  std::mt19937 random(11);
  for (const auto& shape : batch_shapes()) {
    std::vector<Sequence> sequences;
    for (const auto& [before, now] : shape)
      sequences.push_back(random_sequence(before, now, model, random));
    const kv::RowMajor together = run_batch(model, sequences, dtype, math);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const std::vector<float> alone = row(run_batch(model, {sequences[i]}, dtype, math), 0);
      INFO(math.name << ", sequence " << i << " of " << sequences.size());
      require_close(row(together, static_cast<std::int64_t>(i)), alone,
                    kv::logits_atol(model.config, dtype, max_abs(alone)));
    }
  }
}

TEST_CASE("math: the two names are known, no other", "[math]") {
  REQUIRE(&kv::math_named("plain") == &kv::plain_math());
  REQUIRE(&kv::math_named("fast") == &kv::fast_math());
  REQUIRE_THROWS_AS(kv::math_named("Plain"), kv::InputError);
  REQUIRE_THROWS_AS(kv::math_named(""), kv::InputError);
}

TEST_CASE("math: the plain path refuses weights that were not widened", "[math]") {
  const kv::Model model = kv_test::random_model(kShapes[3]);
  kv::ContiguousCache state(model.config, 4);
  const Tokens tokens = {0, 1};
  REQUIRE_THROWS_AS(kv::forward(model, state, tokens, nullptr, kv::plain_math()),
                    std::invalid_argument);
}
