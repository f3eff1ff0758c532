// The matrix operations of a warp: ldmatrix and mma.sync.m16n8k16.
#pragma once

#include "scheduler.hpp"

namespace kv::emulator {

/// Completes ldmatrix for the warp whose lane 0 is thread `first`; all 32 lanes wait in it.
void load_matrix(Worker& worker, unsigned first);

/// Completes mma.sync for the warp whose lane 0 is thread `first`; all 32 lanes wait in it.
void multiply(Worker& worker, unsigned first, bool is_bf16);

}  // namespace kv::emulator
