// Any bytes, taken for an .npz file: read, written again, and imported into pools of all formats.
// Nothing but InputError may come out. The seeds are written by test_npz_seeds.cpp.
//
// Checked: what was read is written and read back the same; a sequence that was imported is
// exported and imported again with the same length.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "../support/small_pool.hpp"
#include "kv/cache/export.hpp"
#include "kv/cache/npz_format.hpp"
#include "kv/check.hpp"

namespace {

using Bytes = std::vector<std::byte>;

void check(bool ok) {
  if (!ok) std::abort();  // libFuzzer keeps the input
}

std::uint32_t number(const Bytes& bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// The checksums that a changed array needs: without them hardly a change gets past the first check.
// Arrays are taken to lie where their headers have no extra field, as npz_text() writes them.
Bytes with_right_checksums(Bytes bytes) {
  for (std::size_t at = 0; at + 46 <= bytes.size(); ++at) {
    if (number(bytes, at) != kv::npz::kDirectoryEntry) continue;
    const std::size_t name = number(bytes, at + 28) & 0xffff;
    const std::size_t data = std::size_t{number(bytes, at + 42)} + 30 + name;
    const std::size_t size = number(bytes, at + 20);
    if (data > bytes.size() || size > bytes.size() - data) continue;
    const std::uint32_t crc = kv::crc32(std::span(bytes).subspan(data, size));
    std::memcpy(bytes.data() + at + 16, &crc, sizeof crc);
  }
  return bytes;
}

void check_round_trip(const std::vector<kv::NpzArray>& arrays) {
  const std::string text = kv::npz_text(arrays);
  const auto again = kv::read_npz(std::as_bytes(std::span(text)), "again.npz");
  const auto same = [](const kv::NpzArray& a, const kv::NpzArray& b) {
    return a.name == b.name && a.type == b.type && a.shape == b.shape && a.data == b.data;
  };
  check(std::ranges::equal(arrays, again, same));
}

void import(const std::vector<kv::NpzArray>& arrays, kv::KvDType dtype) {
  try {
    const auto pool = kv_test::small_pool(dtype);
    const auto cache = kv::import_arrays(arrays, "fuzz.npz", pool);
    if (!cache) return;  // too many tokens
    const auto other = kv_test::small_pool(dtype);
    const auto again = kv::import_arrays(kv::export_arrays(*cache), "again.npz", other);
    check(again.has_value() && again->length() == cache->length());
  } catch (const kv::InputError&) {
  }
}

void use(const Bytes& bytes) {
  std::vector<kv::NpzArray> arrays;
  try {
    arrays = kv::read_npz(bytes, "fuzz.npz");
  } catch (const kv::InputError&) {
    return;
  }
  check_round_trip(arrays);
  for (const kv::DType dtype : {kv::DType::f32, kv::DType::f16, kv::DType::bf16})
    import(arrays, dtype);
}

}  // namespace

/// libFuzzer's entry: one input is one file, as it is and with its checksums made right.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const Bytes input(bytes.begin(), bytes.end());
  use(input);
  use(with_right_checksums(input));
  return 0;
}
