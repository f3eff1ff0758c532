// ldmatrix and mma.sync against plain loops.
#include <cmath>
#include <random>

#include "kv/dtype.hpp"
#include "support.hpp"

using namespace kv;
using namespace kv::test;

namespace {

struct Build {
  const CorrectKernels* table;
  Backend backend;
};
const Build kBuilds[] = {{&emulated::correct_kernels(), Backend::emulated},
                         {&checked::correct_kernels(), Backend::checked}};

unsigned short to_bits(float x, bool is_bf16) { return is_bf16 ? to_bf16(x).bits : to_f16(x).bits; }
double to_double(unsigned short bits, bool is_bf16) {
  return is_bf16 ? to_float(bf16{bits}) : to_float(f16{bits});
}

std::vector<unsigned short> random_halves(std::size_t count, bool is_bf16, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<unsigned short> bits(count);
  for (auto& b : bits) b = to_bits(normal(random), is_bf16);
  return bits;
}

}  // namespace

TEST_CASE("mma: a one in A moves one row of B, exactly", "[emulator]") {
  for (const bool is_bf16 : {true, false})
    for (int row = 0; row < 16; ++row) {
      const int k = (5 * row + 3) % 16;  // a different row of B for each
      std::vector<unsigned short> a(256, to_bits(0.0f, is_bf16)), b(128);
      a[row * 16 + k] = to_bits(1.0f, is_bf16);
      for (int i = 0; i < 128; ++i) b[i] = to_bits(static_cast<float>(i), is_bf16);
      Device& where = device(Backend::emulated);
      DeviceBuffer<unsigned short> a_device(where, a), b_device(where, b);
      DeviceBuffer<float> d(where, std::vector<float>(128, 0.5f));
      emulated::correct_kernels().multiply(a_device.data(), b_device.data(), d.data(), is_bf16);
      require_no_report();
      const std::vector<float> result = d.to_host();
      for (int i = 0; i < 128; ++i)
        REQUIRE(result[i] == 0.5f + (i / 8 == row ? static_cast<float>(k * 8 + i % 8) : 0.0f));
    }
}

TEST_CASE("mma: random products agree with a double reference", "[emulator]") {
  for (const Build& build : kBuilds)
    for (const bool is_bf16 : {true, false})
      in_every_schedule([&] {
        const auto a = random_halves(256, is_bf16, 1);
        const auto b = random_halves(128, is_bf16, 2);
        Device& where = device(build.backend);
        DeviceBuffer<unsigned short> a_device(where, a), b_device(where, b);
        DeviceBuffer<float> d(where, std::vector<float>(128, 1.0f));
        build.table->multiply(a_device.data(), b_device.data(), d.data(), is_bf16);
        require_no_report();
        const std::vector<float> result = d.to_host();
        for (int i = 0; i < 16; ++i)
          for (int j = 0; j < 8; ++j) {
            double sum = 1.0;
            double mass = 1.0;
            for (int k = 0; k < 16; ++k) {
              const double product =
                  to_double(a[i * 16 + k], is_bf16) * to_double(b[k * 8 + j], is_bf16);
              sum += product;
              mass += std::fabs(product);
            }
            // 17 roundings, each of at most half a unit of a partial sum.
            REQUIRE(std::fabs(result[i * 8 + j] - sum) <= 17 * 0x1p-24 * mass);
          }
      });
}

TEST_CASE("ldmatrix: every lane receives its two elements, plain and transposed", "[emulator]") {
  for (const Build& build : kBuilds)
    in_every_schedule([&] {
      std::vector<unsigned short> in(256);
      for (int i = 0; i < 256; ++i) in[i] = static_cast<unsigned short>(i);
      Device& where = device(build.backend);
      DeviceBuffer<unsigned short> in_device(where, in);
      DeviceBuffer<unsigned> out(where, 256);
      build.table->load_matrices(in_device.data(), out.data());
      require_no_report();
      const std::vector<unsigned> result = out.to_host();
      for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned m = 0; m < 4; ++m) {
          const unsigned row = lane / 4, pair = lane % 4 * 2;
          const unsigned plain = m * 64 + row * 8 + pair;
          REQUIRE(result[lane * 8 + m] == (plain | (plain + 1) << 16));
          const unsigned turned = m * 64 + pair * 8 + row;
          REQUIRE(result[lane * 8 + 4 + m] == (turned | (turned + 8) << 16));
        }
    });
}
