// How fast the CPU kernels are, as shares of what this machine can do, measured in the same run.
//
// The two limits are a plain read of memory, in as many places at once as is fastest, and a loop of
// multiply-adds in registers (src/kv/cost/measure.hpp). Every kernel is measured in turn with its
// limit, several times, and the medians are compared: on a machine that others use as well, only
// ratios of interleaved runs mean anything.
//
// Run: build/default/bin/bench_kernels --threads 2 --rounds 7
// With --processor-time the clock is the processor time of all threads divided by their number:
// what to use when other programs want the same processors.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kv/cache/contiguous.hpp"
#include "kv/cost/measure.hpp"
#include "kv/fast/attend.hpp"
#include "kv/fast/linear.hpp"
#include "kv/fast/thread_team.hpp"
#include "kv/report/options.hpp"

namespace {

using kv::DType;

bool use_processor_time = false;

double now_seconds() {
  if (use_processor_time)
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC / kv::num_threads();
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

double seconds(const std::function<void()>& body) {
  const double begin = now_seconds();
  body();
  return now_seconds() - begin;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Bytes a second, each number of streams tried once on all of the memory.
double read_limit(const kv::ColdMemory& memory) {
  double fastest = 0;
  for (const int streams : kv::ColdMemory::kStreams) {
    const double s = seconds([&] {
      for (int part = 0; part < kv::ColdMemory::kNumParts; ++part) memory.read(streams, part);
    });
    fastest = std::max(fastest, static_cast<double>(memory.bytes()) / s);
  }
  return fastest;
}

// Floating-point operations a second.
double multiply_add_limit() {
  double flops = 0;
  const double s = seconds([&] {
    for (int i = 0; i < 10; ++i) flops += kv::multiply_add();
  });
  return flops / s;
}

std::vector<float> random_floats(std::int64_t count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> values(count);
  for (float& x : values) x = uniform(random);
  return values;
}

kv::RowMajor random_rows(std::int64_t rows, std::int64_t cols) {
  const std::vector<float> values = random_floats(rows * cols);
  return Eigen::Map<const kv::RowMajor>(values.data(), rows, cols);
}

// One measured kernel: what it does in one pass and how much that is.
struct Kernel {
  std::string name;
  std::function<void()> pass;
  double amount = 0.0;  // bytes, or floating-point operations
  bool is_memory = false;
  std::vector<double> rates = {}, limits = {};
};

// The weight products of decode: many matrices, each read once; `bytes` in all.
Kernel decode_product(DType dtype, std::int64_t num_x, std::int64_t bytes) {
  constexpr std::int64_t kCols = 1536, kRows = 1536;
  kv::WeightMatrix w{dtype, kRows, kCols};
  const std::int64_t count = bytes / w.bytes();
  auto weights = std::make_shared<std::vector<std::byte>>(count * w.bytes(), std::byte{0x11});
  auto x = std::make_shared<kv::RowMajor>(random_rows(num_x, kCols));
  auto y = std::make_shared<kv::RowMajor>(num_x, kRows);
  return {"product " + std::string(kv::info(dtype).name) + ", " + std::to_string(num_x) +
              (num_x == 1 ? " row" : " rows"),
          [=] {
            kv::WeightMatrix matrix = w;
            for (std::int64_t i = 0; i < count; ++i) {
              matrix.data = weights->data() + i * w.bytes();
              const kv::Product product{&matrix, y.get()};
              kv::fast::linear({&product, 1}, *x);
            }
          },
          static_cast<double>(count * w.bytes()), true};
}

// The weight products of prefill.
Kernel prefill_product(DType dtype) {
  constexpr std::int64_t kCols = 576, kRows = 3072, kTokens = 512;
  kv::WeightMatrix w{dtype, kRows, kCols};
  auto weights = std::make_shared<std::vector<std::byte>>(w.bytes(), std::byte{0x11});
  auto x = std::make_shared<kv::RowMajor>(random_rows(kTokens, kCols));
  auto y = std::make_shared<kv::RowMajor>(kTokens, kRows);
  return {"product " + std::string(kv::info(dtype).name) + ", 512 rows",
          [=] {
            kv::WeightMatrix matrix = w;
            matrix.data = weights->data();
            const kv::Product product{&matrix, y.get()};
            kv::fast::linear({&product, 1}, *x);
          },
          2.0 * kCols * kRows * kTokens, false};
}

// 9 query heads on 3 KV heads of 64, as in SmolLM2-135M.
kv::ModelConfig attention_config(int num_layers) {
  kv::ModelConfig config;
  config.num_layers = num_layers;
  config.heads = {9, 3, 64};
  return config;
}

std::shared_ptr<kv::ContiguousCache> filled_cache(int num_layers, std::int64_t tokens,
                                                  DType dtype) {
  const kv::ModelConfig config = attention_config(num_layers);
  auto cache = std::make_shared<kv::ContiguousCache>(config, tokens, dtype);
  const std::vector<float> rows = random_floats(tokens * config.heads.kv_dim());
  for (int l = 0; l < num_layers; ++l) cache->append(l, rows.data(), rows.data(), tokens);
  cache->commit(tokens);
  return cache;
}

Kernel decode_attention(DType dtype, std::int64_t bytes) {
  constexpr std::int64_t kTokens = 4096;
  const kv::HeadConfig heads = attention_config(1).heads;
  const std::int64_t layer_bytes = 2 * kTokens * heads.kv_dim() * kv::info(dtype).block_bytes;
  const int num_layers = static_cast<int>(bytes / layer_bytes);
  auto cache = filled_cache(num_layers, kTokens, dtype);
  auto q = std::make_shared<std::vector<float>>(random_floats(heads.q_dim()));
  auto out = std::make_shared<std::vector<float>>(heads.q_dim());
  return {"decode attention " + std::string(kv::info(dtype).name) + ", 4096 keys",
          [=] {
            const kv::AttentionItem item{q->data(),   heads.q_dim(), 1,
                                         cache.get(), out->data(),   nullptr};
            for (int l = 0; l < num_layers; ++l) kv::fast::attend({&item, 1}, heads, l, 0.125f);
          },
          static_cast<double>(num_layers * layer_bytes), true};
}

Kernel prefill_attention(DType dtype) {
  constexpr std::int64_t kTokens = 2048;
  const kv::HeadConfig heads = attention_config(1).heads;
  auto cache = filled_cache(1, kTokens, dtype);
  auto q = std::make_shared<std::vector<float>>(random_floats(kTokens * heads.q_dim()));
  auto out = std::make_shared<std::vector<float>>(kTokens * heads.q_dim());
  // Two products of head_dim multiply-adds for every visible key of every query head.
  const double visible = kTokens * (kTokens + 1) / 2.0;
  return {"prefill attention " + std::string(kv::info(dtype).name) + ", 2048 tokens",
          [=] {
            const kv::AttentionItem item{q->data(),   heads.q_dim(), kTokens,
                                         cache.get(), out->data(),   nullptr};
            kv::fast::attend({&item, 1}, heads, 0, 0.125f);
          },
          4.0 * heads.head_dim * heads.num_q_heads * visible, false};
}

void measure_all(int repeats) {
  std::printf("%d threads, medians of %d passes, each beside its limit, %s time\n",
              kv::num_threads(), repeats, use_processor_time ? "processor" : "wall");

  // The working sets of decode are as large, so each pass is cold too.
  const kv::ColdMemory memory;
  const std::int64_t bytes = memory.bytes();
  std::vector<std::function<Kernel()>> kernels;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0,
                            DType::q4_1, DType::q5_0, DType::q5_1, DType::q4_k, DType::q6_k})
    kernels.push_back([=] { return decode_product(dtype, 1, bytes); });
  for (const std::int64_t rows : {2, 4, 8, 16})
    kernels.push_back([=] { return decode_product(DType::bf16, rows, bytes); });
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    kernels.push_back([=] { return decode_attention(dtype, bytes); });
  for (const DType dtype : {DType::f32, DType::bf16, DType::q8_0, DType::q4_1})
    kernels.push_back([=] { return prefill_product(dtype); });
  for (const DType dtype : {DType::f32, DType::bf16})
    kernels.push_back([=] { return prefill_attention(dtype); });

  std::printf("%-36s %10s %10s %9s\n", "kernel", "rate", "limit", "share");
  for (const std::function<Kernel()>& make : kernels) {
    Kernel kernel = make();
    kernel.pass();  // pages mapped, scratch grown, team awake
    for (int i = 0; i < repeats; ++i) {
      kernel.rates.push_back(kernel.amount / seconds(kernel.pass));
      kernel.limits.push_back(kernel.is_memory ? read_limit(memory) : multiply_add_limit());
    }
    const double rate = median(kernel.rates), limit = median(kernel.limits);
    std::printf("%-36s %10.1f %10.1f %8.0f%%  %s\n", kernel.name.c_str(), rate / 1e9, limit / 1e9,
                100.0 * rate / limit, kernel.is_memory ? "GB/s" : "GFLOP/s");
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Rates of the CPU kernels beside the machine's limits", "bench_kernels");
  int threads = kv::num_threads(), rounds = 7;
  app.add_option("--threads", threads, "threads")->check(CLI::Range(1, 1024));
  app.add_option("--rounds", rounds, "passes, of which the median counts")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--processor-time", use_processor_time, "count processor time, not wall time");
  return kv::parse_and_run(app, argc, argv, [&] {
    kv::set_num_threads(threads);
    measure_all(rounds);
  });
}
