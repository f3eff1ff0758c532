#include "chapter_device.hpp"

#include <CLI/CLI.hpp>

#include "attention/device_attention.hpp"
#include "kv/cache/contiguous.hpp"

namespace kv {

ChapterExtras KernelOptions::extras() {
  const auto declare = [this](CLI::App& app) {
    app.add_option("--step", step,
                   "attention kernel of every pass, and the only row of the ladder: 1 to 5 "
                   "(default: 3, or 4 with a 16-bit cache; 5 for one new token)")
        ->check(CLI::Range(1, static_cast<int>(std::size(kAttentionSteps))));
  };
  return {true, declare};
}

ChapterDevice::ChapterDevice(const ChapterOptions& options, const KernelOptions& kernels,
                             const ModelConfig& config)
    : backend_(choose_backend(options.device)), config_(config), kv_dtype_(options.kv_dtype) {
  if (backend_ == Backend::cpu) {
    attention_ = attend;
    description_ = "cpu";
    return;
  }
  const AttentionSteps steps = attention_steps(kernels.step, kv_dtype_);
  Device& device = kv::device(backend_);
  on_device_ = std::make_shared<DeviceAttention>(device, config.heads, kv_dtype_, steps);
  attention_ = [on_device = on_device_](std::span<const AttentionItem> items,
                                        const HeadConfig& heads, int layer,
                                        float scale) { (*on_device)(items, heads, layer, scale); };
  description_ = device.description() + ": " + std::string(name(steps.prefill));
  if (steps.decode != steps.prefill)
    description_ += ", " + std::string(name(steps.decode)) + " for one new token";
  if (steps.prefill == AttentionStep::tensor_core) product_dtype_ = kv_dtype_;
}

std::optional<std::int64_t> ChapterDevice::kv_bytes_read() const {
  if (!on_device_) return std::nullopt;
  return on_device_->kv_bytes_read();
}

std::unique_ptr<SequenceState> ChapterDevice::make_cache(std::int64_t capacity) const {
  if (backend_ == Backend::cpu)
    return std::make_unique<ContiguousCache>(config_, capacity, kv_dtype_);
  return std::make_unique<DeviceCache>(device(backend_), config_, capacity, kv_dtype_);
}

}  // namespace kv
