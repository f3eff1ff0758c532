#include "kv/decoder.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <unordered_set>
#include <utility>

#include "kv/fast/thread_team.hpp"
#include "kv/model/dequantize.hpp"
#include "kv/model/ops.hpp"

namespace kv {

namespace {

// Where one sequence's new rows lie in the stacked matrix.
struct Segment {
  SequenceState* state;
  std::int64_t first_row;
  std::int64_t num_rows;
};

// Checks every item and appends its segment; returns the rows of all of them.
std::int64_t check_batch(const Model& model, std::span<const BatchItem> batch,
                         std::vector<Segment>& segments) {
  require(!batch.empty(), "a pass needs at least one sequence");
  std::unordered_set<const SequenceState*> seen;
  std::int64_t num_rows = 0;
  for (const BatchItem& item : batch) {
    require(item.state != nullptr && seen.insert(item.state).second,
            "every sequence of a pass needs a state of its own");
    const auto num_new = static_cast<std::int64_t>(item.tokens.size());
    require(num_new > 0, "a pass needs at least one new token per sequence");
    require(num_new <= item.state->capacity() - item.state->length(),
            "the new tokens must fit the sequence's state");
    for (const TokenId token : item.tokens)
      require(token >= 0 && token < model.config.vocab_size, "token outside the vocabulary");
    segments.push_back({item.state, num_rows, num_new});
    num_rows += num_new;
  }
  return num_rows;
}

// The scratch of one pass; rows are the stacked new tokens of all sequences.
struct Buffers {
  Buffers(const ModelConfig& c, std::int64_t rows)
      : x(rows, c.d_model),
        normed(rows, c.d_model),
        q(rows, c.heads.q_dim()),
        k(rows, c.heads.kv_dim()),
        v(rows, c.heads.kv_dim()),
        attended(rows, c.heads.q_dim()),
        gate(rows, c.ffn_dim),
        up(rows, c.ffn_dim),
        delta(rows, c.d_model) {}

  RowMajor x;         // [num_rows, d_model] the residual stream
  RowMajor normed;    // [num_rows, d_model]
  RowMajor q;         // [num_rows, num_q_heads, head_dim]
  RowMajor k, v;      // [num_rows, num_kv_heads, head_dim]
  RowMajor attended;  // [num_rows, num_q_heads, head_dim]
  RowMajor gate, up;  // [num_rows, ffn_dim]
  RowMajor delta;     // [num_rows, d_model] what a sub-layer adds to x
};

// Products that share the input x [num_rows, num_cols], each weight with where its result goes.
void product(const Math& math, std::initializer_list<Product> group, const RowMajor& x) {
  math.linear({group.begin(), group.size()}, x);
}

// Element-wise work, a row of d_model or more numbers at a time.
void for_rows(const RowMajor& x, const std::function<void(std::int64_t)>& body) {
  constexpr std::int64_t kCost = 16;  // of a number, in multiplications
  parallel_ranges(x.rows(), kCost * x.size(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) body(r);
  });
}

// What attention of a layer costs: every row with every key that it sees, each cached row once.
void count_attention(const Segment& segment, const HeadConfig& heads, int layer, Work& work) {
  const std::int64_t past = segment.state->length();
  // Row t sees the past, the rows before it and itself: past + t + 1 keys.
  work.scores +=
      heads.num_q_heads * (segment.num_rows * past + segment.num_rows * (segment.num_rows + 1) / 2);
  for (int g = 0; g < heads.num_kv_heads; ++g)
    for (const KvSpan& span : segment.state->spans(layer, g))
      work.kv_bytes_read += 2 * span.num_rows * heads.head_dim * info(span.dtype).block_bytes;
}

// One layer, for the rows of all sequences together; only attention goes sequence by sequence.
//! [layer]
void run_layer(const Model& model, int l, std::span<const Segment> segments, const RopeTable& rope,
               const Math& math, Buffers& b, Work& work) {
  const ModelConfig& c = model.config;
  const LayerWeights& w = model.layers[l];

  // Attention: norm -> q, k, v -> rotate q and k.
  for_rows(b.x, [&](std::int64_t r) {
    rmsnorm(b.x.row(r).data(), w.attn_norm.data(), c.d_model, c.norm_eps, b.normed.row(r).data());
  });
  product(math, {{&w.q, &b.q}, {&w.k, &b.k}, {&w.v, &b.v}}, b.normed);
  for_rows(b.x, [&](std::int64_t r) {
    rope.rotate(b.q.row(r).data(), c.heads.num_q_heads, c.heads.head_dim, r);
    rope.rotate(b.k.row(r).data(), c.heads.num_kv_heads, c.heads.head_dim, r);
  });

  // Each sequence stores its new keys and values, then its queries look at all it holds.
  std::vector<AttentionItem> items;
  for (const Segment& s : segments) {
    s.state->append(l, b.k.row(s.first_row).data(), b.v.row(s.first_row).data(), s.num_rows);
    count_attention(s, c.heads, l, work);
    items.push_back({b.q.row(s.first_row).data(), b.q.outerStride(), s.num_rows, s.state,
                     b.attended.row(s.first_row).data(), nullptr});
  }
  math.attention(items, c.heads, l, 1.0f / std::sqrt(static_cast<float>(c.heads.head_dim)));
  product(math, {{&w.o, &b.delta}}, b.attended);

  // Feed-forward: x += attention; norm -> silu(gate) * up -> down; x += that.
  for_rows(b.x, [&](std::int64_t r) {
    b.x.row(r) += b.delta.row(r);
    rmsnorm(b.x.row(r).data(), w.ffn_norm.data(), c.d_model, c.norm_eps, b.normed.row(r).data());
  });
  product(math, {{&w.gate, &b.gate}, {&w.up, &b.up}}, b.normed);
  for_rows(b.x, [&](std::int64_t r) {
    swiglu(b.gate.row(r).data(), b.up.row(r).data(), c.ffn_dim, b.gate.row(r).data());
  });
  product(math, {{&w.down, &b.delta}}, b.gate);
  for_rows(b.x, [&](std::int64_t r) { b.x.row(r) += b.delta.row(r); });
}
//! [layer]

// Runs every layer; returns the residual stream of all rows.
RowMajor run_layers(const Model& model, std::span<const BatchItem> batch,
                    std::vector<Segment>& segments, Work* work, const Math& math) {
  const ModelConfig& c = model.config;
  const std::int64_t num_rows = check_batch(model, batch, segments);
  Buffers b(c, num_rows);

  std::vector<std::int64_t> positions(num_rows);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    for (std::int64_t t = 0; t < segments[i].num_rows; ++t) {
      const std::int64_t r = segments[i].first_row + t;
      positions[r] = segments[i].state->length() + t;
      dequantize_row(model.token_embedding, batch[i].tokens[t],
                     {b.x.row(r).data(), static_cast<std::size_t>(c.d_model)});
    }
  }
  const RopeTable rope(c, model.rope_factors, positions);

