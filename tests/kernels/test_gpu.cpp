// The ladder, the device and chapter 3 on a GPU. Every check is a function of the backend: with the
// tag [gpu] it runs on a GPU or skips, without it on the emulator, which shows that the check
// itself is sound.
//
// [sanitize] marks the few cases for compute-sanitizer, under which everything is many times
// slower.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "decoder_pair.hpp"
#include "ladder_steps.hpp"
#include "support/gpu.hpp"
#include "support/random_model.hpp"
#include "support/real_models.hpp"

using namespace kv_test;
using kv::AttentionStep, kv::AttentionShape;
using kv::Backend;
using kv::DType;

namespace {

// The steps of the table and the one that has tests of its own.
std::vector<StepUnderTest> all_steps() {
  std::vector<StepUnderTest> steps(std::begin(kSteps), std::end(kSteps));
  steps.push_back({AttentionStep::split_kv, true, true, true, {}, {}});
  return steps;
}

// Calls body(step, format) for all that the device has a kernel for.
template <typename Body>
void for_each_step_on(Backend backend, const Body& body) {
  for (const StepUnderTest& step : all_steps())
    for (const DType dtype : kFormats) {
      if (dtype == DType::f32 && !step.reads_f32) continue;
      INFO("step " << static_cast<int>(step.step) << " " << kv::name(step.step) << ", K and V in "
                   << kv::info(dtype).name << " on " << kv::name(backend));
      body(step, dtype);
    }
}

// An old GPU lacks some kernels of step 4; it must say so and not compute something.
bool has_kernel(Backend backend, AttentionStep step, const AttentionShape& shape) {
  try {
    shape.validate(step, kv::device(backend));
    return true;
  } catch (const kv::InputError&) {
    REQUIRE(kv::device(backend).compute_capability() < 80);
    return false;
  }
}

void check_shape(Backend backend, const StepUnderTest& step, const AttentionShape& shape,
                 std::span<const Lengths> lengths, unsigned seed) {
  INFO(shape.heads.num_q_heads << " on " << shape.heads.num_kv_heads << " heads, head_dim "
                               << shape.heads.head_dim << ", causal " << shape.causal);
  if (!has_kernel(backend, step.step, shape)) return;
  const AttentionProblem p = random_problem(shape, lengths, seed);
  require_oracle(p, run(p, step.step, backend), step.looseness(shape.kv_dtype));
}

void check_every_shape(Backend backend, std::span<const Lengths> lengths,
                       std::span<const int> head_dims = kv::kHeadDims) {
  for_each_step_on(backend, [&](const StepUnderTest& step, DType dtype) {
    for (const int head_dim : head_dims)
      for (const bool causal : {true, false})
        check_shape(backend, step, grouped_shape(head_dim, dtype, causal), lengths, head_dim);
  });
}

void check_every_group(Backend backend) {
  const Lengths lengths[] = {{6, 19}, {1, 40}, {9, 4}};
  for_each_step_on(backend, [&](const StepUnderTest& step, DType dtype) {
    for (const kv::HeadConfig heads :
         {kv::HeadConfig{1, 1, 64}, {3, 3, 64}, {7, 1, 64}, {6, 2, 64}, {8, 1, 128}})
      check_shape(backend, step, {heads, dtype, usual_scale(heads.head_dim), true}, lengths, 6);
  });
}

// One launch writes the same bits each time, and without lse it leaves that array alone.
void check_same_bits(Backend backend, std::initializer_list<Lengths> lengths) {
  for_each_step_on(backend, [&](const StepUnderTest& step, DType dtype) {
    const AttentionShape shape = grouped_shape(64, dtype, true);
    if (!has_kernel(backend, step.step, shape)) return;
    const AttentionProblem p = random_problem(shape, lengths, 3);
    const AttentionResult first = run(p, step.step, backend, false);
    require_oracle(p, first, step.looseness(dtype), false);
    for (int i = 0; i < 3; ++i) {
      const AttentionResult again = run(p, step.step, backend, false);
      REQUIRE(std::memcmp(again.out.data(), first.out.data(), first.out.size() * 4) == 0);
    }
  });
}

void check_buffers(Backend backend) {
  kv::Device& device = kv::device(backend);
  std::vector<float> values(1000);
  std::iota(values.begin(), values.end(), 0.0f);
  kv::DeviceBuffer<float> buffer(device, std::span<const float>(values));
  REQUIRE(buffer.to_host() == values);
  REQUIRE(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256 == 0);
  const float two[] = {-1.0f, -2.0f};
  buffer.copy_into(998, two);
  buffer.fill_bytes(0, 1, 3);
  values[998] = -1.0f, values[999] = -2.0f;
  values[1] = values[2] = values[3] = 0.0f;
  REQUIRE(buffer.to_host() == values);
  kv::DeviceBuffer<float> moved(std::move(buffer));
  REQUIRE(moved.to_host() == values);
  moved.fill_bytes(0xff);
  for (const float x : moved.to_host()) REQUIRE(std::isnan(x));
  REQUIRE(kv::DeviceBuffer<float>(device, 0).to_host().empty());
}

// Who asks for too much hears it once; the device and the launches after it are not disturbed.
void check_out_of_memory(Backend backend, std::size_t too_much) {
  kv::Device& device = kv::device(backend);
  CHECK_THROWS_AS(kv::DeviceBuffer<std::byte>(device, too_much), kv::OutOfDeviceMemory);
  const Lengths lengths[] = {{3, 9}};
  const AttentionProblem p = random_problem(grouped_shape(32, DType::f32, true), lengths, 1);
  require_oracle(p, run(p, AttentionStep::online, backend));
}

void check_streams(Backend backend) {
  kv::Device& device = kv::device(backend);
  const Lengths lengths[] = {{33, 70}, {1, 5}};
  const AttentionProblem p = random_problem(grouped_shape(64, DType::f32, true), lengths, 2);
  const kv::DeviceBuffer<float> q(device, std::span<const float>(p.q));
  const StoredRows k(device, p.k, DType::f32), v(device, p.v, DType::f32);
  const kv::AttentionPlan plan(device, AttentionStep::tiled, p.shape, p.sequences);
  const AttentionResult expected = run(p, AttentionStep::tiled, backend, false);
  std::vector<kv::DeviceBuffer<float>> outs;
  std::vector<kv::Stream> streams;
  for (int i = 0; i < 2; ++i) {
    outs.emplace_back(device, p.q.size());
    outs.back().fill_bytes(0xff);
    streams.push_back(device.create_stream());
  }
  device.synchronize();
  for (int i = 0; i < 2; ++i)
    plan.run(q.data(), k.data(), v.data(), outs[i].data(), nullptr, streams[i]);
  device.synchronize();
  for (const auto& out : outs) {
    const std::vector<float> values = out.to_host();
    REQUIRE(std::memcmp(values.data(), expected.out.data(), values.size() * 4) == 0);
  }
  const auto work = [&] {
    for (int i = 0; i < 4; ++i)
      plan.run(q.data(), k.data(), v.data(), outs[0].data(), nullptr, streams[0]);
  };
  REQUIRE(device.measure_ms(streams[0], work) > 0.0);
  REQUIRE(device.measure_ms(nullptr, [] {}) >= 0.0);
  for (const kv::Stream stream : streams) device.destroy_stream(stream);
}

void check_random_models(Backend backend, std::initializer_list<int> head_dims) {
  for (const int head_dim : head_dims)
    for (const int step : {0, 1, 2, 3, 5, 6}) {
      INFO("head_dim " << head_dim << ", --step " << step);
      const kv::Model model = random_model({.num_layers = 2,
                                            .num_q_heads = 6,
                                            .num_kv_heads = 2,
                                            .head_dim = head_dim,
                                            .d_model = 64,
                                            .ffn_dim = 96,
                                            .seed = 3});
      const auto tokens = random_tokens(20, model.config.vocab_size, 4);
      Pair pair(model, kv::attention_steps(step, DType::f32), DType::f32, 20, backend);
      CHECK(feed_all(pair, tokens, 17, 7) > 0);
    }
}

// Lengths 0 and 1, tiles and their neighbours, primes, more queries than keys and the other way.
const Lengths kLengths[] = {{5, 9},   {1, 1},   {0, 7},   {3, 0},     {1, 67},   {19, 5},
                            {33, 37}, {64, 64}, {65, 63}, {127, 129}, {1, 1031}, {67, 311}};
const Lengths kFewLengths[] = {{5, 9}, {0, 7}, {3, 0}, {1, 67}, {19, 5}};

}  // namespace

