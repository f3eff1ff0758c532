// How fast the CPU kernels are, as shares of what this machine can do, measured in the same run.
//
// The two limits are a plain read of memory and a loop of fused multiply-adds in registers. (A
// plain read goes from one end to the other; kernels that read in several places at once can exceed
// it.) Every kernel is measured in turn with its limit, several times, and the medians are
// compared: on a machine that others use as well, only ratios of interleaved runs mean anything.
//
// Run: build/default/bin/bench_kernels --threads 2 --rounds 7
// With --processor-time the clock is the processor time of all threads divided by their number:
// what to use when other programs want the same processors.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kv/attention/attention.hpp"
#include "kv/cache/contiguous.hpp"
#include "kv/fast/linear.hpp"
#include "kv/report/options.hpp"
#include "kv/fast/vec.hpp"
#include "kv/fast/thread_team.hpp"

namespace {

using kv::DType;
using kv::simd::kWidth;
using kv::simd::Vec;

// Memory of all working sets: several times the last-level cache, so that each pass is cold.
constexpr std::int64_t kColdBytes = 256 << 20;

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

// Reads every byte once: bytes [begin, end) by threads in equal, contiguous parts.
void read_all(const std::vector<std::byte>& memory) {
  kv::parallel([&](int thread, int num_threads) {
    const std::int64_t vectors = memory.size() / sizeof(Vec);
    const std::int64_t begin = vectors * thread / num_threads;
    const std::int64_t end = vectors * (thread + 1) / num_threads;
    const float* from = reinterpret_cast<const float*>(memory.data());
    Vec sum[8] = {};
    for (std::int64_t i = begin; i + 8 <= end; i += 8)
      for (int n = 0; n < 8; ++n) sum[n] += kv::simd::load(from + (i + n) * kWidth);
    for (int n = 1; n < 8; ++n) sum[0] += sum[n];
    volatile float sink = kv::simd::sum(sum[0]);
    static_cast<void>(sink);
  });
}

constexpr std::int64_t kFmaRounds = 4000000;

// Independent chains of fused multiply-adds: enough to hide their latency.
void multiply_add() {
  kv::parallel([&](int, int) {
    Vec sum[12];
    for (int n = 0; n < 12; ++n) sum[n] = kv::simd::broadcast(static_cast<float>(n));
    volatile float opaque = 0.999f;
    const Vec a = kv::simd::broadcast(opaque), b = kv::simd::broadcast(1.0f - opaque);
    for (std::int64_t i = 0; i < kFmaRounds; ++i)
      for (int n = 0; n < 12; ++n) sum[n] = sum[n] * a + b;
    for (int n = 1; n < 12; ++n) sum[0] += sum[n];
    volatile float sink = kv::simd::sum(sum[0]);
    static_cast<void>(sink);
  });
}
double multiply_add_flops() { return 2.0 * 12 * kWidth * kFmaRounds * kv::num_threads(); }

std::vector<float> random_floats(std::int64_t count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> values(count);
  for (float& x : values) x = uniform(random);
  return values;
}

// One measured kernel: what it does in one pass and how much that is.
struct Kernel {
  std::string name;
  std::function<void()> pass;
  double amount = 0.0;  // bytes, or floating-point operations
  bool is_memory = false;
  std::vector<double> rates = {}, limits = {};
};

// The weight products of decode: many matrices, each read once.
Kernel decode_product(DType dtype, std::int64_t num_x) {
  constexpr std::int64_t kCols = 1536, kRows = 1536;
  kv::WeightMatrix w{dtype, kRows, kCols, nullptr};
  const std::int64_t count = kColdBytes / w.bytes();
  auto bytes = std::make_shared<std::vector<std::byte>>(count * w.bytes(), std::byte{0x11});
  auto x = std::make_shared<std::vector<float>>(random_floats(num_x * kCols));
  auto out = std::make_shared<std::vector<float>>(num_x * kRows);
  return {"product " + std::string(kv::info(dtype).name) + ", " + std::to_string(num_x) +
              (num_x == 1 ? " row" : " rows"),
          [=] {
            kv::WeightMatrix matrix = w;
            for (std::int64_t i = 0; i < count; ++i) {
              matrix.data = bytes->data() + i * w.bytes();
              const kv::Product product{&matrix, out->data(), kRows};
              kv::multiply({&product, 1}, x->data(), kCols, num_x);
            }
          },
          static_cast<double>(count * w.bytes()), true};
}

// The weight products of prefill.
Kernel prefill_product(DType dtype) {
  constexpr std::int64_t kCols = 576, kRows = 3072, kTokens = 512;
  kv::WeightMatrix w{dtype, kRows, kCols, nullptr};
  auto bytes = std::make_shared<std::vector<std::byte>>(w.bytes(), std::byte{0x11});
  auto x = std::make_shared<std::vector<float>>(random_floats(kTokens * kCols));
  auto out = std::make_shared<std::vector<float>>(kTokens * kRows);
  return {"product " + std::string(kv::info(dtype).name) + ", 512 rows",
          [=] {
            kv::WeightMatrix matrix = w;
            matrix.data = bytes->data();
            const kv::Product product{&matrix, out->data(), kRows};
            kv::multiply({&product, 1}, x->data(), kCols, kTokens);
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

Kernel decode_attention(DType dtype) {
  constexpr std::int64_t kTokens = 4096;
  const kv::HeadConfig heads = attention_config(1).heads;
  const std::int64_t layer_bytes = 2 * kTokens * heads.kv_dim() * kv::info(dtype).block_bytes;
  const int num_layers = static_cast<int>(kColdBytes / layer_bytes);
  auto cache = filled_cache(num_layers, kTokens, dtype);
  auto q = std::make_shared<std::vector<float>>(random_floats(heads.q_dim()));
  auto out = std::make_shared<std::vector<float>>(heads.q_dim());
  return {"decode attention " + std::string(kv::info(dtype).name) + ", 4096 keys",
          [=] {
            const kv::AttentionItem item{q->data(),   heads.q_dim(), 1,
                                         cache.get(), out->data(),   nullptr};
            for (int l = 0; l < num_layers; ++l) kv::attend({&item, 1}, heads, l, 0.125f);
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
            kv::attend({&item, 1}, heads, 0, 0.125f);
          },
          4.0 * heads.head_dim * heads.num_q_heads * visible, false};
}

void measure_all(int repeats) {
  std::printf("%d threads, medians of %d passes, each beside its limit, %s time\n",
              kv::num_threads(), repeats, use_processor_time ? "processor" : "wall");

  const std::vector<std::byte> memory(kColdBytes, std::byte{1});
  std::vector<std::function<Kernel()>> kernels;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0,
                            DType::q4_1, DType::q5_0, DType::q5_1, DType::q4_k, DType::q6_k})
    kernels.push_back([=] { return decode_product(dtype, 1); });
  for (const std::int64_t rows : {2, 4, 8, 16})
    kernels.push_back([=] { return decode_product(DType::bf16, rows); });
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    kernels.push_back([=] { return decode_attention(dtype); });
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
      kernel.limits.push_back(kernel.is_memory ? kColdBytes / seconds([&] { read_all(memory); })
                                               : multiply_add_flops() / seconds(multiply_add));
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
