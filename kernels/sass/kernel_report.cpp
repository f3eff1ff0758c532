// kernel_report: what the compiler made of the kernels, for each architecture. ./kv sass runs it.
//
// It reads the cubins that the target of that name built. No GPU is needed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include "kv/check.hpp"
#include "kv/report/json.hpp"
#include "kv/report/output_file.hpp"
#include "kv/report/table.hpp"
#include "sass/goals.hpp"
#include "sass/kernel_row.hpp"

namespace {

using kv::sass::KernelRow;
namespace fs = std::filesystem;

constexpr int kSkipped = 4;  // for ctest

std::vector<fs::path> list(const fs::path& folder, std::string_view ending) {
  std::vector<fs::path> entries;
  if (fs::is_directory(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ending) entries.push_back(entry.path());
  std::ranges::sort(entries);
  return entries;
}

std::vector<KernelRow> read_all(const fs::path& folder, const std::string& architecture) {
  std::vector<KernelRow> rows;
  for (const fs::path& sub : list(folder, "")) {
    if (!architecture.empty() && sub.filename() != architecture) continue;
    for (const fs::path& cubin : list(sub, ".cubin"))
      for (KernelRow& row : kv::sass::read_rows(cubin)) rows.push_back(std::move(row));
  }
  return rows;
}

std::string or_dash(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f}", *value) : "-";
}

void print_table(const std::vector<KernelRow>& rows, int architecture) {
  kv::Table table({"kernel", "registers", "shared B", "local B", "threads", "CTAs/SM", "occupancy",
                   "KiB in flight", "16-byte loads", "instr./element", "instr./HMMA"});
  for (const KernelRow& row : rows) {
    if (row.architecture != architecture) continue;
    table.add_row(
        {row.name.str(), std::to_string(row.resources.registers),
         fmt::format("{}+{}", row.resources.static_shared_bytes, row.dynamic_shared_bytes),
         std::to_string(row.resources.stack_bytes + row.resources.spill_bytes),
         std::to_string(row.threads_per_cta), std::to_string(row.resident_ctas),
         fmt::format("{:.0f} %", 100.0 * row.occupancy),
         fmt::format("{:.1f}", static_cast<double>(row.bytes_in_flight_per_sm()) / 1024.0),
         row.loop ? fmt::format("{} of {}", row.loop->wide_global_loads, row.loop->global_loads)
                  : "-",
         or_dash(row.instructions_per_element()), or_dash(row.instructions_per_mma())});
  }
  fmt::print("sm_{}\n{}\n", architecture, table.str(2));
}

kv::Json optional_json(const std::optional<double>& value) {
  return value ? kv::Json(*value) : kv::Json();
}

kv::Json to_json(const KernelRow& row) {
  kv::Json json = kv::Json::object();
  json.set("architecture", row.architecture)
      .set("file", row.file)
      .set("kernel", row.name.str())
      .set("head_dim", row.name.head_dim())
      .set("element_bytes", row.name.element_bytes())
      .set("registers", row.resources.registers)
      .set("static_shared_bytes", row.resources.static_shared_bytes)
      .set("dynamic_shared_bytes", row.dynamic_shared_bytes)
      .set("stack_bytes", row.resources.stack_bytes)
      .set("spill_bytes", row.resources.spill_bytes)
      .set("threads_per_cta", row.threads_per_cta)
      .set("resident_ctas_per_sm", row.resident_ctas)
      .set("occupancy", row.occupancy)
      .set("bytes_in_flight_per_sm", row.bytes_in_flight_per_sm())
      .set("instructions_per_element", optional_json(row.instructions_per_element()))
      .set("instructions_per_mma", optional_json(row.instructions_per_mma()));
  if (row.loop)
    json.set("loop", kv::Json::object()
                         .set("instructions", row.loop->instructions)
                         .set("mma", row.loop->mma)
                         .set("fma", row.loop->fma)
                         .set("global_loads", row.loop->global_loads)
                         .set("wide_global_loads", row.loop->wide_global_loads)
                         .set("bytes_in_flight_per_thread", row.loop->bytes_in_flight)
                         .set("has_inner_loop", row.loop->has_inner_loop));
  return json;
}

// A file that could not be compiled for some architecture would else go unseen.
void require_all_files(const std::vector<KernelRow>& rows) {
  std::set<std::string> files;
  std::set<int> architectures;
  std::set<std::pair<int, std::string>> found;
  for (const KernelRow& row : rows) {
    files.insert(row.file);
    architectures.insert(row.architecture);
    found.emplace(row.architecture, row.file);
  }
  for (const int architecture : architectures)
    for (const std::string& file : files)
      if (!found.contains({architecture, file}))
        throw kv::InputError(
            fmt::format("sm_{} has no machine code of {}: does it compile? Build the target cubins",
                        architecture, file));
}

int check(const std::vector<KernelRow>& rows) {
  require_all_files(rows);
  const auto verdicts = kv::sass::check_goals(rows, kv::sass::goals());
  int num_failed = 0;
  for (const auto& verdict : verdicts) {
    if (verdict.met) continue;
    ++num_failed;
    fmt::print("NOT MET  {}\n", verdict.text);
  }
  fmt::print("{} goals met, {} not met, in {} kernels\n", verdicts.size() - num_failed, num_failed,
             rows.size());
  return num_failed == 0 ? 0 : 1;
}

int run(int argc, char** argv) {
  std::string folder = KV_CUBIN_FOLDER, architecture, json_file, kernel;
  bool only_check = false;
  CLI::App app("What the compiler made of the kernels: registers, loads, instructions");
  app.add_option("--cubins", folder, "folder with sm_XX/NAME.cubin")->capture_default_str();
  app.add_option("--arch", architecture, "only this architecture, e.g. sm_90");
  app.add_option("--kernel", kernel, "only kernels whose name has these letters");
  app.add_option("--json", json_file, "write all figures to this file");
  app.add_flag("--check", only_check,
               "no table: hold the goals against all; status 1 if one fails");
  CLI11_PARSE(app, argc, argv);

  std::vector<KernelRow> rows = read_all(folder, architecture);
  if (rows.empty()) {
    std::cerr << "kernel_report: no machine code in " << folder
              << (architecture.empty() ? "" : " for " + architecture)
              << ": build the target cubins, or run ./kv sass\n";
    return only_check && std::getenv("KV_REQUIRE_NVCC") == nullptr ? kSkipped : 1;
  }
  if (only_check) return check(rows);
  std::erase_if(
      rows, [&](const KernelRow& row) { return row.name.str().find(kernel) == std::string::npos; });
  std::set<int> architectures;
  kv::Json json = kv::Json::array();
  for (const KernelRow& row : rows) {
    architectures.insert(row.architecture);
    json.push(to_json(row));
  }
  for (const int a : architectures) print_table(rows, a);
  if (!json_file.empty()) kv::write_file_atomically("--json", json_file, json.str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "kernel_report: " << error.what() << '\n';
    return 1;
  }
}
