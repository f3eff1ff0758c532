#include "gpu/measure.hpp"

#include <algorithm>
#include <stdexcept>

#include "device_buffer.hpp"
#include "gpu/limits.hpp"
#include "kv/check.hpp"

namespace kv_bench {
namespace {

constexpr std::int64_t kCopyGranule = std::int64_t{kLimitThreads} * kCopyBytesPerThread;

// Two arrays of the largest size that fits, from `bytes` on downwards.
struct CopyArrays {
  CopyArrays(kv::Device& device, std::int64_t wanted) : bytes(wanted) {
    for (;; bytes /= 2) try {
        from = kv::DeviceBuffer<std::byte>(device, bytes);
        to = kv::DeviceBuffer<std::byte>(device, bytes);
        return;
      } catch (const std::runtime_error&) {
        from = {};
        if (bytes / 2 < kCopyGranule) throw;
      }
  }
  std::int64_t bytes;
  kv::DeviceBuffer<std::byte> from, to;
};

}  // namespace

Timing summarize(std::vector<double> times_ms) {
  kv::require(!times_ms.empty(), "there must be a time to summarize");
  std::ranges::sort(times_ms);
  const std::size_t middle = times_ms.size() / 2;
  const double median =
      times_ms.size() % 2 == 1 ? times_ms[middle] : (times_ms[middle - 1] + times_ms[middle]) / 2.0;
  return {median, times_ms.front(), times_ms.back(), static_cast<int>(times_ms.size())};
}

Timing measure(kv::Device& device, const Effort& effort, const std::function<void()>& work) {
  double spent_ms = 0.0;
  do spent_ms += device.measure_ms(nullptr, work);
  while (spent_ms < effort.warm_up_ms);
  std::vector<double> times_ms;
  spent_ms = 0.0;
  while (static_cast<int>(times_ms.size()) < effort.most &&
         (static_cast<int>(times_ms.size()) < effort.least || spent_ms < effort.budget_ms)) {
    times_ms.push_back(device.measure_ms(nullptr, work));
    spent_ms += times_ms.back();
  }
  device.synchronize();  // a kernel that failed says so here
  return summarize(std::move(times_ms));
}

double Limits::copy_rate() const {
  const double ms = std::min(copy.median_ms, runtime_copy.median_ms);
  return static_cast<double>(copy_bytes) / ms * 1e3;
}

double Limits::matrix_rate() const { return matrix_flops / matrix.median_ms * 1e3; }

Limits measure_limits(kv::Device& device, const LimitSizes& sizes, const Effort& effort) {
  const LimitKernels& kernels = limit_kernels(device.backend());
  Limits limits;
  {
    CopyArrays arrays(device, sizes.copied_bytes);
    limits.copy_bytes = 2 * arrays.bytes;
    kernels.fill(arrays.from.data(), arrays.bytes / 4, kv::DType::f32, 1, nullptr);
    limits.copy = measure(device, effort, [&] {
      kernels.copy(arrays.to.data(), arrays.from.data(), arrays.bytes, nullptr);
    });
    limits.runtime_copy = measure(device, effort, [&] {
      kernels.runtime_copy(arrays.to.data(), arrays.from.data(), arrays.bytes, nullptr);
    });
  }
  limits.matrix_dtype = device.compute_capability() < 80 ? kv::DType::f16 : kv::DType::bf16;
  const int num_ctas = sizes.ctas_per_multiprocessor * device.num_multiprocessors();
  kv::DeviceBuffer<float> out(device, static_cast<std::size_t>(num_ctas) * kLimitThreads);
  limits.matrix_flops = multiply_flops(num_ctas, sizes.rounds);
  limits.matrix = measure(device, effort, [&] {
    kernels.multiply(out.data(), limits.matrix_dtype, num_ctas, sizes.rounds, nullptr);
  });
  return limits;
}

}  // namespace kv_bench
