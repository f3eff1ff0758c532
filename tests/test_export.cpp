// Exported sequences: exact bytes, the way back, numpy, and files that are damaged.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kv/cache/export.hpp"
#include "kv/decoder.hpp"
#include "support/paged_check.hpp"
#include "support/random_model.hpp"

using Catch::Matchers::ContainsSubstring;

namespace {

using Pool = std::shared_ptr<kv::PagedPool>;
using Tokens = std::vector<kv::TokenId>;

const kv::Model& model() {
  static const kv::Model kModel = kv_test::random_model({.num_layers = 2, .head_dim = 4});
  return kModel;
}

Pool make_pool(std::int32_t block_size, kv::KvDType dtype, kv::BlockId num_blocks = 16) {
  const Pool pool = kv::make_host_pool(
      {model().config.heads, model().config.num_layers, num_blocks, block_size, dtype});
  kv_test::shuffle_free_blocks(pool, 5);
  return pool;
}

const Tokens kPrompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

const kv::NpzArray& find(const std::vector<kv::NpzArray>& arrays, const std::string& name) {
  for (const kv::NpzArray& array : arrays)
    if (array.name == name) return array;
  FAIL("no array " << name);
  return arrays.front();
}

template <typename T>
std::vector<T> numbers(const kv::NpzArray& array) {
  std::vector<T> values(array.data.size() / sizeof(T));
  std::memcpy(values.data(), array.data.data(), array.data.size());
  return values;
}

struct TemporaryFile {
  std::string path = (std::filesystem::temp_directory_path() /
                      ("kv_export_" + std::to_string(std::rand()) + ".npz"))
                         .string();
  ~TemporaryFile() { std::filesystem::remove(path); }
};

}  // namespace

TEST_CASE("npz: the checksum is ZIP's", "[paged][export]") {
  CHECK(kv::crc32({}) == 0);
  CHECK(kv::crc32(bytes_of("123456789")) == 0xcbf43926u);  // the check value of CRC-32
}

TEST_CASE("npz: an archive has the bytes that its formats ask for", "[paged][export]") {
  const std::vector<std::int32_t> values = {7, -1};
  const std::vector<kv::NpzArray> arrays = {
      kv::npz_array<std::int32_t>("t", "<i4", {1, 2}, values)};
  const std::string text = kv::npz_text(arrays);
  // Local header 30 + name 5; .npy: 128 bytes of header, then 8 of data.
  CHECK(text.substr(0, 4) == std::string("PK\x03\x04"));
  CHECK(text.substr(30, 5) == "t.npy");
  CHECK(text.substr(35, 8) == std::string("\x93NUMPY\x01\x00", 8));
  const std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (1, 2, ), }";
  CHECK(text.substr(45, header.size()) == header);
  const std::size_t header_bytes = 10 + static_cast<unsigned char>(text[43]);
  CHECK(header_bytes % 64 == 0);
  CHECK(text[35 + header_bytes - 1] == '\n');
  CHECK(text.substr(35 + header_bytes, 8) == std::string("\x07\0\0\0\xff\xff\xff\xff", 8));
  CHECK(text.substr(text.size() - 22, 4) == std::string("PK\x05\x06"));
  CHECK(kv::npz_text(arrays) == text);  // no clock in it

  const auto read = kv::read_npz(bytes_of(text), "x.npz");
  REQUIRE(read.size() == 1);
  CHECK(read[0].name == "t");
  CHECK(read[0].type == "<i4");
  CHECK(read[0].shape == std::vector<std::int64_t>{1, 2});
  CHECK(read[0].data == arrays[0].data);
}

TEST_CASE("npz: empty arrays, scalars and empty archives come back", "[paged][export]") {
  const float one = 1.5f;
  const std::vector<kv::NpzArray> arrays = {{"empty", "<i8", {0, 3}, {}},
                                            kv::npz_array<float>("scalar", "<f4", {}, {&one, 1})};
  const auto read = kv::read_npz(bytes_of(kv::npz_text(arrays)), "x.npz");
  REQUIRE(read.size() == 2);
  CHECK(read[0].shape == std::vector<std::int64_t>{0, 3});
  CHECK(read[0].data.empty());
  CHECK(read[1].shape.empty());
  CHECK(numbers<float>(read[1]) == std::vector<float>{1.5f});
  CHECK(kv::read_npz(bytes_of(kv::npz_text({})), "x.npz").empty());
  CHECK_THROWS_AS(kv::npz_text(std::vector<kv::NpzArray>{{"x", "<i4", {2}, {}}}),
                  std::invalid_argument);
}

