// What may be mapped: a regular file with something in it.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

#include "kv/check.hpp"
#include "kv/model/mapped_file.hpp"

using Catch::Matchers::ContainsSubstring;

TEST_CASE("mapped file: a path is opened only if it is a regular file with something in it",
          "[mapped_file]") {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::temp_directory_path() / ("kv_mapped_file_" + std::to_string(::getpid()));
  fs::create_directory(folder);
  const auto path = [&folder](const char* name) { return (folder / name).string(); };
  const auto message = [](const std::string& p) -> std::string {
    try {
      kv::MappedFile file(p);
    } catch (const kv::InputError& error) {
      return error.what();
    }
    return "";
  };
  const auto write = [&path](const char* name, const std::string& text) {
    std::ofstream(path(name), std::ios::binary) << text;
  };
  write("empty", "");
  write("good", "abc");
  write("secret", "abc");
  REQUIRE(::mkfifo(path("fifo").c_str(), 0600) == 0);
  REQUIRE(::chmod(path("secret").c_str(), 0) == 0);

  CHECK(message(path("good")).empty());
  const kv::MappedFile good(path("good"));
  REQUIRE(good.bytes().size() == 3);
  CHECK(good.bytes()[2] == std::byte{'c'});
  CHECK_THAT(message(path("missing")), ContainsSubstring("missing: cannot open: No such file"));
  CHECK_THAT(message(path("empty")), ContainsSubstring("empty: is empty"));
  CHECK_THAT(message(path("fifo")), ContainsSubstring("fifo: is not a regular file"));
  CHECK_THAT(message(folder.string()), ContainsSubstring("is a directory"));
  if (::geteuid() != 0)  // root may read everything
    CHECK_THAT(message(path("secret")), ContainsSubstring("cannot open: Permission denied"));
  fs::remove_all(folder);
}
