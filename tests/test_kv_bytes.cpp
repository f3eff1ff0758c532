// The memory calculator: bytes from shapes, and the same bytes from a cache that really exists.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>

#include "kv/cache/contiguous.hpp"
#include "kv/cost/kv_bytes.hpp"
#include "kv/cost/published.hpp"
#include "kv/cost/roofline.hpp"

namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

std::int64_t per_token(const char* model, const char* format = "fp16") {
  return kv::kv_bytes_per_token(kv::published_model(model).kv, kv::kv_format(format)).total();
}

std::int64_t total(const char* model, std::int64_t context, std::int64_t batch = 1,
                   std::int64_t block_size = 1, const char* format = "fp16") {
  return kv::kv_bytes(kv::published_model(model).kv, kv::kv_format(format), context, batch,
                      block_size)
      .total();
}

kv::KvShape shape_of(int num_layers, int num_kv_heads, int head_dim) {
  kv::KvShape shape;
  shape.num_layers = num_layers;
  shape.num_kv_heads = num_kv_heads;
  shape.head_dim = head_dim;
  return shape;
}

}  // namespace

TEST_CASE("KV bytes per token: published models cost what their config says", "[cost]") {
  CHECK(per_token("gpt2-small") == 36'864);  // 36 KiB
  CHECK(per_token("gpt2-small") == 36 * 1024);
  // Grouped heads count, query heads do not.
  CHECK(per_token("llama-3-8b") == 131'072);
  CHECK(per_token("llama-3-8b") != 524'288);
  CHECK(per_token("llama-2-7b") == 524'288);
  // Head_dim is read, not hidden_size / num_q_heads.
  CHECK(per_token("qwen3-4b") == 147'456);
  CHECK(per_token("qwen3-0.6b") == 114'688);
  CHECK(per_token("mistral-nemo") == 163'840);
  CHECK(per_token("gemma-7b") == 458'752);
  // A latent is cached once, for K and V together.
  CHECK(per_token("deepseek-v3", "bf16") == 70'272);
  CHECK(per_token("deepseek-v2-lite", "bf16") == 31'104);
  CHECK(per_token("gpt-oss-20b") == 49'152);
  CHECK(per_token("mistral-7b") == 131'072);
}

TEST_CASE("KV bytes: the figures that texts quote come out exactly", "[cost]") {
  CHECK(total("llama-3-8b", 8192) == 1'073'741'824);
  CHECK(total("llama-3-8b", 131'072) == 16 * kGiB);
  CHECK(total("llama-2-7b", 32'768) == 16 * kGiB);
  CHECK(total("llama-3-70b", 32'768) == 10 * kGiB);
  CHECK(total("mha-70b", 32'768) == 80 * kGiB);
  // 70B, 8,192 tokens: 20 GiB for one sequence with 64 KV heads, an eighth with 8.
  CHECK(total("mha-70b", 8192) == 20 * kGiB);
  CHECK(total("mha-70b", 8192) == 21'474'836'480);
  CHECK(total("mha-70b", 8192, 8) == 171'798'691'840);
  CHECK(total("llama-3-70b", 8192) == 2'684'354'560);
  CHECK(kv::weight_bytes(kv::published_model("mha-70b").params, 16) == 140'000'000'000);
}

TEST_CASE("KV bytes: 32, 8 and 1 heads cost 1, 1/4 and 1/32 exactly", "[cost]") {
  for (const kv::KvFormat& format : kv::kv_formats()) {
    INFO(format.name);
    const auto bytes = [&](int heads) {
      return kv::kv_bytes(shape_of(32, heads, 128), format, 1000, 3).total();
    };
    CHECK(bytes(32) == 4 * bytes(8));
    CHECK(bytes(32) == 32 * bytes(1));
  }
}

TEST_CASE("KV bytes: each format costs its bits and its scales", "[cost]") {
  const kv::KvShape shape = shape_of(1, 2, 128);  // 4 vectors of 128 a token
  const auto cost = [&](const char* name) {
    return kv::kv_bytes_per_token(shape, kv::kv_format(name));
  };
  CHECK(cost("fp32") == kv::KvBytes{2048, 0});
  CHECK(cost("fp16") == kv::KvBytes{1024, 0});
  CHECK(cost("bf16") == kv::KvBytes{1024, 0});
  CHECK(cost("fp8") == kv::KvBytes{512, 0});
  CHECK(cost("int8") == kv::KvBytes{512, 4 * 4});      // one fp32 a vector
  CHECK(cost("int4") == kv::KvBytes{256, 4 * 4 * 2});  // four groups of 32, one fp16 each
  // 4.5 bits an element, as Q4_0.
  CHECK(cost("int4").total() * 8 * 2 == 9 * 4 * 128);
  // A vector starts on a whole byte, and a group that is not full has its scale all the same.
  const kv::KvShape odd = shape_of(1, 1, 33);
  CHECK(kv::kv_bytes_per_token(odd, kv::kv_format("int4")) == kv::KvBytes{2 * 17, 2 * 2 * 2});
  CHECK_THROWS_WITH(kv::kv_format("fp64"), ContainsSubstring("fp64") && ContainsSubstring("int4"));
  CHECK_THROWS_AS(kv::kv_format(kv::DType::q8_0), std::invalid_argument);
}

TEST_CASE("KV bytes: a latent at four bits without scales is 1.072 GiB at 65,536 tokens",
          "[cost]") {
  const kv::KvShape& shape = kv::published_model("deepseek-v3").kv;
  const kv::KvBytes bytes = kv::kv_bytes(shape, kv::kv_format("int4"), 65'536);
  CHECK(bytes.elements == 61LL * 18 * 1024 * 1024);  // 18.0 MiB a layer
  CHECK(std::round(1000.0 * static_cast<double>(bytes.elements) / kGiB) == 1072);
  CHECK(bytes.scales == 61LL * 65'536 * (512 / 32 + 64 / 32) * 2);
  // int8: one scale for the latent and one for the rotated key.
  CHECK(kv::kv_bytes_per_token(shape, kv::kv_format("int8")) == kv::KvBytes{61 * 576, 61 * 2 * 4});
}

TEST_CASE("KV bytes: sliding layers stop growing at their window, full layers do not", "[cost]") {
  // All layers slide.
  CHECK(total("mistral-7b", 4095) == 4095 * 131'072LL);
  CHECK(total("mistral-7b", 4096) == 4096 * 131'072LL);
  CHECK(total("mistral-7b", 4097) == 4096 * 131'072LL);
  CHECK(total("mistral-7b", 1'000'000) == 4096 * 131'072LL);
  // Every other layer: 12 keep 128 tokens, 12 keep all; 2,048 bytes a token and layer.
  CHECK(total("gpt-oss-20b", 128) == 24 * 128 * 2048LL);
  CHECK(total("gpt-oss-20b", 129) == 12 * (128 + 129) * 2048LL);
  CHECK(total("gpt-oss-20b", 131'072) == 12 * (128 + 131'072) * 2048LL);
  CHECK(kv::published_model("gpt-oss-20b").kv.window(0) == 128);
  CHECK(kv::published_model("gpt-oss-20b").kv.window(1) == 0);
}

TEST_CASE("tokens held: whole blocks are counted, from the oldest token kept", "[cost]") {
  CHECK(kv::tokens_held(1, 0, 16) == 16);
  CHECK(kv::tokens_held(15, 0, 16) == 16);
  CHECK(kv::tokens_held(16, 0, 16) == 16);
  CHECK(kv::tokens_held(17, 0, 16) == 32);  // 17 tokens cost 2 blocks
  CHECK(kv::tokens_held(32, 0, 16) == 32);
  CHECK(kv::tokens_held(33, 0, 16) == 48);
  CHECK(kv::tokens_held(17, 0, 1) == 17);
  CHECK(total("llama-3-8b", 17, 1, 16) == 32 * 131'072LL);
  CHECK(total("llama-3-8b", 17, 5, 16) == 5 * 32 * 131'072LL);
  // A window of 8 in blocks of 4, found by listing the tokens.
  for (std::int64_t context = 1; context <= 40; ++context) {
    std::set<std::int64_t> blocks;
    for (std::int64_t token = std::max<std::int64_t>(0, context - 8); token < context; ++token)
      blocks.insert(token / 4);
    INFO("context " << context);
    CHECK(kv::tokens_held(context, 8, 4) == 4 * static_cast<std::int64_t>(blocks.size()));
  }
  CHECK_THROWS_AS(kv::tokens_held(0, 0, 16), std::invalid_argument);
  CHECK_THROWS_AS(kv::tokens_held(1, 0, 0), std::invalid_argument);
}

TEST_CASE("KV bytes: what does not fit 63 bits is an error, never a wrapped number", "[cost]") {
  const kv::KvShape shape = shape_of(1, 1, 1);  // 2 bytes a token in fp8
  const kv::KvFormat& fp8 = kv::kv_format("fp8");
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  CHECK(kv::kv_bytes(shape, fp8, largest / 2).total() == largest - 1);
  CHECK_THROWS_AS(kv::kv_bytes(shape, fp8, largest / 2 + 1), kv::InputError);
  CHECK_THROWS_AS(kv::kv_bytes(shape, fp8, largest), kv::InputError);
  CHECK_THROWS_AS(kv::kv_bytes(shape, fp8, largest / 2, 2), kv::InputError);
  CHECK_THROWS_AS(kv::kv_bytes(shape, fp8, 1, 1, largest), kv::InputError);
  CHECK_THROWS_AS(kv::kv_bytes(shape, fp8, largest, 1, 16), kv::InputError);
  // 2^32 heads' worth of bytes: 32-bit arithmetic would give 0.
  CHECK(kv::kv_bytes(shape_of(1 << 10, 1 << 10, 1 << 10), fp8, 4).total() == std::int64_t{1} << 33);
  CHECK_THROWS_AS(kv::weight_bytes(largest, 16), kv::InputError);
  CHECK_THROWS_AS(kv::weight_bytes(largest, 4.5), std::runtime_error);
  CHECK(kv::weight_bytes(32, 4.5) == 18);
  CHECK(kv::weight_bytes(33, 4.5) == 19);
  CHECK(kv::weight_bytes(64, kv::kv_format("int4")) == 36);
  CHECK(kv::weight_bytes(64, kv::kv_format("int8")) == 64);
}

TEST_CASE("KV shape: a field that cannot be right is named", "[cost]") {
  CHECK_THROWS_WITH(shape_of(0, 1, 1).validate(), ContainsSubstring("num_layers"));
  CHECK_THROWS_WITH(shape_of(1, 0, 1).validate(), ContainsSubstring("num_kv_heads"));
  CHECK_THROWS_WITH(shape_of(1, 1, -1).validate(), ContainsSubstring("head_dim"));
  kv::KvShape shape = shape_of(2, 1, 1);
  shape.windows = {128};
  CHECK_THROWS_WITH(shape.validate(), ContainsSubstring("1 windows, 2 layers"));
  shape.windows = {128, -1};
  CHECK_THROWS_AS(shape.validate(), kv::InputError);
}

TEST_CASE("published models: parameter counts follow from the shapes", "[cost]") {
  // Llama: per layer q and o, k and v, three of SwiGLU, two norms; embedding and output; a norm.
  const auto llama = [](std::int64_t layers, std::int64_t width, std::int64_t q_dim,
                        std::int64_t kv_dim, std::int64_t ffn, std::int64_t vocab, bool tied,
                        std::int64_t head_norms = 0) {
    return layers *
               (2 * width * q_dim + 2 * width * kv_dim + 3 * width * ffn + 2 * width + head_norms) +
           vocab * width * (tied ? 1 : 2) + width;
  };
  const auto params = [](const char* name) { return kv::published_model(name).params; };
  CHECK(params("llama-2-7b") == llama(32, 4096, 4096, 4096, 11008, 32000, false));
  CHECK(params("llama-3-8b") == llama(32, 4096, 4096, 1024, 14336, 128256, false));
  CHECK(params("llama-3-70b") == llama(80, 8192, 8192, 1024, 28672, 128256, false));
  CHECK(params("mistral-7b") == llama(32, 4096, 4096, 1024, 14336, 32000, false));
  CHECK(params("mistral-nemo") == llama(40, 5120, 4096, 1024, 14336, 131072, false));
  CHECK(params("qwen3-0.6b") == llama(28, 1024, 2048, 1024, 3072, 151936, true, 256));
  CHECK(params("qwen3-4b") == llama(36, 2560, 4096, 1024, 9728, 151936, true, 256));
  CHECK(params("gemma-7b") == llama(28, 3072, 4096, 4096, 24576, 256000, true));
  for (const kv::PublishedModel& model : kv::published_models()) {
    INFO(model.name);
    CHECK_NOTHROW(model.kv.validate());
    CHECK(model.num_q_heads % model.kv.num_kv_heads == 0);
    CHECK(model.active_params <= model.params - model.lookup_params);
    CHECK_FALSE(model.source.empty());
    // One token reads what it is multiplied with; many tokens read every expert.
    CHECK_THAT(model.params_read(1), WithinRel(static_cast<double>(model.active_params), 1e-12));
    CHECK_THAT(model.params_read(100'000),
               WithinRel(static_cast<double>(model.params - model.lookup_params), 1e-12));
  }
  CHECK_THROWS_WITH(kv::published_model("llama-9"), ContainsSubstring("llama-9"));
}

TEST_CASE("contiguous cache: it holds exactly the bytes that the calculator predicts", "[cost]") {
  struct Case {
    int num_layers, num_q_heads, num_kv_heads, head_dim;
    std::int64_t capacity;
  };
  for (const Case& c : {Case{1, 1, 1, 2, 1}, Case{2, 4, 2, 16, 7}, Case{3, 6, 1, 10, 33},
                        Case{4, 8, 8, 32, 64}, Case{12, 12, 12, 64, 5}})
    for (const kv::DType dtype : {kv::DType::f32, kv::DType::f16, kv::DType::bf16}) {
      kv::ModelConfig config;
      config.num_layers = c.num_layers;
      config.heads = {c.num_q_heads, c.num_kv_heads, c.head_dim};
      config.vocab_size = config.context_length = config.d_model = config.ffn_dim = 8;
      config.rope_dim = 2;
      const kv::ContiguousCache cache(config, c.capacity, dtype);
      INFO(c.num_layers << " layers, " << c.num_kv_heads << " heads, " << c.capacity << " tokens");
      CHECK(cache.bytes_held() ==
            kv::kv_bytes(kv::kv_shape(config), kv::kv_format(dtype), c.capacity).total());
    }
}

TEST_CASE("roofline: decode is bound by memory at batch 1, prefill by arithmetic", "[cost]") {
  kv::Workload work;
  work.model = kv::published_model("llama-3-8b");
  work.format = kv::kv_format("fp16");
  work.weight_bytes = kv::weight_bytes(work.model.params, 16);
  work.context = 8192;
  const kv::StepCost decode = kv::decode_step(work), prefill = kv::prefill_pass(work);
  // By hand: 2 P + 4 L H D n operations; 2 P + 131,072 n bytes.
  const double params = 8'030'261'248 - 525'336'576;
  CHECK_THAT(decode.flops, WithinRel(2 * params + 4.0 * 32 * 32 * 128 * 8192, 1e-12));
  CHECK_THAT(decode.weight_bytes, WithinRel(2 * params, 1e-12));
  CHECK(decode.kv_bytes == 1'073'741'824);
  CHECK_THAT(prefill.flops,
             WithinRel(2 * params * 8192 + 4.0 * 32 * 32 * 128 * 8192 * 8193 / 2, 1e-12));
  for (const kv::Machine& device : kv::published_devices()) {
    INFO(device.name);
    CHECK(kv::place(decode, device).memory_bound);
    CHECK_FALSE(kv::place(prefill, device).memory_bound);
    CHECK_THAT(kv::place(decode, device).seconds,
               WithinRel(decode.bytes() / device.bytes_per_second, 1e-12));
    CHECK_THAT(kv::place(prefill, device).flops_per_second,
               WithinRel(device.flops_per_second, 1e-12));
  }
  // At short contexts one operation a byte and sequence: a batch moves decode to the right.
  work.context = 1;
  CHECK_THAT(kv::decode_step(work).intensity(), WithinRel(1.0, 1e-3));
  work.batch = 64;
  CHECK_THAT(kv::decode_step(work).intensity(), WithinRel(64.0, 1e-2));
}

TEST_CASE("roofline: windows and latents are counted as they are read", "[cost]") {
  kv::Workload work;
  work.format = kv::kv_format("bf16");
  work.model = kv::published_model("mistral-7b");
  work.weight_bytes = kv::weight_bytes(work.model.params, 16);
  work.context = 6000;
  const double weights = 2 * static_cast<double>(work.model.active_params);
  CHECK_THAT(kv::decode_step(work).flops, WithinRel(weights + 4.0 * 32 * 32 * 128 * 4096, 1e-12));
  double pairs = 0;
  for (int i = 1; i <= 6000; ++i) pairs += std::min(i, 4096);
  CHECK_THAT(kv::prefill_pass(work).flops,
             WithinRel(weights * 6000 + 4.0 * 32 * 32 * 128 * pairs, 1e-12));

  work.model = kv::published_model("deepseek-v3");
  work.weight_bytes = kv::weight_bytes(work.model.params, 16);
  // Absorbed: every one of 128 heads scores 512 + 64 numbers and sums 512.
  CHECK_THAT(kv::decode_step(work).flops,
             WithinRel(2 * static_cast<double>(work.model.active_params) +
                           2.0 * (512 + 64 + 512) * 128 * 61 * 6000,
                       1e-12));
  CHECK(kv::decode_step(work).kv_bytes == 70'272.0 * 6000);
}

TEST_CASE("roofline: what fits is what is left beside the weights", "[cost]") {
  const kv::Machine& h100 = kv::published_device("h100");
  CHECK(kv::sequences_that_fit(h100, 79'000'000'000, 300'000'000) == 3);
  CHECK(kv::sequences_that_fit(h100, 79'000'000'000, 1'000'000'000) == 1);
  CHECK(kv::sequences_that_fit(h100, 79'000'000'000, 1'000'000'001) == 0);
  CHECK(kv::sequences_that_fit(h100, 80'000'000'000, 1) == 0);
  CHECK(kv::sequences_that_fit(h100, 140'000'000'000, 1) == 0);
  CHECK(kv::published_device("A100").name == "A100 80GB");
  CHECK(kv::published_device("rtx-4090").name == "RTX 4090");
  CHECK(kv::published_device("4090").name == "RTX 4090");
  CHECK(kv::published_device("t4").name == "T4");
  CHECK_THROWS_WITH(kv::published_device("abacus"),
                    ContainsSubstring("abacus") && ContainsSubstring("H200"));
  CHECK_THROWS_AS(kv::published_device(""), kv::InputError);
}

TEST_CASE("roofline: this machine's measurement is possible", "[cost]") {
  const kv::Machine machine = kv::measure_this_machine();
  CHECK(machine.memory_bytes > 64e6);
  CHECK(machine.bytes_per_second > 1e8);
  CHECK(machine.bytes_per_second < 1e14);  // faster than any memory: the reads were left out
  CHECK(machine.flops_per_second > 1e8);
  CHECK(machine.flops_per_second < 1e15);
}
