#include "kv/cache/store_rows.hpp"

#include <cstring>

#include "kv/check.hpp"

namespace kv {

void store_rows(const float* from, std::int64_t count, KvDType dtype, std::byte* to) {
  switch (dtype) {
    case DType::f32:
      if (count > 0) std::memcpy(to, from, count * sizeof(float));
      return;
    case DType::f16:
      for (std::int64_t i = 0; i < count; ++i) reinterpret_cast<f16*>(to)[i] = to_f16(from[i]);
      return;
    case DType::bf16:
      for (std::int64_t i = 0; i < count; ++i) reinterpret_cast<bf16*>(to)[i] = to_bf16(from[i]);
      return;
    default:
      require(false, "a cache of rows holds fp32, fp16 or bf16");
  }
}

}  // namespace kv
