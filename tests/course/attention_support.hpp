// What the tests of attention kernels share: a batch of sequences, attention in two passes in
// double, and the comparison.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "attention/attention.hpp"
#include "course/kernel_support.hpp"

namespace kv::checked {
// The host entries of the kernels that are exercises.
void launch_online(const AttentionLaunch& launch);
void launch_tiled(const AttentionLaunch& launch);
void launch_split_kv(const AttentionLaunch& launch);
void launch_merge(const AttentionLaunch& launch);
}  // namespace kv::checked

namespace kv_course {

/// Query and key rows of one sequence.
struct Lengths {
  std::int64_t q_len, kv_len;
};

/// The arrays of a launch. Rows that belong to no sequence are NaN: who reads them spoils a sum.
struct AttentionProblem {
  kv::AttentionShape shape;
  std::vector<kv::SequenceRows> sequences;
  std::vector<float> q;     ///< [num_q_rows, num_q_heads, head_dim]
  std::vector<float> k, v;  ///< [num_kv_rows, num_kv_heads, head_dim]
};

/// Two groups of two heads; scores have a deviation of about spread / 3.
inline AttentionProblem random_attention(std::mt19937_64& random, std::vector<Lengths> lengths,
                                         bool causal, float spread = 1.0f) {
  constexpr std::int64_t kGap = 2;  // rows of NaN around each sequence
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  AttentionProblem p;
  p.shape.heads = {4, 2, 64};
  p.shape.scale = 0.125f;
  p.shape.causal = causal;
  const auto append = [&](std::vector<float>& to, std::int64_t num_rows, int row_size,
                          float factor) {
    for (const float x : random_floats(random, num_rows * row_size)) to.push_back(factor * x);
    to.insert(to.end(), static_cast<std::size_t>(kGap * row_size), kNan);
  };
  append(p.q, 0, p.shape.heads.q_dim(), 1.0f);
  append(p.k, 0, p.shape.heads.kv_dim(), 1.0f);
  p.v = p.k;
  for (const Lengths& l : lengths) {
    p.sequences.push_back({std::ssize(p.q) / p.shape.heads.q_dim(),
                           std::ssize(p.k) / p.shape.heads.kv_dim(), static_cast<int>(l.q_len),
                           static_cast<int>(l.kv_len)});
    append(p.q, l.q_len, p.shape.heads.q_dim(), spread);
    append(p.k, l.kv_len, p.shape.heads.kv_dim(), 1.0f);
    append(p.v, l.kv_len, p.shape.heads.kv_dim(), 1.0f);
  }
  return p;
}

/// Keys that query row t of a sequence sees: the last row sees all of them.
inline std::int64_t visible(const AttentionProblem& p, const kv::SequenceRows& rows,
                            std::int64_t t) {
  if (!p.shape.causal) return rows.kv_len;
  return std::max<std::int64_t>(0, rows.kv_len - (rows.q_len - 1 - t));
}

/// What a launch has written, or should have.
template <typename T>
struct AttentionOutput {
  std::vector<T> out;  ///< [q_len, num_q_heads, head_dim]
  std::vector<T> lse;  ///< [q_len, num_q_heads]
};

/// Attention of one sequence as the formula is written: all scores first, in double.
inline AttentionOutput<double> two_pass(const AttentionProblem& p, const kv::SequenceRows& rows) {
  const kv::HeadConfig& heads = p.shape.heads;
  AttentionOutput<double> result;
  for (std::int64_t t = 0; t < rows.q_len; ++t)
    for (int h = 0; h < heads.num_q_heads; ++h) {
      const float* q =
          &p.q[static_cast<std::size_t>((rows.q_begin + t) * heads.q_dim() + h * heads.head_dim)];
      const auto row_of = [&](std::int64_t j) {
        return static_cast<std::size_t>((rows.kv_begin + j) * heads.kv_dim() +
                                        h / heads.group_size() * heads.head_dim);
      };
      std::vector<double> scores;
      for (std::int64_t j = 0; j < visible(p, rows, t); ++j) {
        double s = 0;
        for (int d = 0; d < heads.head_dim; ++d)
          s += double{q[d]} * double{p.k[row_of(j) + static_cast<std::size_t>(d)]};
        scores.push_back(s * double{p.shape.scale});
      }
      double m = -INFINITY, l = 0;
      for (const double s : scores) m = std::max(m, s);
      std::vector<double> out(static_cast<std::size_t>(heads.head_dim));
      for (std::size_t j = 0; j < scores.size(); ++j) {
        const double weight = std::exp(scores[j] - m);
        l += weight;
        for (std::size_t d = 0; d < out.size(); ++d)
          out[d] += weight * double{p.v[row_of(static_cast<std::int64_t>(j)) + d]};
      }
      for (const double x : out) result.out.push_back(scores.empty() ? 0.0 : x / l);
      result.lse.push_back(m + std::log(l));  // -inf without keys
    }
  return result;
}

/// The output of a run, all sequences together, and what was read and written.
struct AttentionRun {
  AttentionOutput<float> got;
  kv::emulator::Counters counters;

