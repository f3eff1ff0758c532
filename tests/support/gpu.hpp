// Tests that need a GPU: how they skip, and how a machine with one makes sure that they do not.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>

#include "device.hpp"

namespace kv_test {

/// Skips the test, visibly, where no GPU can be used; KV_REQUIRE_GPU=1 turns that into a failure,
/// for machines that should have one.
inline void need_gpu() {
  if (kv::has_gpu()) return;
  const char* required = std::getenv("KV_REQUIRE_GPU");
  if (required != nullptr && *required != '\0' && *required != '0')
    FAIL("KV_REQUIRE_GPU is set, and there is no GPU that this program can use");
  SKIP("there is no GPU that this program can use");
}

}  // namespace kv_test
