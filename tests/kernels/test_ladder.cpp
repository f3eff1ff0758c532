// Every step of the ladder against the oracle, against the step before, and on cases whose answer
// is known by thought.
#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "kv/attention/online_softmax.hpp"
#include "ladder_steps.hpp"

using namespace kv_test;
using kv::AttentionStep;
using kv::Backend;
using kv::DType;

namespace {

const float kInf = std::numeric_limits<float>::infinity();

// Lengths 0 and 1, one tile and its neighbours, primes, more queries than keys and the other way.
const Lengths kBatch[] = {{5, 9}, {1, 1}, {0, 7}, {3, 0}, {1, 67}, {19, 5}, {33, 37}};
// The same kinds, smaller: the checked build is slow.
const Lengths kSmallBatch[] = {{5, 9}, {1, 33}, {0, 3}, {2, 0}, {17, 3}};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Both within the bound of the oracle means at most the two bounds apart.
void require_agreement(const AttentionProblem& p, const AttentionResult& a,
                       const AttentionResult& b, const Looseness& looseness_a,
                       const Looseness& looseness_b) {
  const kv::HeadConfig& heads = p.shape.heads;
  for (const kv::SequenceRows& rows : p.sequences) {
    const kv::ReferenceAttention reference = kv::reference_attention(
        p.q.data() + rows.q_begin * heads.q_dim(), p.k.data() + rows.kv_begin * heads.kv_dim(),
        p.v.data() + rows.kv_begin * heads.kv_dim(), heads, rows.q_len, rows.kv_len, p.shape.scale,
        p.shape.causal);
    const auto begin = a.out.begin() + rows.q_begin * heads.q_dim();
    const std::vector<double> expected(begin, begin + reference.out.size());
    require_close(
        std::span<const float>(b.out).subspan(rows.q_begin * heads.q_dim(), expected.size()),
        expected,
        looseness_a.out_atol(reference, rows.kv_len) +
            looseness_b.out_atol(reference, rows.kv_len));
  }
}

}  // namespace

TEST_CASE("every step computes attention in every format and head size", "[kernels][big]") {
  for_each_step([](const StepUnderTest& step, DType dtype) {
    for (const int head_dim : kv::kHeadDims)
      for (const bool causal : {true, false}) {
        INFO("head_dim " << head_dim << ", causal " << causal);
        const AttentionProblem p =
            random_problem(grouped_shape(head_dim, dtype, causal), kBatch, head_dim);
        require_oracle(p, run(p, step.step, Backend::emulated), step.looseness(dtype));
      }
  });
}

TEST_CASE("every step is free of faults in every order of threads", "[kernels][big]") {
  for_each_step([](const StepUnderTest& step, DType dtype) {
    for (const int head_dim : {32, 80}) {
      INFO("head_dim " << head_dim);
      const AttentionProblem p =
          random_problem(grouped_shape(head_dim, dtype, true), kSmallBatch, 7);
      AttentionResult first;
      in_every_order([&] {
        const AttentionResult result = run(p, step.step, Backend::checked);  // throws on a report
        require_oracle(p, result, step.looseness(dtype));
        if (first.out.empty()) first = result;
        REQUIRE(same_bits(result.out, first.out));
        REQUIRE(same_bits(result.lse, first.lse));
      });
    }
  });
}

TEST_CASE("every step is free of faults in every head size, with and without a mask",
          "[kernels][big]") {
  for_each_step([](const StepUnderTest& step, DType dtype) {
    for (const int head_dim : kv::kHeadDims) {
      INFO("head_dim " << head_dim);
      const bool causal = head_dim % 64 == 0;
      const AttentionProblem p =
          random_problem(grouped_shape(head_dim, dtype, causal), kSmallBatch, 8);
      require_oracle(p, run(p, step.step, Backend::checked), step.looseness(dtype));
    }
  });
}