TEST_CASE("every step computes attention in every format and head size", "[gpu]") {
  need_gpu();
  check_every_shape(Backend::gpu, kLengths);
}

TEST_CASE("every step computes attention over thousands of keys", "[gpu]") {
  need_gpu();
  const Lengths lengths[] = {{1, 9001}, {130, 2100}, {1, 1}, {1, 4097}};
  for_each_step_on(Backend::gpu, [&](const StepUnderTest& step, DType dtype) {
    for (const int head_dim : {64, 128})
      check_shape(Backend::gpu, step, grouped_shape(head_dim, dtype, true), lengths, 5);
  });
}

TEST_CASE("every step serves any number of query heads per KV head", "[gpu]") {
  need_gpu();
  check_every_group(Backend::gpu);
}

TEST_CASE("every step stands scores of large spread", "[gpu]") {
  need_gpu();
  const Lengths lengths[] = {{40, 70}, {1, 700}};
  for_each_step_on(Backend::gpu, [&](const StepUnderTest& step, DType dtype) {
    const AttentionShape shape = grouped_shape(64, dtype, true);
    if (!has_kernel(Backend::gpu, step.step, shape)) return;
    const AttentionProblem p = random_problem(shape, lengths, 4, 40.0f);
    require_oracle(p, run(p, step.step, Backend::gpu), step.looseness(dtype));
  });
}

