// The seeds of fuzz_npz: small exported sequences. Hidden case: writes them.
//
//     test_npz_seeds "[write]"
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "kv/cache/export.hpp"
#include "support/small_pool.hpp"

namespace {

// A sequence of the small pool whose blocks are not in the order of its tokens.
std::string exported(kv::KvDType dtype, std::int64_t num_tokens, kv::ExportScope scope) {
  const auto pool = kv_test::small_pool(dtype);
  kv::PagedCache first(pool), cache(pool);
  REQUIRE(first.reserve(12));
  REQUIRE(cache.reserve(1));
  first.truncate(0);
  REQUIRE(cache.reserve(num_tokens));
  std::vector<float> rows(static_cast<std::size_t>(num_tokens * 2));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = 0.5f * static_cast<float>(i);
  cache.append(0, rows.data(), rows.data(), num_tokens);
  cache.commit(num_tokens);
  return kv::npz_text(kv::export_arrays(cache, scope));
}

std::vector<std::pair<std::string, std::string>> seeds() {
  using kv::DType, kv::ExportScope;
  const std::vector<kv::NpzArray> odd = {{"empty", "<i8", {0, 3}, {}},
                                         {"scalar", "<f4", {}, std::vector<std::byte>(4)}};
  return {{"fp32", exported(DType::f32, 6, ExportScope::sequence)},
          {"fp16_pool", exported(DType::f16, 5, ExportScope::pool)},
          {"bf16", exported(DType::bf16, 4, ExportScope::sequence)},
          {"no_tokens", exported(DType::f32, 0, ExportScope::sequence)},
          {"odd_shapes", kv::npz_text(odd)},
          {"no_arrays", kv::npz_text({})}};
}

const std::filesystem::path kFolder = KV_SOURCE_DIR "/tests/fuzz/seeds/npz";

}  // namespace

TEST_CASE("npz seeds: written to their folder", "[.][write]") {
  std::filesystem::create_directories(kFolder);
  for (const auto& [name, text] : seeds()) {
    std::ofstream out(kFolder / name, std::ios::binary);
    out << text;
    REQUIRE(out.good());
  }
}

TEST_CASE("npz seeds: the files in the folder are the ones that the generator makes",
          "[paged][export]") {
  for (const auto& [name, text] : seeds()) {
    INFO(name);
    std::ifstream in(kFolder / name, std::ios::binary);
    REQUIRE(in.is_open());
    const std::string stored{std::istreambuf_iterator<char>(in), {}};
    CHECK(stored == text);
    // A seed is of use only if the reader takes it.
    CHECK_NOTHROW(kv::read_npz(std::as_bytes(std::span(stored)), name));
  }
}
