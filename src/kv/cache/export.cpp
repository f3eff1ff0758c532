#include "kv/cache/export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "kv/cache/host_blocks.hpp"
#include "kv/check.hpp"
#include "kv/model/mapped_file.hpp"
#include "kv/report/output_file.hpp"

namespace kv {

namespace {

std::string_view npz_type(KvDType dtype) {
  if (dtype == DType::f32) return "<f4";
  return dtype == DType::f16 ? "<f2" : "<u2";
}

std::string cache_name(char k_or_v, int layer, KvDType dtype) {
  return fmt::format("{}_cache_{:02}{}", k_or_v, layer, dtype == DType::bf16 ? "_bf16" : "");
}

std::vector<std::int64_t> cache_shape(const BlockShape& shape, std::int64_t num_blocks) {
  return {num_blocks, shape.block_size, shape.heads.num_kv_heads, shape.heads.head_dim};
}

// Blocks of one layer, packed.
NpzArray pack_blocks(std::string name, const BlockShape& shape, const std::byte* slot0,
                     std::span<const BlockId> blocks) {
  const auto block_bytes = static_cast<std::size_t>(shape.block_size * shape.row_bytes());
  NpzArray array{std::move(name),
                 std::string(npz_type(shape.dtype)),
                 cache_shape(shape, static_cast<std::int64_t>(blocks.size())),
                 {}};
  array.data.resize(blocks.size() * block_bytes);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    std::memcpy(array.data.data() + i * block_bytes,
                slot0 + static_cast<std::size_t>(blocks[i]) * block_bytes, block_bytes);
  return array;
}

// The arrays of a file, looked up by name, and what they say of the sequence.
class Import {
 public:
  Import(const std::vector<NpzArray>& arrays, std::string_view path, const BlockShape& pool)
      : arrays_(arrays), path_(path), pool_(pool) {
    check_caches();
    read_table();
  }

  std::int64_t num_tokens() const { return table_.length; }

  // Rows [num_tokens, num_kv_heads, head_dim] of K or V in the order of the tokens, as floats.
  std::vector<float> rows(char k_or_v, int layer) const {
    const NpzArray& cache = find(cache_name(k_or_v, layer, pool_.dtype));
    const std::int64_t row = pool_.heads.kv_dim();
    std::vector<float> rows;
    rows.reserve(static_cast<std::size_t>(num_tokens() * row));
    for (std::int64_t t = 0; t < num_tokens(); ++t)
      for (std::int64_t e = table_.slot(t) * row; e < (table_.slot(t) + 1) * row; ++e)
        rows.push_back(element(cache, e));
    return rows;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw InputError(fmt::format("'{}': {}", path_, why));
  }

  const NpzArray& find(const std::string& name) const {
    const auto it = std::ranges::find(arrays_, name, &NpzArray::name);
    if (it == arrays_.end())
      fail(fmt::format("it has no array '{}'; a pool of {} layers in {} needs it", name,
                       pool_.num_layers, info(pool_.dtype).name));
    return *it;
  }

  template <typename T>
  std::vector<T> numbers(const std::string& name, std::string_view type, std::size_t rank) const {
    const NpzArray& array = find(name);
    if (array.type != type || array.shape.size() != rank)
      fail(fmt::format("'{}' must be of type {} and have {} dimension(s)", name, type, rank));
    std::vector<T> values(array.data.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), array.data.data(), array.data.size());
    return values;
  }

  void check_caches() {
    for (int l = 0; l < pool_.num_layers; ++l)
      for (const char k_or_v : {'k', 'v'}) {
        const NpzArray& cache = find(cache_name(k_or_v, l, pool_.dtype));
        if (l == 0 && k_or_v == 'k' && cache.shape.size() == 4) {
          num_blocks_ = cache.shape[0];
          block_size_ = cache.shape[1];
        }
        const std::vector<std::int64_t> expected = {num_blocks_, block_size_,
                                                    pool_.heads.num_kv_heads, pool_.heads.head_dim};
        if (cache.type != npz_type(pool_.dtype) || cache.shape != expected)
          fail(fmt::format(
              "'{}' must be of type {} and shape [num_blocks, block_size, {}, {}], the "
              "same in all layers",
              cache.name, npz_type(pool_.dtype), pool_.heads.num_kv_heads, pool_.heads.head_dim));
      }
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    if (block_size_ < 1 || block_size_ > kMost || num_blocks_ > kMost)
      fail(fmt::format("{} blocks of {} tokens are not possible", num_blocks_, block_size_));
    if (std::ranges::find(arrays_, cache_name('k', pool_.num_layers, pool_.dtype),
                          &NpzArray::name) != arrays_.end())
      fail(fmt::format("it has more than the pool's {} layers", pool_.num_layers));
  }

