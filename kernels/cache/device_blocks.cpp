#include "cache/device_blocks.hpp"

#include <algorithm>

#include "kv/cache/paged.hpp"

namespace kv {

namespace {

constexpr int kNanByte = 0xff;  // all bits set is a NaN in all three formats
constexpr std::int64_t kWideAccess = 16;

void write_slots(Backend backend, const WriteSlots& launch) {
#ifdef KV_HAVE_GPU_KERNELS
  if (backend == Backend::gpu) return gpu::launch_write_slots(launch);
#endif
  if (backend == Backend::checked) return checked::launch_write_slots(launch);
  require(backend == Backend::emulated, "this program has no kernels for the device");
  emulated::launch_write_slots(launch);
}

void copy_blocks(Backend backend, const CopyBlocks& launch) {
#ifdef KV_HAVE_GPU_KERNELS
  if (backend == Backend::gpu) return gpu::launch_copy_blocks(launch);
#endif
  if (backend == Backend::checked) return checked::launch_copy_blocks(launch);
  require(backend == Backend::emulated, "this program has no kernels for the device");
  emulated::launch_copy_blocks(launch);
}

std::int64_t num_slots(const BlockShape& shape) {
  return static_cast<std::int64_t>(shape.num_blocks) * shape.block_size;
}

// The buffer holds at least `values`, at its beginning.
template <typename T>
void upload(Device& device, DeviceBuffer<T>& buffer, std::span<const T> values) {
  if (buffer.size() < values.size()) buffer = DeviceBuffer<T>(device, values.size());
  buffer.copy_into(0, values);
}

}  // namespace

DeviceBlocks::DeviceBlocks(Device& device, const BlockShape& shape)
    : BlockStorage(shape), device_(&device) {
  require(shape.num_layers >= 0 && shape.num_blocks >= 0 && shape.block_size > 0 &&
              shape.heads.kv_dim() > 0,
          "a pool has layers, blocks and rows");
  require(shape.dtype == DType::f32 || shape.dtype == DType::f16 || shape.dtype == DType::bf16,
          "a cache on a device holds fp32, fp16 or bf16");
  std::vector<void*> arrays;
  for (int l = 0; l < shape.num_layers; ++l)
    for (auto* buffers : {&k_, &v_}) {
      buffers->emplace_back(device, static_cast<std::size_t>(num_slots(shape) * shape.row_bytes()));
      buffers->back().fill_bytes(kNanByte);
      arrays.push_back(buffers->back().data());
    }
  arrays_ = DeviceBuffer<void*>(device, std::span<void* const>(arrays));
}

const DeviceBuffer<std::byte>& DeviceBlocks::buffer(
    const std::vector<DeviceBuffer<std::byte>>& buffers, int layer) const {
  require(layer >= 0 && layer < shape().num_layers, "layer out of range");
  return buffers[static_cast<std::size_t>(layer)];
}

void DeviceBlocks::write(int layer, std::span<const Slot> slots, const float* k_rows,
                         const float* v_rows) {
  require(layer >= 0 && layer < shape().num_layers, "layer out of range");
  std::vector<Slot> sorted(slots.begin(), slots.end());
  std::ranges::sort(sorted);
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    require(sorted[i] >= -1 && sorted[i] < num_slots(shape()), "a slot must lie in the pool");
    require(i == 0 || sorted[i] == -1 || sorted[i] != sorted[i - 1],
            "two rows cannot go to the same slot");
  }
  const std::size_t count = slots.size() * static_cast<std::size_t>(shape().heads.kv_dim());
  upload(*device_, k_rows_, std::span(k_rows, count));
  upload(*device_, v_rows_, std::span(v_rows, count));
  upload(*device_, slots_, slots);
  WriteSlots launch;
  launch.k_rows = k_rows_.data();
  launch.v_rows = v_rows_.data();
  launch.slots = slots_.data();
  launch.k = k_[static_cast<std::size_t>(layer)].data();
  launch.v = v_[static_cast<std::size_t>(layer)].data();
  launch.num_rows = static_cast<std::int64_t>(slots.size());
  launch.row_elements = shape().heads.kv_dim();
  launch.dtype = shape().dtype;
  write_slots(device_->backend(), launch);
}

void DeviceBlocks::copy(std::span<const BlockCopy> copies) {
  std::vector<BlockId> targets;
  std::vector<CopyRange> ranges;
  const std::int64_t row_bytes = shape().row_bytes();
  const std::int64_t block_bytes = row_bytes * shape().block_size;
  for (const BlockCopy& copy : copies) {
    for (const BlockId block : {copy.from, copy.to})
      require(block >= 0 && block < shape().num_blocks, "a block must lie in the pool");
    require(copy.num_tokens >= 0 && copy.num_tokens <= shape().block_size,
            "no more tokens can be copied than a block holds");
    targets.push_back(copy.to);
    ranges.push_back({copy.from * block_bytes, copy.to * block_bytes, copy.num_tokens * row_bytes});
  }
  std::ranges::sort(targets);
  require(std::ranges::adjacent_find(targets) == targets.end(),
          "two copies cannot have the same target");
  // All copies run side by side: none may wait for another.
  for (const BlockCopy& copy : copies)
    require(!std::ranges::binary_search(targets, copy.from),
            "a block cannot be copied from and copied to at once");
  if (ranges.empty()) return;
  const DeviceBuffer<CopyRange> on_device(*device_, std::span<const CopyRange>(ranges));
  CopyBlocks launch;
  launch.arrays = arrays_.data();
  launch.ranges = on_device.data();
  launch.num_arrays = static_cast<int>(arrays_.size());
  launch.num_ranges = static_cast<int>(ranges.size());
  launch.alignment = row_bytes % kWideAccess == 0 ? 16 : 2;
  copy_blocks(device_->backend(), launch);
  device_->synchronize();  // `on_device` goes away
}

void DeviceBlocks::erase_rows(Slot first, std::int64_t num_rows) {
  const auto begin = static_cast<std::size_t>(first * shape().row_bytes());
  const auto count = static_cast<std::size_t>(num_rows * shape().row_bytes());
  for (auto* buffers : {&k_, &v_})
    for (DeviceBuffer<std::byte>& buffer : *buffers) buffer.fill_bytes(kNanByte, begin, count);
}

void DeviceBlocks::erase(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    require(block >= 0 && block < shape().num_blocks, "a block must lie in the pool");
    erase_rows(static_cast<Slot>(block) * shape().block_size, shape().block_size);
  }
}

void DeviceBlocks::erase_slots(std::span<const Slot> slots) {
  for (std::size_t i = 0; i < slots.size();) {
    require(slots[i] >= 0 && slots[i] < num_slots(shape()), "a slot must lie in the pool");
    // Slots of a block follow each other: one fill for a run of them.
    std::size_t end = i + 1;
    while (end < slots.size() && slots[end] == slots[end - 1] + 1 &&
           slots[end] < num_slots(shape()))
      ++end;
    erase_rows(slots[i], static_cast<std::int64_t>(end - i));
    i = end;
  }
}

std::shared_ptr<PagedPool> make_device_pool(Device& device, const BlockShape& shape) {
  return std::make_shared<PagedPool>(std::make_unique<DeviceBlocks>(device, shape));
}

}  // namespace kv
