// From the tensors of a GGUF file to a Model. The matrices stay where they are in the mapped file.
#include "kv/model/weights.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kv/model/dequantize.hpp"
#include "kv/model/gguf.hpp"
#include "kv/model/model_config.hpp"
#include "kv/tensor.hpp"

namespace kv {
namespace {

/// Hands out tensors by name after checking their shapes, and remembers which were asked for.
class TensorReader {
 public:
  explicit TensorReader(const GgufFile& file) : file_(file), used_(file.tensors().size(), false) {}

  /// The tensor, or null when the file does not have it.
  const GgufTensor* find(const std::string& name) {
    const GgufTensor* tensor = file_.find_tensor(name);
    if (tensor != nullptr) used_[static_cast<std::size_t>(tensor - file_.tensors().data())] = true;
    return tensor;
  }

  const GgufTensor& get(const std::string& name) {
    const GgufTensor* tensor = find(name);
    if (tensor == nullptr)
      throw file_.tensor_error(name, "is missing; use a complete model of architecture 'llama'");
    return *tensor;
  }

  WeightMatrix matrix(const GgufTensor& tensor, std::int64_t num_rows, std::int64_t num_cols) {
    if (tensor.row_length() != num_cols || tensor.num_rows() != num_rows || tensor.dims[2] != 1 ||
        tensor.dims[3] != 1)
      throw file_.tensor_error(tensor.name, "has the shape " + shape(tensor) + ", not [" +
                                                std::to_string(num_rows) + ", " +
                                                std::to_string(num_cols) +
                                                "] as the metadata says; convert the model again");
    return {tensor.dtype, num_rows, num_cols, tensor.bytes.data()};
  }

  WeightMatrix matrix(const std::string& name, std::int64_t num_rows, std::int64_t num_cols) {
    return matrix(get(name), num_rows, num_cols);
  }

  /// A vector of `length` finite elements, widened to float.
  std::vector<float> vector(const GgufTensor& tensor, std::int64_t length) {
    const WeightMatrix row = matrix(tensor, 1, length);
    std::vector<float> values(static_cast<std::size_t>(length));
    dequantize_row(row, 0, values);
    if (!std::ranges::all_of(values, [](float x) { return std::isfinite(x); }))
      throw file_.tensor_error(tensor.name,
                               "holds infinity or NaN; the file is damaged: download it again");
    return values;
  }

  std::vector<float> vector(const std::string& name, std::int64_t length) {
    return vector(get(name), length);
  }

  /// A tensor that nobody asked for belongs to a model that computes something else.
  void expect_all_used() const {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (used_[i]) continue;
      const std::string_view name = file_.tensors()[i].name;
      throw file_.tensor_error(
          name, name.ends_with(".bias")
                    ? "biases are not supported; use a model without them"
                    : "is not part of a plain llama model, and leaving it out would change the "
                      "results; use another model");
    }
  }

 private:
  /// Outermost first, as everywhere in the course; the file lists the innermost first.
  static std::string shape(const GgufTensor& tensor) {
    std::string text = "[";
    for (int i = tensor.num_dims - 1; i >= 0; --i)
      text += std::to_string(tensor.dims[static_cast<std::size_t>(i)]) + (i > 0 ? ", " : "]");
    return text;
  }

