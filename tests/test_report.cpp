// How things are printed: tables, bytes, JSON, CSV, files, progress.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "kv/check.hpp"
#include "kv/report/course_table.hpp"
#include "kv/report/display_width.hpp"
#include "kv/report/json.hpp"
#include "kv/report/output_file.hpp"
#include "kv/report/progress.hpp"
#include "kv/report/table.hpp"

namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

// An empty folder that goes away with the test.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "kv_report.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) FAIL("no temporary folder");
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  std::size_t num_files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
};

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("byte formatting: GB is 10^9 and GiB is 2^30, and both are printed", "[report]") {
  CHECK(kv::format_bytes(1'073'741'824) == "1.074 GB (1.000 GiB)");
  CHECK(kv::format_bytes(std::int64_t{16} << 30) == "17.18 GB (16.00 GiB)");
  CHECK(kv::format_bytes(21'474'836'480) == "21.47 GB (20.00 GiB)");
  CHECK(kv::format_bytes(171'798'691'840) == "171.8 GB (160.0 GiB)");
  CHECK(kv::format_bytes(36'864) == "36.86 kB (36.00 KiB)");
  CHECK(kv::format_bytes(131'072) == "131.1 kB (128.0 KiB)");
  // The units never part: just below and at each limit.
  CHECK(kv::format_bytes(0) == "0 B");
  CHECK(kv::format_bytes(999) == "999 B");
  CHECK(kv::format_bytes(1000) == "1.000 kB (0.977 KiB)");
  CHECK(kv::format_bytes(999'999) == "1,000 kB (976.6 KiB)");
  CHECK(kv::format_bytes(1'000'000) == "1.000 MB (0.954 MiB)");
  CHECK(kv::format_bytes(1'000'000'000) == "1.000 GB (0.931 GiB)");
  CHECK(kv::format_bytes(2'000'000'000'000) == "2,000 GB (1,863 GiB)");
  CHECK(kv::format_bytes(-1'073'741'824) == "-1.074 GB (-1.000 GiB)");
  CHECK(kv::format_bytes(std::numeric_limits<std::int64_t>::max()) ==
        "9,223,372,037 GB (8,589,934,592 GiB)");
}

TEST_CASE("numbers: thousands are grouped and four digits are kept", "[report]") {
  CHECK(kv::with_thousands(0) == "0");
  CHECK(kv::with_thousands(999) == "999");
  CHECK(kv::with_thousands(1000) == "1,000");
  CHECK(kv::with_thousands(-999) == "-999");
  CHECK(kv::with_thousands(-1000) == "-1,000");
  CHECK(kv::with_thousands(123456) == "123,456");
  CHECK(kv::with_thousands(std::numeric_limits<std::int64_t>::min()) ==
        "-9,223,372,036,854,775,808");
  CHECK(kv::four_digits(9.9994) == "9.999");
  CHECK(kv::four_digits(9.9996) == "10.00");
  CHECK(kv::four_digits(99.996) == "100.0");
  CHECK(kv::four_digits(999.96) == "1,000");
  CHECK(kv::four_digits(NAN) == "not a number");
  CHECK(kv::four_digits(INFINITY) == "infinite");
  CHECK(kv::four_digits(1e300) == "1.000e+300");
}

TEST_CASE("display width: columns are counted, not bytes", "[report]") {
  CHECK(kv::display_width("") == 0);
  CHECK(kv::display_width("abc") == 3);
  CHECK(kv::display_width("Grüße") == 5);
  CHECK(kv::display_width("e\xcc\x81") == 1);         // e and a combining accent
  CHECK(kv::display_width("日本") == 4);              // wide
  CHECK(kv::display_width("\xf0\x9f\x98\x8a") == 2);  // emoji
  CHECK(kv::display_width("─░█⣿") == 4);
  CHECK(kv::display_width("a\tb\x1b") == 2);  // control characters
  CHECK(kv::display_width("\xff") == 1);      // shown as U+FFFD
  CHECK(kv::display_width("\xe2\x82") == 1);  // a cut character
}

TEST_CASE("table: columns line up whatever the cells hold", "[report]") {
  kv::Table table({"name", "bytes", "note"}, {kv::Align::left, kv::Align::right, kv::Align::left});
  table.add_row({"Grüße", "1,024", "a\nb"});
  table.add_row({"日本", "7", "\xff"});
  table.add_row({"x", "", ""});
  CHECK(table.str(2) ==
        "  name   bytes  note\n"
        "  ─────  ─────  ────\n"
        "  Grüße  1,024  a b\n"
        "  日本       7  \xef\xbf\xbd\n"
        "  x\n");
  CHECK_THROWS_AS(table.add_row({"one"}), std::invalid_argument);
  CHECK_THROWS_AS(kv::Table({}), std::invalid_argument);
}

TEST_CASE("JSON: values nest in order and numbers read back", "[report]") {
  kv::Json json = kv::Json::object();
  json.set("tokens", 32).set("ok", true).set("ratio", 0.1).set("whole", 2.0);
  json.set("bytes", std::numeric_limits<std::int64_t>::max());
  json.set("list", kv::Json::array_of(std::vector<int>{1, 2}));
  json.set("empty", kv::Json::array()).set("none", kv::Json()).set("object", kv::Json::object());
  CHECK(json.str() ==
        "{\n  \"tokens\": 32,\n  \"ok\": true,\n  \"ratio\": 0.1,\n  \"whole\": 2,\n"
        "  \"bytes\": 9223372036854775807,\n  \"list\": [\n    1,\n    2\n  ],\n"
        "  \"empty\": [],\n  \"none\": null,\n  \"object\": {}\n}\n");
  CHECK(kv::Json(NAN).str() == "null\n");
  CHECK(kv::Json(-INFINITY).str() == "null\n");
  CHECK(std::strtod(kv::Json(1.0 / 3).str().c_str(), nullptr) == 1.0 / 3);
  CHECK(std::strtod(kv::Json(5e-324).str().c_str(), nullptr) == 5e-324);
  CHECK_THROWS_AS(json.set("tokens", 1), std::invalid_argument);
  CHECK_THROWS_AS(json.push(1), std::invalid_argument);
  CHECK_THROWS_AS(kv::Json(1).set("a", 1), std::invalid_argument);
}

TEST_CASE("JSON: strings are escaped, and bytes that are no text become U+FFFD", "[report]") {
  const auto text = [](std::string_view s) { return kv::Json(s).str(); };
  CHECK(text("a\"b\\c/") == "\"a\\\"b\\\\c/\"\n");
  CHECK(text("\n\r\t\b\x1f\x7f") == "\"\\n\\r\\t\\u0008\\u001f\x7f\"\n");
  CHECK(text(std::string_view("a\0b", 3)) == "\"a\\u0000b\"\n");
  CHECK(text("Grüße 😊") == "\"Grüße 😊\"\n");
  const std::string bad = "\xef\xbf\xbd";
  CHECK(text("a\xff"
             "b") == "\"a" + bad + "b\"\n");
  CHECK(text("\xe2\x82") == "\"" + bad + "\"\n");                  // cut
  CHECK(text("\xe2\x82\"") == "\"" + bad + "\\\"\"\n");            // the quote is not swallowed
  CHECK(text("\xc0\xaf") == "\"" + bad + bad + "\"\n");            // overlong
  CHECK(text("\xed\xa0\x80") == "\"" + bad + bad + bad + "\"\n");  // a surrogate
  kv::Json json = kv::Json::object();
  json.set("k\"\xff", 1);
  CHECK_THAT(json.str(), ContainsSubstring("\"k\\\"" + bad + "\": 1"));
}

TEST_CASE("CSV: cells are quoted when they must be", "[report]") {
  CHECK(kv::csv_row({"a", "1.5", ""}) == "a,1.5,\n");
  CHECK(kv::csv_row({"a,b", "say \"x\"", "two\nlines", "\r"}) ==
        "\"a,b\",\"say \"\"x\"\"\",\"two\nlines\",\"\r\"\n");
  CHECK(kv::csv_row({""}) == "\"\"\n");
  CHECK(kv::csv_row({}) == "\n");
}

TEST_CASE("output file: the new content replaces the old whole, and nothing else is left",
          "[report]") {
  const Folder folder;
  const fs::path path = folder.path / "result.json";
  kv::check_writable("--json", path.string());
  CHECK(folder.num_files() == 0);

  kv::write_file_atomically("--json", path.string(), "first\n");
  CHECK(content(path) == "first\n");
  const std::string large(5'000'000, 'x');
  kv::write_file_atomically("--json", path.string(), large);
  CHECK(content(path) == large);
  kv::write_file_atomically("--json", path.string(), "");
  CHECK(content(path).empty());
  CHECK(folder.num_files() == 1);

  SECTION("the rights of the old file are kept") {
    ::chmod(path.c_str(), 0640);
    kv::write_file_atomically("--json", path.string(), "again");
    CHECK((fs::status(path).permissions() & fs::perms::all) ==
          (fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read));
  }
  SECTION("a link stays a link") {
    fs::create_symlink("result.json", folder.path / "link");
    kv::write_file_atomically("--json", (folder.path / "link").string(), "through");
    CHECK(fs::is_symlink(folder.path / "link"));
    CHECK(content(path) == "through");
    CHECK(folder.num_files() == 2);
  }
}

TEST_CASE("output file: what cannot be written is named, with its option", "[report]") {
  const Folder folder;
  for (const fs::path& path : {folder.path / "no" / "file", folder.path, fs::path()}) {
    INFO(path);
    CHECK_THROWS_WITH(kv::write_file_atomically("--json", path.string(), "x"),
                      ContainsSubstring("--json") && ContainsSubstring(path.string()));
    CHECK_THROWS_AS(kv::check_writable("--json", path.string()), kv::InputError);
  }
  CHECK(folder.num_files() == 0);
  // A device is written to, not replaced; a full one is an error.
  CHECK_NOTHROW(kv::write_file_atomically("--json", "/dev/null", "x"));
  CHECK(fs::is_character_file("/dev/null"));
  if (fs::exists("/dev/full"))
    CHECK_THROWS_AS(kv::write_file_atomically("--json", "/dev/full", "x"), kv::InputError);
}

TEST_CASE("progress: a pipe sees nothing, a terminal sees a line that is wiped", "[report]") {
  std::ostringstream pipe, terminal;
  {
    kv::Progress quiet("steps", 10, pipe, false);
    kv::Progress shown("steps", 10, terminal, true);
    for (int i = 0; i <= 10; ++i) {
      quiet.update(i);
      shown.update(i);
    }
  }
  CHECK(pipe.str().empty());
  CHECK_THAT(terminal.str(),
             ContainsSubstring("steps") && ContainsSubstring("5/10") && ContainsSubstring("10/10"));
  CHECK(terminal.str().ends_with("\r\x1b[K"));
  CHECK(terminal.str().find('\n') == std::string::npos);
  // Unknown total, and counts that overshoot.
  kv::Progress unknown("bytes", 0, terminal, true);
  unknown.update(1234);
  CHECK_THAT(terminal.str(), ContainsSubstring("1,234"));
  kv::Progress over("x", 2, terminal, true);
  CHECK_NOTHROW(over.update(5));
}

TEST_CASE("course table: a chapter's line takes the place of its old one, in the order of arrival",
          "[report]") {
  const Folder folder;
  const std::string path = folder.path / "run.csv";
  kv::CourseRow first, second;
  first.chapter = "00_model";
  first.change = "nothing, \"as yet\"";
  second.chapter = "02_kv_cache";
  second.change = "K and V kept";
  second.tokens_equal = 63;
  second.num_compared = 64;
  second.max_logit_difference = 6.2e-6;
  second.rows = 1068;
  second.kv_bytes_held = 141312;
  second.kv_bytes_read_per_token = 71000;
  second.ttft_ms = 5.125;
  second.tpot_ms = 0.5;
  kv::add_to_course_table("--table", path, second);
  kv::add_to_course_table("--table", path, first);
  second.tokens_equal = 64;
  kv::add_to_course_table("--table", path, second);
  CHECK(folder.num_files() == 1);

  const std::string text = kv::course_table(path);
  CHECK_THAT(text, ContainsSubstring("64/64"));
  CHECK_THAT(text, !ContainsSubstring("63/64"));
  CHECK_THAT(text, ContainsSubstring("6.2e-06"));
  CHECK_THAT(text, ContainsSubstring("1,068"));
  CHECK_THAT(text, ContainsSubstring("141.3 kB"));
  CHECK_THAT(text, ContainsSubstring("71.00 kB"));
  CHECK_THAT(text, ContainsSubstring("5.12"));
  CHECK_THAT(text, ContainsSubstring("nothing, \"as yet\""));
  CHECK(text.find("02_kv_cache") < text.find("00_model"));
}

TEST_CASE("course table: a file that is something else is refused and left alone", "[report]") {
  const Folder folder;
  const std::string path = folder.path / "run.csv";
  CHECK_THROWS_AS(kv::course_table(path), kv::InputError);
  for (const char* text : {"", "a,b\n", "chapter,change\n02_kv_cache\n"}) {
    std::ofstream(path) << text;
    CHECK_THROWS_AS(kv::course_table(path), kv::InputError);
    CHECK_THROWS_AS(kv::add_to_course_table("--table", path, {}), kv::InputError);
    CHECK_THROWS_AS(kv::check_course_table("--table", path), kv::InputError);
    CHECK(content(path) == text);
  }
  CHECK_THROWS_AS(kv::check_course_table("--table", folder.path), kv::InputError);
  CHECK_THROWS_AS(kv::course_table("/dev/zero"), kv::InputError);  // it has no end
  CHECK_NOTHROW(kv::check_course_table("--table", folder.path / "new.csv"));
  kv::add_to_course_table("--table", folder.path / "new.csv", {});
  CHECK_NOTHROW(kv::check_course_table("--table", folder.path / "new.csv"));
}

TEST_CASE("course table: what is no number that fits is shown as it stands", "[report]") {
  const Folder folder;
  const std::string path = folder.path / "run.csv";
  kv::add_to_course_table("--table", path, {});
  const std::string header = content(path).substr(0, content(path).find('\n') + 1);
  for (const char* cell : {"1e300", "-1e19", "nan", "inf", "12abc", "5 6"}) {
    std::ofstream(path) << header << "x,y,1,2,3,4," << cell << ",7,8,9\n";
    CHECK_THAT(kv::course_table(path), ContainsSubstring("  " + std::string(cell) + "  "));
  }
}

TEST_CASE("CSV: what is written is read back", "[report]") {
  for (const std::vector<std::string>& cells :
       {std::vector<std::string>{"a", "b"}, {""}, {"", ""}, {"a,b", "say \"so\"", "\""}}) {
    std::string line = kv::csv_row(cells);
    REQUIRE(line.ends_with('\n'));
    line.pop_back();
    CHECK(kv::csv_cells(line) == cells);
  }
}