TEST_CASE("every step agrees with the step before", "[kernels][big]") {
  for (const DType dtype : kFormats)
    for (const bool causal : {true, false}) {
      const AttentionProblem p = random_problem(grouped_shape(64, dtype, causal), kBatch, 3);
      AttentionResult before;
      Looseness looseness_before;
      for (const StepUnderTest& step : kSteps) {
        if (dtype == DType::f32 && !step.reads_f32) continue;
        INFO("step " << kv::name(step.step) << " in " << kv::info(dtype).name);
        const AttentionResult result = run(p, step.step, Backend::emulated);
        const Looseness looseness = step.looseness(dtype);
        if (!before.out.empty()) require_agreement(p, before, result, looseness_before, looseness);
        before = result;
        looseness_before = looseness;
      }
    }
}

TEST_CASE("every step is right at the edges of its tiles", "[kernels][big]") {
  // In fp32: what is off by one must not hide in a tolerance. 16, 32 and 64 are tiles of somebody.
  for (const StepUnderTest& step : kSteps)
    for (const int head_dim : {64, 256}) {
      std::vector<Lengths> lengths;
      for (const int q_len : {31, 32, 33, 63, 64, 65}) lengths.push_back({q_len, 33});
      for (const int kv_len : {15, 16, 17, 31, 32, 63, 64, 65}) lengths.push_back({17, kv_len});
      for (const int kv_len : {127, 128, 129}) lengths.push_back({2, kv_len});
      const DType dtype = step.reads_f32 ? DType::f32 : DType::f16;
      INFO("step " << kv::name(step.step) << ", head_dim " << head_dim);
      const kv::AttentionShape shape{{2, 1, head_dim}, dtype, usual_scale(head_dim), true};
      const AttentionProblem p = random_problem(shape, lengths, 5);
      require_oracle(p, run(p, step.step, Backend::emulated), step.looseness(dtype));
    }
}

TEST_CASE("every step stands scores of large spread", "[kernels][big]") {
  for_each_step([](const StepUnderTest& step, DType dtype) {
    const Lengths lengths[] = {{40, 70}, {1, 200}};
    const AttentionProblem p = random_problem(grouped_shape(64, dtype, true), lengths, 4, 40.0f);
    require_oracle(p, run(p, step.step, Backend::emulated), step.looseness(dtype));
  });
}

TEST_CASE("every step serves any number of query heads per KV head", "[kernels]") {
  for_each_step([](const StepUnderTest& step, DType dtype) {
    for (const kv::HeadConfig heads : {kv::HeadConfig{3, 3, 32}, {7, 1, 32}, {6, 2, 32}}) {
      INFO(heads.num_q_heads << " query heads, " << heads.num_kv_heads << " KV heads");
      const Lengths lengths[] = {{6, 19}, {1, 40}};
      const AttentionProblem p =
          random_problem({heads, dtype, usual_scale(heads.head_dim), true}, lengths, 6);
      require_oracle(p, run(p, step.step, Backend::emulated), step.looseness(dtype));
    }
  });
}

TEST_CASE("every step writes no lse when nobody asks", "[kernels][big]") {
  for_each_step([](const StepUnderTest& step, DType dtype) {
    const AttentionProblem p = random_problem(grouped_shape(64, dtype, true), kSmallBatch, 9);
    require_oracle(p, run(p, step.step, Backend::checked, false), step.looseness(dtype), false);
  });
}

TEST_CASE("every step aligns the causal mask at the bottom right", "[kernels]") {
  // All scores 0 and V one-hot: out[t, j] is 1 / n for the n visible keys and exactly 0 elsewhere.
  for_each_step([](const StepUnderTest& step, DType dtype) {
    for (const Lengths lengths : {Lengths{2, 5}, Lengths{5, 2}, Lengths{1, 3}, Lengths{3, 3}}) {
      INFO("q_len " << lengths.q_len << ", kv_len " << lengths.kv_len);
      AttentionProblem p = zero_problem({{1, 1, 32}, dtype, 1.0f, true}, lengths);
      for (int j = 0; j < lengths.kv_len; ++j) p.v[j * 32 + j] = 1.0f;
      const AttentionResult result = run(p, step.step, Backend::checked);
      for (int t = 0; t < lengths.q_len; ++t) {
        const int num_visible = std::max(0, t + 1 + lengths.kv_len - lengths.q_len);
        for (int d = 0; d < 32; ++d) {
          INFO("row " << t << ", key " << d);
          const float expected = d < num_visible ? 1.0f / static_cast<float>(num_visible) : 0.0f;
          // P may be rounded to 16 bit: 1 is exact then, and the sum is divided out.
          REQUIRE(std::fabs(result.out[t * 32 + d] - expected) <= 1e-6f);
          if (d >= num_visible) REQUIRE(result.out[t * 32 + d] == 0.0f);
        }
        if (num_visible == 0) {
          REQUIRE(result.lse[t] == -kInf);
        } else {
          REQUIRE(std::fabs(result.lse[t] - std::log(float(num_visible))) <= 1e-6f);
        }
      }
    }
  });
}

