// Opening a GGUF file: header, metadata and tensor table. Source: see gguf.hpp.
#include "kv/model/gguf.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>

#include "kv/model/gguf_cursor.hpp"
#include "kv/model/mapped_file.hpp"

namespace kv {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read as little-endian");

// The smallest encodings, by which a claimed count is judged before anything is read.
constexpr std::uint64_t kMinValueBytes = 8 + 1 + 4 + 1;           // key length, key, type, value
constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name, dims, type, offset
constexpr std::uint64_t kMinArrayBytes = 4 + 8;                   // element type, count

constexpr std::uint64_t kMaxKeyBytes = 65535;   // specification
constexpr std::uint64_t kMaxTensorName = 64;    // specification
constexpr int kMaxArrayDepth = 4;               // real files do not nest arrays at all
constexpr std::int64_t kDefaultAlignment = 32;  // specification
constexpr std::int64_t kMinAlignment = 8;       // specification; keeps every float aligned, too
constexpr std::int64_t kMaxAlignment = std::int64_t{1} << 20;  // far above any page size in use

/// Bytes of one element; 0 for strings and arrays (no fixed size) and for unknown types.
std::uint64_t fixed_size(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    case GgufType::string:
    case GgufType::array:
      return 0;
  }
  return 0;
}

GgufType read_type(GgufCursor& cursor) {
  const auto number = cursor.read<std::uint32_t>();
  const auto type = static_cast<GgufType>(number);
  if (fixed_size(type) == 0 && type != GgufType::string && type != GgufType::array)
    cursor.fail("unknown value type " + std::to_string(number) + std::string(kDamaged));
  return type;
}

/// Moves past `count` elements, checking them on the way. The depth of the recursion is bounded.
void skip_elements(GgufCursor& cursor, GgufType type, std::uint64_t count, int depth) {
  if (const std::uint64_t size = fixed_size(type); size > 0) {
    cursor.expect(count, size, "elements");
    const auto elements = cursor.take(count * size);
    if (type == GgufType::boolean)
      for (const std::byte b : elements)
        if (b > std::byte{1})
          cursor.fail("a bool is " + std::to_string(std::to_integer<int>(b)) + ", not 0 or 1" +
                      std::string(kDamaged));
  } else if (type == GgufType::string) {
    cursor.expect(count, sizeof(std::uint64_t), "strings");
    for (std::uint64_t i = 0; i < count; ++i) cursor.read_string();
  } else {
    if (depth == kMaxArrayDepth)
      cursor.fail("arrays are nested deeper than " + std::to_string(kMaxArrayDepth) +
                  " levels; no model needs that: use another file");
    cursor.expect(count, kMinArrayBytes, "arrays");
    for (std::uint64_t i = 0; i < count; ++i) {
      const GgufType element = read_type(cursor);
      skip_elements(cursor, element, cursor.read<std::uint64_t>(), depth + 1);
    }
  }
}

void check_name(const GgufCursor& cursor, std::string_view name, std::uint64_t max_bytes) {
  if (name.empty()) cursor.fail("its name is empty" + std::string(kDamaged));
  if (name.size() > max_bytes)
    cursor.fail("its name is " + std::to_string(name.size()) + " bytes long, more than the " +
                std::to_string(max_bytes) + " that GGUF allows" + std::string(kDamaged));
  if (name.find('\0') != std::string_view::npos)
    cursor.fail("its name contains a NUL byte" + std::string(kDamaged));
}

GgufValue read_value(GgufCursor& cursor) {
  GgufValue value;
  cursor.enter("metadata");
  value.key = cursor.read_string();
  cursor.enter("key", value.key);
  check_name(cursor, value.key, kMaxKeyBytes);
  value.type = read_type(cursor);
  value.is_array = value.type == GgufType::array;
  value.count = 1;
  if (value.is_array) {
    value.type = read_type(cursor);
    value.count = cursor.read<std::uint64_t>();
  }
  const std::byte* start = cursor.left().data();
  skip_elements(cursor, value.type, value.count, 1);
  value.bytes = {start, cursor.left().data()};
  return value;
}

/// A tensor whose place is not yet known to lie inside the file.
struct TensorEntry {
  GgufTensor tensor;
  std::uint64_t offset = 0;  // from the start of the tensor data
};

