// Attention over a paged cache: the kernels of steps 6 and 3, with rows found through a table.
//
// What it shows:  attention never asks where a row lies but in one line, so a cache in blocks needs
//                 one line more: the id of the row's block, read from the sequence's table
//                 (paged_arrays.cuh). Sequences of any length share the pool and the launch.
//                 The table is another read before each read, and the second cannot start before
//                 the first has come back. So decode looks the rows of a tile up while the tile
//                 before it is still on its way: the ring of step 6 keeps their addresses.
// Source:         Kwon et al. 2023, sections 4.3 and 5.1.
// Next kernel:    none yet. Later steps read narrower K and V.
//
// Sequences with one new token are decoded by the plan of step 6; those with several, a prompt
// behind a cached beginning say, go through the tiles of step 3. One launch of each at most, for
// all sequences of a pass. Ids are 32-bit and offsets 64-bit: block 65,536 of 32,768 elements
// begins at element 2^31.
#include "attention/grouped_kernel.cuh"
#include "attention/paged_arrays.cuh"
#include "attention/tiled_kernel.cuh"

namespace kv::KV_BACKEND {

//! [launch]
void launch_paged(const AttentionLaunch& launch) {
  const auto make_arrays = [&](const AttentionLaunch& l) {
    return [&l](auto type) { return paged_arrays<decltype(type)>(l); };
  };
  if (launch.split.num_items > 0) {
    launch_grouped_kernel<PagedArrays>(launch, make_arrays(launch));
    launch_merge(launch);
  }
  if (launch.num_prefill == 0) return;
  AttentionLaunch prefill = launch;
  prefill.sequences = launch.prefill;
  prefill.num_sequences = launch.num_prefill;
  launch_tiled_kernel<PagedArrays>(prefill, make_arrays(prefill));
}
//! [launch]

}  // namespace kv::KV_BACKEND
