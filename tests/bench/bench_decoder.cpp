// Times the whole decoder: prefill, decode at several depths of context and of several sequences
// together, and chapter 1's way.
//
// One JSON object on stdout; every figure is the median of the rounds. Random tokens, as the time
// does not depend on them. Also measures the read bandwidth of the machine in the same run, and
// prints which share of it decode reaches, counting the weights and the cache once per token. A
// share above one is also said on stderr: what was measured is then no limit of decode.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <random>

#include "kv/cache/contiguous.hpp"
#include "kv/cost/roofline.hpp"
#include "kv/fast/thread_team.hpp"
#include "kv/generate.hpp"
#include "kv/load.hpp"
#include "kv/report/json.hpp"
#include "kv/report/options.hpp"

namespace {

struct Options {
  std::string model = KV_DEFAULT_MODEL;
  std::string kv_dtype = "bf16";
  std::string math = "fast";
  std::vector<std::int64_t> depths = {0};
  std::vector<std::int64_t> batches = {1};
  std::int64_t prompt_len = 512;
  std::int64_t prompt_depth = 0;
  std::int64_t num_decode = 32;
  std::int64_t naive_len = 0;
  int rounds = 3;
  int threads = 2;
};

double seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench(const kv::Model& model, const Options& options)
      : model_(model),
        options_(options),
        math_(kv::math_named(options.math)),
        dtype_(kv::parse_kv_dtype(options.kv_dtype)) {}

  kv::Json run() {
    kv::Json result = kv::Json::object();
    result.set("model", options_.model).set("weights", std::string(weight_format()));
    result.set("kv_dtype", options_.kv_dtype).set("math", math_.name);
    result.set("threads", kv::num_threads());
    const double read_gb_per_s = kv::measure_this_machine().bytes_per_second / 1e9;
    result.set("read_gb_per_second", read_gb_per_s);
    if (options_.prompt_len > 0) {
      kv::Json prefill = kv::Json::object();
      prefill.set("tokens", options_.prompt_len).set("depth", options_.prompt_depth);
      prefill.set("tokens_per_second", prefill_speed());
      result.set("prefill", prefill);
    }
    kv::Json decode = kv::Json::array();
    for (const std::int64_t depth : options_.depths)
      for (const std::int64_t batch : options_.batches)
        decode.push(decode_at(depth, batch, read_gb_per_s));
    result.set("decode", decode);
    if (options_.naive_len > 0) {
      kv::Json naive = kv::Json::object();
      naive.set("prefix", options_.naive_len).set("tokens_per_second", naive_speed());
      result.set("recompute", naive);
    }
    return result;
  }

 private:
  std::string_view weight_format() const { return kv::info(model_.layers[0].q.dtype).name; }

  std::vector<kv::TokenId> random_tokens(std::int64_t count) {
    std::vector<kv::TokenId> tokens(static_cast<std::size_t>(count));
    for (kv::TokenId& token : tokens)
      token = static_cast<kv::TokenId>(random_() % static_cast<unsigned>(model_.config.vocab_size));
    return tokens;
  }

  double prefill_speed() {
    const auto tokens = random_tokens(options_.prompt_len);
    std::vector<double> speeds;
    kv::ContiguousCache cache(model_.config, options_.prompt_depth + options_.prompt_len, dtype_);
    fill(cache, options_.prompt_depth);
    for (int round = 0; round <= options_.rounds; ++round) {
      cache.truncate(options_.prompt_depth);
      const double s = seconds([&] { kv::prefill(model_, cache, tokens, 512, nullptr, math_); });
      if (round > 0) speeds.push_back(static_cast<double>(options_.prompt_len) / s);  // 0: warm-up
    }
    return median(speeds);
  }

  // Random tokens, `length` of them, into the cache.
  void fill(kv::ContiguousCache& cache, std::int64_t length) {
    if (length > 0) kv::prefill(model_, cache, random_tokens(length), 512, nullptr, math_);
  }

