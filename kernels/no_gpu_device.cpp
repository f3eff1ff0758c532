// Built in the place of gpu_device.cpp where the CUDA toolkit is not installed.
#include "device.hpp"

namespace kv {

Device* gpu_device() { return nullptr; }

}  // namespace kv
