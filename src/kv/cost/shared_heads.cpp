#include "kv/cost/shared_heads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <stdexcept>

#include "kv/agreement.hpp"
#include "kv/cache/contiguous.hpp"
#include "kv/cost/family.hpp"
#include "kv/decoder.hpp"
#include "kv/exercise.hpp"
#include "kv/model/pool_heads.hpp"
#include "kv/report/output_file.hpp"
#include "kv/report/table.hpp"

namespace kv {
namespace {

// The published comparison: a KV head for each query head, Llama 3's eight, and one.
constexpr const char* kPublished = "llama-3-8b";
constexpr int kPublishedHeads[] = {32, 8, 1};
constexpr std::int64_t kPublishedContext = 8192, kPublishedBatch = 8;

std::string fraction(double relative) {
  const double inverse = 1.0 / relative;
  return inverse == 1.0 ? "1" : fmt::format("1/{:g}", inverse);
}

// A section of the chapter: set off from what stands before, without a line break at its end.
void print(std::ostream& out, std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  out << "\n\n" << text;
}

std::string count(const char* what, double value) {
  return fmt::format("{} {}", with_thousands(std::llround(value)), what);
}

std::string step_table(std::span<const SharedHeadsCost> costs) {
  Table table({"KV heads", "group", "cache", "bytes per token", "K and V read", "weights read",
               "FLOP/B of attention", "of the step"},
              {Align::right});
  for (const SharedHeadsCost& cost : costs)
    table.add_row({fmt::format("{}", cost.num_kv_heads), fmt::format("{}", cost.group_size),
                   fraction(cost.relative_cache), with_thousands(cost.kv_bytes_per_token),
                   decimal_bytes(static_cast<std::int64_t>(cost.step.kv_bytes)),
                   decimal_bytes(static_cast<std::int64_t>(cost.step.weight_bytes)),
                   four_digits(cost.attention.intensity()), four_digits(cost.step.intensity())});
  return table.str(2);
}

std::string roofline_table(std::span<const SharedHeadsCost> costs,
                           std::span<const Machine> devices) {
  std::vector<std::string> headers = {"roofline", "ridge, FLOP/B"};
  for (const SharedHeadsCost& cost : costs)
    headers.push_back(fmt::format("{} KV heads", cost.num_kv_heads));
  Table table(headers);
  for (const Machine& device : devices) {
    std::vector<std::string> cells = {device.name, four_digits(device.ridge())};
    for (const SharedHeadsCost& cost : costs) {
      const RooflinePoint point = place(cost.attention, device);
      cells.push_back(fmt::format("{} µs, {:.2g} %, {}", four_digits(point.seconds * 1e6),
                                  100 * point.flops_per_second / device.flops_per_second,
                                  point.memory_bound ? "memory" : "arithmetic"));
    }
    table.add_row(std::move(cells));
  }
  return table.str(2);
}

std::string runs_table(const HeadConfig& heads, std::span<const HeadsRun> runs) {
  Table table({"KV heads", "made by", "KV bytes per token", "read by the step, counted",
               "closed form", "largest logit difference"},
              {Align::right, Align::left});
  for (const HeadsRun& run : runs) {
    const char* made = run.num_kv_heads < heads.num_kv_heads   ? "mean pooling"
                       : run.num_kv_heads > heads.num_kv_heads ? "repeating"
                                                               : "as trained";
    table.add_row({fmt::format("{}", run.num_kv_heads), made,
                   with_thousands(run.kv_bytes_per_token), with_thousands(run.bytes_read),
                   with_thousands(run.bytes_predicted),
                   fmt::format("{:.1e}", run.logit_difference)});
  }
  return table.str(2);
}

// Prints the model's own table. \return what is wrong with it, or nothing
std::string show_runs(const Model& model, std::span<const TokenId> tokens, KvDType kv_dtype,
                      std::ostream& out) {
  const HeadConfig& heads = model.config.heads;
  const std::vector<HeadsRun> runs = run_with_kv_heads(model, tokens, kv_dtype);
  print(out,
        fmt::format("{} itself with other numbers of KV heads; the last of {} tokens as one "
                    "step:\n",
                    model.config.name, with_thousands(static_cast<std::int64_t>(tokens.size()))) +
            runs_table(heads, runs));
  for (const HeadsRun& run : runs) {
    if (run.bytes_read != run.bytes_predicted) return "a count differs from its closed form";
    if (run.num_kv_heads >= heads.num_kv_heads && !(run.logit_difference <= run.bound))
      return "repeated KV heads do not give the same logits";
  }
  out << "\n  Every count equals its closed form; repeating changes no logit by more than rounding "
         "("
      << fmt::format("{:.1e}", runs.front().bound) << ").";
  return "";
}

}  // namespace

//! [attention cost]
KV_EXERCISE StepCost attention_cost(const HeadConfig& heads, const KvFormat& format,
                                    std::int64_t num_tokens) {
  const auto tokens = static_cast<double>(num_tokens);
  StepCost cost;
  // q.k and p.v: a multiply-add for each element of each query head.
  cost.flops = 2 * 2.0 * heads.q_dim() * tokens;
  // K and V of each KV head, read once for its whole group.
  const std::int64_t vector_bytes =
      format.element_bytes(heads.head_dim) + format.scale_bytes_of(heads.head_dim);
  cost.kv_bytes = 2.0 * heads.num_kv_heads * static_cast<double>(vector_bytes) * tokens;
  return cost;
}
//! [attention cost]

std::vector<SharedHeadsCost> shared_heads_costs(const PublishedModel& model,
                                                std::span<const int> num_kv_heads,
                                                const KvFormat& format, std::int64_t context,
                                                std::int64_t batch) {
  const auto per_token = [&](const PublishedModel& m) {
    return kv_bytes_per_token(m.kv, format).total();
  };
  const std::int64_t unshared = per_token(with_kv_heads(model, model.num_q_heads));
  std::vector<SharedHeadsCost> costs;
  for (const int heads : num_kv_heads) {
    Workload work;
    work.model = with_kv_heads(model, heads);
    work.format = format;
    work.weight_bytes = weight_bytes(work.model.params, kv_format("bf16"));
    work.context = context;
    work.batch = batch;
    SharedHeadsCost cost;
    cost.num_kv_heads = heads;
    cost.group_size = model.num_q_heads / heads;
    cost.kv_bytes_per_token = per_token(work.model);
    cost.relative_cache =
        static_cast<double>(cost.kv_bytes_per_token) / static_cast<double>(unshared);
    cost.step = decode_step(work);
    std::int64_t num_tokens = 0;
    for (int layer = 0; layer < model.kv.num_layers; ++layer)
      num_tokens += batch * tokens_held(context, model.kv.window(layer), 1);
    cost.attention =
        attention_cost({model.num_q_heads, heads, model.kv.head_dim}, format, num_tokens);
    costs.push_back(cost);
  }
  return costs;
}

std::string shared_heads_text(const PublishedModel& model, std::span<const SharedHeadsCost> costs,
                              const KvFormat& format, std::int64_t context, std::int64_t batch,
                              std::span<const Machine> devices) {
  return fmt::format(
             "Shared heads: {} with {} query heads and other numbers of KV heads (published: {}).\n"
             "One decode step of {} over {}, cache in {}, weights in bf16:\n",
             model.name, model.num_q_heads, model.kv.num_kv_heads,
             count(batch == 1 ? "sequence" : "sequences", static_cast<double>(batch)),
             count("tokens", static_cast<double>(context)), format.name) +
         step_table(costs) +
         "\nThe attention of that step on each roofline: the least time, the share of the peak, "
         "and what limits it:\n" +
         roofline_table(costs, devices);
}

std::vector<HeadsRun> run_with_kv_heads(const Model& model, std::span<const TokenId> tokens,
                                        KvDType kv_dtype) {
  require(tokens.size() >= 2, "a step needs a token, and one before it");
  const auto last_logits = [&](const Model& m, Work* work) {
    ContiguousCache cache(m.config, static_cast<std::int64_t>(tokens.size()), kv_dtype);
    forward(m, cache, tokens.first(tokens.size() - 1));
    return forward(m, cache, tokens.last(1), work);
  };
  const std::vector<float> own = last_logits(model, nullptr);
  float largest = 0.0f;
  for (const float logit : own) largest = std::max(largest, std::fabs(logit));

  std::vector<HeadsRun> runs;
  for (const int heads : possible_kv_heads(model.config.heads)) {
    const Model changed = with_kv_heads(model, heads);
    Work work;
    const std::vector<float> logits = last_logits(changed, &work);
    HeadsRun run;
    run.num_kv_heads = heads;
    run.kv_bytes_per_token =
        kv_bytes_per_token(kv_shape(changed.config), kv_format(kv_dtype)).total();
    run.bytes_read = work.kv_bytes_read;
    run.bytes_predicted = run.kv_bytes_per_token * static_cast<std::int64_t>(tokens.size());
    run.bound = logits_atol(model.config, kv_dtype, largest);
    for (std::size_t i = 0; i < own.size(); ++i)
      run.logit_difference =
          std::max(run.logit_difference, std::fabs(double{logits[i]} - double{own[i]}));
    runs.push_back(run);
  }
  return runs;
}

void show_shared_heads(const Model& model, const Generation& run, const ChapterOptions& options,
                       const std::string& family, std::ostream& out) {
  const PublishedModel& published = published_model(kPublished);
  const KvFormat& format = kv_format("bf16");
  const auto costs =
      shared_heads_costs(published, kPublishedHeads, format, kPublishedContext, kPublishedBatch);
  print(out, shared_heads_text(published, costs, format, kPublishedContext, kPublishedBatch,
                               published_devices()));

  std::vector<TokenId> tokens = run.prompt;
  tokens.insert(tokens.end(), run.output.begin(), run.output.end());
  const std::string fault =
      tokens.size() < 2 ? "" : show_runs(model, tokens, options.kv_dtype, out);

  std::vector<FamilyMember> members;
  try {
    members = read_family(family);
  } catch (const InputError& error) {
    if (!options.svg.empty()) throw;
    print(out, std::string("No family: ") + error.what());
  }
  if (!members.empty())
    print(
        out,
        "A small model trained with several numbers of KV heads, held-out loss in nats per token:\n"
        "mean (lowest to highest) over the seeds, recorded by family.py:\n" +
            family_text(members) +
            "  How much more than with the most heads, seed by seed (uptrained: than those after "
            "the same steps):\n" +
            family_cost_text(members));
  if (!options.svg.empty())
    write_file_atomically("--svg", options.svg, to_svg(family_plots(members)));
  if (!fault.empty()) throw std::runtime_error(fault);
}

}  // namespace kv
