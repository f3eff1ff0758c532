#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include "kv/cache/npz.hpp"
#include "kv/cache/npz_format.hpp"
#include "kv/check.hpp"
#include "kv/model/gguf.hpp"

namespace kv {

namespace {

// Numbers from outside are compared by subtraction, so that no sum can wrap.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, std::string_view path) : bytes_(bytes), path_(path) {}

  [[noreturn]] void fail(std::string_view why) const {
    throw InputError("'" + std::string(path_) + "': " + std::string(why));
  }
  std::size_t size() const { return bytes_.size(); }
  std::span<const std::byte> part(std::size_t offset, std::size_t count) const {
    if (offset > bytes_.size() || count > bytes_.size() - offset)
      fail("the .npz file is cut or damaged; export it again");
    return bytes_.subspan(offset, count);
  }
  std::uint32_t number(std::size_t offset, std::size_t num_bytes) const {
    std::uint32_t value = 0;
    for (const std::byte b : part(offset, num_bytes)) {
      value = value >> 8 | std::to_integer<std::uint32_t>(b) << 24;
    }
    return value >> (32 - 8 * num_bytes);
  }
  std::string_view text(std::size_t offset, std::size_t count) const {
    const auto bytes = part(offset, count);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view path_;
};

// The end of the central directory is found from the back, behind it may lie a comment.
std::size_t find_directory_end(const Reader& file) {
  constexpr std::size_t kBytes = 22, kMostComment = 0xffff;
  if (file.size() < kBytes) file.fail("it is too short for an .npz file");
  for (std::size_t comment = 0; comment <= std::min(kMostComment, file.size() - kBytes);
       ++comment) {
    const std::size_t at = file.size() - kBytes - comment;
    if (file.number(at, 4) == npz::kDirectoryEnd && file.number(at + 20, 2) == comment) return at;
  }
  file.fail("it is no .npz file, or its end is missing");
}

// What stands behind 'key': in a dictionary of the form that numpy writes, up to `end`.
std::string_view value_of(const Reader& file, std::string_view dictionary, std::string_view key,
                          std::string_view begin, char end) {
  const std::size_t at = dictionary.find("'" + std::string(key) + "': " + std::string(begin));
  if (at == std::string_view::npos)
    file.fail("an array's header has no '" + std::string(key) + "'");
  const std::size_t first = at + key.size() + 4 + begin.size();
  const std::size_t last = dictionary.find(end, first);
  if (last == std::string_view::npos) file.fail("an array's header is cut");
  return dictionary.substr(first, last - first);
}

// "2, 3, " or "2, 3"
std::vector<std::int64_t> parse_shape(const Reader& file, std::string_view text) {
  std::vector<std::int64_t> shape;
  while (true) {
    while (!text.empty() && (text.front() == ' ' || text.front() == ',')) text.remove_prefix(1);
    if (text.empty()) return shape;
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 0) file.fail("an array's shape is no list of sizes");
    shape.push_back(size);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
}

// Bytes that a shape needs; more than `most` counts as one more.
std::size_t bytes_of(const std::vector<std::int64_t>& shape, std::size_t type_bytes,
                     std::size_t most) {
  std::size_t bytes = type_bytes;
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  for (const std::int64_t size : shape) {
    if (static_cast<std::uint64_t>(size) > most / bytes) return most + 1;
    bytes *= static_cast<std::size_t>(size);
  }
  return bytes;
}

// A name from the file as a message shows it: short, and on one line.
std::string quoted(std::string_view name) { return "'" + printable(name) + "'"; }

NpzArray read_npy(const Reader& file, std::span<const std::byte> member, std::string name) {
  const Reader npy(member, name);
  if (npy.size() < 10 || npy.text(0, npz::kNpyMagic.size()) != npz::kNpyMagic)
    file.fail(quoted(name) + " is no .npy array");
  const std::uint32_t version = npy.number(6, 1);
  if (version != 1 && version != 2)
    file.fail(quoted(name) + " has an unknown version of the .npy format");
  const std::size_t length_bytes = version == 1 ? 2 : 4, header = 8 + length_bytes;
  if (npy.size() < header) file.fail(quoted(name) + " is cut");
  const std::size_t length = npy.number(8, length_bytes);
  if (length > npy.size() - header) file.fail(quoted(name) + " is cut");
  const std::string_view dictionary = npy.text(header, length);

  NpzArray array;
  array.name = std::move(name);
  array.type = value_of(file, dictionary, "descr", "'", '\'');
  const std::size_t type_bytes = npz::type_bytes(array.type);
  if (type_bytes == 0)
    file.fail(quoted(array.name) + " has the unexpected type " + printable(array.type));
  if (value_of(file, dictionary, "fortran_order", "", ',') != "False")
    file.fail(quoted(array.name) + " is column-major; save numpy.ascontiguousarray() of it");
  array.shape = parse_shape(file, value_of(file, dictionary, "shape", "(", ')'));
  const auto data = member.subspan(header + length);
  if (bytes_of(array.shape, type_bytes, data.size()) != data.size())
    file.fail(quoted(array.name) + " has another number of elements than its shape");
  array.data.assign(data.begin(), data.end());
  return array;
}

}  // namespace

std::vector<NpzArray> read_npz(std::span<const std::byte> bytes, std::string_view path) {
  const Reader file(bytes, path);
  const std::size_t end = find_directory_end(file);
  const std::uint32_t num_members = file.number(end + 10, 2);
  std::size_t entry = file.number(end + 16, 4);
  std::vector<NpzArray> arrays;
  std::set<std::string> names;
  // Each byte once: many entries for the same large array would need many times the file's size.
  std::size_t num_left = file.size();
  for (std::uint32_t i = 0; i < num_members; ++i) {
    if (file.number(entry, 4) != npz::kDirectoryEntry) file.fail("its directory is damaged");
    const std::uint32_t flags = file.number(entry + 8, 2), method = file.number(entry + 10, 2);
    const std::uint32_t crc = file.number(entry + 16, 4), stored = file.number(entry + 20, 4);
    const std::uint32_t size = file.number(entry + 24, 4);
    const std::size_t name_length = file.number(entry + 28, 2);
    const std::size_t extra = file.number(entry + 30, 2), comment = file.number(entry + 32, 2);
    const std::size_t local = file.number(entry + 42, 4);
    std::string name(file.text(entry + 46, name_length));
    entry += 46 + name_length + extra + comment;
    if (!name.ends_with(".npy")) file.fail("it holds " + quoted(name) + ", which is no array");
    name.resize(name.size() - 4);
    if (method != 0 || (flags & 1u) != 0 || size != stored)
      file.fail(quoted(name) + " is compressed; use numpy.savez(), not savez_compressed()");
    if (!names.insert(name).second) file.fail("it holds " + quoted(name) + " twice");
    if (size > num_left) file.fail("its arrays overlap, or it is cut; export it again");
    num_left -= size;
    // The local header may have an extra field of another length than the directory's.
    if (file.number(local, 4) != npz::kLocalHeader)
      file.fail(quoted(name) + " is not where it should be");
    const std::size_t data = local + 30 + file.number(local + 26, 2) + file.number(local + 28, 2);
    const auto member = file.part(data, size);
    if (crc32(member) != crc) file.fail(quoted(name) + " is damaged (its checksum differs)");
    arrays.push_back(read_npy(file, member, std::move(name)));
  }
  return arrays;
}

}  // namespace kv