TEST_CASE("every step tells scores near -60000 apart from no score", "[kernels]") {
  // -250 * 240 = -60000; the second key has one less. All exact in 16 bits.
  for_each_step([](const StepUnderTest& step, DType dtype) {
    AttentionProblem p = zero_problem({{1, 1, 32}, dtype, 1.0f, false}, {1, 2});
    p.q[0] = -250.0f, p.q[1] = -1.0f;
    p.k[0] = 240.0f, p.k[32] = 240.0f, p.k[33] = 1.0f;
    for (int d = 0; d < 32; ++d) p.v[d] = 1.0f, p.v[32 + d] = 2.0f;
    const AttentionResult result = run(p, step.step, Backend::checked);
    // Steps that work in base 2 round scores times log2(e), near 86562: half a unit there is 0.004.
    const double room = step.in_base_2 ? 0.01 : 1e-6;
    for (int d = 0; d < 32; ++d) REQUIRE(std::fabs(result.out[d] - 1.268941) <= room);
    REQUIRE(std::fabs(result.lse[0] - -59999.686738) <= 0.004);  // one unit of fp32 there
  });
}

TEST_CASE("every step subtracts the maximum before the exponential", "[kernels]") {
  for_each_step([](const StepUnderTest& step, DType dtype) {
    for (const float offset : {0.0f, 100.0f}) {
      INFO("scores " << 100.0f * (offset + 1.0f) << " and " << 100.0f * offset);
      AttentionProblem p = zero_problem({{1, 1, 32}, dtype, 1.0f, false}, {1, 2});
      p.q[0] = 100.0f, p.q[1] = 100.0f;
      p.k[0] = 1.0f, p.k[1] = offset, p.k[33] = offset;
      for (int d = 0; d < 32; ++d) p.v[d] = 1.0f, p.v[32 + d] = 2.0f;
      const AttentionResult result = run(p, step.step, Backend::checked);
      // Rounded products of scores and log2(e) leave the largest weight near 1, not at it.
      const double room = step.in_base_2 ? attention_atol(100.0 * (2.0 * offset + 1.0), 1.0) : 0.0;
      for (int d = 0; d < 32; ++d) REQUIRE(std::fabs(result.out[d] - 1.0f) <= room);
      REQUIRE(std::fabs(result.lse[0] - 100.0f * (offset + 1.0f)) <= 0.001f);
    }
  });
}

TEST_CASE("every step gives the neutral result for a query without keys", "[kernels]") {
  for_each_step([](const StepUnderTest& step, DType dtype) {
    const Lengths lengths[] = {{3, 0}, {2, 4}};
    const AttentionProblem p = random_problem(grouped_shape(32, dtype, false), lengths, 10);
    const AttentionResult result = run(p, step.step, Backend::checked);
    const kv::SequenceRows& rows = p.sequences[0];
    for (std::int64_t row = rows.q_begin * 4; row < (rows.q_begin + 3) * 4; ++row) {
      for (int d = 0; d < 32; ++d) REQUIRE(result.out[row * 32 + d] == 0.0f);
      REQUIRE(result.lse[row] == -kInf);
      // Merged with a real part it changes nothing.
      const float real = result.lse[p.sequences[1].q_begin * 4];
      const kv::MergeFactors merged = kv::merge_factors(result.lse[row], real);
      REQUIRE(merged.a == 0.0f);
      REQUIRE(merged.b == 1.0f);
      REQUIRE(merged.lse == real);
    }
  });
}