  Work pass;
  pass.rows = num_rows;
  for (int l = 0; l < c.num_layers; ++l) run_layer(model, l, segments, rope, math, b, pass);
  for (const Segment& s : segments) {
    const std::int64_t before = s.state->bytes_in_use();
    s.state->commit(s.num_rows);
    pass.kv_bytes_written += s.state->bytes_in_use() - before;
  }
  if (work != nullptr) *work += pass;
  return std::move(b.x);
}

// Final norm and output matrix; x [num_rows, d_model] is overwritten by its norm.
RowMajor logits_of(const Model& model, RowMajor& x, const Math& math) {
  const ModelConfig& c = model.config;
  for (std::int64_t r = 0; r < x.rows(); ++r)
    rmsnorm(x.row(r).data(), model.output_norm.data(), c.d_model, c.norm_eps, x.row(r).data());
  RowMajor logits(x.rows(), c.vocab_size);
  product(math, {{&model.output, &logits}}, x);
  return logits;
}

}  // namespace

Work& operator+=(Work& total, const Work& part) {
  total.rows += part.rows;
  total.scores += part.scores;
  total.kv_bytes_written += part.kv_bytes_written;
  total.kv_bytes_read += part.kv_bytes_read;
  return total;
}

RowMajor forward(const Model& model, std::span<const BatchItem> batch, Work* work,
                 const Math& math) {
  std::vector<Segment> segments;
  const RowMajor x = run_layers(model, batch, segments, work, math);
  RowMajor last(batch.size(), model.config.d_model);
  for (std::size_t i = 0; i < segments.size(); ++i)
    last.row(i) = x.row(segments[i].first_row + segments[i].num_rows - 1);
  return logits_of(model, last, math);
}

std::vector<float> forward(const Model& model, SequenceState& state,
                           std::span<const TokenId> tokens, Work* work, const Math& math) {
  const BatchItem item{&state, tokens};
  const RowMajor logits = forward(model, {&item, 1}, work, math);
  return {logits.data(), logits.data() + logits.size()};
}

RowMajor forward_all(const Model& model, SequenceState& state, std::span<const TokenId> tokens,
                     Work* work, const Math& math) {
  const BatchItem item{&state, tokens};
  std::vector<Segment> segments;
  RowMajor x = run_layers(model, {&item, 1}, segments, work, math);
  return logits_of(model, x, math);
}

}  // namespace kv
