// Chapter 5's program as a person runs it: text, story, files, refusals.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <string>

#include "support/programs.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace kv_test;

namespace {

const std::string kProgram = "05_paged_cache";

}  // namespace

TEST_CASE("chapter 5's program: it writes the text of chapter 4, and tells the story",
          "[kernels][programs]") {
  const std::string arguments = "--prompt 'ROMEO:' --tokens 6 --device emulated";
  const Outcome before = run("04_shared_heads", arguments);
  const Outcome outcome = run(kProgram, arguments);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  CHECK(outcome.err.empty());
  CHECK(text_of(outcome.out) == text_of(before.out));
  for (const std::string words :
       {"6 of 6 tokens equal", "64 tokens are found in 4 full blocks", "(1 block copied)",
        "A ends: [6 7] return, [0 1 2 3] stay", "10 held, 18 if each sequence had its own",
        "116 through the model, 257 without", "writes what it writes alone",
        "free and known blocks are all there are"})
    CHECK_THAT(outcome.out, ContainsSubstring(words));
  CHECK(deterministic_report(run(kProgram, arguments).out) == deterministic_report(outcome.out));
}

TEST_CASE("chapter 5's program: block sizes, formats and the CPU", "[kernels][programs]") {
  for (const std::string options :
       {"--device cpu --block-size 7", "--device cpu --block-size 256 --kv-dtype bf16",
        "--device emulated --block-size 1", "--device emulated --block-size 64 --kv-dtype fp16"}) {
    INFO(options);
    const Outcome outcome = run(kProgram, "--tokens 3 " + options);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    CHECK_THAT(outcome.out, ContainsSubstring("3 of 3 tokens equal"));
  }
}

TEST_CASE("chapter 5's program: it holds whole blocks, those of the tokens that are there",
          "[kernels][programs]") {
  // 2 tokens of prompt, 14 fed back of 15 written: exactly one block of 16; one more, and two.
  for (const auto& [tokens, held] : {std::pair{"15", "32,768"}, std::pair{"16", "65,536"}}) {
    const Outcome outcome = run(
        kProgram, std::string("--device cpu --prompt 'ROMEO:' --ignore-eos --tokens ") + tokens);
    INFO(outcome.out);
    CHECK_THAT(outcome.out, ContainsSubstring(std::string("KV bytes held           ") + held));
  }
}

TEST_CASE("chapter 5's program: the trace and the arrays are files", "[kernels][programs]") {
  const std::string trace = (scratch() / "trace.json").string();
  const std::string npz = (scratch() / "sequence.npz").string();
  const Outcome outcome =
      run(kProgram, "--device cpu --tokens 3 --trace " + trace + " --export " + npz);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  const std::string json = slurp(trace);
  for (const std::string words : {"kv-block-trace-1", "\"allocate\"", "\"share\"", "\"copy\"",
                                  "\"learn\"", "\"free\"", "A arrives"})
    CHECK_THAT(json, ContainsSubstring(words));
  CHECK(slurp(npz).substr(0, 2) == "PK");
  fs::remove(trace);
  fs::remove(npz);
}

TEST_CASE("chapter 5's program: what it cannot do is one line", "[kernels][programs]") {
  expect_refusal(kProgram, "--block-size 0", "--block-size");
  expect_refusal(kProgram, "--block-size 257", "--block-size");
  expect_refusal(kProgram, "--trace /no/such/folder/t.json", "--trace");
  expect_refusal(kProgram, "--device cpu --export /no/such/folder/t.npz", "--export");
  expect_refusal(kProgram, "--device emulated --export " + (scratch() / "a.npz").string(),
                 "--device cpu");
}
