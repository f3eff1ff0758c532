// The tokenizer.ggml keys of a GGUF file.
#include <limits>

#include "kv/check.hpp"
#include "kv/model/gguf.hpp"
#include "kv/model/tokenizer.hpp"

namespace kv {
namespace {

std::vector<std::string> copy_strings(const std::vector<std::string_view>& views) {
  return {views.begin(), views.end()};
}

std::optional<TokenId> token_id(const GgufFile& file, std::string_view key) {
  const std::optional<std::int64_t> id = file.integer(key);
  if (!id) return std::nullopt;
  if (*id < 0 || *id > std::numeric_limits<TokenId>::max())
    throw file.key_error(key, "id " + std::to_string(*id) + " is outside every vocabulary");
  return static_cast<TokenId>(*id);
}

std::vector<std::int32_t> token_types(const GgufFile& file) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  std::vector<std::int32_t> types;
  for (std::int64_t type : file.integers(kKey).value_or(std::vector<std::int64_t>{})) {
    if (type < 0 || type > std::numeric_limits<std::int32_t>::max())
      throw file.key_error(kKey, "holds " + std::to_string(type) + "; known types are 1 to 6");
    types.push_back(static_cast<std::int32_t>(type));
  }
  return types;
}

TokenizerData read_data(const GgufFile& file) {
  TokenizerData data;
  const auto model = file.string("tokenizer.ggml.model");
  if (!model) throw file.key_error("tokenizer.ggml.model", "missing: the file has no tokenizer");
  data.model = *model;
  const auto pre = file.string("tokenizer.ggml.pre");
  if (!pre && data.model == "gpt2")
    throw file.key_error("tokenizer.ggml.pre",
                         "missing; convert the model again with a converter that writes it");
  data.pre = pre.value_or("");
  const auto tokens = file.strings("tokenizer.ggml.tokens");
  if (!tokens) throw file.key_error("tokenizer.ggml.tokens", "missing: the file has no vocabulary");
  data.tokens = copy_strings(*tokens);
  data.scores = file.floats("tokenizer.ggml.scores").value_or(std::vector<float>{});
  data.types = token_types(file);
  const auto merges = file.strings("tokenizer.ggml.merges");
  if (!merges && data.model == "gpt2") throw file.key_error("tokenizer.ggml.merges", "missing");
  if (merges) data.merges = copy_strings(*merges);
  data.bos = token_id(file, "tokenizer.ggml.bos_token_id");
  data.eos = token_id(file, "tokenizer.ggml.eos_token_id");
  data.eot = token_id(file, "tokenizer.ggml.eot_token_id");
  data.unk = token_id(file, "tokenizer.ggml.unknown_token_id");
  data.add_bos = file.boolean("tokenizer.ggml.add_bos_token");
  data.add_eos = file.boolean("tokenizer.ggml.add_eos_token");
  data.add_space_prefix = file.boolean("tokenizer.ggml.add_space_prefix");
  return data;
}

}  // namespace

Tokenizer load_tokenizer(const GgufFile& file) {
  TokenizerData data = read_data(file);
  try {
    return Tokenizer(std::move(data));
  } catch (const InputError& error) {
    throw InputError(file.name() + ": " + error.what());
  }
}

}  // namespace kv
