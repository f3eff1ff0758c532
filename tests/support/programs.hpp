// Running the course's programs and reading what they print.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace kv_test {

namespace fs = std::filesystem;

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

inline std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A folder of this process's own: ctest runs cases side by side.
inline fs::path scratch() {
  const fs::path folder = fs::path(KV_BINARY_DIR) / "test_programs" / std::to_string(::getpid());
  fs::create_directories(folder);
  return folder;
}

inline Outcome run(const std::string& program, const std::string& arguments) {
  const std::string errors = (scratch() / "stderr").string();
  const std::string command =
      std::string(KV_BINARY_DIR) + "/bin/" + program + " " + arguments + " 2>" + errors;
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer;
  while (const std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.out.append(buffer.data(), count);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
  outcome.err = slurp(errors);
  return outcome;
}

// The report without its last three lines, which are times.
inline std::string deterministic_report(const std::string& out) {
  const std::size_t begin = out.find("--- report");
  const std::size_t end = out.find("TTFT", begin);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  return out.substr(begin, end - begin);
}

// What stands before the first section: prompt and continuation.
inline std::string text_of(const std::string& out) {
  const std::size_t end = std::min({out.find("\n\nWork up to"), out.find("\n\nCost of one"),
                                    out.find("\n\nThe ladder"), out.find("\n\nWho reads"),
                                    out.find("\n\nThree sequences"), out.find("\n\n--- report")});
  REQUIRE(end != std::string::npos);
  return out.substr(0, end);
}

// The chapter runs this Math unless told otherwise, says so in --help, and in its report names the
// one that it ran.
inline void expect_math(const std::string& program, const std::string& by_default) {
  INFO(program);
  const std::string help = run(program, "--help").out;
  const std::size_t at = help.find("--math "), end = help.find("code of", at);
  REQUIRE(end != std::string::npos);
  // Versions of CLI11 write it as TEXT=plain or TEXT [plain].
  CHECK_THAT(help.substr(at, end - at), Catch::Matchers::ContainsSubstring(by_default));
  for (const std::string name : {"", "plain", "fast"}) {
    const Outcome outcome =
        run(program, "--device cpu --tokens 2" + (name.empty() ? "" : " --math " + name));
    CHECK(outcome.status == 0);
    const std::string expected = name.empty() ? by_default : name;
    const std::string label = program == "00_model" ? "math: " : "\nmath" + std::string(20, ' ');
    CHECK_THAT(outcome.out, Catch::Matchers::ContainsSubstring(label + expected + "\n"));
  }
}

// The value of a top-level key, as it is written.
inline std::string json_value(const std::string& json, const std::string& key) {
  const std::size_t at = json.find("\"" + key + "\": ");
  REQUIRE(at != std::string::npos);
  const std::size_t begin = at + key.size() + 4;
  return json.substr(begin, json.find_first_of(json[begin] == '[' ? "]" : "\n", begin) - begin);
}

inline void expect_refusal(const std::string& program, const std::string& arguments,
                           const std::string& names) {
  INFO(program << " " << arguments);
  const Outcome outcome = run(program, arguments);
  CHECK(outcome.status == 2);
  INFO("stderr: " << outcome.err);
  CHECK_THAT(outcome.err, Catch::Matchers::StartsWith(program + ": "));
  CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring(names));
  // One line, and it is the last character that ends it.
  CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
}

}  // namespace kv_test
