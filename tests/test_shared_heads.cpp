// Chapter 4's tables: the published comparison, the roofline, the family's record.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "kv/cost/family.hpp"
#include "kv/cost/shared_heads.hpp"
#include "kv/model/gguf.hpp"
#include "support/programs.hpp"

using Catch::Matchers::ContainsSubstring;

namespace {

const std::string kHeader =
    "kind,kv_heads,seed,steps,parameters,kv_bytes_per_token_fp32,held_out_loss\n";

std::string family_file(const std::string& text) {
  const std::string path = (kv_test::scratch() / "family.csv").string();
  std::ofstream(path) << text;
  return path;
}

}  // namespace

TEST_CASE("shared heads: 32, 8 and 1 KV heads cost 1, 1/4 and 1/32 of the cache", "[cost]") {
  const int counts[] = {32, 8, 1};
  for (const char* format : {"fp32", "bf16", "int8", "int4"}) {
    const auto costs = kv::shared_heads_costs(kv::published_model("llama-3-8b"), counts,
                                              kv::kv_format(format), 8192, 1);
    REQUIRE(costs.size() == 3);
    CHECK(costs[0].relative_cache == 1.0);
    CHECK(costs[1].relative_cache == 0.25);
    CHECK(costs[2].relative_cache == 1.0 / 32);
    CHECK(costs[1].group_size == 4);
    CHECK(costs[2].group_size == 32);
  }
  const auto costs = kv::shared_heads_costs(kv::published_model("llama-3-8b"), counts,
                                            kv::kv_format("bf16"), 8192, 1);
  CHECK(costs[0].kv_bytes_per_token == 524'288);
  CHECK(costs[1].kv_bytes_per_token == 131'072);
  CHECK(costs[2].kv_bytes_per_token == 16'384);
}

TEST_CASE("shared heads: in 16 bit, attention does as many operations a byte as a group has heads",
          "[cost]") {
  const int counts[] = {32, 16, 8, 4, 2, 1};
  for (const std::int64_t context : {1, 100, 8192})
    for (const std::int64_t batch : {1, 7})
      for (const kv::SharedHeadsCost& cost : kv::shared_heads_costs(
               kv::published_model("llama-2-7b"), counts, kv::kv_format("fp16"), context, batch)) {
        CHECK(std::fabs(cost.attention.intensity() / cost.group_size - 1.0) < 1e-4);
        CHECK(cost.attention.weight_bytes == 0.0);
        CHECK(cost.attention.kv_bytes ==
              static_cast<double>(cost.kv_bytes_per_token * context * batch));
        CHECK(cost.step.intensity() > 0.0);
      }
}

TEST_CASE("shared heads: other KV heads change the parameters of K and V alone", "[cost]") {
  const kv::PublishedModel& llama2 = kv::published_model("llama-2-7b");
  // 32 layers of two matrices: 31 heads fewer, of 128 rows of 4096 each.
  const kv::PublishedModel mqa = kv::with_kv_heads(llama2, 1);
  CHECK(llama2.params - mqa.params == std::int64_t{32} * 2 * 31 * 128 * 4096);
  CHECK(llama2.active_params - mqa.active_params == llama2.params - mqa.params);
  CHECK(kv::with_kv_heads(mqa, 32).params == llama2.params);
  CHECK(kv::with_kv_heads(llama2, 32).kv.num_kv_heads == 32);
  CHECK_THROWS_WITH(kv::with_kv_heads(llama2, 5),
                    ContainsSubstring("(5)") && ContainsSubstring("(32)"));
  CHECK_THROWS_AS(kv::with_kv_heads(llama2, 0), kv::InputError);
  CHECK_THROWS_AS(kv::with_kv_heads(kv::published_model("deepseek-v3"), 1), std::invalid_argument);
}

TEST_CASE("shared heads: the text shows the cache, the bytes and every device", "[cost]") {
  const int counts[] = {32, 8, 1};
  const kv::PublishedModel& model = kv::published_model("llama-3-8b");
  const kv::KvFormat& format = kv::kv_format("bf16");
  const std::string text =
      kv::shared_heads_text(model, kv::shared_heads_costs(model, counts, format, 8192, 1), format,
                            8192, 1, kv::published_devices());
  for (const std::string words : {"1/4", "1/32", "524,288", "131,072", "16,384", "4.295 GB",
                                  "1.074 GB", "134.2 MB", "H100 SXM", "T4", "memory"})
    CHECK_THAT(text, ContainsSubstring(words));
}

TEST_CASE("family: a record is read, and its losses are averaged over the seeds", "[family]") {
  const auto family = kv::read_family(family_file(kHeader + "trained,8,1,100,2000,4096,3.50000\n"
                                                            "trained,8,2,100,2000,4096,3.60000\n"
                                                            "trained,1,1,100,1500,512,3.75\n"
                                                            "pooled,1,1,100,1500,512,6.0\n"));
  REQUIRE(family.size() == 4);
  CHECK(family[3].kind == "pooled");
  CHECK(family[2].num_parameters == 1500);
  const kv::FamilyLoss loss = kv::family_loss(family, "trained", 8);
  CHECK(loss.num_seeds == 2);
  CHECK(std::fabs(loss.mean - 3.55) < 1e-12);
  CHECK(loss.lowest == 3.5);
  CHECK(loss.highest == 3.6);
  CHECK(kv::family_loss(family, "pooled", 8).num_seeds == 0);
  const std::string text = kv::family_text(family);
  CHECK_THAT(text, ContainsSubstring("3.550 (3.500 to 3.600)"));
  CHECK(text.find("4,096") < text.find("512"));

  // 0.25 with the seed that both have; the 3.60 of the other seed has nothing to be held against.
  const std::string cost = kv::family_cost_text(family);
  CHECK_THAT(cost, ContainsSubstring("0.250 (0.250 to 0.250)"));
  CHECK_THAT(cost, ContainsSubstring("2.500 (2.500 to 2.500)"));

  const auto plots = kv::family_plots(family);
  REQUIRE(plots.size() == 2);
  CHECK_THAT(kv::to_svg(plots), ContainsSubstring("pooled, 1 KV heads, seed 1: 6.0000"));
  CHECK_THAT(kv::to_svg(plots[1]), !ContainsSubstring("6.0000"));
}

TEST_CASE("family: what is no record is refused with its line", "[family]") {
  CHECK_THROWS_WITH(kv::read_family("/no/such/family.csv"),
                    ContainsSubstring("/no/such/family.csv"));
  CHECK_THROWS_WITH(kv::read_family(family_file("a,b\n")), ContainsSubstring("line 1"));
  for (const std::string line :
       {"trained,8,1,100,2000,4096", "guessed,8,1,100,2000,4096,3.5",
        "trained,8,1,100,2000,4096,3.5,7", "trained,8,1,100,2000,4096,x", "",
        "trained,0,1,100,2000,4096,3.5", "trained,8,1,100,2000,4096,nan"}) {
    INFO(line);
    CHECK_THROWS_WITH(kv::read_family(family_file(kHeader + "trained,8,1,1,1,1,1\n" + line + "\n")),
                      ContainsSubstring("line 3"));
  }
}

TEST_CASE("convert_heads: it writes a model with the wanted heads", "[programs]") {
  const auto out = kv_test::scratch() / "out.gguf";
  const std::string model = KV_SOURCE_DIR "/chapters/00_model/shakespeare.gguf";
  for (const int heads : {8, 1}) {
    const kv_test::Outcome outcome =
        kv_test::run("convert_heads", "--model " + model + " --kv-heads " + std::to_string(heads) +
                                          " --out " + out.string());
    CHECK(outcome.status == 0);
    CHECK(outcome.err.empty());
    CHECK_THAT(outcome.out, ContainsSubstring("8 query heads, " + std::to_string(heads)));
    CHECK(kv::load_model(kv::GgufFile::open(out.string())).config.heads.num_kv_heads == heads);
  }
  std::filesystem::remove(out);
}

TEST_CASE("convert_heads: what it cannot do is one line, and nothing is written", "[programs]") {
  const auto out = kv_test::scratch() / "refused.gguf";
  const std::string model = KV_SOURCE_DIR "/chapters/00_model/shakespeare.gguf";
  const auto refused = [&](const std::string& in, const std::string& heads,
                           const std::string& names) {
    kv_test::expect_refusal("convert_heads",
                            "--model " + in + " --kv-heads " + heads + " --out " + out.string(),
                            names);
    CHECK_FALSE(std::filesystem::exists(out));
  };
  refused(model, "3", "--kv-heads: 3 is not a multiple of the model's 2 KV heads");
  refused(model, "6", "--kv-heads: 6 does not divide the model's 8 query heads");
  refused(model, "0", "--kv-heads: 0 does not divide the model's 2 KV heads");
  refused(model, "-1", "--kv-heads");
  refused(model, "many", "--kv-heads");
  refused("/no/such/model.gguf", "1", "/no/such/model.gguf");
  kv_test::expect_refusal("convert_heads",
                          "--model " + model + " --kv-heads 1 --out /no/such/folder/x", "--out");
}