TEST_CASE("export: the arrays are the blocks, the table and the slots", "[paged][export]") {
  const auto dtype = GENERATE(kv::DType::f32, kv::DType::f16, kv::DType::bf16);
  const Pool pool = make_pool(4, dtype);
  kv::PagedCache before(pool), cache(pool);
  REQUIRE(before.reserve(9));
  kv::forward(model(), cache, kPrompt);
  REQUIRE(cache.reserve(12));  // reserved blocks are no part of the sequence
  const kv::BlockTable& table = cache.table();
  const auto arrays = kv::export_arrays(cache, kv::ExportScope::pool);
  const std::string suffix = dtype == kv::DType::bf16 ? "_bf16" : "";
  REQUIRE(arrays.size() == 7);
  CHECK(arrays[0].name == "k_cache_00" + suffix);
  CHECK(arrays[3].name == "v_cache_01" + suffix);
  CHECK(arrays[0].type == (dtype == kv::DType::f32   ? "<f4"
                           : dtype == kv::DType::f16 ? "<f2"
                                                     : "<u2"));
  CHECK(arrays[0].shape == std::vector<std::int64_t>{16, 4, 2, 4});
  CHECK(std::memcmp(arrays[2].data.data(), pool->storage->k(1), arrays[2].data.size()) == 0);
  CHECK(std::memcmp(arrays[3].data.data(), pool->storage->v(1), arrays[3].data.size()) == 0);
  CHECK(find(arrays, "block_table").shape == std::vector<std::int64_t>{1, 3});
  CHECK(numbers<std::int32_t>(find(arrays, "block_table")) ==
        std::vector<std::int32_t>(table.blocks.begin(), table.blocks.begin() + 3));
  CHECK(numbers<std::int32_t>(find(arrays, "seq_lens")) == std::vector<std::int32_t>{10});
  const auto slots = numbers<std::int64_t>(find(arrays, "slot_mapping"));
  REQUIRE(slots.size() == 10);
  for (std::int64_t t = 0; t < 10; ++t) CHECK(slots[static_cast<std::size_t>(t)] == table.slot(t));

  // The sequence alone: fewer blocks, in the same order among themselves.
  const auto own = kv::export_arrays(cache);
  CHECK(own[0].shape == std::vector<std::int64_t>{3, 4, 2, 4});
  const auto ids = numbers<std::int32_t>(find(own, "block_table"));
  REQUIRE(ids.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j)
      CHECK((ids[i] < ids[j]) == (table.blocks[i] < table.blocks[j]));
    const std::size_t block_bytes = own[0].data.size() / 3;
    CHECK(std::memcmp(own[1].data.data() + static_cast<std::size_t>(ids[i]) * block_bytes,
                      pool->storage->v(0) + static_cast<std::size_t>(table.blocks[i]) * block_bytes,
                      block_bytes) == 0);
  }
}

TEST_CASE("export: an imported sequence goes on with the same logits", "[paged][export]") {
  const auto dtype = GENERATE(kv::DType::f32, kv::DType::f16, kv::DType::bf16);
  const auto scope = GENERATE(kv::ExportScope::sequence, kv::ExportScope::pool);
  const Pool pool = make_pool(4, dtype);
  kv::PagedCache cache(pool);
  kv::forward(model(), cache, kPrompt);
  const TemporaryFile file;
  kv::export_sequence("--export", file.path, cache, scope);
  const Tokens next = {7};
  const auto expected = kv::forward(model(), cache, next);

  const Pool same = make_pool(4, dtype), other = make_pool(8, dtype);
  auto imported = kv::import_sequence(file.path, same);
  REQUIRE(imported.has_value());
  CHECK(imported->length() == 10);
  CHECK(kv::forward(model(), *imported, next) == expected);
  auto resized = kv::import_sequence(file.path, other);  // into blocks of another size
  REQUIRE(resized.has_value());
  CHECK(resized->table().blocks.size() == 2);
  CHECK(kv::forward(model(), *resized, next) == expected);

  // Too small a pool is an answer, and nothing of it is lost.
  const Pool small = make_pool(4, dtype, 2);
  CHECK_FALSE(kv::import_sequence(file.path, small).has_value());
  CHECK(small->allocator.pool().num_free() == 2);
}

TEST_CASE("export: an empty sequence comes back empty", "[paged][export]") {
  const Pool pool = make_pool(4, kv::DType::f32);
  const kv::PagedCache cache(pool);
  const auto arrays = kv::read_npz(bytes_of(kv::npz_text(kv::export_arrays(cache))), "x.npz");
  const auto imported = kv::import_arrays(arrays, "x.npz", pool);
  REQUIRE(imported.has_value());
  CHECK(imported->length() == 0);
}

