// Hostile files must not make the reader allocate: every request for memory is counted here.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "kv/model/gguf.hpp"
#include "kv/model/weights.hpp"
#include "support/gguf_writer.hpp"

using kv_test::Bytes;
using kv_test::GgufWriter;
using kv_test::put;
using kv_test::put_string;

namespace {

std::size_t g_largest = 0;  // bytes of the largest single request since it was last reset
std::size_t g_total = 0;    // bytes of all requests together

void* counted(std::size_t size, std::size_t alignment) {
  g_largest = std::max(g_largest, size);
  g_total += size;
  // aligned_alloc wants a multiple of the alignment.
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment;
  if (rounded > SIZE_MAX / alignment) throw std::bad_alloc();
  void* p = std::aligned_alloc(alignment, rounded * alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

constexpr std::size_t kDefaultAlignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

// The other forms of new and delete call these.
void* operator new(std::size_t size) { return counted(size, kDefaultAlignment); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace {

struct Outcome {
  bool refused = false;
  std::size_t largest = 0;
  std::size_t total = 0;
};

/// Opens and loads the bytes, counting memory.
Outcome load(const Bytes& bytes) {
  g_largest = g_total = 0;
  Outcome outcome;
  try {
    kv::load_model(kv::GgufFile::from_memory(bytes, "hostile.gguf"));
  } catch (const kv::InputError&) {
    outcome.refused = true;
  }
  outcome.largest = g_largest;
  outcome.total = g_total;
  return outcome;
}

/// A file of about 45 bytes: one key "k" with this type and these bytes.
Bytes one_value(std::uint32_t type, Bytes encoded) {
  return GgufWriter().value("k", type, std::move(encoded)).bytes();
}

}  // namespace

TEST_CASE("gguf memory: the counter sees requests", "[gguf]") {
  g_largest = g_total = 0;
  const std::vector<char> big(1 << 20);
  CHECK(g_largest >= big.size());
  const kv_test::Bytes tiny = kv_test::tiny_llama().bytes();
  const Outcome good = load(tiny);
  CHECK_FALSE(good.refused);
  CHECK(good.largest >= tiny.size());  // the copy of the file
}

TEST_CASE("gguf memory: small files with huge claims are refused with next to no memory",
          "[gguf]") {
  for (const std::uint64_t huge : {std::uint64_t{1} << 20, std::uint64_t{1} << 32,
                                   std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    std::vector<Bytes> files;
    GgufWriter values, tensors;
    values.claimed_values = huge;
    tensors.claimed_tensors = huge;
    files.push_back(values.bytes());
    files.push_back(tensors.bytes());
    Bytes text;
    put_string(text, "abc", huge);
    files.push_back(one_value(8, text));
    for (std::uint32_t type = 0; type <= 12; ++type)
      files.push_back(one_value(9, GgufWriter::array_header(type, huge)));
    // (A context of 2^20 is no lie by itself: nothing in the file belongs to single positions.)
    for (const char* key : {"llama.block_count", "llama.embedding_length",
                            "llama.feed_forward_length", "llama.attention.head_count"})
      files.push_back(kv_test::tiny_llama().u64(key, huge).bytes());
    for (const Bytes& file : files) {
      const Outcome outcome = load(file);
      CHECK(outcome.refused);
      CHECK(outcome.largest <= 16 * 1024);
      CHECK(outcome.total <= 64 * 1024);
    }
  }
}

TEST_CASE("gguf memory: opening costs no more than a few times the file", "[gguf]") {
  // The files that ask for most: nothing but the smallest keys, strings or tensors.
  GgufWriter keys;
  for (int i = 0; i < 20000; ++i) keys.duplicate(std::to_string(i), 0, Bytes(1));
  GgufWriter strings;
  strings.strings("k", std::vector<std::string>(1 << 20));
  GgufWriter tensors;
  tensors.alignment = 8;
  tensors.u32("general.alignment", 8);
  for (int i = 0; i < 20000; ++i) tensors.duplicate_tensor({std::to_string(i), 0, {1}, Bytes(4)});
  for (const GgufWriter* writer : {&keys, &strings, &tensors}) {
    const Bytes bytes = writer->bytes();
    g_largest = g_total = 0;
    const auto file = kv::GgufFile::from_memory(bytes, "greedy.gguf");
    CHECK(g_largest <= 8 * bytes.size());
    CHECK(g_total <= 16 * bytes.size());
  }
  // An array of a million strings is not expanded: only the copy of the file is as large.
  const Bytes bytes = strings.bytes();
  g_largest = g_total = 0;
  kv::GgufFile::from_memory(bytes, "strings.gguf");
  CHECK(g_total <= bytes.size() + 4096);
}
