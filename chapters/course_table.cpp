// What `./kv run` ends with: every chapter in one table.
//
// Run: build/default/bin/course_table build/run.csv

#include "kv/report/course_table.hpp"

#include <CLI/CLI.hpp>
#include <iostream>

#include "kv/report/options.hpp"

int main(int argc, char** argv) {
  std::string path;
  CLI::App app("The table that chapters have written with --table", "course_table");
  app.add_option("file", path, "what --table named")->required();
  return kv::parse_and_run(app, argc, argv, [&] { std::cout << kv::course_table(path); });
}