  /// What the kernel loaded from global memory, without the tables that the host made.
  kv::emulator::Tally loads() const {
    kv::emulator::Tally sum;
    for (const kv::emulator::LineTally& line : counters.lines)
      if (line.traffic == kv::emulator::Traffic::global_load &&
          !line.place.file.ends_with("arrays.cuh"))
        sum.add(line.tally);
    return sum;
  }
};

/// Runs a kernel on a problem; outputs start as NaN.
/// \param start start(launch) adds to the launch what else the kernel needs, and launches it
template <typename Start>
AttentionRun run_attention(const AttentionProblem& p, const Start& start) {
  const auto q = on_device(p.q), k = on_device(p.k), v = on_device(p.v);
  const auto sequences = on_device(p.sequences);
  kv::DeviceBuffer<float> out(device(), p.q.size());
  kv::DeviceBuffer<float> lse(device(),
                              p.q.size() / static_cast<std::size_t>(p.shape.heads.head_dim));
  out.fill_bytes(0xff);
  lse.fill_bytes(0xff);
  kv::AttentionLaunch launch;
  launch.shape = p.shape;
  launch.q = q.data();
  launch.k = k.data();
  launch.v = v.data();
  launch.out = out.data();
  launch.lse = lse.data();
  launch.sequences = sequences.data();
  launch.num_sequences = static_cast<int>(p.sequences.size());
  for (const kv::SequenceRows& rows : p.sequences) {
    launch.max_q_len = std::max(launch.max_q_len, rows.q_len);
    launch.max_kv_len = std::max(launch.max_kv_len, rows.kv_len);
  }
  AttentionRun run;
  run.counters = run_checked([&] { start(launch); });
  run.got = {out.to_host(), lse.to_host()};
  return run;
}

/// Every row of every sequence against two_pass().
/// \param most_rows query rows of each sequence to look at
inline void expect_attention(const AttentionProblem& p, const AttentionOutput<float>& got,
                             double atol = 1e-5, std::int64_t most_rows = 1 << 20) {
  const kv::HeadConfig& heads = p.shape.heads;
  for (const kv::SequenceRows& rows : p.sequences) {
    const std::int64_t num_rows = std::min<std::int64_t>(rows.q_len, most_rows);
    const AttentionOutput<double> expected = two_pass(p, rows);
    const std::string of = " of q_len " + std::to_string(rows.q_len) + ", kv_len " +
                           std::to_string(rows.kv_len) + (p.shape.causal ? ", causal" : ", full");
    const auto part = [&](const auto& values, std::int64_t first, std::int64_t row_size) {
      return std::span(values).subspan(static_cast<std::size_t>(first * row_size),
                                       static_cast<std::size_t>(num_rows * row_size));
    };
    expect_close("out" + of, {num_rows, heads.num_q_heads, heads.head_dim},
                 part(got.out, rows.q_begin, heads.q_dim()), part(expected.out, 0, heads.q_dim()),
                 atol);
    expect_close("lse" + of, {num_rows, heads.num_q_heads},
                 part(got.lse, rows.q_begin, heads.num_q_heads),
                 part(expected.lse, 0, heads.num_q_heads), atol);
  }
}

/// Bytes of output: out and lse of every query row.
inline std::uint64_t output_bytes(const AttentionProblem& p) {
  std::uint64_t bytes = 0;
  for (const kv::SequenceRows& rows : p.sequences)
    bytes += static_cast<std::uint64_t>(rows.q_len) * 4 *
             static_cast<std::uint64_t>(p.shape.heads.q_dim() + p.shape.heads.num_q_heads);
  return bytes;
}

}  // namespace kv_course
