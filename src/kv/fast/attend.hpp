// Attention as fast as memory or arithmetic allow: the same results as plain::attend.
#pragma once

#include <span>

#include "kv/attention/attention.hpp"

namespace kv::fast {

/// An Attention that reads each K/V row once for all query heads of its group, in tiles, with the
/// work of all sequences cut into units that the thread team shares.
/// Source: Milakov & Gimelshein 2018; Dao et al. 2022 (tiles); the split over keys is
/// Flash-Decoding.
void attend(std::span<const AttentionItem> items, const HeadConfig& heads, int layer, float scale);

}  // namespace kv::fast
