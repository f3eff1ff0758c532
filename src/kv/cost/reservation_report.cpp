#include "kv/cost/reservation_report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "kv/report/output_file.hpp"
#include "kv/report/table.hpp"

namespace kv {
namespace {

constexpr std::int64_t kTableEntryBytes = 4;  // int32

std::string percent(double share) { return fmt::format("{:.1f} %", 100.0 * share); }

std::string_view name(Placement placement) {
  return placement == Placement::buddies ? "buddies" : "first fit";
}

double table_bytes(const ReservationResult& r) {
  return r.mean_blocks * static_cast<double>(kTableEntryBytes);
}

void add_row(Table& table, const ReservationResult& r) {
  const MemoryShares& s = r.shares;
  table.add_row({r.policy.name(), percent(s.used), percent(s.reserved), percent(s.internal),
                 percent(s.external()), percent(s.free), percent(s.wasted()),
                 fmt::format("{:.2f}", r.mean_running), with_thousands(r.num_steps),
                 r.policy.is_paged() ? with_thousands(std::llround(table_bytes(r))) : "-",
                 r.policy.is_paged() ? with_thousands(r.num_preemptions) : "-"});
}

std::string trace_text(const ReservationStudy& study) {
  double prompt = 0.0, output = 0.0;
  for (const Request& request : study.trace) {
    prompt += static_cast<double>(request.prompt_tokens);
    output += static_cast<double>(request.output_tokens);
  }
  const double count = static_cast<double>(study.trace.size());
  return fmt::format(
      "{} requests ({}): {:.1f} prompt tokens and {:.1f} output tokens in the mean, at most {}\n"
      "A memory of {} tokens; contiguous reservations are placed by {}\n",
      with_thousands(static_cast<std::int64_t>(study.trace.size())), study.trace_name,
      prompt / count, output / count, with_thousands(study.max_len), with_thousands(study.capacity),
      name(study.placement));
}

//! [explain contiguous]
std::string explain_contiguous(const ReservationStudy& study, const ReservationResult& r) {
  const LifeMeans life = life_means(study.trace, r.policy.reserve, study.max_len);
  const double unused = life.reserved - life.final;
  std::string text = fmt::format(
      "  {}: in the mean of its life a request holds {:.0f} of the {:.0f} tokens that it reserves "
      "({}), will need {:.0f} more ({}) and never needs {:.0f} ({}).\n",
      r.policy.name(), life.held, life.reserved, percent(life.held / life.reserved),
      life.final - life.held, percent((life.final - life.held) / life.reserved), unused,
      percent(unused / life.reserved));
  if (r.policy.reserve == Reserve::max_length && r.shares.rounding == 0.0)
    return text + fmt::format("    External: {} reservations fit, {} tokens are left over.\n",
                              study.capacity / study.max_len,
                              with_thousands(study.capacity % study.max_len));
  return text + fmt::format(
                    "    External: {} because the allocator makes reservations larger, {} in holes "
                    "where the request that waits does not fit.\n",
                    percent(r.shares.rounding), percent(r.shares.holes));
}
//! [explain contiguous]

std::string explain_paged(const ReservationResult& r) {
  const double tokens = static_cast<double>(r.policy.block_size);
  const double slots = r.mean_blocks * tokens;
  const double all = r.shares.used + r.shares.reserved + r.shares.internal;
  const double empty = (r.shares.reserved + r.shares.internal) / all * slots / r.mean_running;
  return fmt::format(
      "  {}: only the last block of a request has empty slots, {:.1f} of {} in the mean; {} are "
      "free, of which {} are kept so that requests can grow.\n",
      r.policy.name(), empty, r.policy.block_size, percent(r.shares.free), percent(kKeptForGrowth));
}

std::string trade_text(const ReservationStudy& study) {
  const ReservationResult &small = study.paged.front(), &large = study.paged.back();
  return fmt::format(
      "Blocks of {} leave no slot empty and need {:.0f} table entries a request; blocks of {} need "
      "{:.1f} and leave {} of the memory in empty slots.\n",
      small.policy.block_size, small.mean_blocks / small.mean_running, large.policy.block_size,
      large.mean_blocks / large.mean_running,
      percent(large.shares.reserved + large.shares.internal));
}

const ReservationResult* blocks_of(const ReservationStudy& study, std::int64_t block_size) {
  for (const ReservationResult& r : study.paged)
    if (r.policy.block_size == block_size) return &r;
  return nullptr;
}

template <typename Body>
void for_each_result(const ReservationStudy& study, const Body& body) {
  for (const auto* results : {&study.contiguous, &study.paged})
    for (const ReservationResult& r : *results) body(r);
}

}  // namespace

ReservationStudy study_reservations(std::vector<Request> trace, std::string trace_name,
                                    std::int64_t capacity, std::int64_t max_len,
                                    Placement placement) {
  ReservationStudy study{
      std::move(trace), std::move(trace_name), capacity, max_len, placement, {}, {}};
  for (const Reserve reserve : {Reserve::max_length, Reserve::power_of_two, Reserve::true_length})
    study.contiguous.push_back(simulate(study.trace, {reserve, placement, 0}, capacity, max_len));
  for (std::int64_t block_size = 1; block_size <= kLargestBlock; block_size *= 2)
    study.paged.push_back(
        simulate(study.trace, {Reserve::blocks, placement, block_size}, capacity, max_len));
  return study;
}

//! [life means]
LifeMeans life_means(const std::vector<Request>& trace, Reserve reserve, std::int64_t max_len) {
  LifeMeans sums;
  double steps = 0.0;
  for (const Request& r : trace) {
    const double life = static_cast<double>(r.output_tokens);
    steps += life;
    // It holds prompt, prompt + 1, ..., final_length(): the mean is half way.
    sums.held += life * 0.5 * static_cast<double>(r.prompt_tokens + r.final_length());
    sums.final += life * static_cast<double>(r.final_length());
    sums.reserved += life * static_cast<double>(reserved_tokens(reserve, r, max_len));
  }
  return {sums.held / steps, sums.final / steps, sums.reserved / steps};
}
//! [life means]

std::string reservation_text(const ReservationStudy& study) {
  Table table({"policy", "used", "reserved", "internal", "external", "free", "wasted",
               "requests at once", "steps", "table bytes", "preempted"});
  for_each_result(study, [&](const ReservationResult& r) { add_row(table, r); });
  std::string text =
      trace_text(study) + "\n" + table.str(2) +
      "Shares of the memory, in the mean over the steps in which a request waits for "
      "it, or\nover all steps where none ever does:\n"
      "  used: holds a token. reserved: will, before the request ends.\n"
      "  internal: set aside and never used. external: lost to the allocator.\n"
      "  free: for whoever comes next. wasted: all but used.\n"
      "\nWhere the numbers come from\n";
  for (const ReservationResult& r : study.contiguous) text += explain_contiguous(study, r);
  for (const std::int64_t block_size : {std::int64_t{16}, kLargestBlock})
    if (const ReservationResult* r = blocks_of(study, block_size)) text += explain_paged(*r);
  return text + "\n" + trade_text(study);
}

Json reservation_json(const ReservationStudy& study) {
  Json json = Json::object();
  json.set("trace", study.trace_name);
  json.set("num_requests", static_cast<std::int64_t>(study.trace.size()));
  json.set("capacity_tokens", study.capacity).set("max_len", study.max_len);
  json.set("placement", name(study.placement));
  Json policies = Json::array();
  for_each_result(study, [&](const ReservationResult& r) {
    Json entry = Json::object();
    entry.set("policy", r.policy.name()).set("block_size", r.policy.block_size);
    entry.set("used", r.shares.used).set("reserved", r.shares.reserved);
    entry.set("internal", r.shares.internal);
    entry.set("rounding", r.shares.rounding).set("holes", r.shares.holes);
    entry.set("free", r.shares.free).set("wasted", r.shares.wasted());
    entry.set("requests_at_once", r.mean_running).set("most_at_once", r.most_running);
    entry.set("steps", r.num_steps).set("steps_waiting", r.num_steps_waiting);
    entry.set("table_bytes", table_bytes(r)).set("preemptions", r.num_preemptions);
    policies.push(std::move(entry));
  });
  return json.set("policies", std::move(policies));
}

std::string reservation_csv(const ReservationStudy& study) {
  std::string text = csv_row({"policy", "block_size", "used", "reserved", "internal", "rounding",
                              "holes", "free", "wasted", "requests_at_once", "most_at_once",
                              "steps", "table_bytes", "preemptions"});
  for_each_result(study, [&](const ReservationResult& r) {
    const MemoryShares& s = r.shares;
    std::vector<std::string> cells = {r.policy.name(), std::to_string(r.policy.block_size)};
    for (const double value :
         {s.used, s.reserved, s.internal, s.rounding, s.holes, s.free, s.wasted(), r.mean_running})
      cells.push_back(fmt::format("{:.6g}", value));
    cells.push_back(std::to_string(r.most_running));
    cells.push_back(std::to_string(r.num_steps));
    cells.push_back(fmt::format("{:.6g}", table_bytes(r)));
    cells.push_back(std::to_string(r.num_preemptions));
    text += csv_row(cells);
  });
  return text;
}

std::vector<Plot> reservation_plots(const ReservationStudy& study) {
  Series empty{"empty slots in last blocks", {}, {}, true, true, {}};
  Series internal{"of them never used", {}, {}, true, true, {}};
  Series wasted{"all that holds no token", {}, {}, true, true, {}};
  Series entries{"table entries a request", {}, {}, true, true, {}};
  for (const ReservationResult& r : study.paged) {
    const double block_size = static_cast<double>(r.policy.block_size);
    const auto add = [&](Series& series, double y) {
      series.x.push_back(block_size);
      series.y.push_back(y);
    };
    add(empty, 100.0 * (r.shares.reserved + r.shares.internal));
    add(internal, 100.0 * r.shares.internal);
    add(wasted, 100.0 * r.shares.wasted());
    add(entries, r.mean_running > 0.0 ? r.mean_blocks / r.mean_running : 0.0);
  }
  const Axis x{"tokens of a block", Scale::log};
  return {{"Waste by block size, of a memory that requests wait for",
           x,
           {"% of the memory", Scale::linear},
           {wasted, empty, internal}},
          {"Bookkeeping by block size", x, {"table entries a request", Scale::log}, {entries}}};
}

}  // namespace kv