TEST_CASE("export: arrays that do not fit are refused in one line", "[paged][export]") {
  const Pool pool = make_pool(4, kv::DType::f32);
  kv::PagedCache cache(pool);
  kv::forward(model(), cache, kPrompt);
  const auto good = kv::export_arrays(cache);
  using Arrays = std::vector<kv::NpzArray>;
  const auto set = [](const std::string& name, auto change) {
    return [=](Arrays& arrays) {
      for (kv::NpzArray& array : arrays)
        if (array.name == name) change(array);
    };
  };
  const auto number = [&](const std::string& name, std::size_t index, auto value) {
    return set(name, [=](kv::NpzArray& array) {
      std::memcpy(array.data.data() + index * sizeof value, &value, sizeof value);
    });
  };
  struct Fault {
    std::function<void(Arrays&)> plant;
    std::string message;
  };
  const std::vector<Fault> faults = {
      {[](Arrays& a) { a.erase(a.begin() + 3); }, "no array 'v_cache_01'"},
      {[](Arrays& a) { a.pop_back(); }, "no array 'slot_mapping'"},
      {[](Arrays& a) {
         a.push_back({"k_cache_02", "<f4", {0}, {}});
       },
       "more than the pool's 2"},
      {set("k_cache_01", [](auto& a) { a.shape[0] -= 1; }), "k_cache_01"},
      {set("k_cache_00", [](auto& a) { a.shape.pop_back(); }), "k_cache_00"},
      {set("v_cache_00", [](auto& a) { a.type = "<f2"; }), "v_cache_00"},
      {[](Arrays& a) {
         for (int i = 0; i < 4; ++i) a[static_cast<std::size_t>(i)].shape = {3, 4, 4, 2};
       },
       "k_cache_00"},
      {[](Arrays& a) {
         for (int i = 0; i < 4; ++i) a[static_cast<std::size_t>(i)].shape = {3, 0, 2, 4};
       },
       "not possible"},
      {[](Arrays& a) {  // 0 in the 32 bits of a block size
         for (int i = 0; i < 4; ++i)
           a[static_cast<std::size_t>(i)].shape = {3, std::int64_t{1} << 40, 2, 4};
       },
       "not possible"},
      {[](Arrays& a) {
         for (int i = 0; i < 4; ++i)
           a[static_cast<std::size_t>(i)].shape = {std::int64_t{1} << 40, 4, 2, 4};
       },
       "not possible"},
      {set("seq_lens", [](auto& a) { a.type = "<i8"; }), "seq_lens"},
      {set("block_table", [](auto& a) { a.shape = {3}; }), "block_table"},
      {set("block_table",
           [](auto& a) {
             a.shape = {3, 1};
           }),
       "one sequence"},
      {number("seq_lens", 0, std::int32_t{13}), "13 tokens"},
      {number("seq_lens", 0, std::int32_t{-1}), "-1 tokens"},
      {number("seq_lens", 0, std::int32_t{9}), "slot for each token"},
      {number("block_table", 1, std::int32_t{3}), "block 3 of 3"},
      {number("block_table", 1, std::int32_t{-1}), "block -1 of 3"},
      {[&](Arrays& a) {
         for (kv::NpzArray& array : a)
           if (array.name == "block_table")
             std::memcpy(array.data.data(), array.data.data() + 4, 4);
       },
       "twice"},
      {number("slot_mapping", 9, std::int64_t{1} << 40), "for token 9"},
  };
  for (const Fault& fault : faults) {
    Arrays arrays = good;
    fault.plant(arrays);
    INFO(fault.message);
    try {
      kv::import_arrays(arrays, "x.npz", pool);
      FAIL("accepted");
    } catch (const kv::InputError& error) {
      CHECK_THAT(error.what(), ContainsSubstring("'x.npz': ") && ContainsSubstring(fault.message));
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
    }
  }
  CHECK(kv::import_arrays(good, "x.npz", pool).has_value());
  // Another format, other layers.
  CHECK_THROWS_AS(kv::import_arrays(good, "x.npz", make_pool(4, kv::DType::bf16)), kv::InputError);
  CHECK_THROWS_AS(
      kv::import_arrays(good, "x.npz",
                        kv::make_host_pool({model().config.heads, 1, 8, 4, kv::DType::f32})),
      kv::InputError);
}