  // Tokens per second of all sequences together, each with `depth` tokens before it starts.
  kv::Json decode_at(std::int64_t depth, std::int64_t batch, double read_gb_per_s) {
    kv::ContiguousCache first(model_.config, depth + options_.num_decode + 1, dtype_);
    fill(first, depth);
    // The same numbers in memory of its own for each sequence: the time does not depend on them.
    std::vector<kv::ContiguousCache> caches(static_cast<std::size_t>(batch), first);
    std::vector<double> speeds;
    for (int round = 0; round <= options_.rounds; ++round) {
      for (kv::ContiguousCache& cache : caches) cache.truncate(depth);
      const auto tokens = random_tokens(options_.num_decode * batch);
      const double s = seconds([&] {
        for (std::int64_t i = 0; i < options_.num_decode; ++i) {
          std::vector<kv::BatchItem> items;
          for (std::int64_t b = 0; b < batch; ++b)
            items.push_back({&caches[b], std::span(tokens).subspan(i * batch + b, 1)});
          kv::forward(model_, items, nullptr, math_);
        }
      });
      if (round > 0) speeds.push_back(static_cast<double>(options_.num_decode * batch) / s);
    }
    const double speed = median(speeds);
    // A pass reads all weights but the embedding (one row of it) and each sequence's cache so far.
    const std::int64_t embedding = model_.tied() ? 0 : model_.token_embedding.bytes();
    const double weights = static_cast<double>(model_.weight_bytes() - embedding);
    const double cached =
        static_cast<double>(caches[0].bytes_in_use()) *
        (static_cast<double>(depth) + 0.5 * static_cast<double>(options_.num_decode)) /
        static_cast<double>(caches[0].length());
    const double gb_per_s = (weights / static_cast<double>(batch) + cached) * speed / 1e9;
    kv::Json json = kv::Json::object();
    json.set("depth", depth).set("batch", batch).set("tokens_per_second", speed);
    json.set("gb_per_second", gb_per_s);
    json.set("share_of_read_bandwidth", gb_per_s / read_gb_per_s);
    const bool exceeds = gb_per_s > read_gb_per_s;
    json.set("exceeds_measured_bandwidth", exceeds);
    if (exceeds)
      std::cerr << fmt::format(
          "decode with {} tokens in the cache, batch {}, reads {:.1f} GB/s, more than the {:.1f} "
          "measured as the limit: what it reads fits into the caches, or memory was slower then\n",
          depth, batch, gb_per_s, read_gb_per_s);
    return json;
  }

  double naive_speed() {
    const auto tokens = random_tokens(options_.naive_len);
    std::vector<double> speeds;
    for (int round = 0; round < options_.rounds; ++round)
      speeds.push_back(1.0 /
                       seconds([&] { kv::recompute(model_, tokens, dtype_, nullptr, math_); }));
    return median(speeds);
  }

  const kv::Model& model_;
  const Options& options_;
  const kv::Math& math_;
  kv::KvDType dtype_;
  std::mt19937 random_{1};
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Times prefill, decode and recomputation of a whole model", "bench_decoder");
  app.add_option("--model", options.model, "GGUF file");
  app.add_option("--kv-dtype", options.kv_dtype, "fp32, fp16 or bf16");
  app.add_option("--math", options.math, "plain or fast");
  app.add_option("--batch", options.batches, "sequences that decode together")->delimiter(',');
  app.add_option("--depths", options.depths, "tokens in the cache before decoding")->delimiter(',');
  app.add_option("--prompt", options.prompt_len, "tokens of the prefill; 0: none");
  app.add_option("--prompt-depth", options.prompt_depth, "tokens in the cache before the prefill");
  app.add_option("--decode", options.num_decode, "tokens per decode round");
  app.add_option("--naive", options.naive_len, "prefix that chapter 1 recomputes; 0: none");
  app.add_option("--rounds", options.rounds, "rounds, of which the median counts");
  app.add_option("--threads", options.threads, "threads");
  return kv::parse_and_run(app, argc, argv, [&] {
    kv::set_num_threads(options.threads);
    kv::LoadedModel loaded = kv::load(options.model, std::cerr);
    if (options.math == kv::plain_math().name) kv::widen_weights(loaded.model);
    std::cout << Bench(loaded.model, options).run().str();
  });
}
