#include "gpu/cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attention/traffic.hpp"
#include "kv/check.hpp"

namespace kv_bench {
namespace {

using kv::AttentionStep, kv::DType, kv::HeadConfig;

struct Lengths {
  int q_len, kv_len;
};

Case make(std::string name, AttentionStep step, HeadConfig heads, bool causal,
          const std::vector<Lengths>& lengths, Goal goal = {}) {
  Case c;
  c.name = std::move(name);
  c.step = step;
  c.shape = {heads, DType::bf16, 1.0f / std::sqrt(static_cast<float>(heads.head_dim)), causal};
  c.goal = std::move(goal);
  std::int64_t q_begin = 0, kv_begin = 0;
  for (const auto& [q_len, kv_len] : lengths) {
    c.sequences.push_back({q_begin, kv_begin, q_len, kv_len});
    q_begin += q_len;
    kv_begin += kv_len;
  }
  return c;
}

Goal tflops(double value) { return {Goal::Kind::tflops, value}; }
Goal share_of_copy(double value) { return {Goal::Kind::share_of_copy, value}; }

void add_prefill(std::vector<Case>& all, const Scale& s) {
  const auto add = [&](const char* mask, AttentionStep step, int head_dim, Goal goal = {}) {
    all.push_back(make(fmt::format("prefill {}, head_dim {}", mask, head_dim), step,
                       {s.prefill_heads, s.prefill_heads, head_dim}, mask[0] == 'c',
                       std::vector<Lengths>(s.prefill_batch, {s.prefill_tokens, s.prefill_tokens}),
                       std::move(goal)));
  };
  // The ladder on one shape, then the fast step on the others.
  add("causal", AttentionStep::two_pass, 128);
  add("causal", AttentionStep::online, 128);
  add("causal", AttentionStep::tiled, 128);
  add("causal", AttentionStep::tensor_core, 128, tflops(265));
  add("full", AttentionStep::tensor_core, 128, tflops(300));
  add("causal", AttentionStep::tensor_core, 64);
  add("full", AttentionStep::tensor_core, 64, tflops(260));
}

void add_decode(std::vector<Case>& all, const Scale& s) {
  const auto uniform = [](int batch, int keys) { return std::vector<Lengths>(batch, {1, keys}); };
  const HeadConfig mha{s.decode_heads, s.decode_heads, 128};
  const int head_dim = 128;
  all.push_back(
      make("decode", AttentionStep::online, mha, true, uniform(s.decode_batch, s.decode_keys)));
  all.push_back(make("decode", AttentionStep::split_kv, mha, true,
                     uniform(s.decode_batch, s.decode_keys), share_of_copy(0.90)));
  all.push_back(make("decode, head_dim 64", AttentionStep::split_kv,
                     {s.decode_heads, s.decode_heads, 64}, true,
                     uniform(2 * s.decode_batch, s.decode_keys), share_of_copy(0.90)));
  // One sequence has few rows for a whole GPU: what splitting is for.
  all.push_back(
      make("decode, one sequence", AttentionStep::online, mha, true, uniform(1, s.long_keys)));
  all.push_back(make("decode, one sequence", AttentionStep::split_kv, mha, true,
                     uniform(1, s.long_keys), share_of_copy(0.90)));
  // Step 5 reads a row once for each head of its group; step 6 once.
  all.push_back(make("decode, group 4", AttentionStep::split_kv,
                     {s.decode_heads, s.decode_heads / 4, head_dim}, true,
                     uniform(4 * s.decode_batch, s.decode_keys)));
  all.push_back(make("decode", AttentionStep::grouped, mha, true,
                     uniform(s.decode_batch, s.decode_keys), share_of_copy(0.90)));
  for (const int group : {4, 8})
    all.push_back(make(fmt::format("decode, group {}", group), AttentionStep::grouped,
                       {s.decode_heads, s.decode_heads / group, head_dim}, true,
                       uniform(group * s.decode_batch, s.decode_keys), share_of_copy(0.90)));
  std::vector<Lengths> ragged = uniform(s.num_ragged, s.long_keys / 128);
  ragged.back() = {1, s.long_keys};
  all.push_back(make("decode, one long, many short", AttentionStep::split_kv, mha, true, ragged,
                     {Goal::Kind::share_of_case, 0.75, "decode"}));
}

}  // namespace

std::string Goal::text() const {
  switch (kind) {
    case Kind::tflops:
      return fmt::format("{:.0f} TFLOP/s", value);
    case Kind::share_of_copy:
      return fmt::format("{:.0f} % of copy", 100.0 * value);
    case Kind::share_of_case:
      return fmt::format("{:.0f} % of '{}'", 100.0 * value, reference);
    case Kind::none:
      break;
  }
  return "";
}

bool Case::is_decode() const {
  return std::ranges::all_of(sequences, [](const auto& rows) { return rows.q_len == 1; });
}

bool Case::is_uniform() const {
  return std::ranges::all_of(sequences, [&](const kv::SequenceRows& rows) {
    return rows.q_len == sequences[0].q_len && rows.kv_len == sequences[0].kv_len;
  });
}

std::int64_t Case::num_q_rows() const { return sequences.back().q_begin + sequences.back().q_len; }
std::int64_t Case::num_kv_rows() const {
  return sequences.back().kv_begin + sequences.back().kv_len;
}

std::int64_t Case::bytes() const { return kv::least_traffic(shape, sequences, false).total(); }

double Case::flops() const {
  double keys = 0.0;
  for (const kv::SequenceRows& rows : sequences)
    for (int t = 0; t < rows.q_len; ++t) keys += kv::visible_keys(t, rows, shape.causal);
  return 4.0 * shape.heads.q_dim() * keys;
}

std::vector<Case> cases(const Scale& scale, bool only_with_goal) {
  std::vector<Case> all;
  add_prefill(all, scale);
  add_decode(all, scale);
  if (only_with_goal)
    std::erase_if(all, [](const Case& c) { return c.goal.kind == Goal::Kind::none; });
  return all;
}

}  // namespace kv_bench
