// The calculator as a program: what it prints, writes and refuses.
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include "kv/cache/contiguous.hpp"
#include "kv/cost/gguf_shape.hpp"
#include "kv/model/weights.hpp"

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

const std::string kModelFile = KV_SOURCE_DIR "/chapters/00_model/shakespeare.gguf";

// An empty folder that goes away with the test.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "kv_calculator.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) FAIL("no temporary folder");
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
};

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Result {
  int status = -1;
  std::string out, err;
};

Result calculate(const std::string& arguments) {
  const Folder folder;
  const std::string command = "'" KV_BINARY_DIR "/bin/kv_calculator' " + arguments + " >'" +
                              (folder.path / "out").string() + "' 2>'" +
                              (folder.path / "err").string() + "'";
  const int status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));  // not killed by a signal
  return {WEXITSTATUS(status), content(folder.path / "out"), content(folder.path / "err")};
}

std::int64_t number(const std::string& json, const std::string& key) {
  std::smatch match;
  if (!std::regex_search(json, match, std::regex("\"" + key + "\": (-?[0-9]+)")))
    FAIL("no " << key << " in " << json);
  return std::stoll(match[1]);
}

std::string json_of(const std::string& arguments) {
  const Folder folder;
  const fs::path path = folder.path / "r.json";
  const Result result = calculate(arguments + " --no-measure --json '" + path.string() + "'");
  INFO(result.err);
  REQUIRE(result.status == 0);
  return content(path);
}

}  // namespace

TEST_CASE("calculator: a published model's sizes are printed in GB and GiB", "[calculator]") {
  const Result result = calculate("--model llama-3-8b --context 8192 --batch 16 --no-measure");
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK_THAT(result.out, ContainsSubstring("1,073,741,824") && ContainsSubstring("1.074 GB") &&
                             ContainsSubstring("1.000 GiB") && ContainsSubstring("131,072") &&
                             ContainsSubstring("17.18 GB") && ContainsSubstring("16.00 GiB"));
  for (const char* device : {"H100 SXM", "H200", "A100 80GB", "RTX 4090", "T4"})
    CHECK_THAT(result.out, ContainsSubstring(device));
}

TEST_CASE("calculator: the JSON file holds exact bytes", "[calculator]") {
  std::string json = json_of("--model mha-70b --context 8192 --batch 8");
  CHECK(number(json, "kv_bytes_per_token") == 2'621'440);
  CHECK(number(json, "kv_bytes_per_sequence") == 21'474'836'480);
  CHECK(number(json, "kv_bytes_total") == 171'798'691'840);
  CHECK(number(json, "weight_bytes") == 140'000'000'000);

  json = json_of("--model llama-3-8b --context 17 --block-size 16 --dtype int8");
  CHECK(number(json, "kv_bytes_per_token") == 32 * 16 * (128 + 4));
  CHECK(number(json, "kv_bytes_total") == 32LL * 32 * 16 * (128 + 4));

  json = json_of("--model gpt-oss-20b --context 1000 --dtype bf16 --weights-dtype int4");
  CHECK(number(json, "kv_bytes_total") == 12LL * (128 + 1000) * 2048);
  CHECK(number(json, "weight_bytes") == 20'914'757'184 / 32 * 18);

  json = json_of("--model deepseek-v3 --context 65536 --dtype int4");
  CHECK(number(json, "kv_element_bytes_total") == 1'151'336'448);
}

TEST_CASE("calculator: this machine stands on a roofline too", "[calculator]") {
  const Result result = calculate("--gpu t4");
  CHECK(result.status == 0);
  CHECK_THAT(result.out, ContainsSubstring("this machine") && ContainsSubstring("T4"));
  CHECK(result.out.find("H100") == std::string::npos);
}

TEST_CASE("calculator: --list, --help and the drawings succeed", "[calculator]") {
  CHECK_THAT(calculate("--list").out,
             ContainsSubstring("gpt2-small") && ContainsSubstring("36,864"));
  CHECK(calculate("--list").status == 0);
  CHECK(calculate("--help").status == 0);
  const Folder folder;
  const fs::path path = folder.path / "roof.svg";
  const Result result = calculate("--plot --no-measure --svg '" + path.string() + "'");
  CHECK(result.status == 0);
  CHECK_THAT(result.out, ContainsSubstring("⠤"));
  CHECK_THAT(content(path), ContainsSubstring("<svg ") && ContainsSubstring("decode on H200"));
}

TEST_CASE("calculator: bad input is one line on stderr and exit status 2", "[calculator]") {
  struct Bad {
    const char* arguments;
    const char* named;  // what the line must say
  };
  for (const Bad& bad : {Bad{"--model no-such-model", "no-such-model"},
                         {"--model ''", "--model"},
                         {"--model /nowhere/file.gguf", "/nowhere/file.gguf"},
                         {"--model " KV_SOURCE_DIR "/LICENSE", "LICENSE"},
                         {"--modle llama-3-8b", "--modle"},
                         {"stray", "stray"},
                         {"--context 0", "--context"},
                         {"--context -5", "--context"},
                         {"--context many", "--context"},
                         {"--context 1.5", "--context"},
                         {"--context", "--context"},
                         {"--context 9223372036854775807", "--context"},
                         {"--model mha-70b --context 1000000000000000", "--context"},
                         {"--context 92233720368547758070", "--context"},
                         {"--context 1000000000000 --batch 1000000000", "1000000000 sequences"},
                         {"--batch 0", "--batch"},
                         {"--batch -1", "--batch"},
                         {"--block-size 0", "--block-size"},
                         {"--block-size 9223372036854775807", "--block-size"},
                         {"--block-size 1000000000000000", "blocks of 1000000000000000"},
                         {"--dtype fp64", "fp64"},
                         {"--weights-dtype q3", "q3"},
                         {"--gpu abacus", "abacus"},
                         {"--json /nowhere/x.json", "/nowhere/x.json"},
                         {"--json /", "--json"},
                         {"--svg ''", "--svg"}}) {
    const Result result = calculate(std::string("--no-measure ") + bad.arguments);
    INFO(bad.arguments << " -> " << result.err);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK_THAT(result.err, ContainsSubstring("kv_calculator: ") && ContainsSubstring(bad.named));
  }
}

TEST_CASE("calculator: a GGUF file costs what its cache and its weights hold", "[calculator]") {
  if (!fs::exists(kModelFile)) SKIP("no " << kModelFile);
  const auto file = kv::GgufFile::open(kModelFile);
  const kv::GgufShape shape = kv::gguf_shape(*file);
  const kv::Model model = kv::load_model(file);
  CHECK(shape.weight_bytes == model.weight_bytes());
  CHECK(shape.model.params == model.num_parameters());
  CHECK(shape.model.num_q_heads == model.config.heads.num_q_heads);
  CHECK(shape.model.lookup_params ==
        (model.tied() ? 0 : model.token_embedding.num_rows * model.token_embedding.num_cols));

  const kv::ContiguousCache cache(model.config, 100, kv::DType::f16);
  const std::string json = json_of("--model '" + kModelFile + "' --context 100");
  CHECK(number(json, "kv_bytes_total") == cache.bytes_held());
  CHECK(number(json, "weight_bytes") == model.weight_bytes());
}