TEST_CASE("npz: a file that is cut or changed anywhere is refused, or reads the same",
          "[paged][export]") {
  const std::vector<std::int32_t> values = {1, 2, 3};
  const std::vector<kv::NpzArray> arrays = {
      kv::npz_array<std::int32_t>("block_table", "<i4", {1, 3}, values),
      kv::npz_array<std::int32_t>("seq_lens", "<i4", {1}, {values.data(), 1})};
  const std::string good = kv::npz_text(arrays);
  const auto refused_or_same = [&](const std::string& text) {
    // A copy that ends where the text ends: the address sanitizer sees every byte read too far.
    const std::vector<char> exact(text.begin(), text.end());
    try {
      const auto read = kv::read_npz(std::as_bytes(std::span(exact)), "x.npz");
      for (const kv::NpzArray& array : read)
        for (const kv::NpzArray& original : arrays)
          if (array.name == original.name && array.data != original.data) return false;
      return true;
    } catch (const kv::InputError& error) {
      return std::string(error.what()).find('\n') == std::string::npos;
    }
  };
  CHECK(refused_or_same(good));
  for (std::size_t length = 0; length < good.size(); ++length) {
    INFO("cut to " << length);
    const std::string cut = good.substr(0, length);
    CHECK_THROWS_AS(kv::read_npz(bytes_of(cut), "x.npz"), kv::InputError);
    CHECK(refused_or_same(cut));
  }
  for (std::size_t at = 0; at < good.size(); ++at)
    for (const int change : {1, 0x80, 0xff}) {
      std::string changed = good;
      changed[at] = static_cast<char>(changed[at] ^ change);
      INFO("byte " << at << " ^ " << change);
      REQUIRE(refused_or_same(changed));
    }
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string changed = good;
    for (int n = 0; n < 4; ++n) changed[random() % changed.size()] = static_cast<char>(random());
    INFO("change " << i);
    REQUIRE(refused_or_same(changed));
  }
}

