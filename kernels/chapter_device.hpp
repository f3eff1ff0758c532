// Where a chapter's attention runs: what --device and --step choose.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "attention/attention.hpp"
#include "device.hpp"
#include "kv/cache/sequence_state.hpp"
#include "kv/config.hpp"
#include "kv/math.hpp"
#include "kv/report/options.hpp"

namespace kv {

class DeviceAttention;
struct PagedPool;

/// The options of chapters with kernels.
struct KernelOptions {
  int step = 0;  ///< of the ladder, for prefill and decode alike; 0: the best for each
  AttentionStep decode = AttentionStep::split_kv;  ///< the chapter's best for one new token
  bool is_paged = false;                           ///< step 7, whatever the others say

  /// The same for paged caches: what make_pool() makes is then read, what make_cache() makes not.
  KernelOptions paged() const;

  /// What run_chapter() takes; this must outlive it.
  ChapterExtras extras();
};

/// The attention of a run and the caches that it reads, on the device that the options name.
class ChapterDevice {
 public:
  /// \param options --device, --math and --kv-dtype are read
  /// \param kernels --step
  /// \param config  the model's shape
  /// \throws InputError when there is no such device, or no kernel for the model's heads or format
  ChapterDevice(const ChapterOptions& options, const KernelOptions& kernels,
                const ModelConfig& config);

  /// For forward() and prefill(): what --math says, with kernels for attention unless on the cpu.
  const Math& math() const { return math_; }
  /// An empty cache that math().attention can read.
  std::unique_ptr<SequenceState> make_cache(std::int64_t capacity) const;
  /// An empty pool whose sequences math().attention can read, if the options were paged().
  /// \param num_blocks blocks, each with K and V of all layers
  /// \param block_size tokens of a block
  /// \throws InputError when there are more blocks than ids, or a device cannot take the block size
  std::shared_ptr<PagedPool> make_pool(std::int64_t num_blocks, std::int32_t block_size) const;
  /// For the report, e.g. "emulator, 2 threads: tiled, split_kv for one new token".
  const std::string& description() const { return description_; }
  /// Bytes of K and V that the kernels have read so far; none where the CPU attends, since
  /// forward() counts those.
  std::optional<std::int64_t> kv_bytes_read() const;
  /// Format in which q and the weights of V are multiplied: 16 bit on tensor cores, else fp32.
  DType product_dtype() const { return product_dtype_; }

 private:
  Backend backend_;
  ModelConfig config_;
  KvDType kv_dtype_;
  Math math_;
  std::shared_ptr<DeviceAttention> on_device_;  // what attention calls; none on the cpu
  std::string description_;
  DType product_dtype_ = DType::f32;
};

}  // namespace kv
