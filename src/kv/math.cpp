#include "kv/math.hpp"

#include "kv/attention/plain.hpp"
#include "kv/fast/attend.hpp"
#include "kv/fast/linear.hpp"

namespace kv {

const Math& plain_math() {
  static const Math math{"plain", plain::linear, plain::attend};
  return math;
}

const Math& fast_math() {
  static const Math math{"fast", fast::linear, fast::attend};
  return math;
}

const Math& math_named(std::string_view name) {
  for (const Math* math : {&plain_math(), &fast_math()})
    if (name == math->name) return *math;
  throw InputError("--math: '" + std::string(name) + "' is unknown; give plain or fast");
}

}  // namespace kv
