// The GPU benchmark without a GPU: its shapes, bytes, operations, statistics, goals and words.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <set>

#include "device_buffer.hpp"
#include "gpu/limits.hpp"
#include "gpu/report.hpp"
#include "support/programs.hpp"

using namespace kv_bench;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;
using kv::AttentionStep, kv::Backend, kv::DType;

namespace {

const Case& find(const std::vector<Case>& all, AttentionStep step, const std::string& name) {
  for (const Case& c : all)
    if (c.step == step && c.name == name) return c;
  FAIL("no case " << name);
  return all.front();
}

Result timed(const Case& what, double ms) {
  Result result;
  result.what = what;
  result.timing = {ms, ms, ms, 1};
  return result;
}

// 1 TB/s and 100 TFLOP/s before; half of that after.
LimitPair known_limits() {
  Limits fast;
  fast.copy_bytes = 2'000'000'000;
  fast.copy = {2.0, 2.0, 2.0, 1};
  fast.runtime_copy = {4.0, 4.0, 4.0, 1};
  fast.matrix_flops = 1e12;
  fast.matrix = {10.0, 10.0, 10.0, 1};
  Limits slow = fast;
  slow.copy.median_ms = 4.0;
  slow.matrix.median_ms = 20.0;
  return {fast, slow};
}

Circumstances on(Backend backend) {
  return {"a device", backend, 90, 132, "1.2.3", "2030-01-02T03:04:05Z", "bench_gpu --json x"};
}

}  // namespace

TEST_CASE("medians, extremes and counts are those of the times", "[bench]") {
  CHECK(summarize({3.0}).median_ms == 3.0);
  const Timing odd = summarize({5.0, 1.0, 2.0});
  CHECK(odd.median_ms == 2.0);
  CHECK(odd.least_ms == 1.0);
  CHECK(odd.most_ms == 5.0);
  CHECK(odd.repetitions == 3);
  CHECK(summarize({4.0, 1.0, 2.0, 9.0}).median_ms == 3.0);
  CHECK_THROWS_AS(summarize({}), std::invalid_argument);
}

TEST_CASE("repetitions keep to their least, their most and their time", "[bench]") {
  kv::Device& device = kv::device(Backend::emulated);
  int runs = 0;
  const auto work = [&] { ++runs; };
  CHECK(measure(device, {0.0, 0.0, 3, 10}, work).repetitions == 3);
  CHECK(runs == 4);  // one to warm up
  CHECK(measure(device, {0.0, 1e9, 3, 7}, work).repetitions == 7);
}

TEST_CASE("bytes and operations are those of the shapes", "[bench]") {
  const std::vector<Case> all = cases(Scale::gpu());
  // 16 sequences, 32 heads of 128, 8192 keys in bf16; q and out fp32.
  const Case& decode = find(all, AttentionStep::split_kv, "decode");
  CHECK(decode.bytes() == 16LL * 32 * 128 * (2 * 8192 * 2 + 2 * 4));
  CHECK(decode.flops() == 4.0 * 16 * 32 * 128 * 8192);
  CHECK(decode.is_decode());
  const Case& full = find(all, AttentionStep::tensor_core, "prefill full, head_dim 128");
  CHECK(full.flops() == 4.0 * 4 * 16 * 128 * 4096 * 4096);
  const Case& causal = find(all, AttentionStep::tensor_core, "prefill causal, head_dim 128");
  CHECK(causal.flops() == 4.0 * 4 * 16 * 128 * (4096.0 * 4097 / 2));
  CHECK_FALSE(causal.is_decode());
  CHECK(causal.is_uniform());
  CHECK_FALSE(find(all, AttentionStep::split_kv, "decode, one long, many short").is_uniform());
}

