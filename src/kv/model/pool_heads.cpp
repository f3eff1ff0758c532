#include "kv/model/pool_heads.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "kv/exercise.hpp"
#include "kv/model/dequantize.hpp"
#include "kv/model/gguf_writer.hpp"

namespace kv {
namespace {

// Rounds to the format and appends the bytes.
void store(DType dtype, double value, std::vector<std::byte>& out) {
  if (!std::isfinite(value))
    throw InputError("K or V weights hold infinity or NaN: the model is damaged; use another one");
  const auto put = [&](auto x) {
    if (!std::isfinite(to_float(x)))
      throw InputError("a mean of heads is too large for " + std::string(info(dtype).name) +
                       "; use a model whose weights are stored as F32");
    const std::size_t end = out.size();
    out.resize(end + sizeof(x));
    std::memcpy(out.data() + end, &x, sizeof(x));
  };
  const auto rounded = static_cast<float>(value);
  if (dtype == DType::f32) put(rounded);
  if (dtype == DType::f16) put(to_f16(rounded));
  if (dtype == DType::bf16) put(to_bf16(rounded));
}

KvProjection pooled(const WeightMatrix& w, int head_dim, int num_kv_heads) {
  const int num_pooled = static_cast<int>(w.num_rows) / head_dim / num_kv_heads;
  KvProjection result;
  result.dtype = info(w.dtype).block_elements == 1 ? w.dtype : DType::f16;
  for (int g = 0; g < num_kv_heads; ++g)
    for (int d = 0; d < head_dim; ++d)
      for (const double mean : pooled_row(w, head_dim, num_pooled, g, d))
        store(result.dtype, mean, result.bytes);
  return result;
}

KvProjection repeated(const WeightMatrix& w, int head_dim, int num_kv_heads) {
  const std::int64_t head_bytes = head_dim * w.row_bytes();
  const int copies = num_kv_heads / static_cast<int>(w.num_rows / head_dim);
  KvProjection result;
  result.dtype = w.dtype;
  result.bytes.reserve(static_cast<std::size_t>(num_kv_heads * head_bytes));
  for (int g = 0; g < num_kv_heads; ++g) {
    const std::byte* head = w.data + g / copies * head_bytes;
    result.bytes.insert(result.bytes.end(), head, head + head_bytes);
  }
  return result;
}

bool is_kv_projection(std::string_view tensor) {
  return tensor.ends_with(".attn_k.weight") || tensor.ends_with(".attn_v.weight");
}

// In the order in which they lie in the file; GgufFile sorts them by key.
std::vector<GgufValue> in_file_order(std::span<const GgufValue> values) {
  std::vector<GgufValue> ordered(values.begin(), values.end());
  std::ranges::sort(ordered, std::less<const char*>(),
                    [](const GgufValue& value) { return value.key.data(); });
  return ordered;
}

}  // namespace

//! [mean pooling]
KV_EXERCISE std::vector<double> pooled_row(const WeightMatrix& w, int head_dim, int num_pooled,
                                           int g, int d) {
  std::vector<float> row(static_cast<std::size_t>(w.num_cols));
  std::vector<double> mean(row.size());
  // W_new[g, d] = 1 / n * sum_i W[g * n + i, d]
  for (int i = 0; i < num_pooled; ++i) {
    dequantize_row(w, (std::int64_t{g} * num_pooled + i) * head_dim + d, row);
    for (std::size_t c = 0; c < row.size(); ++c) mean[c] += row[c];
  }
  for (double& element : mean) element /= num_pooled;
  return mean;
}
//! [mean pooling]

void check_kv_heads(const HeadConfig& heads, int num_kv_heads) {
  heads.validate();
  if (num_kv_heads > 0 && heads.num_kv_heads % num_kv_heads == 0) return;
  const std::string wanted = std::to_string(num_kv_heads);
  const std::string existing = std::to_string(heads.num_kv_heads);
  if (num_kv_heads <= heads.num_kv_heads)
    throw InputError(wanted + " does not divide the model's " + existing +
                     " KV heads; give a number that does");
  if (num_kv_heads % heads.num_kv_heads != 0)
    throw InputError(wanted + " is not a multiple of the model's " + existing +
                     " KV heads; give a number that is");
  if (heads.num_q_heads % num_kv_heads != 0)
    throw InputError(wanted + " does not divide the model's " + std::to_string(heads.num_q_heads) +
                     " query heads; give a number that does");
}

std::vector<int> possible_kv_heads(const HeadConfig& heads) {
  heads.validate();
  std::vector<int> possible;
  for (int n = heads.num_q_heads; n > 0; --n) {
    const bool fewer = heads.num_kv_heads % n == 0;
    const bool more = n % heads.num_kv_heads == 0 && heads.num_q_heads % n == 0;
    if (fewer || more) possible.push_back(n);
  }
  return possible;
}

KvProjection with_kv_heads(const WeightMatrix& w, const HeadConfig& heads, int num_kv_heads) {
  require(w.num_rows == heads.kv_dim(), "a K or V projection has a row for each element of a head");
  check_kv_heads(heads, num_kv_heads);
  return num_kv_heads < heads.num_kv_heads ? pooled(w, heads.head_dim, num_kv_heads)
                                           : repeated(w, heads.head_dim, num_kv_heads);
}

Model with_kv_heads(const Model& model, int num_kv_heads) {
  Model changed = model;
  changed.config.heads.num_kv_heads = num_kv_heads;
  for (LayerWeights& layer : changed.layers) {
    for (WeightMatrix* w : {&layer.k, &layer.v}) {
      auto projection =
          std::make_shared<const KvProjection>(with_kv_heads(*w, model.config.heads, num_kv_heads));
      *w = {projection->dtype, changed.config.heads.kv_dim(), w->num_cols,
            projection->bytes.data()};
      changed.storage.push_back(std::move(projection));
    }
  }
  return changed;
}

std::string with_kv_heads(const std::shared_ptr<const GgufFile>& file, int num_kv_heads) {
  constexpr std::string_view kKey = "llama.attention.head_count_kv";
  const HeadConfig heads = load_model(file).config.heads;  // refuses what is not a whole model
  check_kv_heads(heads, num_kv_heads);

  GgufWriter writer;
  for (const GgufValue& value : in_file_order(file->values())) {
    if (value.key == kKey)
      writer.add_u32(kKey, static_cast<std::uint32_t>(num_kv_heads));
    else
      writer.add(value);
  }
  // A file without the key has as many KV heads as query heads.
  if (file->find(kKey) == nullptr) writer.add_u32(kKey, static_cast<std::uint32_t>(num_kv_heads));

  for (const GgufTensor& tensor : file->tensors()) {
    std::array<std::int64_t, 4> dims = tensor.dims;
    const auto num_dims = static_cast<std::size_t>(tensor.num_dims);
    if (!is_kv_projection(tensor.name)) {
      writer.add_tensor(tensor.name, tensor.dtype, std::span(dims).first(num_dims), tensor.bytes);
      continue;
    }
    const WeightMatrix w{tensor.dtype, tensor.num_rows(), tensor.row_length(), tensor.bytes.data()};
    const KvProjection changed = with_kv_heads(w, heads, num_kv_heads);
    dims[1] = std::int64_t{num_kv_heads} * heads.head_dim;
    writer.add_tensor(tensor.name, changed.dtype, std::span(dims).first(num_dims), changed.bytes);
  }
  return writer.str();
}

}  // namespace kv
