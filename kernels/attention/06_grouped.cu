// Decode attention for shared KV heads: one CTA takes a part of the keys for all query heads that
// read them.
//
// What it shows:  in GQA and MQA a group of query heads reads one KV head, and 05_split_kv reads it
//                 once for each of them. Here the group's heads are the rows of an mma: one read of
//                 a row of K or V serves up to 32 of them, and the arithmetic that grows with the
//                 group goes to the tensor cores. A CUDA core needs about 5 instructions for each
//                 element of K or V and query head: past 2 or 3 heads it cannot keep up with the
//                 memory of an H200, which leaves it 13.8 an element. Groups of less than 16 are
//                 padded with rows of zeros, which costs nothing that is missed: with 16 rows, an
//                 element takes about 2.4 instructions.
//                 Each warp has a ring of shared memory of its own and fills it by asynchronous
//                 copies, several tiles ahead. No warp waits for another inside the loop.
// Source:         Ainslie et al. 2023, "GQA" (shared heads); Dao et al. 2023, "Flash-Decoding"
//                 (split and merge); PTX ISA, sections "mma", "ldmatrix", "cp.async".
// Next kernel:    07_paged.cu: the same kernel, with rows that are found through a block table.
//
// In fp32, which tensor cores do not multiply exactly, the same loop multiplies on CUDA cores, with
// the same numbers in the same threads. In 16 bit, q and the weights are rounded to the format of K
// and V before they are multiplied, as in step 4; in fp16 |q| must stay below 65520.
// Keys that a row does not see are not read: the planner has left them out.
#include "attention/grouped_kernel.cuh"

namespace kv::KV_BACKEND {

void launch_grouped(const AttentionLaunch& launch) {
  launch_grouped_kernel<AttentionArrays>(launch,
                                         [&](auto type) { return arrays<decltype(type)>(launch); });
  launch_merge(launch);
}

}  // namespace kv::KV_BACKEND
