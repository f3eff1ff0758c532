// The readers of machine code, on code that is known by thought and on files that are damaged.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <filesystem>

#include "kv/check.hpp"
#include "sass/cubin.hpp"
#include "sass/instruction.hpp"
#include "sass/kernel_name.hpp"
#include "sass/main_loop.hpp"
#include "sass/ptxas_log.hpp"

namespace {

using namespace kv::sass;

constexpr int kArchitectures[] = {KV_ARCHITECTURES};

std::filesystem::path known_file(int architecture) {
  return std::filesystem::path(KV_KNOWN_CUBINS) / ("sm_" + std::to_string(architecture)) /
         "known_kernels.cubin";
}

// SKIPs where the machine code was not built; KV_REQUIRE_NVCC=1 makes that a failure.
Cubin known(int architecture) {
  if (!std::filesystem::exists(known_file(architecture))) {
    if (std::getenv("KV_REQUIRE_NVCC") != nullptr) FAIL("known_cubins is not built");
    SKIP("build the target known_cubins");
  }
  return read_cubin(known_file(architecture));
}

const KernelCode& find(const Cubin& cubin, const std::string& name) {
  for (const KernelCode& kernel : cubin.kernels)
    if (parse_kernel_name(kernel.mangled).str() == name) return kernel;
  FAIL("no kernel " << name);
  return cubin.kernels.front();
}

int count(const KernelCode& kernel, Opcode wanted) {
  return static_cast<int>(std::ranges::count(kernel.code, wanted, opcode));
}

int count(const KernelCode& kernel, Opcode wanted, int bytes, int architecture) {
  return static_cast<int>(std::ranges::count_if(kernel.code, [&](const Word& word) {
    return opcode(word) == wanted && access_bytes(word, architecture) == bytes;
  }));
}

int any_architecture() { return GENERATE(Catch::Generators::from_range(kArchitectures)); }

}  // namespace

TEST_CASE("sass: a cubin names its architecture, kernels and CTA sizes", "[sass]") {
  const int architecture = any_architecture();
  const Cubin cubin = known(architecture);
  CHECK(cubin.architecture == architecture);
  CHECK(cubin.kernels.size() == 11);
  CHECK(find(cubin, "register_stream_kernel").max_threads_per_cta == 128);
  CHECK(find(cubin, "ring_kernel<3>").max_threads_per_cta == 64);
  CHECK(find(cubin, "unbounded_kernel").max_threads_per_cta == 0);
}

TEST_CASE("sass: every width of a load and a store is told apart", "[sass]") {
  const Cubin cubin = known(any_architecture());
  CAPTURE(cubin.architecture);
  const KernelCode& kernel = find(cubin, "widths_kernel");
  for (const int bytes : {1, 2, 4, 8, 16}) {
    CAPTURE(bytes);
    CHECK(count(kernel, Opcode::load_global, bytes, cubin.architecture) == 1);
    CHECK(count(kernel, Opcode::store_global, bytes, cubin.architecture) == 1);
  }
  CHECK(count(kernel, Opcode::exit) == 1);

  if (cubin.architecture < 80) return;  // no asynchronous copies
  const KernelCode& copies = find(cubin, "copies_kernel");
  for (const int bytes : {4, 8, 16}) {
    CAPTURE(bytes);
    CHECK(count(copies, Opcode::copy_async, bytes, cubin.architecture) == (bytes == 16 ? 2 : 1));
  }
}

TEST_CASE("sass: shuffles, barriers, shared memory and ex2 are counted", "[sass]") {
  const Cubin cubin = known(any_architecture());
  CAPTURE(cubin.architecture);
  const KernelCode& kernel = find(cubin, "misc_kernel");
  CHECK(count(kernel, Opcode::shuffle) == 3);
  CHECK(count(kernel, Opcode::barrier) == 1);
  CHECK(count(kernel, Opcode::special) == 1);
  CHECK(count(kernel, Opcode::load_shared) == 1);
  CHECK(count(kernel, Opcode::store_shared) >= 1);
  CHECK(count(kernel, Opcode::load_local) == 0);
  CHECK(count(kernel, Opcode::store_local) == 0);
}

TEST_CASE("sass: local memory is seen in the code and in what ptxas says", "[sass]") {
  const Cubin cubin = known(any_architecture());
  CAPTURE(cubin.architecture);
  const KernelCode& kernel = find(cubin, "local_memory_kernel");
  CHECK(count(kernel, Opcode::load_local) > 0);
  CHECK(count(kernel, Opcode::store_local) > 0);
  const auto log =
      parse_ptxas_log(read_text(known_file(cubin.architecture).replace_extension(".txt")));
  CHECK(log.at(kernel.mangled).stack_bytes == 256);
  const Resources misc = log.at(find(cubin, "misc_kernel").mangled);
  CHECK(misc.stack_bytes == 0);
  CHECK(misc.spill_bytes == 0);
  CHECK(misc.static_shared_bytes == 4096);
  CHECK(misc.registers > 0);
}

