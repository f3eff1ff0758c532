#include "attention/traffic.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "attention/tile_shape.hpp"
#include "emulator/counters.hpp"

namespace kv {

namespace {

constexpr std::int64_t kSectorBytes = 32;

std::int64_t q_row_bytes(const AttentionShape& shape) {
  return std::int64_t{4} * shape.heads.head_dim;
}

std::int64_t kv_row_bytes(const AttentionShape& shape) {
  return static_cast<std::int64_t>(info(shape.kv_dtype).block_bytes) * shape.heads.head_dim;
}

// Bytes that a request moves for `count` floats, `stride` floats apart, of which the first has
// index `first` in an array that begins with a sector.
std::int64_t request_bytes(std::int64_t first, int count, std::int64_t stride) {
  std::int64_t sectors = 0, last = -1;
  for (int i = 0; i < count; ++i) {
    const std::int64_t sector = (first + i * stride) * 4 / kSectorBytes;
    sectors += sector != last;
    last = sector;
  }
  return sectors * kSectorBytes;
}

// Calls body(rows, t, num_keys) for every query row; all heads of it do the same.
template <typename Body>
void for_each_row(const AttentionShape& shape, std::span<const SequenceRows> sequences,
                  const Body& body) {
  for (const SequenceRows& rows : sequences)
    for (int t = 0; t < rows.q_len; ++t) body(rows, t, visible_keys(t, rows, shape.causal));
}

// Steps 1 and 2: a CTA for each query row and head, whose warps all read q.
AttentionTraffic row_by_row(const AttentionShape& shape, std::span<const SequenceRows> sequences,
                            bool with_lse) {
  AttentionTraffic bytes;
  const std::int64_t num_heads = shape.heads.num_q_heads;
  for_each_row(shape, sequences, [&](const SequenceRows&, int, int num_keys) {
    bytes.q += num_heads * kWarpsPerRow * q_row_bytes(shape);
    bytes.k += num_heads * num_keys * kv_row_bytes(shape);
    bytes.out += num_heads * q_row_bytes(shape);
    if (with_lse) bytes.lse += num_heads * kSectorBytes;  // one float, alone
  });
  bytes.v = bytes.k;
  return bytes;
}

// Steps 3 and 4: a CTA for each block of query rows and head, which reads the keys that its last
// row sees; a warp writes the lse of `lse_rows` rows in one request.
AttentionTraffic block_by_block(const AttentionShape& shape,
                                std::span<const SequenceRows> sequences, bool with_lse,
                                int block_rows, int lse_rows) {
  AttentionTraffic bytes;
  const int num_heads = shape.heads.num_q_heads;
  for (const SequenceRows& rows : sequences) {
    bytes.q += std::int64_t{rows.q_len} * num_heads * q_row_bytes(shape);
    for (int t = 0; t < rows.q_len; t += block_rows) {
      const int last = std::min(t + block_rows, rows.q_len) - 1;
      bytes.k +=
          std::int64_t{num_heads} * visible_keys(last, rows, shape.causal) * kv_row_bytes(shape);
    }
    for (int h = 0; h < num_heads && with_lse; ++h)
      for (int t = 0; t < rows.q_len; t += lse_rows)
        bytes.lse += request_bytes((rows.q_begin + t) * num_heads + h,
                                   std::min(lse_rows, rows.q_len - t), num_heads);
  }
  bytes.v = bytes.k;
  bytes.out = bytes.q;
  return bytes;
}

}  // namespace

AttentionTraffic least_traffic(const AttentionShape& shape, std::span<const SequenceRows> sequences,
                               bool with_lse) {
  AttentionTraffic bytes;
  const HeadConfig& heads = shape.heads;
  for (const SequenceRows& rows : sequences) {
    if (rows.q_len == 0) continue;
    bytes.q += std::int64_t{rows.q_len} * heads.num_q_heads * q_row_bytes(shape);
    bytes.k += std::int64_t{rows.kv_len} * heads.num_kv_heads * kv_row_bytes(shape);
    if (with_lse) bytes.lse += std::int64_t{4} * rows.q_len * heads.num_q_heads;
  }
  bytes.v = bytes.k;
  bytes.out = bytes.q;
  return bytes;
}

AttentionTraffic two_pass_traffic(const AttentionShape& shape,
                                  std::span<const SequenceRows> sequences, bool with_lse) {
  AttentionTraffic bytes = row_by_row(shape, sequences, with_lse);
  std::int64_t max_kv_len = 0;
  for (const SequenceRows& rows : sequences)
    max_kv_len = std::max<std::int64_t>(max_kv_len, rows.kv_len);
  for_each_row(shape, sequences, [&](const SequenceRows& rows, int t, int num_keys) {
    for (int h = 0; h < shape.heads.num_q_heads; ++h) {
      const std::int64_t row = ((rows.q_begin + t) * shape.heads.num_q_heads + h) * max_kv_len;
      // 32 keys at a time, whose place in the row of scores may begin anywhere in a sector.
      for (int j = 0; j < num_keys; j += 32)
        bytes.scratch_written += request_bytes(row + j, std::min(32, num_keys - j), 1);
    }
  });
  bytes.scratch_read = 2 * bytes.scratch_written;
  return bytes;
}

AttentionTraffic online_traffic(const AttentionShape& shape,
                                std::span<const SequenceRows> sequences, bool with_lse) {
  return row_by_row(shape, sequences, with_lse);
}

AttentionTraffic tiled_traffic(const AttentionShape& shape, std::span<const SequenceRows> sequences,
                               bool with_lse) {
  return block_by_block(shape, sequences, with_lse, tiled_rows(shape.heads.head_dim), 4);
}

AttentionTraffic tensor_core_traffic(const AttentionShape& shape,
                                     std::span<const SequenceRows> sequences, bool with_lse) {
  return block_by_block(shape, sequences, with_lse, kTensorCoreRows, 8);
}

AttentionTraffic& AttentionTraffic::operator+=(const AttentionTraffic& other) {
  q += other.q;
  k += other.k;
  v += other.v;
  out += other.out;
  lse += other.lse;
  scratch_written += other.scratch_written;
  scratch_read += other.scratch_read;
  return *this;
}

AttentionTraffic paged_traffic(const AttentionShape& shape, std::span<const SequenceRows> sequences,
                               bool with_lse, const SplitPlan& plan) {
  std::vector<SequenceRows> prefill;
  std::ranges::copy_if(sequences, std::back_inserter(prefill),
                       [](const SequenceRows& rows) { return rows.q_len > 1; });
  AttentionTraffic bytes = tiled_traffic(shape, prefill, with_lse);
  return bytes += grouped_traffic(shape, sequences, with_lse, plan);
}

AttentionTraffic predicted_traffic(AttentionStep step, const AttentionShape& shape,
                                   std::span<const SequenceRows> sequences, bool with_lse,
                                   const SplitPlan& plan) {
  switch (step) {
    case AttentionStep::two_pass:
      return two_pass_traffic(shape, sequences, with_lse);
    case AttentionStep::online:
      return online_traffic(shape, sequences, with_lse);
    case AttentionStep::tiled:
      return tiled_traffic(shape, sequences, with_lse);
    case AttentionStep::tensor_core:
      return tensor_core_traffic(shape, sequences, with_lse);
    case AttentionStep::split_kv:
      return split_kv_traffic(shape, sequences, with_lse, plan);
    case AttentionStep::grouped:
      return grouped_traffic(shape, sequences, with_lse, plan);
    case AttentionStep::paged:
      return paged_traffic(shape, sequences, with_lse, plan);
  }
  require(false, "no such step");
  return {};
}

std::int64_t counted_bytes(const emulator::Counters& counters) {
  auto bytes = static_cast<std::int64_t>(counters.global_bytes());
  for (const emulator::LineTally& line : counters.lines)
    if (line.traffic == emulator::Traffic::global_load &&
        std::string_view(line.place.file).ends_with("arrays.cuh"))  // also paged_arrays.cuh
      bytes -= kSectorBytes * static_cast<std::int64_t>(line.tally.units);
  return bytes;
}

}  // namespace kv