TEST_CASE("npz: what a reader may meet is named", "[paged][export]") {
  const std::vector<std::int32_t> values = {1};
  const auto archive = [&](const std::string& from, const std::string& to) {
    // Header and checksums anew: the change is in the dictionary.
    std::string text =
        kv::npz_text(std::vector{kv::npz_array<std::int32_t>("a", "<i4", {1}, values)});
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    REQUIRE(from.size() == to.size());
    text.replace(at, from.size(), to);
    const std::uint32_t size = static_cast<std::uint32_t>(text.find("PK\x01\x02") - 35);
    const std::uint32_t crc = kv::crc32(bytes_of(text).subspan(35, size));
    std::memcpy(text.data() + 14, &crc, 4);
    std::memcpy(text.data() + text.find("PK\x01\x02") + 16, &crc, 4);
    return text;
  };
  const auto message = [](const std::string& text) -> std::string {
    try {
      kv::read_npz(bytes_of(text), "x.npz");
    } catch (const kv::InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK(message(archive("(1, )", "(1, )")) == "accepted");
  CHECK_THAT(message(archive("False", "True ")),
             ContainsSubstring("column-major") || ContainsSubstring("no array"));
  CHECK_THAT(message(archive("'<i4'", "'>i4'")), ContainsSubstring("unexpected type >i4"));
  CHECK_THAT(message(archive("(1, )", "(2, )")), ContainsSubstring("another number of elements"));
  CHECK_THAT(message(archive("(1, )", "(-1,)")), ContainsSubstring("list of sizes"));
  CHECK_THAT(message(archive("'descr'", "'dezcr'")), ContainsSubstring("no 'descr'"));
  CHECK_THAT(message(archive("\x93NUMPY", "\x93NOMPY")), ContainsSubstring("no .npy array"));
  CHECK_THAT(message(archive("\x93NUMPY\x01", "\x93NUMPY\x07")), ContainsSubstring("version"));
  CHECK_THAT(message(std::string(100, 'x')), ContainsSubstring("no .npz file"));
  CHECK_THAT(message(""), ContainsSubstring("too short"));
  // Method 8 (deflate) in the directory: numpy.savez_compressed().
  std::string text = archive("(1, )", "(1, )");
  text[text.find("PK\x01\x02") + 10] = 8;
  CHECK_THAT(message(text), ContainsSubstring("savez_compressed"));
  // A comment behind the end is legal.
  text = archive("(1, )", "(1, )");
  text[text.size() - 2] = 3;
  CHECK(message(text + "abc") == "accepted");
  CHECK_THROWS_AS(kv::import_sequence("/no/such/file.npz", make_pool(4, kv::DType::f32)),
                  kv::InputError);
  CHECK_THROWS_AS(kv::export_sequence("--export", "/no/such/folder/x.npz",
                                      kv::PagedCache(make_pool(4, kv::DType::f32))),
                  kv::InputError);
}

TEST_CASE("npz: a shape with a size of 0 has no elements, whatever the others are",
          "[paged][export]") {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  CHECK(kv::NpzArray{"x", "<i4", {kHuge, kHuge, 0}, {}}.num_elements() == 0);
}

TEST_CASE("npz: what is not as numpy writes it costs no more than the file, and is named shortly",
          "[paged][export]") {
  const auto message = [](const std::string& text) -> std::string {
    try {
      kv::read_npz(bytes_of(text), "x.npz");
    } catch (const kv::InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::vector<std::int32_t> values(50, 7);
  const auto array = [&](const std::string& name) {
    return kv::npz_array<std::int32_t>(name, "<i4", {50}, values);
  };
  // Ten entries of the directory for the same 328 bytes.
  std::string text = kv::npz_text(std::vector{array("0")});
  const std::size_t at = text.find("PK\x01\x02"), entry_bytes = 46 + 5;
  std::string entry = text.substr(at, entry_bytes);
  for (std::size_t i = 1; i < 10; ++i) {
    entry[46] = static_cast<char>('0' + i);
    text.insert(at + i * entry_bytes, entry);
  }
  text[text.size() - 12] = 10;
  CHECK_THAT(message(text), ContainsSubstring("overlap"));

  // The file is named where an array is too short for its own header.
  text = kv::npz_text(std::vector{array("a")});
  const std::size_t header = 35;
  text.resize(header + 10);
  text[header + 6] = 2;
  const std::uint32_t size = 10, crc = kv::crc32(bytes_of(text).subspan(header));
  const std::size_t start = text.size();
  text += kv::npz_text(std::vector{array("a")}).substr(at);
  std::memcpy(text.data() + start + 16, &crc, 4);
  std::memcpy(text.data() + start + 20, &size, 4);
  std::memcpy(text.data() + start + 24, &size, 4);
  const auto directory = static_cast<std::uint32_t>(start);
  std::memcpy(text.data() + text.size() - 6, &directory, 4);
  CHECK(message(text) == "'x.npz': 'a' is cut");

  // Names and types from the file are shortened, and none of their bytes reaches a terminal.
  const std::string name = "\x1b[31m\x9b" + std::string(5000, 'x');
  CHECK(message(kv::npz_text(std::vector{array(name), array(name)})).size() < 200);
  CHECK_THAT(message(kv::npz_text(std::vector{array(name), array(name)})),
             ContainsSubstring("'\\x1b[31m\\x9bxxx") && ContainsSubstring("twice"));
}

TEST_CASE("export: numpy reads the arrays, and what numpy writes is read here",
          "[paged][export][numpy]") {
  std::string python;
  for (const char* candidate : {"python3", "/usr/bin/python3"})
    if (python.empty() &&
        std::system((std::string(candidate) + " -c 'import numpy' 2>/dev/null").c_str()) == 0)
      python = candidate;
  if (python.empty()) SKIP("python3 with numpy is not here");
  const Pool pool = make_pool(4, kv::DType::f16);
  kv::PagedCache cache(pool);
  kv::forward(model(), cache, kPrompt);
  const TemporaryFile file, back;
  kv::export_sequence("--export", file.path, cache);
  // Gathers the sequence through the block table and through the slots, compares, saves anew.
  const std::string program =
      "import sys, numpy as np; a = np.load(sys.argv[1]); n = int(a['seq_lens'][0]); "
      "k = a['k_cache_01']; assert k.dtype == np.float16 and k.shape == (3, 4, 2, 4), k.shape; "
      "t = a['block_table']; assert t.dtype == np.int32 and t.shape == (1, 3); "
      "s = a['slot_mapping']; assert s.dtype == np.int64 and s.shape == (10,); "
      "rows = k.reshape(-1, 2, 4)[s]; "
      "assert (rows == k[t[0]].reshape(-1, 2, 4)[:n]).all() and np.isfinite(rows).all(); "
      "assert np.isnan(k[t[0]].reshape(-1, 2, 4)[n:]).all(); "
      "np.savez(sys.argv[2], **{x: a[x] for x in a.files})";
  REQUIRE(std::system(
              (python + " -c \"" + program + "\" " + file.path + " " + back.path).c_str()) == 0);
  const Pool other = make_pool(4, kv::DType::f16);
  auto imported = kv::import_sequence(back.path, other);
  REQUIRE(imported.has_value());
  const Tokens next = {7};
  CHECK(kv::forward(model(), *imported, next) == kv::forward(model(), cache, next));
}
