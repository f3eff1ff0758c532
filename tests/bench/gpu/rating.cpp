#include <algorithm>

#include "gpu/report.hpp"

namespace kv_bench {

double LimitPair::copy_rate() const { return std::max(before.copy_rate(), after.copy_rate()); }
double LimitPair::matrix_rate() const {
  return std::max(before.matrix_rate(), after.matrix_rate());
}

Rating rate(const Result& result, const LimitPair& limits, std::span<const Result> all) {
  const Case& what = result.what;
  const double seconds = result.timing.median_ms / 1e3;
  const double bytes = static_cast<double>(what.bytes()), flops = what.flops();
  Rating r;
  r.floor_ms = 1e3 * std::max(bytes / limits.copy_rate(), flops / limits.matrix_rate());
  if (what.is_decode()) {
    r.rate = bytes / seconds;
    r.share = r.rate / limits.copy_rate();
  } else {
    r.rate = flops / seconds;
    r.share = r.rate / limits.matrix_rate();
  }
  switch (what.goal.kind) {
    case Goal::Kind::none:
      break;
    case Goal::Kind::tflops:
      r.goal_met = flops / seconds >= what.goal.value * 1e12;
      break;
    case Goal::Kind::share_of_copy:
      r.goal_met = bytes / seconds >= what.goal.value * limits.copy_rate();
      break;
    case Goal::Kind::share_of_case:
      for (const Result& other : all)
        if (other.ran() && other.what.step == what.step && other.what.name == what.goal.reference)
          r.goal_met = bytes / seconds >= what.goal.value *
                                              static_cast<double>(other.what.bytes()) /
                                              (other.timing.median_ms / 1e3);
      break;
  }
  return r;
}

}  // namespace kv_bench
