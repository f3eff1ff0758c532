// The online softmax, one score at a time and in two halves, beside the softmax in two passes.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "kv/attention/online_softmax.hpp"
#include "kv/attention/reference.hpp"
#include "kv/check.hpp"
#include "widget.hpp"

namespace kv {
namespace {

// A head whose keys and values are single numbers.
struct Keys {
  std::vector<float> scores;  // -inf: masked
  std::vector<float> values;
};

Keys g_keys;
constexpr std::size_t kMostKeys = 32;

// JSON has no infinity.
Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

// exp(s - m); a masked key's is 0 whatever m is.
float weight(float score, const OnlineSoftmax& softmax) {
  return score == -INFINITY ? 0.0f : std::exp(score - softmax.m);
}

// What is kept of the keys seen so far: l and out are relative to m.
struct Part {
  OnlineSoftmax softmax;
  float out = 0.0f;  // sum_j exp(s_j - m) v_j

  float push(float score, float value) {
    const float rescale = softmax.push(score);
    out = out * rescale + weight(score, softmax) * value;
    return rescale;
  }
  float output() const { return softmax.l == 0.0f ? 0.0f : out / softmax.l; }
};

Part part_of(const Keys& keys, std::size_t begin, std::size_t end) {
  Part part;
  for (std::size_t j = begin; j < end; ++j) part.push(keys.scores[j], keys.values[j]);
  return part;
}

struct Result {
  double lse = -INFINITY, out = 0.0;
};

Json to_json(const Result& result) {
  Json json = Json::object();
  json.set("lse", number(result.lse)).set("output", number(result.out));
  return json;
}

Result finished(const Part& part) { return {part.softmax.log_sum_exp(), part.output()}; }

// State j: after j keys. The first is the empty one.
Json states(const Keys& keys) {
  Json list = Json::array();
  Part part;
  for (std::size_t j = 0; j <= keys.scores.size(); ++j) {
    Json state = Json::object();
    if (j > 0) {
      const float score = keys.scores[j - 1], m = part.softmax.m, l = part.softmax.l;
      const float rescale = part.push(score, keys.values[j - 1]);
      state.set("score", number(score)).set("masked", score == -INFINITY);
      state.set("m_before", number(m)).set("l_before", l).set("rescale", rescale);
      state.set("new_maximum", part.softmax.m > m);
    }
    Json weights = Json::array();
    for (std::size_t i = 0; i < j; ++i) weights.push(weight(keys.scores[i], part.softmax));
    state.set("m", number(part.softmax.m)).set("l", part.softmax.l);
    state.set("weights", std::move(weights)).set("lse", number(part.softmax.log_sum_exp()));
    state.set("output", number(part.output()));
    list.push(std::move(state));
  }
  return list;
}

// Without a maximum: exp(s) is beyond fp32 from s = 88.8 on.
Result naive(const Keys& keys) {
  float sum = 0.0f, out = 0.0f;
  for (std::size_t j = 0; j < keys.scores.size(); ++j) {
    sum += std::exp(keys.scores[j]);
    out += std::exp(keys.scores[j]) * keys.values[j];
  }
  return {std::log(sum), out / sum};
}

// The oracle's answer: a query of 1 makes each key its own score. Masked keys are not read.
Result two_passes(const Keys& keys) {
  Keys seen;
  for (std::size_t j = 0; j < keys.scores.size(); ++j) {
    if (keys.scores[j] == -INFINITY) continue;
    seen.scores.push_back(keys.scores[j]);
    seen.values.push_back(keys.values[j]);
  }
  if (seen.scores.empty()) return {};
  const float query[] = {1.0f};
  double out[] = {0.0};
  const auto num_rows = static_cast<std::int64_t>(seen.scores.size());
  const HeadRows rows{seen.scores.data(), seen.values.data(), num_rows, 1};
  const double lse = reference_row(query, rows, 1.0, out);
  return {lse, out[0]};
}

Json merged(const Keys& keys, std::size_t split) {
  const Part a = part_of(keys, 0, split), b = part_of(keys, split, keys.scores.size());
  const MergeFactors factors = merge_factors(a.softmax.log_sum_exp(), b.softmax.log_sum_exp());
  const float out = factors.a * a.output() + factors.b * b.output();
  Json json = Json::object();
  json.set("a", to_json(finished(a))).set("b", to_json(finished(b)));
  json.set("factor_a", factors.a).set("factor_b", factors.b);
  json.set("whole", to_json({factors.lse, out}));
  return json;
}

}  // namespace
}  // namespace kv

using namespace kv;

/// Forgets all keys.
KV_WIDGET(softmax_clear)() {
  g_keys = {};
  return answer(Json());
}

/// One key more. \param score -inf when it is masked
KV_WIDGET(softmax_add)(double score, double value) {
  const std::string key = std::to_string(g_keys.scores.size() + 1);
  if (g_keys.scores.size() == kMostKeys)
    throw InputError("at most " + std::to_string(kMostKeys) + " keys");
  // As fp32, in which the course's softmax works.
  const auto s = static_cast<float>(score), v = static_cast<float>(value);
  if (!std::isfinite(s) && s != -INFINITY)
    throw InputError("score " + key + " must be a number, or -inf where the key is masked");
  if (!std::isfinite(v)) throw InputError("value " + key + " must be a number; each score has one");
  g_keys.scores.push_back(s);
  g_keys.values.push_back(v);
  return answer(Json(static_cast<std::int64_t>(g_keys.scores.size())));
}

/// The states of the online softmax over these keys, its result in two passes, and what two parts
/// give when they are merged. \param split keys of the first part
KV_WIDGET(softmax_states)(double split) {
  const std::size_t num_keys = g_keys.scores.size();
  if (num_keys == 0) throw InputError("there must be a score");
  const auto first = whole(split, "keys of the first part", 0, static_cast<double>(num_keys));
  Json values = Json::array();
  for (const float value : g_keys.values) values.push(double{value});
  Json json = Json::object();
  json.set("states", states(g_keys)).set("values", std::move(values));
  json.set("two_passes", to_json(two_passes(g_keys))).set("naive", to_json(naive(g_keys)));
  json.set("merged", merged(g_keys, static_cast<std::size_t>(first)));
  return answer(json);
}

/// Six digits: what fp32 is good for, with a little left for rounding.
KV_WIDGET(six_digits)(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return answer(text);
}