TEST_CASE("sass: loads into registers are in flight until they are waited for", "[sass]") {
  const Cubin cubin = known(any_architecture());
  CAPTURE(cubin.architecture);
  const auto stream =
      count_main_loop(find(cubin, "register_stream_kernel").code, cubin.architecture);
  REQUIRE(stream);
  CHECK(stream->global_loads == 4);
  CHECK(stream->wide_global_loads == 4);
  CHECK(stream->fma == 16);
  CHECK(stream->mma == 0);
  CHECK(stream->bytes_in_flight == 64);
  CHECK(stream->instructions >= 16 + 4 + 3);  // and the count, the test, the jump
  CHECK(stream->instructions <= 16 + 4 + 10);
  CHECK_FALSE(stream->has_inner_loop);

  const auto chained = count_main_loop(find(cubin, "chained_kernel").code, cubin.architecture);
  REQUIRE(chained);
  CHECK(chained->wide_global_loads == 1);
  CHECK(chained->bytes_in_flight == 16);
}

TEST_CASE("sass: asynchronous copies are in flight until their group is waited for", "[sass]") {
  const Cubin cubin = known(any_architecture());
  CAPTURE(cubin.architecture);
  if (cubin.architecture < 80) return;  // it has none: they become loads and stores
  for (const int pending : {1, 3}) {
    CAPTURE(pending);
    const KernelCode& kernel = find(cubin, "ring_kernel<" + std::to_string(pending) + ">");
    CHECK(count(kernel, Opcode::copy_async, 16, cubin.architecture) == 1);
    CHECK(count(kernel, Opcode::close_group) == 1);
    CHECK(count(kernel, Opcode::wait_for_group) == 1);
    const auto loop = count_main_loop(kernel.code, cubin.architecture);
    REQUIRE(loop);
    CHECK(loop->wide_global_loads == 1);
    CHECK(loop->bytes_in_flight == 16 * (pending + 1));
  }
}

TEST_CASE("sass: tensor-core instructions of a loop are counted", "[sass]") {
  const Cubin cubin = known(any_architecture());
  CAPTURE(cubin.architecture);
  const KernelCode& kernel = find(cubin, "mma_kernel");
  CHECK(count(kernel, Opcode::mma) == (cubin.architecture >= 80 ? 6 : 0));
  if (cubin.architecture < 80) return;
  CHECK(count(kernel, Opcode::ldmatrix) == 1);
  const auto loop = count_main_loop(kernel.code, cubin.architecture);
  REQUIRE(loop);
  CHECK(loop->mma == 6);
  CHECK(loop->global_loads == 1);
}

TEST_CASE("sass: the inner of two loops is the one with the loads", "[sass]") {
  const Cubin cubin = known(any_architecture());
  CAPTURE(cubin.architecture);
  const KernelCode& kernel = find(cubin, "nested_kernel");
  const auto loops = find_loops(kernel.code, cubin.architecture);
  CHECK(loops.size() == 2);
  const auto loop = count_main_loop(kernel.code, cubin.architecture);
  REQUIRE(loop);
  CHECK(loop->wide_global_loads == 1);
  CHECK(loop->global_loads == 1);  // lengths[i] belongs to the outer one
  CHECK_FALSE(loop->has_inner_loop);
  CHECK_FALSE(count_main_loop(find(cubin, "widths_kernel").code, cubin.architecture));
}

TEST_CASE("sass: a damaged cubin is refused, never read past its end", "[sass]") {
  const int architecture = kArchitectures[0];
  known(architecture);
  const std::string bytes = read_text(known_file(architecture));
  CHECK_NOTHROW(parse_cubin(bytes, "whole"));
  CHECK_THROWS_AS(parse_cubin("", "empty"), kv::InputError);
  CHECK_THROWS_AS(parse_cubin(std::string(4096, 'x'), "text"), kv::InputError);
  // ELF puts the table of sections last: without its end there is no kernel to be found.
  for (std::size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 97) {
    CAPTURE(size);
    CHECK_THROWS_AS(parse_cubin(bytes.substr(0, size), "cut"), kv::InputError);
  }
}

TEST_CASE("sass: names of kernels are read with their template arguments", "[sass]") {
  const KernelName name = parse_kernel_name(
      "_ZN2kv3gpu46_GLOBAL__N__86cbc8cb_8_known_cu_31c266d8_2687413stream_kernel"
      "ILi128ENS_4bf16EEEvPKT0_PKfPfi");
  CHECK(name.str() == "stream_kernel<128, bf16>");
  CHECK(name.head_dim() == 128);
  CHECK(name.element_bytes() == 2);
  CHECK(parse_kernel_name("_ZN2kv3gpu5scaleIfLi64ELb1EEEvPT_").str() == "scale<float, 64, true>");
  CHECK(parse_kernel_name("plain").str() == "plain");
  CHECK(parse_kernel_name("plain").head_dim() == 0);
}

TEST_CASE("sass: a log of ptxas in unknown words is refused", "[sass]") {
  CHECK(parse_ptxas_log("").empty());
  CHECK_THROWS_AS(parse_ptxas_log("ptxas info : Compiling entry function 'k' for 'sm_90'\n"
                                  "ptxas info : 32 Register verwendet\n"),
                  kv::InputError);
}
