// One case on the device: arrays, some rows against the oracle, times.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "device_buffer.hpp"
#include "gpu/limits.hpp"
#include "gpu/measure.hpp"
#include "kv/attention/reference.hpp"
#include "kv/check.hpp"

namespace kv_bench {
namespace {

constexpr std::uint32_t kSeedQ = 11, kSeedK = 12, kSeedV = 13;

// The arrays of a launch and its plan.
struct Launch {
  Launch(kv::Device& device, const Case& what)
      : plan(device, what.step, what.shape, what.sequences),
        q(device, what.num_q_rows() * what.shape.heads.q_dim()),
        out(device, q.size()),
        k(device, kv_bytes(what)),
        v(device, kv_bytes(what)) {
    const LimitKernels& kernels = limit_kernels(device.backend());
    const std::int64_t kv_elements = what.num_kv_rows() * what.shape.heads.kv_dim();
    kernels.fill(q.data(), q.size(), kv::DType::f32, kSeedQ, nullptr);
    kernels.fill(k.data(), kv_elements, what.shape.kv_dtype, kSeedK, nullptr);
    kernels.fill(v.data(), kv_elements, what.shape.kv_dtype, kSeedV, nullptr);
    out.fill_bytes(0xff);  // NaN: what is not written shows
  }

  void run() const { plan.run(q.data(), k.data(), v.data(), out_data, nullptr); }

  static std::int64_t kv_bytes(const Case& what) {
    return what.num_kv_rows() * what.shape.heads.kv_dim() *
           static_cast<std::int64_t>(kv::info(what.shape.kv_dtype).block_bytes);
  }

  kv::AttentionPlan plan;
  kv::DeviceBuffer<float> q, out;
  kv::DeviceBuffer<std::byte> k, v;
  float* out_data = out.data();
};

// Elements [0, head_dim) of `count` rows of an array [rows, num_heads, head_dim], from `row` on.
std::vector<float> head_rows(std::uint32_t seed, std::int64_t row, std::int64_t count,
                             int num_heads, int head, int head_dim) {
  std::vector<float> values(count * head_dim);
  for (std::int64_t i = 0; i < count; ++i)
    for (int d = 0; d < head_dim; ++d)
      values[i * head_dim + d] = bench_value(seed, ((row + i) * num_heads + head) * head_dim + d);
  return values;
}

// What the arithmetic of a step may lose. The factor 4 of the tests is for thousands of keys, 16
// covers the benchmark's 100,000; q is exact in 16 bit, the weights are not.
double allowed(const Case& what, const kv::ReferenceAttention& exact) {
  const double fp32 = 16.0 * std::numeric_limits<float>::epsilon() *
                      std::max(1.0, exact.score_mass) * exact.max_abs_value;
  if (!kv::rounds_products(what.step, what.shape.kv_dtype)) return fp32;
  const double rounding = what.shape.kv_dtype == kv::DType::bf16 ? 0x1p-8 : 0x1p-10;
  return fp32 + exact.max_abs_value * std::expm1(rounding);
}

// Compares row t of head h of a sequence with the oracle.
void check_row(kv::Device& device, const Launch& launch, const kv::SequenceRows& rows, int t, int h,
               Result& result) {
  const kv::HeadConfig& heads = result.what.shape.heads;
  const int g = h / heads.group_size(), head_dim = heads.head_dim;
  const int num_keys = kv::visible_keys(t, rows, result.what.shape.causal);
  const auto q = head_rows(kSeedQ, rows.q_begin + t, 1, heads.num_q_heads, h, head_dim);
  const auto k = head_rows(kSeedK, rows.kv_begin, num_keys, heads.num_kv_heads, g, head_dim);
  const auto v = head_rows(kSeedV, rows.kv_begin, num_keys, heads.num_kv_heads, g, head_dim);
  const kv::ReferenceAttention exact = kv::reference_attention(
      q.data(), k.data(), v.data(), {1, 1, head_dim}, 1, num_keys, result.what.shape.scale, false);
  std::vector<float> out(head_dim);
  const std::int64_t first = ((rows.q_begin + t) * heads.num_q_heads + h) * head_dim;
  device.copy_to_host(out.data(), launch.out.data() + first, head_dim * sizeof(float));
  result.sample_bound = std::max(result.sample_bound, allowed(result.what, exact));
  for (int d = 0; d < head_dim; ++d) {
    const double error = std::fabs(out[d] - exact.out[d]);
    // A NaN, also one that was never overwritten, is infinitely wrong.
    result.sample_error = std::isnan(error) ? std::numeric_limits<double>::infinity()
                                            : std::max(result.sample_error, error);
  }
}

// The first and the last row of all, two heads of the first, and a row amid the last sequence.
void check_samples(kv::Device& device, const Launch& launch, Result& result) {
  const kv::SequenceRows &first = result.what.sequences.front(),
                         &last = result.what.sequences.back();
  const int last_head = result.what.shape.heads.num_q_heads - 1;
  check_row(device, launch, first, 0, 0, result);
  check_row(device, launch, first, 0, (last_head + 1) / 2, result);
  check_row(device, launch, last, last.q_len - 1, last_head, result);
  if (last.q_len > 2) check_row(device, launch, last, last.q_len / 2, last_head / 2, result);
}

}  // namespace

Result run_case(kv::Device& device, const Case& what, const Effort& effort) {
  Result result;
  result.what = what;
  std::unique_ptr<Launch> launch;
  try {
    launch = std::make_unique<Launch>(device, what);
  } catch (const kv::InputError& error) {  // no kernel for this device
    result.skipped = error.what();
    return result;
  } catch (const kv::OutOfDeviceMemory& error) {
    result.skipped = error.what();
    return result;
  }
  result.workspace_bytes = launch->plan.workspace_bytes();
  launch->run();
  device.synchronize();
  check_samples(device, *launch, result);
  result.timing = measure(device, effort, [&] { launch->run(); });
  return result;
}

}  // namespace kv_bench
