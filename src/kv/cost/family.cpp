#include "kv/cost/family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <sstream>

#include "kv/check.hpp"
#include "kv/report/table.hpp"

namespace kv {
namespace {

constexpr const char* kKinds[] = {"trained", "pooled", "uptrained"};
constexpr const char* kHeader =
    "kind,kv_heads,seed,steps,parameters,kv_bytes_per_token_fp32,held_out_loss";

// The cells of one line; false when they are not those of a member.
bool parse_member(std::string line, FamilyMember& member) {
  std::ranges::replace(line, ',', ' ');  // no cell holds a comma or a space
  std::istringstream cells(line);
  std::string more;
  cells >> member.kind >> member.num_kv_heads >> member.seed >> member.steps >>
      member.num_parameters >> member.kv_bytes_per_token >> member.held_out_loss;
  const bool known = std::ranges::find(kKinds, member.kind) != std::end(kKinds);
  return known && !cells.fail() && !(cells >> more) && member.num_kv_heads > 0 &&
         member.kv_bytes_per_token > 0 && std::isfinite(member.held_out_loss);
}

// All numbers of KV heads, most first.
std::set<int, std::greater<>> head_counts(std::span<const FamilyMember> family) {
  std::set<int, std::greater<>> counts;
  for (const FamilyMember& member : family) counts.insert(member.num_kv_heads);
  return counts;
}

const FamilyMember& any_with(std::span<const FamilyMember> family, int num_kv_heads) {
  return *std::ranges::find(family, num_kv_heads, &FamilyMember::num_kv_heads);
}

std::string cell(const FamilyLoss& loss) {
  if (loss.num_seeds == 0) return "";
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", loss.mean, loss.lowest, loss.highest);
}

FamilyLoss summary(std::span<const double> losses) {
  FamilyLoss result;
  for (const double loss : losses) {
    result.lowest = result.num_seeds == 0 ? loss : std::min(result.lowest, loss);
    result.highest = result.num_seeds == 0 ? loss : std::max(result.highest, loss);
    result.mean += loss;
    ++result.num_seeds;
  }
  if (result.num_seeds > 0) result.mean /= result.num_seeds;
  return result;
}

// Seed by seed, the losses of one kind and number of heads above those of another.
FamilyLoss difference(std::span<const FamilyMember> family, const std::string& kind,
                      int num_kv_heads, const std::string& base_kind, int base_kv_heads) {
  std::vector<double> differences;
  for (const FamilyMember& member : family)
    for (const FamilyMember& base : family)
      if (member.kind == kind && member.num_kv_heads == num_kv_heads && base.kind == base_kind &&
          base.num_kv_heads == base_kv_heads && member.seed == base.seed)
        differences.push_back(member.held_out_loss - base.held_out_loss);
  return summary(differences);
}

// The means as a line, or every member as a mark.
Series series(std::span<const FamilyMember> family, const std::string& kind, bool means) {
  Series result;
  result.name = means ? kind + ", mean" : kind;
  result.line = means;
  result.markers = !means;
  const auto add = [&](const FamilyMember& member, double loss, const std::string& note) {
    result.x.push_back(static_cast<double>(member.kv_bytes_per_token));
    result.y.push_back(loss);
    result.notes.push_back(fmt::format("{}, {} KV heads, {}: {:.4f} nats per token", kind,
                                       member.num_kv_heads, note, loss));
  };
  for (const int count : head_counts(family)) {
    const FamilyLoss loss = family_loss(family, kind, count);
    if (means && loss.num_seeds > 0) add(any_with(family, count), loss.mean, "mean");
    for (const FamilyMember& member : family)
      if (!means && member.kind == kind && member.num_kv_heads == count)
        add(member, member.held_out_loss, fmt::format("seed {}", member.seed));
  }
  return result;
}

}  // namespace

std::vector<FamilyMember> read_family(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputError(path + ": cannot be read; make it again with family.py");
  std::string line;
  if (!std::getline(file, line) || line != kHeader)
    throw InputError(path + ": line 1 is not the header of a family; make it again with family.py");
  std::vector<FamilyMember> family;
  for (int number = 2; std::getline(file, line); ++number)
    if (!parse_member(line, family.emplace_back()))
      throw InputError(path + ": line " + std::to_string(number) +
                       " is not a member of a family; make it again with family.py");
  return family;
}

FamilyLoss family_loss(std::span<const FamilyMember> family, const std::string& kind,
                       int num_kv_heads) {
  std::vector<double> losses;
  for (const FamilyMember& member : family)
    if (member.kind == kind && member.num_kv_heads == num_kv_heads)
      losses.push_back(member.held_out_loss);
  return summary(losses);
}

std::string family_text(std::span<const FamilyMember> family) {
  Table table({"KV heads", "KV bytes per token", "parameters", "trained", "pooled", "uptrained"},
              {Align::right});
  for (const int count : head_counts(family)) {
    const FamilyMember& any = any_with(family, count);
    table.add_row({fmt::format("{}", count), with_thousands(any.kv_bytes_per_token),
                   with_thousands(any.num_parameters), cell(family_loss(family, "trained", count)),
                   cell(family_loss(family, "pooled", count)),
                   cell(family_loss(family, "uptrained", count))});
  }
  return table.str(2);
}

std::string family_cost_text(std::span<const FamilyMember> family) {
  Table table({"KV heads", "trained", "pooled", "uptrained"}, {Align::right});
  const auto counts = head_counts(family);
  for (const int count : counts) {
    if (count == *counts.begin()) continue;
    const auto cost = [&](const char* kind, const char* base) {
      return cell(difference(family, kind, count, base, *counts.begin()));
    };
    table.add_row({fmt::format("{}", count), cost("trained", "trained"), cost("pooled", "trained"),
                   cost("uptrained", "uptrained")});
  }
  return table.str(2);
}

std::vector<Plot> family_plots(std::span<const FamilyMember> family) {
  std::vector<Plot> plots;
  for (const bool with_pooled : {true, false}) {
    Plot plot;
    plot.title = with_pooled ? "Held-out loss against the size of the cache"
                             : "The same without the models that were only pooled";
    plot.x = {"KV bytes per token, fp32", Scale::log};
    plot.y = {"held-out loss, nats per token", Scale::linear};
    for (const char* kind : kKinds)
      for (const bool means : {true, false})
        if (with_pooled || std::string_view(kind) != "pooled")
          plot.series.push_back(series(family, kind, means));
    plots.push_back(std::move(plot));
  }
  return plots;
}

}  // namespace kv
