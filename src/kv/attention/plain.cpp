#include "kv/attention/plain.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kv/attention/causal.hpp"
#include "kv/attention/online_softmax.hpp"
#include "kv/exercise.hpp"
#include "kv/fast/thread_team.hpp"
#include "kv/model/dequantize.hpp"

namespace kv {

//! [attend row]
KV_EXERCISE float attend_row(const RowVector& q, const HeadView& k, const HeadView& v, float scale,
                             RowVector& out) {
  // First pass: s_j = scale * sum_d q[d] * k[j, d], and their maximum.
  const RowVector scores = scale * q * k.transpose();
  const float max_score = scores.maxCoeff<Eigen::PropagateNaN>();
  if (max_score == -INFINITY) return max_score;  // no key has any weight

  // Second pass: out = sum_j exp(s_j - max) v_j / sum_j exp(s_j - max).
  const RowVector weights = (scores.array() - max_score).exp();
  const float sum = weights.sum();
  out = weights * v / sum;
  return max_score + std::log(sum);
}
//! [attend row]

}  // namespace kv

namespace kv::plain {
namespace {

// K or V of a span as a matrix [num_rows, head_dim]: where it lies or, of 16-bit numbers, widened.
class SpanRows {
 public:
  SpanRows(const std::byte* rows, const KvSpan& span, int head_dim)
      : data_(reinterpret_cast<const float*>(rows)), stride_(span.row_stride) {
    if (span.dtype == DType::f32) return;
    require(span.dtype == DType::f16 || span.dtype == DType::bf16,
            "attend: spans hold fp32, fp16 or bf16");
    widened_.resize(span.num_rows, head_dim);
    for (std::int64_t r = 0; r < span.num_rows; ++r) {
      const std::byte* row = rows + r * span.row_stride * info(span.dtype).block_bytes;
      dequantize_row({span.dtype, 1, head_dim, row}, 0,
                     {widened_.row(r).data(), static_cast<std::size_t>(head_dim)});
    }
    data_ = widened_.data();
    stride_ = head_dim;
  }

  SpanRows(SpanRows&&) = default;  // and no copies: data_ may point into widened_

  HeadView top(std::int64_t num_rows, int head_dim) const {
    return {data_, num_rows, head_dim, Eigen::OuterStride<>(stride_)};
  }

 private:
  RowMajor widened_;
  const float* data_;
  std::int64_t stride_;
};

//! [attend head]
// One query head of a sequence, all its new rows.
void attend_head(const AttentionItem& item, const HeadConfig& heads, int h, int layer,
                 float scale) {
  const int head_dim = heads.head_dim;
  const std::vector<KvSpan> spans = item.state->spans(layer, heads.kv_head(h));
  std::vector<SpanRows> k, v;
  std::int64_t kv_len = 0;
  for (const KvSpan& span : spans) {
    k.emplace_back(span.k, span, head_dim);
    v.emplace_back(span.v, span, head_dim);
    kv_len += span.num_rows;
  }

  for (std::int64_t t = 0; t < item.q_len; ++t) {
    const RowVector q = RowView(item.q + t * item.q_stride + h * head_dim, head_dim);
    RowVector out = RowVector::Zero(head_dim), part(head_dim);

    // Span by span. Each gives a finished part, which joins like a single key: the part's
    // log-sum-exp is its score, the part's output is its value.
    OnlineSoftmax softmax;
    std::int64_t left = num_visible_keys(t, item.q_len, kv_len);
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const std::int64_t num_keys = std::min(left, spans[i].num_rows);
      if (num_keys == 0) continue;
      left -= num_keys;
      const float lse =
          attend_row(q, k[i].top(num_keys, head_dim), v[i].top(num_keys, head_dim), scale, part);
      const float rescale = softmax.push(lse);
      if (lse != -INFINITY) out = rescale * out + std::exp(lse - softmax.m) * part;
    }
    if (softmax.l != 0.0f) out /= softmax.l;

    const std::int64_t row = t * heads.num_q_heads + h;
    std::copy_n(out.data(), head_dim, item.out + row * head_dim);
    if (item.lse != nullptr) item.lse[row] = softmax.log_sum_exp();
  }
}
//! [attend head]

}  // namespace

void attend(std::span<const AttentionItem> items, const HeadConfig& heads, int layer, float scale) {
  check_items(items, heads);
  std::int64_t cost = 0;
  for (const AttentionItem& item : items)
    cost += 2 * heads.q_dim() * item.q_len * (item.state->length() + item.q_len);
  const auto num_items = static_cast<std::int64_t>(items.size());
  parallel_ranges(num_items * heads.num_q_heads, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n)
      attend_head(items[n / heads.num_q_heads], heads, static_cast<int>(n % heads.num_q_heads),
                  layer, scale);
  });
}

}  // namespace kv::plain
