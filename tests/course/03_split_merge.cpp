// Exercise 03_split_merge: combine() and merge_kernel.
#include "course/attention_support.hpp"

namespace {

using kv_course::AttentionRun;
using kv_course::pick;

constexpr int kHeadDim = 64, kNumHeads = 4, kHeadsPerItem = 2;

// Parts of the rows of two sequences, two query heads an item, as if decode had left them.
struct Parts {
  /// \param center of the log-sum-exps
  Parts(std::uint64_t salt, float center)
      : random(kv_course::random_numbers(salt)),
        problem(kv_course::random_attention(random, {{2, 1}, {1, 1}}, false)) {
    for (int sequence = 0; sequence < 2; ++sequence)
      for (int row = 0; row < problem.sequences[static_cast<std::size_t>(sequence)].q_len; ++row)
        for (int head = 0; head < kNumHeads / kHeadsPerItem; ++head) {
          // Few parts and many: a slice of the CTA has none, one or several of them.
          const auto count =
              static_cast<int>(head == 0 ? pick(random, 2, 9) : pick(random, 35, 45));
          merges.push_back({sequence, row, head, num_partials, count});
          num_partials += count;
        }
    lse = kv_course::random_floats(random, std::int64_t{num_partials} * kHeadsPerItem);
    for (float& x : lse) x = center + 4 * x;
    out = kv_course::random_floats(random, std::ssize(lse) * kHeadDim);
  }

  /// Index of head i of a part, in units of a head.
  static std::size_t index(const kv::SplitMerge& merge, int part, int i) {
    return static_cast<std::size_t>((merge.partial + part) * kHeadsPerItem + i);
  }

  void make_empty(const kv::SplitMerge& merge, int part) {
    for (int i = 0; i < kHeadsPerItem; ++i) {
      lse[index(merge, part, i)] = -INFINITY;
      std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(index(merge, part, i)) * kHeadDim,
                  kHeadDim, 0.0f);
    }
  }

  AttentionRun run(kv::emulator::Order order = kv::emulator::Order::forward) {
    const auto device_merges = kv_course::on_device(merges);
    auto device_out = kv_course::on_device(out), device_lse = kv_course::on_device(lse);
    return kv_course::run_attention(problem, [&](kv::AttentionLaunch& launch) {
      kv::emulator::options().order = order;
      launch.split.merges = device_merges.data();
      launch.split.out = device_out.data();
      launch.split.lse = device_lse.data();
      launch.split.num_merges = static_cast<int>(merges.size());
      launch.split.heads_per_item = kHeadsPerItem;
      kv::checked::launch_merge(launch);
    });
  }

  /// What the parts are together, in double, against what was written for each row and head.
  void expect_merged(const kv_course::AttentionOutput<float>& got, double atol) const {
    for (const kv::SplitMerge& merge : merges)
      for (int i = 0; i < kHeadsPerItem; ++i) {
        double m = -INFINITY, l = 0;
        for (int part = 0; part < merge.num_parts; ++part)
          m = std::max(m, double{lse[index(merge, part, i)]});
        std::vector<double> expected(kHeadDim);
        for (int part = 0; part < merge.num_parts && m != -INFINITY; ++part) {
          const std::size_t at = index(merge, part, i);
          const double weight = std::exp(lse[at] - m);
          l += weight;
          for (std::size_t d = 0; d < kHeadDim; ++d) expected[d] += weight * out[at * kHeadDim + d];
        }
        for (double& x : expected) x = l == 0 ? 0 : x / l;
        const int h = merge.head * kHeadsPerItem + i;
        const auto at = static_cast<std::size_t>(
            (problem.sequences[static_cast<std::size_t>(merge.sequence)].q_begin + merge.row) *
                kNumHeads +
            h);
        const std::string of = " of sequence " + std::to_string(merge.sequence) + ", row " +
                               std::to_string(merge.row) + ", head " + std::to_string(h) + " in " +
                               std::to_string(merge.num_parts) + " parts";
        kv_course::expect_close("out" + of, {kHeadDim},
                                std::span(got.out).subspan(at * kHeadDim, kHeadDim),
                                std::span<const double>(expected), atol);
        kv_course::expect_close("lse" + of, {1}, std::vector<float>{got.lse[at]},
                                std::vector<double>{m + std::log(l)}, atol);
      }
  }

  std::mt19937_64 random;
  kv_course::AttentionProblem problem;  // only its rows and heads count
  std::vector<kv::SplitMerge> merges;
  int num_partials = 0;
  std::vector<float> out, lse;
};

}  // namespace

TEST_CASE("parts are merged by their log-sum-exps") {
  Parts parts(1, 0);
  parts.expect_merged(parts.run().got, 1e-5);
}

TEST_CASE("a part without keys changes nothing") {
  Parts parts(2, 0);
  // The first of all, one in the middle; the last of those that are many.
  for (const kv::SplitMerge& merge : parts.merges) {
    parts.make_empty(merge, 0);
    if (merge.num_parts <= 10) continue;
    parts.make_empty(merge, static_cast<int>(pick(parts.random, 1, 9)));
    parts.make_empty(merge, merge.num_parts - 1);
  }
  parts.expect_merged(parts.run().got, 1e-5);
}

TEST_CASE("of nothing but empty parts come 0 and -inf") {
  Parts parts(3, 0);
  for (const std::size_t i : {std::size_t{0}, std::size_t{3}})
    for (int part = 0; part < parts.merges[i].num_parts; ++part)
      parts.make_empty(parts.merges[i], part);
  parts.expect_merged(parts.run().got, 1e-5);  // the others have keys
}

TEST_CASE("log-sum-exps of any size are merged: near -500 and near 500") {
  for (const float center : {-500.0f, 500.0f}) {
    Parts parts(4, center);
    parts.expect_merged(parts.run().got, 2e-4);  // float has 7 digits
  }
}

TEST_CASE("each part is read once") {
  Parts parts(5, 0);
  const AttentionRun result = parts.run();
  parts.expect_merged(result.got, 1e-5);
  // Sectors of 32 bytes: 8 are the output of one head of a part. Its lse may cost a few more.
  const std::uint64_t sectors = parts.lse.size() * kHeadDim * 4 / 32;
  CHECK(result.loads().units >= sectors);
  CHECK(result.loads().units < 2 * sectors);
}

TEST_CASE("no race, whatever the order of the threads") {
  Parts parts(6, 0);
  for (const auto order : {kv::emulator::Order::forward, kv::emulator::Order::reverse})
    parts.expect_merged(parts.run(order).got, 1e-5);
}

TEST_CASE("decode in parts is attention") {
  auto random = kv_course::random_numbers(7);
  // In many parts, in one, and without keys.
  const kv_course::AttentionProblem p = kv_course::random_attention(
      random, {{1, pick(random, 130, 170)}, {1, pick(random, 1, 4)}, {1, 0}}, true);
  kv::SplitOptions options;
  options.num_slots = 1;
  options.fixed_chunk = static_cast<int>(pick(random, 5, 7));
  const kv::SplitPlan plan = kv::plan_split(kNumHeads, true, p.sequences, options);
  kv::SplitBuffers buffers(kv_course::device(), plan, kHeadDim);
  const AttentionRun result = kv_course::run_attention(p, [&](kv::AttentionLaunch& launch) {
    launch.split = buffers.arrays();
    kv::checked::launch_split_kv(launch);
  });
  kv_course::expect_attention(p, result.got);
}
