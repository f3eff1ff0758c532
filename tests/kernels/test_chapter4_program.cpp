// Chapter 4 on a device: equal to chapter 3, each shared row read once, and what a person sees.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "attention/group_report.hpp"
#include "decoder_pair.hpp"
#include "kv/model/pool_heads.hpp"
#include "support/gguf_writer.hpp"
#include "support/programs.hpp"
#include "support/random_model.hpp"
#include "support/real_models.hpp"

using Catch::Matchers::ContainsSubstring;
using kv::AttentionStep, kv::Backend, kv::DType;
using namespace kv_test;

namespace {

const std::string kProgram = "04_shared_heads";

// A model on a device, with the decode kernel of a chapter.
class OnDevice {
 public:
  OnDevice(const kv::Model& model, AttentionStep decode, DType dtype, std::int64_t capacity,
           Backend backend = Backend::emulated)
      : model_(model),
        cache_(kv::device(backend), model.config, capacity, dtype),
        attention_(kv::device(backend), model.config.heads, dtype,
                   kv::attention_steps(0, dtype, decode)) {}

  std::vector<float> feed(Tokens tokens, kv::Work* work = nullptr) {
    return kv::forward(model_, cache_, tokens, work, with_attention(attention_));
  }
  std::int64_t kv_bytes_read() const { return attention_.kv_bytes_read(); }

 private:
  const kv::Model& model_;
  kv::DeviceCache cache_;
  kv::DeviceAttention attention_;
};

RandomModelShape shape_of(int group, int num_kv_heads) {
  RandomModelShape shape;
  shape.num_q_heads = group * num_kv_heads;
  shape.num_kv_heads = num_kv_heads;
  shape.head_dim = 32;
  shape.d_model = 64;
  shape.ffn_dim = 96;
  shape.seed = static_cast<unsigned>(group);
  return shape;
}

void check_logits(const kv::ModelConfig& config, DType dtype, const std::vector<float>& actual,
                  const std::vector<float>& expected) {
  const double atol = kv::logits_atol(config, dtype, max_abs(expected), dtype);
  for (std::size_t i = 0; i < expected.size(); ++i)
    REQUIRE(std::fabs(double{actual[i]} - expected[i]) <= atol);
}

// Both take the prompt, then token by token.
void expect_agreement(OnDevice& actual, OnDevice& expected, const kv::ModelConfig& config,
                      DType dtype, Tokens tokens, std::size_t prompt_len) {
  for (std::size_t at = 0; at < tokens.size();) {
    const std::size_t count = at < prompt_len ? prompt_len : 1;
    INFO("from token " << at);
    check_logits(config, dtype, actual.feed(tokens.subspan(at, count)),
                 expected.feed(tokens.subspan(at, count)));
    at += count;
  }
}

}  // namespace

TEST_CASE("chapter 4: it equals chapter 3 for every group and format", "[kernels][chapter4]") {
  const int group = GENERATE(1, 2, 3, 4, 8);
  const auto dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  const kv::Model model = random_model(shape_of(group, 2));
  const auto tokens = random_tokens(15, model.config.vocab_size, 2);
  OnDevice now(model, AttentionStep::grouped, dtype, 15);
  OnDevice before(model, AttentionStep::split_kv, dtype, 15);
  expect_agreement(now, before, model.config, dtype, tokens, 9);
}

TEST_CASE("chapter 4: on a device, GQA equals MHA with each KV head repeated for its group",
          "[kernels][chapter4]") {
  const int group = GENERATE(2, 3, 4, 8);
  const kv::Model gqa = random_model(shape_of(group, 2));
  const kv::Model mha = kv::with_kv_heads(gqa, gqa.config.heads.num_q_heads);
  const auto tokens = random_tokens(14, gqa.config.vocab_size, 4);
  OnDevice shared(gqa, AttentionStep::grouped, DType::f32, 14);
  OnDevice repeated(mha, AttentionStep::grouped, DType::f32, 14);
  expect_agreement(shared, repeated, gqa.config, DType::f32, tokens, 9);
}

TEST_CASE("chapter 4: a decode step reads each shared row once, chapter 3's once a query head",
          "[kernels][chapter4]") {
  const int group = GENERATE(1, 3, 8);
  const auto dtype = GENERATE(DType::f32, DType::bf16);
  const kv::Model model = random_model(shape_of(group, 2));
  const auto tokens = random_tokens(7, model.config.vocab_size, 6);
  OnDevice now(model, AttentionStep::grouped, dtype, 7);
  OnDevice before(model, AttentionStep::split_kv, dtype, 7);
  kv::Work work;
  for (const kv::TokenId& token : tokens) {  // all of them are decode steps
    now.feed({&token, 1}, &work);
    before.feed({&token, 1});
  }
  const kv::ModelConfig& c = model.config;
  const std::int64_t row = 2 * c.num_layers * c.heads.kv_dim() * kv::info(dtype).block_bytes;
  CHECK(work.kv_bytes_read == 7 * 8 / 2 * row);
  CHECK(now.kv_bytes_read() == work.kv_bytes_read);
  CHECK(before.kv_bytes_read() == group * work.kv_bytes_read);
}