TEST_CASE("decode reads more than any cache holds, and every case fits", "[bench]") {
  for (const Case& c : cases(Scale::gpu())) {
    INFO(c.name);
    if (c.is_decode()) CHECK(c.bytes() > 1'000'000'000);
    CHECK(c.bytes() < 4'000'000'000);
    CHECK_NOTHROW(c.shape.validate(c.step));
  }
}

TEST_CASE("cases have names of their own, and goals name a case above", "[bench]") {
  std::set<std::pair<AttentionStep, std::string>> seen;
  for (const Case& c : cases(Scale::gpu())) {
    INFO(c.name);
    if (c.goal.kind == Goal::Kind::share_of_case)
      CHECK(seen.count({c.step, c.goal.reference}) == 1);
    CHECK(seen.insert({c.step, c.name}).second);
  }
  // Every step over contiguous rows is there, and the tiny table has the same cases.
  for (const AttentionStep step : kv::kAttentionSteps) {
    if (step == AttentionStep::paged) continue;  // no case has block tables yet
    bool found = false;
    for (const auto& [other, name] : seen) found |= other == step;
    CHECK(found);
  }
  CHECK(cases(Scale::tiny()).size() == seen.size());
  for (const Case& c : cases(Scale::gpu(), true)) CHECK(c.goal.kind != Goal::Kind::none);
}

TEST_CASE("rates, shares and floors come from the faster limits", "[bench]") {
  const std::vector<Case> all = cases(Scale::gpu());
  const LimitPair limits = known_limits();
  CHECK_THAT(limits.copy_rate(), WithinRel(1e12));
  CHECK_THAT(limits.matrix_rate(), WithinRel(1e14));
  const Case& decode = find(all, AttentionStep::split_kv, "decode");
  const double floor_ms = decode.bytes() / 1e12 * 1e3;
  const Result result = timed(decode, 2.0 * floor_ms);
  const Rating rating = rate(result, limits, {});
  CHECK_THAT(rating.rate, WithinRel(0.5e12));
  CHECK_THAT(rating.share, WithinRel(0.5));
  CHECK_THAT(rating.floor_ms, WithinRel(floor_ms));
  CHECK(rating.goal_met == false);
  const Case& full = find(all, AttentionStep::tensor_core, "prefill full, head_dim 128");
  const Rating prefill = rate(timed(full, full.flops() / 25e12 * 1e3), limits, {});
  CHECK_THAT(prefill.rate, WithinRel(25e12));
  CHECK_THAT(prefill.share, WithinRel(0.25));
  CHECK_THAT(prefill.floor_ms, WithinRel(full.flops() / 1e14 * 1e3));
}

TEST_CASE("goals are met from their bound on", "[bench]") {
  const std::vector<Case> all = cases(Scale::gpu());
  const LimitPair limits = known_limits();
  const auto met = [&](const Case& c, double ms, std::span<const Result> others = {}) {
    return rate(timed(c, ms), limits, others).goal_met;
  };
  const Case& decode = find(all, AttentionStep::split_kv, "decode");
  const double floor_ms = decode.bytes() / 1e12 * 1e3;
  CHECK(met(decode, floor_ms / 0.901) == true);
  CHECK(met(decode, floor_ms / 0.899) == false);
  const Case& full = find(all, AttentionStep::tensor_core, "prefill full, head_dim 128");
  CHECK(met(full, full.flops() / 301e12 * 1e3) == true);
  CHECK(met(full, full.flops() / 299e12 * 1e3) == false);
  const Case& ragged = find(all, AttentionStep::split_kv, "decode, one long, many short");
  const double ragged_ms = ragged.bytes() / 1e12 * 1e3;
  CHECK_FALSE(met(ragged, ragged_ms).has_value());  // nothing to compare with
  const Result uniform[] = {timed(decode, floor_ms / 0.8)};
  CHECK(met(ragged, ragged_ms / 0.61, uniform) == true);
  CHECK(met(ragged, ragged_ms / 0.59, uniform) == false);
  CHECK_FALSE(
      met(find(all, AttentionStep::tiled, "prefill causal, head_dim 128"), 1.0).has_value());
}

TEST_CASE("the limits' kernels do what is counted, without a fault", "[bench]") {
  for (const Backend backend : {Backend::emulated, Backend::checked}) {
    INFO(kv::name(backend));
    kv::Device& device = kv::device(backend);
    const LimitKernels& kernels = limit_kernels(backend);
    // fill: the values that the host computes, in each format, at a count that fills no CTA.
    kv::DeviceBuffer<float> f32(device, 1001);
    kernels.fill(f32.data(), 1000, DType::f32, 5, nullptr);
    f32.fill_bytes(0, 1000, 1);
    const std::vector<float> floats = f32.to_host();
    for (int i = 0; i < 1000; ++i) REQUIRE(floats[i] == bench_value(5, i));
    CHECK(floats[1000] == 0.0f);
    for (const DType dtype : {DType::f16, DType::bf16}) {
      kv::DeviceBuffer<std::uint16_t> bits(device, 1000);
      kernels.fill(bits.data(), 1000, dtype, 5, nullptr);
      const std::vector<std::uint16_t> stored = bits.to_host();
      for (int i = 0; i < 1000; ++i) {
        const float x = dtype == DType::f16 ? kv::to_float(kv::f16{stored[i]})
                                            : kv::to_float(kv::bf16{stored[i]});
        REQUIRE(x == bench_value(5, i));  // exact in 16 bit
      }
    }
    // Both copies copy all.
    const std::int64_t bytes = 3 * kLimitThreads * kCopyBytesPerThread;
    kv::DeviceBuffer<float> from(device, bytes / 4), to(device, bytes / 4);
    kernels.fill(from.data(), bytes / 4, DType::f32, 6, nullptr);
    for (const auto copy : {kernels.copy, kernels.runtime_copy}) {
      to.fill_bytes(0xff);
      copy(to.data(), from.data(), bytes, nullptr);
      CHECK(to.to_host() == from.to_host());
    }
    CHECK_THROWS_AS(kernels.copy(to.data(), from.data(), 100, nullptr), std::invalid_argument);
    // multiply: twice the rounds make twice the sums, in every thread.
    const auto sums = [&](DType dtype, int rounds) {
      kv::DeviceBuffer<float> out(device, 2 * kLimitThreads);
      out.fill_bytes(0xff);
      kernels.multiply(out.data(), dtype, 2, rounds, nullptr);
      device.synchronize();
      return out.to_host();
    };
    for (const DType dtype : {DType::f16, DType::bf16}) {
      const std::vector<float> once = sums(dtype, 1), twice = sums(dtype, 2);
      double size = 0.0;
      for (std::size_t i = 0; i < once.size(); ++i) {
        REQUIRE(std::fabs(twice[i] - 2.0f * once[i]) <= 1e-2f);
        size += std::fabs(once[i]);
      }
      CHECK(size > 1.0);
    }
    device.synchronize();
  }
}

TEST_CASE("operations of the matrix products are counted by hand", "[bench]") {
  // 3 CTAs of 8 warps, 5 rounds of 8 products of 16 x 8 x 16 multiply-adds.
  CHECK(multiply_flops(3, 5) == 3.0 * 8 * 5 * 8 * 2 * 2048);
}

TEST_CASE("every case computes attention, checked by the oracle", "[bench]") {
  kv::Device& device = kv::device(Backend::emulated);
  for (const Case& c : cases(Scale::tiny())) {
    INFO(static_cast<int>(c.step) << " " << c.name);
    const Result result = run_case(device, c, Effort::once());
    CHECK(result.skipped == "");
    CHECK(result.sample_bound > 0.0);
    INFO(result.sample_error << " allowed " << result.sample_bound);
    CHECK(result.is_right());
    CHECK(result.timing.repetitions == 1);
  }
}

TEST_CASE("a case without a kernel or without memory is skipped with the reason", "[bench]") {
  kv::Device& device = kv::device(Backend::emulated);
  Case c = cases(Scale::tiny()).front();
  c.shape.heads.head_dim = 48;
  CHECK_THAT(run_case(device, c, Effort::once()).skipped, ContainsSubstring("head_dim 48"));
#ifndef KV_SANITIZER_RUNTIME  // AddressSanitizer ends a program that asks for so much
  c = cases(Scale::tiny()).front();
  c.step = AttentionStep::online;
  c.sequences.back().kv_begin = std::int64_t{1} << 48;
  CHECK_THAT(run_case(device, c, Effort::once()).skipped, ContainsSubstring("no memory"));
#endif
}

TEST_CASE("a GPU's figures are printed with shares and goals", "[bench]") {
  const std::vector<Case> all = cases(Scale::gpu());
  std::vector<Result> results = {
      timed(find(all, AttentionStep::split_kv, "decode"), 4.0),
      timed(find(all, AttentionStep::tensor_core, "prefill full, head_dim 128"), 2.0)};
  results.push_back(results[0]);
  results[2].skipped = "no memory";
  const std::string text = to_text(on(Backend::gpu), known_limits(), results);
  CHECK_THAT(text, ContainsSubstring("a device, 2030-01-02T03:04:05Z"));
  CHECK_THAT(text, ContainsSubstring("1000, 500 GB/s"));
  CHECK_THAT(text, ContainsSubstring("90 % of copy: not met"));
  CHECK_THAT(text, ContainsSubstring("300 TFLOP/s: not met"));
  CHECK_THAT(text, ContainsSubstring("skipped: 5 split_kv, decode: no memory"));
  CHECK_THAT(text, !ContainsSubstring("EMULATED"));
  CHECK_THAT(text, !ContainsSubstring("WRONG"));
  results[0].sample_error = 1.0;
  CHECK_THAT(to_text(on(Backend::gpu), known_limits(), results), ContainsSubstring("WRONG"));
  const std::string json = to_json(on(Backend::gpu), known_limits(), results).str();
  CHECK_THAT(json, ContainsSubstring("\"emulated\": false"));
  CHECK_THAT(json, ContainsSubstring("\"driver\": \"1.2.3\""));
  CHECK_THAT(json, ContainsSubstring("\"copy_gb_per_second\": 1000"));
  CHECK_THAT(json, ContainsSubstring("\"goal_met\": false"));
  CHECK_THAT(json, ContainsSubstring("\"skipped\": \"no memory\""));
}

TEST_CASE("an emulated time is never a rate, a share or a goal", "[bench]") {
  const std::vector<Case> all = cases(Scale::tiny());
  std::vector<Result> results;
  for (const Case& c : all) results.push_back(timed(c, 1e-9));  // would meet every goal
  const std::string text = to_text(on(Backend::emulated), known_limits(), results);
  const std::string json = to_json(on(Backend::emulated), known_limits(), results).str();
  CHECK_THAT(text, ContainsSubstring("EMULATED on a CPU"));
  CHECK_THAT(text, !ContainsSubstring("B/s"));
  CHECK_THAT(text, !ContainsSubstring("FLOP/s"));
  CHECK_THAT(text, !ContainsSubstring("met"));
  CHECK_THAT(json, ContainsSubstring("\"emulated\": true"));
  CHECK_THAT(json, ContainsSubstring("\"limits\": null"));
  for (const char* key : {"\"rate\"", "\"share\"", "\"goal_met\"", "\"floor_ms\"", "\"time\""})
    CHECK_THAT(json, !ContainsSubstring(key));
}

TEST_CASE("the program tries itself out without a GPU", "[bench]") {
  const std::string json = (kv_test::scratch() / "gpu.json").string();
  const kv_test::Outcome outcome =
      kv_test::run("bench_gpu", "--device emulated --quick --json " + json);
  INFO(outcome.err);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("EMULATED on a CPU"));
  CHECK_THAT(outcome.out, ContainsSubstring("prefill full, head_dim 64"));
  CHECK_THAT(kv_test::slurp(json), ContainsSubstring("\"emulated\": true"));
}

TEST_CASE("without a GPU it says so in one line", "[bench]") {
  if (kv::has_gpu()) SKIP("there is a GPU");
  kv_test::expect_refusal("bench_gpu", "", "there is no GPU");
}
