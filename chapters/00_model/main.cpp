// Chapter 0 - the model.
//
// Before: a file of numbers.
// Shows:  its shape, where every weight goes, and one forward pass step by step.
// After:  the words that the course uses: token, row, layer, head, group, logits.
// Run:    build/default/bin/00_model --prompt "To be, or not to"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "kv/cache/contiguous.hpp"
#include "kv/load.hpp"
#include "kv/report/course_table.hpp"
#include "kv/report/options.hpp"
#include "kv/report/table.hpp"

namespace {

void print_shape(const kv::Model& model, const kv::Math& math) {
  const kv::ModelConfig& c = model.config;
  kv::Table table({"shape", "value", "meaning"},
                  {kv::Align::left, kv::Align::right, kv::Align::left});
  const auto row = [&](const char* name, std::int64_t value, const char* meaning) {
    table.add_row({name, kv::with_thousands(value), meaning});
  };
  row("vocab_size", c.vocab_size, "tokens the model knows");
  row("context_length", c.context_length, "positions it was trained for");
  row("d_model", c.d_model, "numbers in a row between the layers");
  row("num_layers", c.num_layers, "decoder layers");
  row("num_q_heads", c.heads.num_q_heads, "query heads per layer");
  row("num_kv_heads", c.heads.num_kv_heads, "key/value heads per layer");
  row("group_size", c.heads.group_size(), "query heads that share a KV head");
  row("head_dim", c.heads.head_dim, "numbers in one head");
  row("ffn_dim", c.ffn_dim, "width inside the feed-forward part");
  std::cout << "Model: " << c.name << ", device: cpu, math: " << math.name << "\n\n"
            << table.str(2) << "\n";
}

void print_weights(const kv::Model& model) {
  kv::Table table({"weight", "shape", "format", "numbers", "bytes", "share"});
  const auto row = [&](const std::string& name, const kv::WeightMatrix& w, int copies) {
    table.add_row({name, fmt::format("[{}, {}]", w.num_rows, w.num_cols),
                   std::string(kv::info(w.dtype).name),
                   kv::with_thousands(copies * w.num_rows * w.num_cols),
                   kv::with_thousands(copies * w.bytes()),
                   fmt::format("{:.1f} %", 100.0 * static_cast<double>(copies * w.bytes()) /
                                               static_cast<double>(model.weight_bytes()))});
  };
  const kv::LayerWeights& layer = model.layers.front();
  const int num_layers = model.config.num_layers;
  row("token embedding", model.token_embedding, 1);
  row("q, every layer", layer.q, num_layers);
  row("k, every layer", layer.k, num_layers);
  row("v, every layer", layer.v, num_layers);
  row("attention output", layer.o, num_layers);
  row("gate", layer.gate, num_layers);
  row("up", layer.up, num_layers);
  row("down", layer.down, num_layers);
  if (!model.tied()) row("output", model.output, 1);
  std::cout << "Where the weights are (the layers' norms add a few numbers more):\n"
            << table.str(2) << "  in all " << kv::with_thousands(model.num_parameters())
            << " numbers, " << kv::format_bytes(model.weight_bytes())
            << (model.tied() ? "; the output matrix is the token embedding\n\n" : "\n\n");
}

void print_pass(const kv::LoadedModel& loaded, const kv::ChapterOptions& options) {
  const kv::ModelConfig& c = loaded.model.config;
  const std::vector<kv::TokenId> tokens = loaded.tokenizer.encode(options.prompt);
  const std::int64_t n = static_cast<std::int64_t>(tokens.size());
  if (n > c.context_length)
    throw kv::InputError("--prompt: longer than the model's context; give a shorter one");
  std::cout << "One forward pass over " << n << " tokens:\n  text     "
            << "-> tokens  ";
  for (const kv::TokenId id : tokens)
    std::cout << fmt::format("{}={:?} ", id, loaded.tokenizer.decode({&id, 1}));

  kv::ContiguousCache state(c, n);
  kv::Work work;
  std::vector<float> logits = kv::forward(loaded.model, state, tokens, &work, *options.math);
  std::cout << fmt::format(
      "\n  tokens   -> rows    [{}, {}]: one row of the embedding for each token\n"
      "  {} layers, each:\n"
      "    norm, then q [{}, {}, {}], k and v [{}, {}, {}]; q and k are rotated by position\n"
      "    every row looks at itself and the rows before it: {} q.k products in all layers\n"
      "    k and v are what a KV cache keeps: {} bytes for these {} tokens\n"
      "    norm, gate and up to [{}, {}], back down to [{}, {}]\n"
      "  last row -> norm -> logits [{}]\n",
      n, c.d_model, c.num_layers, n, c.heads.num_q_heads, c.heads.head_dim, n, c.heads.num_kv_heads,
      c.heads.head_dim, kv::with_thousands(work.scores), kv::with_thousands(work.kv_bytes_written),
      n, n, c.ffn_dim, n, c.d_model, c.vocab_size);

  std::cout << "  likeliest next tokens: ";
  for (int rank = 0; rank < std::min(5, c.vocab_size); ++rank) {
    const kv::TokenId id = kv::argmax(logits);  // refuses logits that are not numbers
    std::cout << fmt::format("{:?} {:.2f}  ", loaded.tokenizer.decode({&id, 1}), logits[id]);
    logits[id] = -INFINITY;
  }
  std::cout << "\n";
}

void chapter(const kv::ChapterOptions& options) {
  if (!options.json.empty() || !options.csv.empty() || !options.svg.empty())
    throw kv::InputError("--json, --csv, --svg: chapter 0 has no report; use a later chapter");
  const kv::LoadedModel loaded = kv::load(options, std::cerr);
  print_shape(loaded.model, *options.math);
  print_weights(loaded.model);
  print_pass(loaded, options);
  if (!options.table.empty()) {
    kv::CourseRow row;
    row.chapter = "00_model";
    row.change = "the model itself";
    kv::add_to_course_table("--table", options.table, row);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return kv::run_chapter(argc, argv, "Chapter 0: the model's shape, weights and one forward pass",
                         KV_DEFAULT_MODEL, chapter);
}
