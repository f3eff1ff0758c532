// The tokenizers of real model files, against ids that independent implementations gave.
//
// tests/golden/make_tokenizer.py wrote the golden files and says how. A model that is not there is
// skipped, visibly.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "kv/check.hpp"
#include "kv/model/gguf.hpp"
#include "kv/model/tokenizer.hpp"

using Ids = std::vector<kv::TokenId>;

namespace {

kv::Tokenizer tokenizer_of(const std::string& path) {
  if (!std::filesystem::exists(path)) SKIP("no model file " + path);
  return kv::load_tokenizer(*kv::GgufFile::open(path));
}

std::string stories_path() {
  return std::string(KV_SOURCE_DIR) + "/../shared/data/stories260K.gguf";
}

std::string smollm2_path() {
  const char* path = std::getenv("KV_SMOLLM2");
  if (path != nullptr) return path;
  return std::string(KV_SOURCE_DIR) + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

std::string unescape(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      bytes += text[i];
      continue;
    }
    bytes += static_cast<char>(std::stoi(text.substr(i + 2, 2), nullptr, 16));
    i += 3;  // xNN
  }
  return bytes;
}

// Encodes each text of a golden file; `num_texts` guards against a file that was cut.
void check_golden(const kv::Tokenizer& tokenizer, const std::string& name, int num_texts) {
  std::ifstream file(std::string(KV_SOURCE_DIR) + "/tests/golden/" + name);
  REQUIRE(file);
  int num_checked = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos) continue;  // a comment
    const std::string text = unescape(line.substr(0, tab));
    INFO("text '" << line.substr(0, tab) << "'");
    ++num_checked;
    if (line.substr(tab + 1) == "refused") {
      CHECK_THROWS_AS(tokenizer.encode(text), kv::InputError);
      continue;
    }
    std::istringstream numbers(line.substr(tab + 1));
    Ids expected;
    for (kv::TokenId id; numbers >> id;) expected.push_back(id);
    const Ids ids = tokenizer.encode(text);
    CHECK(ids == expected);
    CHECK(tokenizer.decode(ids) == text);
  }
  CHECK(num_checked == num_texts);
}

}  // namespace

TEST_CASE("stories260K: ids are those of sentencepiece", "[tokenizer][files]") {
  const kv::Tokenizer tokenizer = tokenizer_of(stories_path());
  CHECK(tokenizer.vocab_size() == 512);
  CHECK(tokenizer.is_end(2));
  check_golden(tokenizer, "tokenizer_stories260k.txt", 65);
}

TEST_CASE("SmolLM2: ids are those of the tokenizers package", "[tokenizer][files]") {
  const kv::Tokenizer tokenizer = tokenizer_of(smollm2_path());
  CHECK(tokenizer.vocab_size() == 49152);
  check_golden(tokenizer, "tokenizer_smollm2.txt", 65);
}

TEST_CASE("SmolLM2: a control token is parsed only on request", "[tokenizer][files]") {
  const kv::Tokenizer tokenizer = tokenizer_of(smollm2_path());
  const std::string text = "A<|im_end|>B";
  CHECK(tokenizer.encode(text, kv::Special::on) == Ids{49, 2, 50});
  const Ids off = tokenizer.encode(text);
  for (kv::TokenId id : off) CHECK(tokenizer.type(id) == kv::TokenType::normal);
  CHECK(tokenizer.decode(off) == text);
  for (kv::TokenId id : {0, 2}) CHECK(tokenizer.is_end(id));
  CHECK_FALSE(tokenizer.is_end(1));
}

TEST_CASE("embedded model: its tokenizer brings every byte back", "[tokenizer][files]") {
  const kv::Tokenizer tokenizer =
      tokenizer_of(std::string(KV_SOURCE_DIR) + "/chapters/00_model/shakespeare.gguf");
  std::string text = "To be, or not to be, that is the question:\n";
  const Ids ids = tokenizer.encode(text);
  CHECK(tokenizer.decode(ids) == text);
  CHECK(ids.size() < text.size() / 2);  // merges apply
  text.clear();
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
}
