#include "kv/cache/npz.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "kv/cache/npz_format.hpp"
#include "kv/check.hpp"

namespace kv {

static_assert(std::endian::native == std::endian::little, "arrays are written as they lie");

std::int64_t NpzArray::num_elements() const {
  // A size of 0 first: the others may be anything then, and their product would overflow.
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1u) != 0 ? (c >> 1) ^ 0xedb88320u : c >> 1;
    table[i] = c;
  }
  return table;
}

// Little-endian fields, one after the other.
class FieldWriter {
 public:
  explicit FieldWriter(std::string& out) : out_(out) {}
  FieldWriter& u16(std::uint64_t value) { return put(value, 2); }
  FieldWriter& u32(std::uint64_t value) { return put(value, 4); }

 private:
  FieldWriter& put(std::uint64_t value, int num_bytes) {
    for (int i = 0; i < num_bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xffu);
    return *this;
  }
  std::string& out_;
};

// Magic, version 1.0, length of the dictionary, the dictionary padded so that data starts at a
// multiple of 64 bytes.
std::string npy_header(const NpzArray& array) {
  std::string dictionary = "{'descr': '" + array.type + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t size : array.shape) dictionary += std::to_string(size) + ", ";
  dictionary += "), }";
  constexpr std::size_t kPrefix = npz::kNpyMagic.size() + 4;
  while ((kPrefix + dictionary.size() + 1) % 64 != 0) dictionary += ' ';
  dictionary += '\n';
  std::string header(npz::kNpyMagic);
  header += '\x01';
  header += '\x00';
  FieldWriter(header).u16(dictionary.size());
  return header + dictionary;
}

// The fields that a local header and an entry of the central directory share.
void put_member(std::string& out, const std::string& name, std::uint32_t crc, std::size_t size) {
  FieldWriter(out)
      .u16(20)      // version that can read it: 2.0
      .u16(0)       // flags
      .u16(0)       // method: stored
      .u16(0)       // time of day
      .u16(0x0021)  // 1 January 1980: the same arrays always give the same file
      .u32(crc)
      .u32(size)  // compressed
      .u32(size)  // and not
      .u16(name.size())
      .u16(0);  // length of the extra field
}

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t c = 0xffffffffu;
  for (const std::byte b : bytes)
    c = kTable[(c ^ std::to_integer<std::uint32_t>(b)) & 0xffu] ^ (c >> 8);
  return ~c;
}

std::string npz_text(std::span<const NpzArray> arrays) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  std::uint64_t total = 22;
  for (const NpzArray& array : arrays) total += array.data.size() + 2 * array.name.size() + 512;
  if (total > kMost || arrays.size() > 0xffff)
    throw InputError(
        "the arrays need more than the 4 GiB that an .npz file of this kind can hold: "
        "export fewer blocks");
  std::string out, directory;
  out.reserve(total);
  for (const NpzArray& array : arrays) {
    require(array.data.size() ==
                static_cast<std::size_t>(array.num_elements()) * npz::type_bytes(array.type),
            "an array's bytes must be what its shape and type need");
    const std::string name = array.name + ".npy";
    const std::size_t offset = out.size();
    std::string member = npy_header(array);
    member.append(reinterpret_cast<const char*>(array.data.data()), array.data.size());
    const std::uint32_t crc = crc32(std::as_bytes(std::span(member)));

    FieldWriter(out).u32(npz::kLocalHeader);
    put_member(out, name, crc, member.size());
    out += name;
    out += member;

    FieldWriter(directory).u32(npz::kDirectoryEntry).u16(20);  // version that made it
    put_member(directory, name, crc, member.size());
    FieldWriter(directory)
        .u16(0)  // comment length
        .u16(0)  // disk
        .u16(0)  // internal attributes
        .u32(0)  // external attributes
        .u32(offset);
    directory += name;
  }
  const std::size_t start = out.size();
  out += directory;
  FieldWriter(out)
      .u32(npz::kDirectoryEnd)
      .u16(0)  // this disk
      .u16(0)  // disk of the directory
      .u16(arrays.size())
      .u16(arrays.size())
      .u32(directory.size())
      .u32(start)
      .u16(0);  // comment length
  return out;
}

}  // namespace kv