DType read_dtype(GgufCursor& cursor) {
  const auto number = cursor.read<std::uint32_t>();
  const auto dtype = static_cast<DType>(number);
  if (info(dtype).block_elements == 0)
    cursor.fail("storage type " + std::to_string(number) +
                " is not supported; use a file stored as F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, "
                "Q5_1, Q4_K or Q6_K");
  return dtype;
}

TensorEntry read_tensor(GgufCursor& cursor) {
  TensorEntry entry;
  GgufTensor& tensor = entry.tensor;
  cursor.enter("tensor table");
  tensor.name = cursor.read_string();
  cursor.enter("tensor", tensor.name);
  check_name(cursor, tensor.name, kMaxTensorName);

  const auto num_dims = cursor.read<std::uint32_t>();
  if (num_dims < 1 || num_dims > tensor.dims.size())
    cursor.fail("has " + std::to_string(num_dims) + " dimensions, not 1 to 4" +
                std::string(kDamaged));
  tensor.num_dims = static_cast<int>(num_dims);
  tensor.dims = {1, 1, 1, 1};
  std::int64_t num_elements = 1;
  for (std::uint32_t i = 0; i < num_dims; ++i) {
    const auto dim = cursor.read<std::uint64_t>();
    // Divide the limit rather than multiply the sizes: the product could wrap around.
    const auto limit = std::numeric_limits<std::int64_t>::max() / num_elements;
    if (dim == 0 || dim > static_cast<std::uint64_t>(limit))
      cursor.fail("dimension " + std::to_string(i) + " is " + std::to_string(dim) +
                  ", which is zero or too large" + std::string(kDamaged));
    tensor.dims[i] = static_cast<std::int64_t>(dim);
    num_elements *= tensor.dims[i];
  }

  tensor.dtype = read_dtype(cursor);
  entry.offset = cursor.read<std::uint64_t>();
  return entry;
}

/// Gives the tensor its bytes. Tensors lie in the order of the table, without overlap.
///
/// \param end  where the previous tensor ends, in bytes from the start of the data; moved on
void place_tensor(GgufCursor& cursor, TensorEntry& entry, std::span<const std::byte> data,
                  std::uint64_t alignment, std::uint64_t& end) {
  GgufTensor& tensor = entry.tensor;
  cursor.enter("tensor", tensor.name);
  const DTypeInfo format = info(tensor.dtype);
  if (tensor.row_length() % format.block_elements != 0)
    cursor.fail("its rows of " + std::to_string(tensor.row_length()) +
                " elements are not whole blocks of " + std::to_string(format.block_elements) +
                " (" + std::string(format.name) + ")" + std::string(kDamaged));

  if (entry.offset % alignment != 0)
    cursor.fail("offset " + std::to_string(entry.offset) + " is not a multiple of the alignment " +
                std::to_string(alignment) + std::string(kDamaged));
  if (entry.offset > data.size())
    cursor.fail("offset " + std::to_string(entry.offset) + " lies beyond the " +
                std::to_string(data.size()) + " bytes of tensor data" + std::string(kDamaged));
  if (entry.offset < end)
    cursor.fail("offset " + std::to_string(entry.offset) +
                " overlaps or precedes the tensor before it, which ends at " + std::to_string(end) +
                std::string(kDamaged));

  const auto room = static_cast<std::uint64_t>(data.size()) - entry.offset;
  const auto num_blocks =
      static_cast<std::uint64_t>(tensor.row_length() / format.block_elements * tensor.num_rows());
  const auto block_bytes = static_cast<std::uint64_t>(format.block_bytes);
  if (num_blocks > room / block_bytes)
    cursor.fail("needs " + std::to_string(num_blocks) + " blocks of " +
                std::to_string(block_bytes) + " bytes, but only " + std::to_string(room) +
                " bytes are left at its offset" + std::string(kDamaged));
  tensor.bytes = data.subspan(static_cast<std::size_t>(entry.offset),
                              static_cast<std::size_t>(num_blocks * block_bytes));
  end = entry.offset + num_blocks * block_bytes;
}

