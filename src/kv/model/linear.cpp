#include "kv/model/linear.hpp"

#include <memory>

#include "kv/fast/thread_team.hpp"
#include "kv/model/dequantize.hpp"

namespace kv {

void check_shapes(std::span<const Product> group, const RowMajor& x) {
  for (const Product& p : group) {
    require(p.weight->num_cols == x.cols(), "a linear layer needs as many inputs as x has columns");
    require(p.y->rows() == x.rows() && p.y->cols() == p.weight->num_rows,
            "the result of a linear layer has a row for each row of x, a column for each output");
  }
}

void widen_weights(Model& model) {
  const auto widen = [&](WeightMatrix& w) {
    if (w.floats != nullptr) return;
    if (w.dtype == DType::f32) {
      w.floats = reinterpret_cast<const float*>(w.data);
      return;
    }
    const auto wide = std::make_shared<RowMajor>(w.num_rows, w.num_cols);
    parallel_ranges(w.num_rows, w.num_rows * w.num_cols, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r)
        dequantize_row(w, r, {wide->row(r).data(), static_cast<std::size_t>(w.num_cols)});
    });
    w.floats = wide->data();
    model.storage.push_back(wide);
  };
  widen(model.token_embedding);
  if (model.tied()) model.output.floats = model.token_embedding.floats;
  widen(model.output);
  for (LayerWeights& l : model.layers)
    for (WeightMatrix* w : {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down}) widen(*w);
}

}  // namespace kv

namespace kv::plain {

//! [linear]
void linear(std::span<const Product> group, const RowMajor& x) {
  check_shapes(group, x);
  for (const auto& [weight, y] : group) {
    require(weight->floats != nullptr, "plain::linear needs widen_weights() first");
    const Eigen::Map<const RowMajor> w(weight->floats, weight->num_rows, weight->num_cols);

    // y[r, o] = sum_i x[r, i] * w[o, i]; each thread computes columns of its own.
    parallel_ranges(w.rows(), x.rows() * w.size(), [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t num_outputs = end - begin;
      y->middleCols(begin, num_outputs).noalias() =
          x * w.middleRows(begin, num_outputs).transpose();
    });
  }
}
//! [linear]

}  // namespace kv::plain
