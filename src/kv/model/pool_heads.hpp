// Other numbers of KV heads for a trained model: mean-pooled to fewer, or repeated to more.
//
// Pooling takes each group of KV heads to their mean, element by element, in the projections of K
// and of V: a model with many KV heads becomes one with few, whose cache is smaller and whose loss
// is higher until it has been trained on a little. Repeating is the other direction and exact:
// query head h reads KV head h / group_size, so a head that several query heads share may as well
// be there several times.
//
// The mean of heads is also the mean after RoPE: it is linear, and the same in every head, so
// element i of one head may be averaged with element i of another whatever pairs it rotates.
//
// Source: Ainslie et al. 2023 (GQA).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kv/config.hpp"
#include "kv/model/gguf.hpp"
#include "kv/model/weights.hpp"

namespace kv {

/// \param heads        a model's heads
/// \param num_kv_heads wanted instead: a divisor of what the model has (pool), or a multiple of it
///                     that divides the query heads (repeat); the same number changes nothing
/// \throws InputError naming both numbers for any other
void check_kv_heads(const HeadConfig& heads, int num_kv_heads);

/// All that check_kv_heads() accepts, the largest first.
std::vector<int> possible_kv_heads(const HeadConfig& heads);

/// One row of a pooled projection: element d of new head g is the mean of element d of old heads
/// g * num_pooled ... (g + 1) * num_pooled - 1.
///
/// \param w          attn_k or attn_v: [num_kv_heads * head_dim, d_model], in any format
/// \param head_dim   rows of one head
/// \param num_pooled old heads that one new head is made of
/// \param g          new head
/// \param d          in [0, head_dim)
/// \return [d_model], summed in double and not rounded
std::vector<double> pooled_row(const WeightMatrix& w, int head_dim, int num_pooled, int g, int d);

/// A projection with another number of heads.
struct KvProjection {
  DType dtype = DType::f32;      ///< storage format of the rows
  std::vector<std::byte> bytes;  ///< [num_kv_heads * head_dim, d_model], packed rows
};

/// New head g is the mean of old heads g * n ... g * n + n - 1, or old head g / n.
///
/// \param w            attn_k or attn_v: [heads.num_kv_heads * head_dim, d_model]
/// \param heads        the heads that it has
/// \param num_kv_heads wanted; as for check_kv_heads()
/// \return repeated: the rows as they are, in any format; pooled: F32, F16 or BF16 as before, and
///         F16 when the rows were quantised, because a mean does not fit their steps. A mean is
///         summed in double and rounded once, so the mean of equal heads is that head exactly.
/// \throws InputError as check_kv_heads(), or when a mean is too large for its format
KvProjection with_kv_heads(const WeightMatrix& w, const HeadConfig& heads, int num_kv_heads);

/// The model with its K and V projections changed; all else is shared with the original.
/// \throws InputError as above
Model with_kv_heads(const Model& model, int num_kv_heads);

/// The bytes of a GGUF file with the K and V projections changed and head_count_kv set; every other
/// value and tensor is carried over byte for byte, in its place.
///
/// \param file         a model that load_model() accepts
/// \param num_kv_heads a divisor or a multiple of what the file has
/// \throws InputError as load_model() and as above
std::string with_kv_heads(const std::shared_ptr<const GgufFile>& file, int num_kv_heads);

}  // namespace kv