std::uint32_t read_version(GgufCursor& cursor) {
  cursor.enter("header");
  const auto magic = cursor.take(4);
  const std::string_view text(reinterpret_cast<const char*>(magic.data()), magic.size());
  if (text != "GGUF")
    cursor.fail("not a GGUF file (it begins with '" + printable(text) +
                "', not 'GGUF'); give a model in GGUF format");
  const auto version = cursor.read<std::uint32_t>();
  if (version != 0 && (version & 0xffffu) == 0)
    cursor.fail("the file is big-endian; convert the model for a little-endian machine");
  if (version == 1) cursor.fail("GGUF version 1 is no longer in use; convert the model again");
  if (version != 2 && version != 3)
    cursor.fail("unknown GGUF version " + std::to_string(version) +
                "; versions 2 and 3 can be read");
  return version;
}

}  // namespace

GgufFile::GgufFile(std::string name, std::span<const std::byte> bytes,
                   std::shared_ptr<const void> owner)
    : name_(std::move(name)), bytes_(bytes), owner_(std::move(owner)) {
  GgufCursor cursor(name_, bytes_);
  version_ = read_version(cursor);
  const auto num_tensors = cursor.read<std::uint64_t>();
  const auto num_values = cursor.read<std::uint64_t>();
  cursor.expect(num_values, kMinValueBytes, "metadata values");

  for (std::uint64_t i = 0; i < num_values; ++i) values_.push_back(read_value(cursor));
  std::ranges::sort(values_, {}, &GgufValue::key);
  if (const auto twin = std::ranges::adjacent_find(values_, {}, &GgufValue::key);
      twin != values_.end())
    throw key_error(twin->key, "occurs twice" + std::string(kDamaged));

  const std::int64_t alignment = integer("general.alignment").value_or(kDefaultAlignment);
  if (alignment < kMinAlignment || alignment > kMaxAlignment ||
      !std::has_single_bit(static_cast<std::uint64_t>(alignment)))
    throw key_error("general.alignment", std::to_string(alignment) +
                                             " is not a power of two from 8 to 1048576" +
                                             std::string(kDamaged));

  cursor.enter("header");
  cursor.expect(num_tensors, kMinTensorBytes, "tensors");
  std::vector<TensorEntry> entries;
  for (std::uint64_t i = 0; i < num_tensors; ++i) entries.push_back(read_tensor(cursor));
  if (entries.empty()) return;

  // The tensor data begins at the next multiple of the alignment.
  cursor.enter("tensor data");
  const std::size_t position = bytes_.size() - cursor.left().size();
  const std::size_t past = position % static_cast<std::size_t>(alignment);
  if (past != 0) cursor.take(static_cast<std::uint64_t>(alignment) - past);
  const std::span<const std::byte> data = cursor.left();

  std::uint64_t end = 0;
  for (TensorEntry& entry : entries) {
    place_tensor(cursor, entry, data, static_cast<std::uint64_t>(alignment), end);
    tensors_.push_back(entry.tensor);
  }

  const auto name_of = [this](std::size_t i) { return tensors_[i].name; };
  tensors_by_name_.resize(tensors_.size());
  std::iota(tensors_by_name_.begin(), tensors_by_name_.end(), std::size_t{0});
  std::ranges::sort(tensors_by_name_, {}, name_of);
  if (const auto twin = std::ranges::adjacent_find(tensors_by_name_, {}, name_of);
      twin != tensors_by_name_.end())
    throw tensor_error(name_of(*twin), "occurs twice" + std::string(kDamaged));
}

std::shared_ptr<const GgufFile> GgufFile::open(const std::string& path) {
  auto mapped = std::make_shared<const MappedFile>(path);
  const auto bytes = mapped->bytes();
  return std::shared_ptr<const GgufFile>(new GgufFile(path, bytes, std::move(mapped)));
}

std::shared_ptr<const GgufFile> GgufFile::from_memory(std::span<const std::byte> bytes,
                                                      std::string name) {
  if (bytes.empty()) throw InputError(name + ": is empty; download or write it again");
  // A copy of exactly this size, aligned as a mapping would be: tensors can then be read as floats,
  // and a sanitizer sees every read past the end.
  constexpr std::align_val_t kPage{4096};
  std::shared_ptr<std::byte> copy(static_cast<std::byte*>(::operator new(bytes.size(), kPage)),
                                  [](std::byte* p) { ::operator delete(p, kPage); });
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  const std::span<const std::byte> view(copy.get(), bytes.size());
  return std::shared_ptr<const GgufFile>(new GgufFile(std::move(name), view, std::move(copy)));
}

}  // namespace kv
