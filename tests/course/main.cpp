// Runs the test cases of one exercise and writes what came of each, for the grader.
//
//   grade_NN_NAME FD   one line of JSON for each case to the file descriptor FD; the last line says
//                      that all of it was written: {"end": number of cases, "key": "..."}
//
// The key is the first line of standard input: who ends early does not know it.
#include <catch2/catch_session.hpp>
#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#include <catch2/reporters/catch_reporter_streaming_base.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "kv/report/json.hpp"

namespace {

std::FILE* results = nullptr;
int num_cases = 0;

std::string json(const std::string& text) {
  std::string line = kv::Json(text).str();
  if (line.ends_with('\n')) line.pop_back();
  return line;
}

class GradeReporter final : public Catch::StreamingReporterBase {
 public:
  using StreamingReporterBase::StreamingReporterBase;
  static std::string getDescription() { return "what came of each case, as lines of JSON"; }

  void assertionEnded(const Catch::AssertionStats& stats) override {
    const Catch::AssertionResult& result = stats.assertionResult;
    if (result.isOk() || !details_.empty()) return;
    for (const Catch::MessageInfo& info : stats.infoMessages) {
      if (!result.hasMessage() || info.message != std::string(result.getMessage()))
        details_ += (details_.empty() ? "" : "\n") + info.message;
    }
    if (!details_.empty()) details_ += "\n";
    if (result.hasExpression()) {
      details_ += "wanted " + std::string(result.getExpressionInMacro());
      if (result.hasExpandedExpression()) details_ += "\n   got " + result.getExpandedExpression();
    }
    if (result.hasMessage())
      details_ += (result.hasExpression() ? "\n" : "") + std::string(result.getMessage());
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    const auto& assertions = stats.totals.assertions;
    const bool passed = assertions.failed == 0 && assertions.passed > 0;
    std::fprintf(results, "{\"case\": %s, \"passed\": %s, \"assertions\": %llu, \"details\": %s}\n",
                 json(stats.testInfo->name).c_str(), passed ? "true" : "false",
                 static_cast<unsigned long long>(assertions.total()), json(details_).c_str());
    std::fflush(results);
    ++num_cases;
    details_.clear();
  }

 private:
  std::string details_;  // of the first assertion that failed
};

CATCH_REGISTER_REPORTER("grade", GradeReporter)

}  // namespace

int main(int argc, char** argv) {
  std::string key;
  if (argc != 2 || !std::getline(std::cin, key)) {
    std::fprintf(stderr, "usage: echo KEY | %s FD\n", argv[0]);
    return 2;
  }
  results = fdopen(std::atoi(argv[1]), "w");
  if (results == nullptr) return 2;
  Catch::Session session;
  const char* arguments[] = {argv[0], "--reporter", "grade", "--rng-seed", "1"};
  session.applyCommandLine(5, arguments);
  session.run();
  std::fprintf(results, "{\"end\": %d, \"key\": %s}\n", num_cases, json(key).c_str());
  return std::fclose(results) == 0 ? 0 : 2;
}
