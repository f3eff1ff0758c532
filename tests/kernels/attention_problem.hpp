// A batch of sequences for the attention kernels, what the oracle says, and how far off is allowed.
#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "attention/attention.hpp"
#include "emulator/emulator.hpp"
#include "kv/attention/reference.hpp"
#include "support/attention_check.hpp"

namespace kv_test {

/// Query and key rows of one sequence.
struct Lengths {
  int q_len;
  int kv_len;
};

/// The arrays of a launch on the host. Rows that belong to no sequence are NaN: whoever reads them
/// spoils the result.
struct AttentionProblem {
  kv::AttentionShape shape;
  std::vector<kv::SequenceRows> sequences;
  std::vector<float> q;     ///< [num_q_rows, num_q_heads, head_dim]
  std::vector<float> k, v;  ///< [num_kv_rows, num_kv_heads, head_dim], exact in shape.kv_dtype
};

/// What a kernel has written.
struct AttentionResult {
  std::vector<float> out;  ///< as q; NaN where nothing was written
  std::vector<float> lse;  ///< [num_q_rows, num_q_heads]; NaN where nothing was written
};

/// \return x rounded to the format and back
inline float rounded(float x, kv::DType dtype) {
  if (dtype == kv::DType::f16) return kv::to_float(kv::to_f16(x));
  if (dtype == kv::DType::bf16) return kv::to_float(kv::to_bf16(x));
  return x;
}

/// Normally distributed q, k and v. Sequences lie apart from each other, the last one first.
///
/// \param spread standard deviation of q: larger makes the softmax sharper
inline AttentionProblem random_problem(const kv::AttentionShape& shape,
                                       std::span<const Lengths> lengths, unsigned seed,
                                       float spread = 1.0f) {
  constexpr int kGap = 3;  // rows of NaN around each sequence
  AttentionProblem p;
  p.shape = shape;
  p.sequences.resize(lengths.size());
  std::int64_t num_q_rows = kGap, num_kv_rows = kGap;
  for (std::size_t b = lengths.size(); b-- > 0;) {
    p.sequences[b] = {num_q_rows, num_kv_rows, lengths[b].q_len, lengths[b].kv_len};
    num_q_rows += lengths[b].q_len + kGap;
    num_kv_rows += lengths[b].kv_len + kGap;
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  p.q.assign(num_q_rows * shape.heads.q_dim(), nan);
  p.k.assign(num_kv_rows * shape.heads.kv_dim(), nan);
  p.v = p.k;

  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (const kv::SequenceRows& rows : p.sequences) {
    for (std::int64_t i = rows.q_begin * shape.heads.q_dim();
         i < (rows.q_begin + rows.q_len) * shape.heads.q_dim(); ++i)
      p.q[i] = spread * normal(random);
    for (std::int64_t i = rows.kv_begin * shape.heads.kv_dim();
         i < (rows.kv_begin + rows.kv_len) * shape.heads.kv_dim(); ++i) {
      p.k[i] = rounded(normal(random), shape.kv_dtype);
      p.v[i] = rounded(normal(random), shape.kv_dtype);
    }
  }
  return p;
}

/// K or V on the device in the format of the problem.
class StoredRows {
 public:
  StoredRows(kv::Device& device, std::span<const float> values, kv::DType dtype) {
    if (dtype == kv::DType::f32) {
      f32_ = kv::DeviceBuffer<float>(device, values);
      return;
    }
    std::vector<std::uint16_t> bits(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      bits[i] = dtype == kv::DType::f16 ? kv::to_f16(values[i]).bits : kv::to_bf16(values[i]).bits;
    bits_ = kv::DeviceBuffer<std::uint16_t>(device, std::span<const std::uint16_t>(bits));
  }
  const void* data() const {
    return f32_.size() > 0 ? static_cast<const void*>(f32_.data()) : bits_.data();
  }

 private:
  kv::DeviceBuffer<float> f32_;
  kv::DeviceBuffer<std::uint16_t> bits_;
};

/// Runs a step of the ladder on a backend; outputs start as NaN.
inline AttentionResult run(const AttentionProblem& p, kv::AttentionStep step, kv::Backend backend,
                           bool want_lse = true, const kv::SplitOptions& split = {}) {
  kv::Device& device = kv::device(backend);
  const kv::AttentionPlan plan(device, step, p.shape, p.sequences, split);
  const kv::DeviceBuffer<float> q(device, std::span<const float>(p.q));
  const StoredRows k(device, p.k, p.shape.kv_dtype);
  const StoredRows v(device, p.v, p.shape.kv_dtype);
  kv::DeviceBuffer<float> out(device, p.q.size());
  kv::DeviceBuffer<float> lse(device, p.q.size() / p.shape.heads.head_dim);
  out.fill_bytes(0xff);
  lse.fill_bytes(0xff);
  plan.run(q.data(), k.data(), v.data(), out.data(), want_lse ? lse.data() : nullptr);
  device.synchronize();
  return {out.to_host(), lse.to_host()};
}

/// The factors of the bound of a kernel's arithmetic; both 1 for fp32. Tensor cores take rounded
/// numbers: the largest relative errors of q and of the weights come on top.
struct Looseness {
  double out = 1.0;
  double lse = 1.0;
  double q_error = 0.0;
  double weight_error = 0.0;
  double small_weight_error = 0.0;  ///< absolute: below the format's smallest normal number

  /// Allowed |out - exact|. A score with the error e takes its weight to between e^-e and e^e of
  /// it, and so does that of the sum that divides it; e is at most q_error * score_mass.
  double out_atol(const kv::ReferenceAttention& exact, int kv_len) const {
    return out * attention_atol(exact.score_mass, exact.max_abs_value) +
           exact.max_abs_value * (std::expm1(2.0 * q_error * exact.score_mass + weight_error) +
                                  small_weight_error * kv_len);
  }
  /// Allowed |lse - exact|: weights are summed before they are rounded.
  double lse_atol(const kv::ReferenceAttention& exact) const {
    return lse * attention_atol(exact.score_mass, 1.0) + q_error * exact.score_mass;
  }
};

/// The first element that is further from `expected` than `atol`, in words; empty when there is
/// none. A NaN is far from everything.
inline std::string first_difference(const std::string& what, std::span<const float> actual,
                                    std::span<const double> expected, double atol) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (actual[i] == expected[i]) continue;  // also -inf
    if (std::fabs(actual[i] - expected[i]) <= atol) continue;
    return what + "[" + std::to_string(i) + "] is " + std::to_string(actual[i]) + ", expected " +
           std::to_string(expected[i]) + " within " + std::to_string(atol);
  }
  return "";
}

/// Every row of every sequence within the bound of the oracle, and nothing else written.
/// \return what is wrong, empty when nothing is
inline std::string oracle_difference(const AttentionProblem& p, const AttentionResult& result,
                                     const Looseness& looseness = {}, bool want_lse = true) {
  const kv::HeadConfig& heads = p.shape.heads;
  std::vector<bool> is_row(result.out.size() / heads.q_dim());
  for (std::size_t b = 0; b < p.sequences.size(); ++b) {
    const kv::SequenceRows& rows = p.sequences[b];
    const std::string name = "sequence " + std::to_string(b) + " (q_len " +
                             std::to_string(rows.q_len) + ", kv_len " +
                             std::to_string(rows.kv_len) + "): ";
    const kv::ReferenceAttention expected = kv::reference_attention(
        p.q.data() + rows.q_begin * heads.q_dim(), p.k.data() + rows.kv_begin * heads.kv_dim(),
        p.v.data() + rows.kv_begin * heads.kv_dim(), heads, rows.q_len, rows.kv_len, p.shape.scale,
        p.shape.causal);
    const auto out = std::span(result.out).subspan(rows.q_begin * heads.q_dim());
    std::string difference = first_difference(name + "out", out, expected.out,
                                              looseness.out_atol(expected, rows.kv_len));
    const auto lse = std::span(result.lse).subspan(rows.q_begin * heads.num_q_heads);
    if (difference.empty() && want_lse)  // the log of a sum whose terms have the scores' errors
      difference = first_difference(name + "lse", lse, expected.lse, looseness.lse_atol(expected));
    if (!difference.empty()) return difference;
    for (int t = 0; t < rows.q_len; ++t) is_row[rows.q_begin + t] = true;
  }
  for (std::size_t i = 0; i < result.out.size(); ++i)
    if (!is_row[i / heads.q_dim()] && !std::isnan(result.out[i]))
      return "out[" + std::to_string(i) + "] was written and belongs to no sequence";
  for (std::size_t i = 0; i < result.lse.size(); ++i)
    if (!(want_lse && is_row[i / heads.num_q_heads]) && !std::isnan(result.lse[i]))
      return "lse[" + std::to_string(i) + "] was written and belongs to no sequence";
  return "";
}

/// The same as a test.
inline void require_oracle(const AttentionProblem& p, const AttentionResult& result,
                           const Looseness& looseness = {}, bool want_lse = true) {
  const std::string difference = oracle_difference(p, result, looseness, want_lse);
  INFO(difference);
  REQUIRE(difference.empty());
}

}  // namespace kv_test
