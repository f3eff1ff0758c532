// The shipped models of chapter 4's family: what their record says of them is true.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kv/cache/contiguous.hpp"
#include "kv/cost/family.hpp"
#include "kv/cost/kv_bytes.hpp"
#include "kv/decoder.hpp"
#include "kv/model/pool_heads.hpp"
#include "support/real_models.hpp"

namespace {

const std::string kFolder = KV_SOURCE_DIR "/chapters/04_shared_heads/";
const std::string kText = KV_SOURCE_DIR "/../shared/data/tinyshakespeare.txt";

struct Shipped {
  std::string path;
  int num_kv_heads;
};
// Sanitizers take minutes where the processor takes seconds, and the passes are tested elsewhere.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

// Both were trained with seed 1.
const Shipped kShipped[] = {{kFolder + "family_mha.gguf", 8}, {kFolder + "family_mqa.gguf", 1}};

const kv::FamilyMember& recorded(const std::vector<kv::FamilyMember>& family,
                                 const std::string& kind, int num_kv_heads) {
  const auto found = std::ranges::find_if(family, [&](const kv::FamilyMember& member) {
    return member.kind == kind && member.num_kv_heads == num_kv_heads && member.seed == 1;
  });
  REQUIRE(found != family.end());
  return *found;
}

// The last tenth of the text, which the models have not seen.
std::string held_out_text() {
  std::ifstream file(kText, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return text.substr(
      static_cast<std::size_t>(std::llround(0.9 * static_cast<double>(text.size()))));
}

// Mean nats per token over windows of the context that follow each other, as train.py measures it.
double held_out_loss(const kv::Model& model, const std::vector<kv::TokenId>& tokens) {
  const std::span<const kv::TokenId> all(tokens);
  const auto window = static_cast<std::size_t>(model.config.context_length);
  double total = 0.0;
  for (std::size_t start = 0; start + 1 < all.size(); start += window) {
    const std::size_t count = std::min(window, all.size() - 1 - start);
    kv::ContiguousCache cache(model.config, static_cast<std::int64_t>(count));
    const kv::RowMajor logits = kv::forward_all(model, cache, all.subspan(start, count));
    for (std::size_t t = 0; t < count; ++t) {
      const auto row = logits.row(static_cast<std::int64_t>(t)).cast<double>();
      const double most = row.maxCoeff();
      const double target = row(all[start + t + 1]);
      total += most + std::log((row.array() - most).exp().sum()) - target;
    }
  }
  return total / static_cast<double>(all.size() - 1);
}

}  // namespace

TEST_CASE("family: the shipped models have the heads, bytes and parameters of their record",
          "[family][model]") {
  const auto family = kv::read_family(kFolder + "family.csv");
  std::uintmax_t num_bytes = 0;
  for (const Shipped& shipped : kShipped) {
    INFO(shipped.path);
    const auto loaded = kv_test::load_or_skip(shipped.path);
    const kv::ModelConfig& config = loaded.model.config;
    CHECK(config.heads.num_q_heads == 8);
    CHECK(config.heads.num_kv_heads == shipped.num_kv_heads);
    const kv::FamilyMember& member = recorded(family, "trained", shipped.num_kv_heads);
    CHECK(loaded.model.num_parameters() == member.num_parameters);
    CHECK(kv::kv_bytes_per_token(kv::kv_shape(config), kv::kv_format("fp32")).total() ==
          member.kv_bytes_per_token);
    num_bytes += std::filesystem::file_size(shipped.path);
  }
  CHECK(num_bytes <= 8'000'000);
}

TEST_CASE("family: the record is complete, three seeds of every kind and number of KV heads",
          "[family]") {
  const auto family = kv::read_family(kFolder + "family.csv");
  for (const int heads : {8, 4, 2, 1}) {
    CHECK(kv::family_loss(family, "trained", heads).num_seeds == 3);
    CHECK(kv::family_loss(family, "pooled", heads).num_seeds == (heads < 8 ? 3 : 0));
    CHECK(kv::family_loss(family, "uptrained", heads).num_seeds == 3);
  }
  CHECK(family.size() == 4 * 3 + 3 * 3 + 4 * 3);
}

TEST_CASE("family: the shipped models, and those pooled from them, have the recorded losses",
          "[family][model][shared]") {
  if (kSanitized) SKIP("too slow with sanitizers");
  if (!std::filesystem::exists(kText)) SKIP(kText << " is not here");
  const auto family = kv::read_family(kFolder + "family.csv");
  const auto mha = kv_test::load_or_skip(kShipped[0].path);
  const auto mqa = kv_test::load_or_skip(kShipped[1].path);
  const auto tokens = mha.tokenizer.encode(held_out_text());
  REQUIRE(tokens.size() == 49'425);
  // Two implementations in fp32: a mean over 49,424 tokens hides what rounding does to each.
  const auto expect = [&](const kv::Model& model, const char* kind, int num_kv_heads) {
    CHECK(std::fabs(held_out_loss(model, tokens) -
                    recorded(family, kind, num_kv_heads).held_out_loss) < 2e-4);
  };
  expect(mha.model, "trained", 8);
  expect(mqa.model, "trained", 1);
  for (const int heads : {4, 1}) expect(kv::with_kv_heads(mha.model, heads), "pooled", heads);
}