  const GgufFile& file_;
  std::vector<bool> used_;
};

LayerWeights read_layer(TensorReader& tensors, const ModelConfig& config, int layer) {
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  const std::int64_t d_model = config.d_model;
  const std::int64_t q_dim = config.heads.q_dim();
  const std::int64_t kv_dim = config.heads.kv_dim();
  const std::int64_t ffn_dim = config.ffn_dim;
  LayerWeights weights;
  weights.attn_norm = tensors.vector(prefix + "attn_norm.weight", d_model);
  weights.q = tensors.matrix(prefix + "attn_q.weight", q_dim, d_model);
  weights.k = tensors.matrix(prefix + "attn_k.weight", kv_dim, d_model);
  weights.v = tensors.matrix(prefix + "attn_v.weight", kv_dim, d_model);
  weights.o = tensors.matrix(prefix + "attn_output.weight", d_model, q_dim);
  weights.ffn_norm = tensors.vector(prefix + "ffn_norm.weight", d_model);
  weights.gate = tensors.matrix(prefix + "ffn_gate.weight", ffn_dim, d_model);
  weights.up = tensors.matrix(prefix + "ffn_up.weight", ffn_dim, d_model);
  weights.down = tensors.matrix(prefix + "ffn_down.weight", d_model, ffn_dim);
  return weights;
}

/// The divisors of the RoPE frequencies: a tensor of factors (Llama 3.1), a linear scaling, or
/// both.
std::vector<float> read_rope_factors(TensorReader& tensors, const GgufFile& file, int rope_dim) {
  const float scaling = read_rope_scaling(file);
  const GgufTensor* tensor = tensors.find("rope_freqs.weight");
  if (tensor == nullptr && scaling == 1.0f) return {};

  const std::int64_t num_pairs = rope_dim / 2;
  std::vector<float> factors(static_cast<std::size_t>(num_pairs), 1.0f);
  if (tensor != nullptr) factors = tensors.vector(*tensor, num_pairs);
  for (float& factor : factors) {
    if (!(factor > 0.0f))
      throw file.tensor_error("rope_freqs.weight",
                              "holds a factor that is not positive; convert the model again");
    factor *= scaling;
  }
  return factors;
}

}  // namespace

Model load_model(std::shared_ptr<const GgufFile> file, std::vector<std::string>* warnings) {
  require(file != nullptr, "load_model needs an open file");
  Model model;
  ModelConfig& config = model.config;
  config = read_model_config(*file, warnings);
  TensorReader tensors(*file);

  const GgufTensor& embedding = tensors.get("token_embd.weight");
  if (embedding.num_rows() > std::numeric_limits<TokenId>::max())
    throw file->tensor_error(embedding.name, "has " + std::to_string(embedding.num_rows()) +
                                                 " rows, too many for a vocabulary; convert the "
                                                 "model again");
  config.vocab_size = static_cast<int>(embedding.num_rows());
  model.token_embedding = tensors.matrix(embedding, config.vocab_size, config.d_model);
  const std::int64_t said = file->integer("llama.vocab_size").value_or(config.vocab_size);
  if (said != config.vocab_size && warnings != nullptr)
    warnings->push_back(file->name() + ": key 'llama.vocab_size' says " + std::to_string(said) +
                        "; the " + std::to_string(config.vocab_size) +
                        " rows of token_embd.weight are used");

  for (int layer = 0; layer < config.num_layers; ++layer)
    model.layers.push_back(read_layer(tensors, config, layer));

  model.output_norm = tensors.vector("output_norm.weight", config.d_model);
  // Without a matrix of its own the output is tied: logits are products with the embedding's rows.
  const GgufTensor* output = tensors.find("output.weight");
  model.output = output == nullptr ? model.token_embedding
                                   : tensors.matrix(*output, config.vocab_size, config.d_model);
  model.rope_factors = read_rope_factors(tensors, *file, config.rope_dim);
  tensors.expect_all_used();
  config.validate();
  model.storage.push_back(std::move(file));
  return model;
}

namespace {

/// Sum over all weights, the tied output counted once.
template <typename OfMatrix, typename OfVector>
std::int64_t sum_weights(const Model& model, OfMatrix of_matrix, OfVector of_vector) {
  std::int64_t sum = of_matrix(model.token_embedding) + of_vector(model.output_norm);
  if (!model.tied()) sum += of_matrix(model.output);
  for (const LayerWeights& layer : model.layers) {
    sum += of_vector(layer.attn_norm) + of_vector(layer.ffn_norm);
    for (const WeightMatrix* matrix :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down})
      sum += of_matrix(*matrix);
  }
  return sum;
}

std::int64_t count(const std::vector<float>& v) { return static_cast<std::int64_t>(v.size()); }

}  // namespace

std::int64_t Model::weight_bytes() const {
  return sum_weights(
      *this, [](const WeightMatrix& w) { return w.bytes(); },
      [](const std::vector<float>& v) {
        return count(v) * static_cast<std::int64_t>(sizeof(float));
      });
}

std::int64_t Model::num_parameters() const {
  return sum_weights(
      *this, [](const WeightMatrix& w) { return w.num_rows * w.num_cols; }, count);
}

}  // namespace kv