  void read_table() {
    const auto lengths = numbers<std::int32_t>("seq_lens", "<i4", 1);
    const auto ids = numbers<std::int32_t>("block_table", "<i4", 2);
    const auto slots = numbers<std::int64_t>("slot_mapping", "<i8", 1);
    if (lengths.size() != 1 || find("block_table").shape[0] != 1)
      fail("one sequence is expected: seq_lens [1] and block_table [1, max_blocks]");
    table_.block_size = static_cast<std::int32_t>(block_size_);
    table_.length = lengths[0];
    const std::int64_t needed =
        table_.length < 0 ? 0 : num_blocks_for(table_.length, table_.block_size);
    if (table_.length < 0 || needed > static_cast<std::int64_t>(ids.size()))
      fail(fmt::format("block_table has no room for the {} tokens of seq_lens", table_.length));
    table_.blocks.assign(ids.begin(), ids.begin() + needed);
    std::vector<bool> seen(static_cast<std::size_t>(num_blocks_), false);
    for (const BlockId block : table_.blocks) {
      if (block < 0 || block >= num_blocks_)
        fail(fmt::format("block_table names block {} of {}", block, num_blocks_));
      if (seen[static_cast<std::size_t>(block)])
        fail(fmt::format("block_table names block {} twice", block));
      seen[static_cast<std::size_t>(block)] = true;
    }
    if (static_cast<std::int64_t>(slots.size()) != table_.length)
      fail("slot_mapping must have a slot for each token");
    for (std::int64_t t = 0; t < table_.length; ++t)
      if (slots[static_cast<std::size_t>(t)] != table_.slot(t))
        fail(fmt::format("slot_mapping has {} for token {}, block_table says {}",
                         slots[static_cast<std::size_t>(t)], t, table_.slot(t)));
  }

  float element(const NpzArray& cache, std::int64_t index) const {
    const auto read = [&](auto value) {
      std::memcpy(&value, cache.data.data() + static_cast<std::size_t>(index) * sizeof value,
                  sizeof value);
      return to_float(value);
    };
    if (pool_.dtype == DType::f16) return read(f16{});
    if (pool_.dtype == DType::bf16) return read(bf16{});
    return read(0.0f);
  }

  const std::vector<NpzArray>& arrays_;
  std::string path_;
  const BlockShape& pool_;
  std::int64_t num_blocks_ = 0, block_size_ = 0;  // of the file
  BlockTable table_;
};

}  // namespace

//! [export]
std::vector<NpzArray> export_arrays(const PagedCache& cache, ExportScope scope) {
  const BlockStorage& storage = *cache.pool().storage;
  require(dynamic_cast<const HostBlocks*>(&storage) != nullptr,
          "only blocks in the memory of the host can be exported");
  const BlockShape& shape = storage.shape();
  BlockTable table = cache.table();
  table.blocks.resize(static_cast<std::size_t>(num_blocks_for(table.length, table.block_size)));

  // The blocks to export in the order of their ids, and each block's place among them.
  std::vector<BlockId> blocks = table.blocks;
  if (scope == ExportScope::pool) {
    blocks.resize(static_cast<std::size_t>(shape.num_blocks));
    std::iota(blocks.begin(), blocks.end(), 0);
  }
  std::ranges::sort(blocks);
  for (BlockId& block : table.blocks)
    block = static_cast<BlockId>(std::ranges::lower_bound(blocks, block) - blocks.begin());

  std::vector<NpzArray> arrays;
  for (int l = 0; l < shape.num_layers; ++l) {
    arrays.push_back(pack_blocks(cache_name('k', l, shape.dtype), shape, storage.k(l), blocks));
    arrays.push_back(pack_blocks(cache_name('v', l, shape.dtype), shape, storage.v(l), blocks));
  }
  const BlockTable* row = &table;
  const PackedTables packed = pack_tables({&row, 1});
  arrays.push_back(
      npz_array<std::int32_t>("block_table", "<i4", {1, packed.max_blocks}, packed.ids));
  const auto length = static_cast<std::int32_t>(table.length);
  arrays.push_back(npz_array<std::int32_t>("seq_lens", "<i4", {1}, {&length, 1}));
  const std::vector<Slot> slots = slot_mapping(table, 0, table.length);
  arrays.push_back(npz_array<std::int64_t>("slot_mapping", "<i8", {table.length}, slots));
  return arrays;
}
//! [export]

void export_sequence(std::string_view option, const std::string& path, const PagedCache& cache,
                     ExportScope scope) {
  write_file_atomically(option, path, npz_text(export_arrays(cache, scope)));
}

std::optional<PagedCache> import_arrays(const std::vector<NpzArray>& arrays, std::string_view path,
                                        std::shared_ptr<PagedPool> pool, std::int32_t sequence) {
  require(pool != nullptr, "a sequence needs a pool");
  const BlockShape& shape = pool->storage->shape();
  const Import file(arrays, path, shape);
  PagedCache cache(std::move(pool), sequence);
  if (!cache.reserve(file.num_tokens())) return std::nullopt;
  // Widening and rounding back is exact: the bits are the file's.
  for (int l = 0; l < shape.num_layers; ++l)
    cache.append(l, file.rows('k', l).data(), file.rows('v', l).data(), file.num_tokens());
  cache.commit(file.num_tokens());
  return cache;
}

std::optional<PagedCache> import_sequence(const std::string& path, std::shared_ptr<PagedPool> pool,
                                          std::int32_t sequence) {
  const MappedFile file(path);
  return import_arrays(read_npz(file.bytes(), path), path, std::move(pool), sequence);
}

}  // namespace kv
