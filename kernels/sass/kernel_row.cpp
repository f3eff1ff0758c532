#include "sass/kernel_row.hpp"

#include <algorithm>

#include "attention/kernel_facts.hpp"
#include "kv/check.hpp"
#include "sass/cubin.hpp"
#include "sass/instruction.hpp"
#include "sass/occupancy.hpp"

namespace kv::sass {
namespace {

KernelRow make_row(const KernelCode& kernel, int architecture, const std::string& file) {
  KernelRow row;
  row.file = file;
  row.architecture = architecture;
  row.name = parse_kernel_name(kernel.mangled);
  row.threads_per_cta = kernel.max_threads_per_cta;
  if (row.threads_per_cta == 0)
    throw InputError(row.name.str() + " in " + file +
                     ": how many threads a CTA has is not known; give it __launch_bounds__");
  row.dynamic_shared_bytes = dynamic_shared_bytes(row.name.base, row.name.head_dim(),
                                                  row.name.element_bytes(), row.name.head_tiles());
  row.local_instructions =
      static_cast<int>(std::ranges::count_if(kernel.code, [](const Word& word) {
        return opcode(word) == Opcode::load_local || opcode(word) == Opcode::store_local;
      }));
  row.loop = count_main_loop(kernel.code, architecture);
  return row;
}

void add_occupancy(KernelRow& row) {
  row.resident_ctas = resident_ctas(row.architecture,
                                    {row.threads_per_cta, row.resources.registers,
                                     row.resources.static_shared_bytes, row.dynamic_shared_bytes});
  row.occupancy = static_cast<double>(row.resident_ctas) * row.threads_per_cta /
                  max_threads_per_sm(row.architecture);
}

}  // namespace

std::int64_t KernelRow::bytes_in_flight_per_sm() const {
  return loop ? std::int64_t{loop->bytes_in_flight} * threads_per_cta * resident_ctas : 0;
}

std::optional<double> KernelRow::instructions_per_element() const {
  if (!loop || loop->wide_load_bytes == 0 || name.element_bytes() == 0) return std::nullopt;
  if (loop->fma + loop->mma == 0) return std::nullopt;  // a loop that only copies
  return static_cast<double>(loop->instructions) * name.element_bytes() / loop->wide_load_bytes;
}

std::optional<double> KernelRow::instructions_per_mma() const {
  if (!loop || loop->mma == 0) return std::nullopt;
  return static_cast<double>(loop->instructions) / loop->mma;
}

std::vector<KernelRow> read_rows(const std::filesystem::path& file) {
  const Cubin cubin = read_cubin(file);
  const auto resources =
      parse_ptxas_log(read_text(std::filesystem::path(file).replace_extension(".txt")));
  std::vector<KernelRow> rows;
  for (const KernelCode& kernel : cubin.kernels) {
    const auto found = resources.find(kernel.mangled);
    if (found == resources.end()) {
      if (kernel.max_threads_per_cta == 0) continue;  // a function that kernels call
      throw InputError(file.string() + ": the text beside it does not name " + kernel.mangled +
                       "; build the target cubins again");
    }
    rows.push_back(make_row(kernel, cubin.architecture, file.stem().string()));
    rows.back().resources = found->second;
    add_occupancy(rows.back());
  }
  std::ranges::sort(rows, {}, [](const KernelRow& row) {
    return std::tuple(row.name.base, row.name.element_bytes(), row.name.str().find("bf16") + 1,
                      row.name.head_dim());
  });
  return rows;
}

}  // namespace kv::sass