TEST_CASE("a launch gives the same bits each time and writes no lse unasked", "[gpu]") {
  need_gpu();
  check_same_bits(Backend::gpu, {{5, 9}, {1, 300}, {70, 67}});
}

TEST_CASE("small shapes of every step, for compute-sanitizer", "[gpu][sanitize]") {
  need_gpu();
  const int head_dims[] = {64, 80, 256};  // the three kinds: whole warps, a remainder, small tiles
  check_every_shape(Backend::gpu, kFewLengths, head_dims);
}

TEST_CASE("buffers hold what was copied and set", "[gpu][sanitize]") {
  need_gpu();
  check_buffers(Backend::gpu);
}

TEST_CASE("running out of memory disturbs nothing after it", "[gpu]") {
  need_gpu();
  check_out_of_memory(Backend::gpu, std::size_t{1} << 50);
}

TEST_CASE("streams compute side by side, events take their time", "[gpu][sanitize]") {
  need_gpu();
  check_streams(Backend::gpu);
}

TEST_CASE("random models agree with chapter 2", "[gpu]") {
  need_gpu();
  check_random_models(Backend::gpu, {32, 80, 128});
}

TEST_CASE("chapter 3 equals chapter 2 on the embedded model", "[gpu]") {
  need_gpu();
  const auto dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  const auto loaded = load_or_skip(shakespeare_path());
  if (dtype == DType::bf16 && kv::device(Backend::gpu).compute_capability() < 80)
    SKIP("this GPU has no bf16 tensor cores");
  const auto tokens = loaded.tokenizer.encode(
      "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.");
  Pair pair(loaded.model, kv::attention_steps(0, dtype), dtype, 64, Backend::gpu);
  const int num_decided = feed_all(pair, tokens, tokens.size() - 12, 512);
  if (dtype == DType::f32) CHECK(num_decided > 0);
}

TEST_CASE("the GPU tests' checks of kernels hold in the emulator", "[kernels][big]") {
  const int head_dims[] = {32};  // test_ladder has the others
  SECTION("shapes") { check_every_shape(Backend::emulated, kFewLengths, head_dims); }
  SECTION("groups") { check_every_group(Backend::emulated); }
  SECTION("bits") { check_same_bits(Backend::emulated, {{5, 3}, {1, 20}}); }
}

TEST_CASE("the GPU tests' checks of the device hold in the emulator", "[kernels]") {
  SECTION("buffers") { check_buffers(Backend::emulated); }
  // So much that AddressSanitizer, which ends a program for less, is not even asked.
  SECTION("memory") { check_out_of_memory(Backend::emulated, SIZE_MAX); }
  SECTION("streams") { check_streams(Backend::emulated); }
  SECTION("models") { check_random_models(Backend::emulated, {32}); }
}