TEST_CASE("chapter 4: fewer KV heads save traffic only where a kernel reads them once",
          "[kernels][chapter4]") {
  const auto rows = kv::count_group_reads({8, 4, 32}, DType::f32, 100);
  std::vector<int> counts;
  for (const kv::GroupRow& row : rows) {
    counts.push_back(row.num_kv_heads);
    CHECK(row.as_predicted);
    const std::int64_t kv_bytes = 2 * std::int64_t{100} * row.num_kv_heads * 32 * 4;
    CHECK(row.bytes_needed == kv_bytes + 2 * 8 * 32 * 4);
    CHECK(row.split_bytes >= 2 * 100 * 8 * 32 * 4);  // as with 8 KV heads
    CHECK(row.grouped_bytes >= row.bytes_needed);
    if (row.num_kv_heads < 8) CHECK(row.grouped_bytes < row.split_bytes);
  }
  CHECK(counts == std::vector<int>{8, 4, 2, 1});
}

TEST_CASE("chapter 4: the checking emulator finds nothing in a whole pass", "[kernels][chapter4]") {
  const auto dtype = GENERATE(DType::f32, DType::bf16);
  const kv::Model model = random_model(shape_of(4, 2));
  const auto tokens = random_tokens(5, model.config.vocab_size, 8);
  OnDevice now(model, AttentionStep::grouped, dtype, 5, Backend::checked);
  now.feed(Tokens(tokens).first(3));
  for (const std::size_t at : {3, 4}) now.feed(Tokens(tokens).subspan(at, 1));
}

TEST_CASE("chapter 4: two sequences over two KV heads each equal their solo run on a device",
          "[kernels][chapter4]") {
  const kv::Model model = random_model(shape_of(2, 2));
  kv::Device& device = kv::device(Backend::emulated);
  const auto memory = std::make_shared<kv::DeviceRows>(device, model.config, 12, DType::f32);
  kv::DeviceAttention attention(device, model.config.heads, DType::f32,
                                kv::attention_steps(0, DType::f32, AttentionStep::grouped));
  std::vector<kv::DeviceCache> together;
  std::vector<std::vector<kv::TokenId>> tokens;
  std::vector<kv::BatchItem> batch;
  for (const int length : {3, 5}) {
    together.emplace_back(memory, length + 1);
    tokens.push_back(random_tokens(length + 1, model.config.vocab_size, 10 + length));
  }
  for (std::size_t b = 0; b < 2; ++b) {
    const Tokens all(tokens[b]);
    kv::forward(model, together[b], all.first(all.size() - 1), nullptr, with_attention(attention));
    batch.push_back({&together[b], all.last(1)});
  }
  const kv::RowMajor logits = kv::forward(model, batch, nullptr, with_attention(attention));
  for (std::size_t b = 0; b < 2; ++b) {
    OnDevice alone(model, AttentionStep::grouped, DType::f32, 6);
    const Tokens all(tokens[b]);
    alone.feed(all.first(all.size() - 1));
    const auto row = logits.row(static_cast<std::int64_t>(b));
    check_logits(model.config, DType::f32, {row.data(), row.data() + row.cols()},
                 alone.feed(all.last(1)));
  }
}

TEST_CASE("chapter 4's program: it writes the text of chapter 3, and every table",
          "[kernels][programs]") {
  const std::string arguments = "--prompt 'ROMEO:' --tokens 6 --device emulated";
  const Outcome before = run("03_flash_attention", arguments + " --step 5");
  const Outcome outcome = run(kProgram, arguments);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  CHECK(outcome.err.empty());
  CHECK(text_of(outcome.out) == text_of(before.out));
  for (const std::string words :
       {"grouped for one new token", "6 of 6 tokens equal",
        "Every count of bytes moved equals its closed form", "1/4", "1/32", "as trained",
        "mean pooling", "repeating", "Every count equals its closed form", "uptrained"})
    CHECK_THAT(outcome.out, ContainsSubstring(words));
  CHECK(deterministic_report(run(kProgram, arguments).out) == deterministic_report(outcome.out));
}

TEST_CASE("chapter 4's program: it runs on the CPU, in 16 bit, and draws the family",
          "[kernels][programs]") {
  const std::string svg = (scratch() / "family.svg").string();
  const Outcome cpu = run(kProgram, "--tokens 3 --device cpu --svg " + svg);
  INFO(cpu.err);
  REQUIRE(cpu.status == 0);
  CHECK_THAT(slurp(svg), ContainsSubstring("<svg") && ContainsSubstring("uptrained"));
  std::filesystem::remove(svg);
  const Outcome halves = run(kProgram, "--tokens 3 --device emulated --kv-dtype bf16");
  INFO(halves.err);
  REQUIRE(halves.status == 0);
  CHECK_THAT(halves.out, ContainsSubstring("3 of 3 tokens equal"));
}

TEST_CASE("chapter 4's program: head counts that do not divide are one line, with both numbers",
          "[kernels][programs]") {
  const auto path = scratch() / "odd.gguf";
  GgufWriter w = tiny_llama();
  w.u32("llama.attention.head_count", 33).u32("llama.attention.head_count_kv", 2);
  const Bytes bytes = w.bytes();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  expect_refusal(kProgram, "--model " + path.string(), "2 does not divide the 33");
  std::filesystem::remove(path);
}