TEST_CASE("every step repeats KV heads in groups, not in turn", "[kernels]") {
  for_each_step([](const StepUnderTest& step, DType dtype) {
    AttentionProblem p = zero_problem(grouped_shape(32, dtype, true), {2, 3});
    for (int j = 0; j < 3; ++j)
      for (int d = 0; d < 64; ++d) p.v[j * 64 + d] = d < 32 ? 1.0f : 2.0f;
    const AttentionResult result = run(p, step.step, Backend::checked);
    for (int i = 0; i < 2 * 4 * 32; ++i) {
      const int h = i / 32 % 4;
      REQUIRE(std::fabs(result.out[i] - (h < 2 ? 1.0f : 2.0f)) <= 1e-6f);
    }
  });
}

TEST_CASE("a step that leaves masked keys out lets no NaN of theirs through", "[kernels]") {
  for (const StepUnderTest& step : kSteps) {
    if (!step.leaves_masked_keys_out) continue;
    INFO("step " << kv::name(step.step));
    // Row t sees keys up to t + 30: the last two keys belong to the last two rows only.
    const Lengths lengths[] = {{6, 36}};
    AttentionProblem p = random_problem(grouped_shape(32, DType::f32, true), lengths, 11);
    const AttentionResult clean = run(p, step.step, Backend::emulated);
    const kv::SequenceRows& rows = p.sequences[0];
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (std::int64_t i = (rows.kv_begin + 34) * 64; i < (rows.kv_begin + 36) * 64; ++i)
      p.k[i] = p.v[i] = nan;
    const AttentionResult result = run(p, step.step, Backend::emulated);
    for (int i = 0; i < 6 * 128; ++i) {
      const std::int64_t at = rows.q_begin * 128 + i;
      INFO("row " << i / 128);
      if (i < 4 * 128) {
        REQUIRE(result.out[at] == clean.out[at]);
      } else {
        REQUIRE(std::isnan(result.out[at]));
      }
    }
  }
}

TEST_CASE("every step shows a NaN in a key that a row sees", "[kernels]") {
  for_each_step([](const StepUnderTest& step, DType dtype) {
    for (const int kv_len : {1, 5, 70}) {
      INFO("kv_len " << kv_len);
      const Lengths lengths[] = {{1, kv_len}};
      AttentionProblem p = random_problem(grouped_shape(32, dtype, true), lengths, 14);
      const kv::SequenceRows& rows = p.sequences[0];
      p.k[(rows.kv_begin + kv_len / 2) * 64] = std::numeric_limits<float>::quiet_NaN();  // head 0
      const AttentionResult result = run(p, step.step, Backend::emulated);
      for (int h = 0; h < 4; ++h) {
        REQUIRE(std::isnan(result.out[rows.q_begin * 128 + h * 32]) == (h < 2));
        REQUIRE(std::isnan(result.lse[rows.q_begin * 4 + h]) == (h < 2));
      }
    }
  });
}

TEST_CASE("every step reaches keys beyond 2^31 elements", "[kernels]") {
  // K and V claim to begin 2^33 elements before their memory; only the rows of the sequence exist.
  for_each_step([](const StepUnderTest& step, DType dtype) {
    const Lengths lengths[] = {{3, 37}};
    AttentionProblem p = random_problem(grouped_shape(32, dtype, true), lengths, 12);
    const AttentionResult near = run(p, step.step, Backend::checked);
    kv::Device& device = kv::device(Backend::checked);
    const std::int64_t shift = (std::int64_t{1} << 33) / p.shape.heads.kv_dim();
    p.sequences[0].kv_begin += shift;
    const kv::AttentionPlan plan(device, step.step, p.shape, p.sequences);
    const kv::DeviceBuffer<float> q(device, std::span<const float>(p.q));
    const StoredRows k(device, p.k, dtype), v(device, p.v, dtype);
    kv::DeviceBuffer<float> out(device, p.q.size());
    const auto begin = [&](const StoredRows& rows) {
      return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(rows.data()) -
                                           shift * p.shape.heads.kv_dim() *
                                               kv::info(dtype).block_bytes);
    };
    plan.run(q.data(), begin(k), begin(v), out.data());
    device.synchronize();
    const std::vector<float> far = out.to_host();
    const std::size_t first = p.sequences[0].q_begin * p.shape.heads.q_dim();
    for (int i = 0; i < 3 * p.shape.heads.q_dim(); ++i)
      REQUIRE(far[first + i] == near.out[first + i]);
  });
}
