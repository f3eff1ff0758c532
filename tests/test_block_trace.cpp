// The trace of the allocator: exact JSON for a short story, and that it can be played back.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kv/check.hpp"
#include "kv/report/block_trace.hpp"

namespace {

// The story's text without white space.
std::string dense(const kv::Json& json) {
  std::string out;
  bool in_string = false;
  bool escaped = false;
  for (const char c : json.str()) {
    if (c == '"' && !escaped) in_string = !in_string;
    escaped = c == '\\' && !escaped;
    if (in_string || (c != ' ' && c != '\n')) out += c;
  }
  return out;
}

void grow(kv::BlockAllocator& allocator, kv::BlockTable& table, std::int64_t num_tokens, int id) {
  std::vector<kv::BlockCopy> copies;
  REQUIRE(allocator.reserve(table, num_tokens, copies, id));
  table.length += num_tokens;
}

}  // namespace

TEST_CASE("block trace: every event and, after each step, the whole state", "[paged][trace]") {
  kv::BlockAllocator allocator(3, 2);
  kv::BlockTrace trace(allocator);
  kv::BlockTable a{2};
  grow(allocator, a, 3, 0);
  const std::vector<kv::TracedTable> one = {{"A", &a, {"To", " be", "\n"}}};
  trace.end_step("A reads \"To be\"", one);
  kv::BlockTable b = allocator.fork(a, 1);
  grow(allocator, b, 1, 1);
  allocator.publish(b, std::vector<std::int32_t>{1, 2, 3, 4}, 0, 1);
  const std::vector<kv::TracedTable> two = {{"A", &a}, {"B", &b}};
  trace.end_step("B forks A and writes", two);
  std::vector<kv::BlockCopy> copies;
  REQUIRE_FALSE(allocator.reserve(b, 1, copies, 1));
  trace.end_step("B waits", two);

  CHECK(
      dense(trace.json()) ==
      R"({"schema":"kv-block-trace-1","block_size":2,"num_blocks":3,"steps":[)"
      R"({"narration":"The beginning.","events":[],"tables":[],"holders":[0,0,0],"free":[0,1,2],)"
      R"("known":[]},)"
      R"({"narration":"A reads \"To be\"","events":[)"
      R"({"kind":"allocate","sequence":0,"block":0,"from":null,"num_holders":1},)"
      R"({"kind":"allocate","sequence":0,"block":1,"from":null,"num_holders":1}],)"
      R"("tables":[{"name":"A","length":3,"blocks":[0,1],"texts":["To"," be","\n"]}],)"
      R"("holders":[1,1,0],"free":[2],"known":[]},)"
      R"({"narration":"B forks A and writes","events":[)"
      R"({"kind":"share","sequence":1,"block":0,"from":null,"num_holders":2},)"
      R"({"kind":"share","sequence":1,"block":1,"from":null,"num_holders":2},)"
      R"({"kind":"allocate","sequence":1,"block":2,"from":null,"num_holders":1},)"
      R"({"kind":"copy","sequence":1,"block":2,"from":1,"num_holders":1},)"
      R"({"kind":"release","sequence":1,"block":1,"from":null,"num_holders":1},)"
      R"({"kind":"learn","sequence":1,"block":0,"from":null,"num_holders":3},)"
      R"({"kind":"learn","sequence":1,"block":2,"from":null,"num_holders":2}],)"
      R"("tables":[{"name":"A","length":3,"blocks":[0,1],"texts":[]},)"
      R"({"name":"B","length":4,"blocks":[0,2],"texts":[]}],)"
      R"("holders":[3,1,2],"free":[],"known":[{"block":0,"parent":null},{"block":2,"parent":0}]},)"
      R"({"narration":"B waits","events":[)"
      R"({"kind":"exhausted","sequence":1,"block":null,"from":null,"num_holders":0}],)"
      R"("tables":[{"name":"A","length":3,"blocks":[0,1],"texts":[]},)"
      R"({"name":"B","length":4,"blocks":[0,2],"texts":[]}],)"
      R"("holders":[3,1,2],"free":[],"known":[{"block":0,"parent":null},{"block":2,"parent":0}]}]})");
}

TEST_CASE(
    "block trace: release, free and evict have their names, and it stops listening at its end",
    "[paged][trace]") {
  kv::BlockAllocator allocator(1, 1);
  {
    kv::BlockTrace trace(allocator);
    kv::BlockTable a{1}, b{1};
    grow(allocator, a, 1, 0);
    allocator.publish(a, std::vector<std::int32_t>{5});
    allocator.truncate(a, 0);
    grow(allocator, b, 1, 1);
    allocator.truncate(b, 0, nullptr, 1);
    trace.end_step("end", {});
    const std::string text = dense(trace.json());
    std::size_t at = 0;
    for (const char* kind :
         {"allocate", "learn", "release", "evict", "free", "allocate", "release", "free"}) {
      at = text.find("\"kind\":\"" + std::string(kind) + "\"", at);
      INFO(kind);
      REQUIRE(at != std::string::npos);
      at += 1;
    }
    CHECK(text.find("\"kind\"", at) == std::string::npos);
  }
  kv::BlockTable c{1};
  grow(allocator, c, 1, 2);  // nobody listens: nothing dangles
}

TEST_CASE("block trace: it is written whole, or a line says why not", "[paged][trace]") {
  kv::BlockAllocator allocator(1, 1);
  const kv::BlockTrace trace(allocator);
  const std::string path =
      (std::filesystem::temp_directory_path() / "kv_block_trace_test.json").string();
  trace.write("--trace", path);
  std::ifstream file(path);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == trace.json().str());
  std::filesystem::remove(path);
  CHECK_THROWS_AS(trace.write("--trace", "/no/such/folder/trace.json"), kv::InputError);
}
