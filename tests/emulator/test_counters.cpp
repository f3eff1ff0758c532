// Sectors, bank conflicts and bytes: counted for kernels whose figures are known by thought.
#include <sstream>

#include "support.hpp"

using namespace kv;
using namespace kv::test;
using emulator::Traffic;

namespace {

const emulator::Counters& counters() { return emulator::last_launch().counters; }

void copy_vectors(int count, int stride) {
  Device& where = device(Backend::checked);
  DeviceBuffer<float> in(where, counting(count));
  DeviceBuffer<float> out(where, count);
  checked::correct_kernels().copy_vectors(in.data(), out.data(), count, stride);
  require_no_report();
}

void transpose(int rows, int columns, int padding) {
  Device& where = device(Backend::checked);
  DeviceBuffer<float> in(where, counting(rows * columns));
  DeviceBuffer<float> out(where, rows * columns);
  checked::correct_kernels().transpose(in.data(), out.data(), rows, columns, padding);
  require_no_report();
}

}  // namespace

TEST_CASE("counters: a copy of neighbouring vectors moves each byte once", "[emulator]") {
  in_every_schedule([&] {
    copy_vectors(4096, 1);  // 1024 vectors of 16 bytes: 32 warps
    for (const Traffic traffic : {Traffic::global_load, Traffic::global_store}) {
      const auto& tally = counters().of(traffic);
      REQUIRE(tally.requests == 32);
      REQUIRE(tally.bytes == 16384);
      REQUIRE(tally.units == 512);
      REQUIRE(tally.ideal == 512);
      REQUIRE(counters().sectors_per_request(traffic) == 16.0);
    }
    REQUIRE(counters().global_bytes() == 2 * 16384);
  });
}

TEST_CASE("counters: a strided copy moves whole sectors for half of their bytes", "[emulator]") {
  in_every_schedule([&] {
    copy_vectors(4096, 2);  // every second vector: 512 of them, each alone in a sector
    const auto& tally = counters().of(Traffic::global_load);
    REQUIRE(tally.requests == 16);
    REQUIRE(tally.bytes == 8192);
    REQUIRE(tally.units == 512);
    REQUIRE(tally.ideal == 256);
  });
}

TEST_CASE("counters: an unpadded tile conflicts 32-fold, a padded one never", "[emulator]") {
  in_every_schedule([&] {
    transpose(64, 64, 0);  // 4 tiles, 32 column reads each, 32 passes instead of 1
    REQUIRE(counters().of(Traffic::shared_load).requests == 128);
    REQUIRE(counters().of(Traffic::shared_load).units == 128 * 32);
    REQUIRE(counters().of(Traffic::shared_store).units == 128);
    REQUIRE(counters().bank_conflicts() == 128 * 31);
    transpose(64, 64, 1);
    REQUIRE(counters().bank_conflicts() == 0);
    // Coalesced on both sides either way: 4 sectors a request.
    REQUIRE(counters().sectors_per_request(Traffic::global_load) == 4.0);
    REQUIRE(counters().sectors_per_request(Traffic::global_store) == 4.0);
  });
}

TEST_CASE("counters: asynchronous copies and ldmatrix are counted", "[emulator]") {
  in_every_schedule([&] {
    Device& where = device(Backend::checked);
    DeviceBuffer<float> in(where, counting(1024));
    DeviceBuffer<float> out(where, 1024);
    checked::correct_kernels().double_buffered(in.data(), out.data(), 1024);
    REQUIRE(counters().of(Traffic::global_load).bytes == 4096);
    REQUIRE(counters().of(Traffic::global_load).units == 128);
    REQUIRE(counters().of(Traffic::shared_store).bytes == 4096);

    DeviceBuffer<unsigned short> rows(where, std::vector<unsigned short>(256));
    DeviceBuffer<unsigned> registers(where, 256);
    checked::correct_kernels().load_matrices(rows.data(), registers.data());
    // Two ldmatrix of 512 bytes, 4 passes each without conflicts; nothing else reads the rows.
    REQUIRE(counters().of(Traffic::shared_load).requests == 2);
    REQUIRE(counters().of(Traffic::shared_load).units == 8);
    REQUIRE(counters().of(Traffic::shared_load).ideal == 8);
  });
}

TEST_CASE("counters: they add up over launches by kernel and are printed by line", "[emulator]") {
  emulator::options() = {};
  emulator::reset_counters();
  copy_vectors(4096, 1);
  copy_vectors(4096, 1);
  const auto& all = emulator::counters_by_kernel();
  REQUIRE(all.size() == 1);
  REQUIRE(all.at("copy_vectors_kernel").launches == 2);
  REQUIRE(all.at("copy_vectors_kernel").global_bytes() == 4 * 16384);
  std::ostringstream out;
  emulator::print(out, "copy_vectors_kernel", all.at("copy_vectors_kernel"));
  INFO(out.str());
  REQUIRE(out.str().find("2 launches, 65536 bytes of global memory moved, 0 bank conflicts") !=
          std::string::npos);
  REQUIRE(out.str().find("correct_kernels.cu:") != std::string::npos);
}

TEST_CASE("counters: the fast build counts nothing", "[emulator]") {
  Device& where = device(Backend::emulated);
  DeviceBuffer<float> in(where, counting(4096));
  DeviceBuffer<float> out(where, 4096);
  emulated::correct_kernels().copy_vectors(in.data(), out.data(), 4096, 1);
  REQUIRE(counters().of(Traffic::global_load).requests == 0);
}
