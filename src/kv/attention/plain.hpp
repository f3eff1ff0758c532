// Attention as it is read: one query row after the other, span by span.
#pragma once

#include <span>

#include "kv/attention/attention.hpp"
#include "kv/tensor.hpp"

namespace kv {

/// Attention of one query row of one head over rows of K and V, at least one, in two passes:
/// \f$ s_j = \mathrm{scale} \sum_d q_d k_{jd} \f$ and their maximum m, then
/// \f$ \mathrm{out} = \sum_j e^{s_j - m} v_j / \sum_j e^{s_j - m} \f$.
///
/// \param q     [head_dim]
/// \param k     [num_keys, head_dim], strided: other heads' rows lie in between
/// \param v     same shape
/// \param scale factor on q.k
/// \param out   [head_dim], written
/// \return log-sum-exp of the scores, natural log: \f$ m + \ln \sum_j e^{s_j - m} \f$; -inf when
///         every score is, and out is then left as it was
float attend_row(const RowVector& q, const HeadView& k, const HeadView& v, float scale,
                 RowVector& out);

}  // namespace kv

namespace kv::plain {

/// An Attention in the open: for each sequence, query head and row the spans one after the other,
/// joined by OnlineSoftmax. Spans may hold fp32, fp16 or bf16.
void attend(std::span<const AttentionItem> items, const HeadConfig& heads, int layer, float scale);

}  // namespace kv::plain
