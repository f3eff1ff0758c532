// The trained models that tests may find, and how they skip when one is not there.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "kv/load.hpp"

namespace kv_test {

/// The model in the source tree; always there.
inline std::string shakespeare_path() {
  return KV_SOURCE_DIR "/chapters/00_model/shakespeare.gguf";
}

/// A small outside model in the folder beside the checkout that CI has and users do not.
inline std::string stories_path() { return KV_SOURCE_DIR "/../shared/data/stories260K.gguf"; }

/// Where `./kv model smollm2` puts it; the variable KV_SMOLLM2 names another place.
inline std::string smollm2_path() {
  const char* elsewhere = std::getenv("KV_SMOLLM2");
  return elsewhere != nullptr ? elsewhere : KV_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

/// Loads a model, or skips the test visibly when its file is absent.
inline kv::LoadedModel load_or_skip(const std::string& path) {
  if (!std::filesystem::exists(path)) SKIP(path << " is not here");
  std::ostringstream warnings;
  kv::LoadedModel loaded = kv::load(path, warnings);
  INFO(warnings.str());
  return loaded;
}

}  // namespace kv_test
