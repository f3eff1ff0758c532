#include "chapter_device.hpp"

#include <CLI/CLI.hpp>
#include <limits>

#include "attention/device_attention.hpp"
#include "cache/device_blocks.hpp"
#include "kv/cache/contiguous.hpp"
#include "kv/cache/paged.hpp"

namespace kv {

ChapterExtras KernelOptions::extras() {
  const auto declare = [this](CLI::App& app) {
    app.add_option("--step", step,
                   "attention kernel of every pass, and the only row of the ladder: 1 to 6 "
                   "(default: 3, or 4 with a 16-bit cache; " +
                       std::to_string(static_cast<int>(decode)) + " for one new token)")
        ->check(CLI::Range(1, static_cast<int>(AttentionStep::grouped)));
  };
  return {true, declare};
}

KernelOptions KernelOptions::paged() const {
  KernelOptions options = *this;
  options.is_paged = true;
  return options;
}

ChapterDevice::ChapterDevice(const ChapterOptions& options, const KernelOptions& kernels,
                             const ModelConfig& config)
    : backend_(choose_backend(options.device)),
      config_(config),
      kv_dtype_(options.kv_dtype),
      math_(*options.math) {
  if (backend_ == Backend::cpu) {
    description_ = "cpu";
    return;
  }
  const AttentionSteps steps =
      kernels.is_paged ? kPagedSteps : attention_steps(kernels.step, kv_dtype_, kernels.decode);
  Device& device = kv::device(backend_);
  on_device_ = std::make_shared<DeviceAttention>(device, config.heads, kv_dtype_, steps);
  math_.attention = [on_device = on_device_](std::span<const AttentionItem> items,
                                             const HeadConfig& heads, int layer, float scale) {
    (*on_device)(items, heads, layer, scale);
  };
  description_ = device.description() + ": " + std::string(name(steps.prefill));
  if (steps.decode != steps.prefill)
    description_ += ", " + std::string(name(steps.decode)) + " for one new token";
  if (rounds_products(steps.prefill, kv_dtype_) || rounds_products(steps.decode, kv_dtype_))
    product_dtype_ = kv_dtype_;
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

std::shared_ptr<PagedPool> ChapterDevice::make_pool(std::int64_t num_blocks,
                                                    std::int32_t block_size) const {
  if (num_blocks < 0 || num_blocks > std::numeric_limits<BlockId>::max())
    throw InputError("a pool of " + std::to_string(num_blocks) + " blocks of " +
                     std::to_string(block_size) +
                     " tokens has more blocks than ids; take a larger block size");
  const BlockShape shape{config_.heads, config_.num_layers, static_cast<BlockId>(num_blocks),
                         block_size, kv_dtype_};
  if (backend_ == Backend::cpu) return make_host_pool(shape);
  if (block_size < 1 || (block_size & (block_size - 1)) != 0)
    throw InputError("blocks of " + std::to_string(block_size) +
                     " tokens: the kernels take powers of two; take one, or --device cpu");
  return make_device_pool(device(backend_), shape);
}

}  // namespace kv
