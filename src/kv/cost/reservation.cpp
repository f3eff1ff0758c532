#include "kv/cost/reservation.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>

#include "kv/cache/block_table.hpp"
#include "kv/check.hpp"
#include "kv/cost/chunk_allocator.hpp"
#include "kv/exercise.hpp"

namespace kv {
namespace {

// A request that has its memory.
struct Running {
  const Request* request = nullptr;
  std::int64_t generated = 0;   // output tokens so far
  Chunk chunk;                  // contiguous
  std::int64_t reserved = 0;    // contiguous: of the chunk; the rest is rounding
  std::int64_t num_blocks = 0;  // paged

  // The newest output token takes its place now: the coming step stores it.
  std::int64_t held() const { return request->prompt_tokens + generated; }
};

// The memory of one policy.
class Memory {
 public:
  virtual ~Memory() = default;
  // Whether a request fits into the memory when nobody else is there.
  virtual bool ever_fits(const Request& request) const = 0;
  // Room for what the request holds when it starts. False: nothing has changed.
  [[nodiscard]] virtual bool place(Running& request, bool is_alone) = 0;
  // Room for one more token. False: nothing has changed.
  [[nodiscard]] virtual bool grow(Running& request) = 0;
  virtual void remove(const Running& request) = 0;
  // Adds what belongs to a request.
  virtual void account(const Running& request, MemoryUse& use) const = 0;
  // Adds what belongs to nobody.
  virtual void account_free(bool someone_waits, MemoryUse& use) const = 0;
};

class ContiguousMemory final : public Memory {
 public:
  ContiguousMemory(const ReservationPolicy& policy, std::int64_t capacity, std::int64_t max_len)
      : reserve_(policy.reserve), max_len_(max_len), free_(capacity) {
    if (policy.placement == Placement::buddies)
      chunks_ = std::make_unique<Buddies>(capacity);
    else
      chunks_ = std::make_unique<FirstFit>(capacity);
  }
  bool ever_fits(const Request& request) const override {
    return reserved_tokens(reserve_, request, max_len_) <= chunks_->largest();
  }
  bool place(Running& r, bool) override {
    const std::int64_t wanted = reserved_tokens(reserve_, *r.request, max_len_);
    const std::optional<Chunk> chunk = chunks_->allocate(wanted);
    if (!chunk) return false;
    r.chunk = *chunk;
    r.reserved = wanted;
    free_ -= chunk->size;
    return true;
  }
  bool grow(Running& r) override { return r.held() <= r.reserved; }
  void remove(const Running& r) override {
    chunks_->free(r.chunk);
    free_ += r.chunk.size;
  }
  void account(const Running& r, MemoryUse& use) const override {
    add_reservation(*r.request, r.held(), r.reserved, r.chunk.size, use);
  }
  void account_free(bool someone_waits, MemoryUse& use) const override {
    (someone_waits ? use.holes : use.free) += free_;
  }

 private:
  Reserve reserve_;
  std::int64_t max_len_;
  std::int64_t free_;
  std::unique_ptr<ChunkAllocator> chunks_;
};

// Blocks are all alike, so it is enough to count them.
class PagedMemory final : public Memory {
 public:
  PagedMemory(std::int64_t block_size, std::int64_t capacity)
      : block_size_(block_size),
        num_blocks_(capacity / block_size),
        left_over_(capacity % block_size),
        kept_(static_cast<std::int64_t>(
            std::ceil(kKeptForGrowth * static_cast<double>(num_blocks_)))),
        num_free_(num_blocks_) {}

  bool ever_fits(const Request& request) const override {
    return blocks_for(request.final_length()) <= num_blocks_;
  }
  bool place(Running& r, bool is_alone) override {
    const std::int64_t wanted = blocks_for(r.held());
    if (wanted + (is_alone ? 0 : kept_) > num_free_) return false;
    num_free_ -= wanted;
    r.num_blocks = wanted;
    return true;
  }
  bool grow(Running& r) override {
    const std::int64_t more = blocks_for(r.held()) - r.num_blocks;
    if (more > num_free_) return false;
    num_free_ -= more;
    r.num_blocks += more;
    return true;
  }
  void remove(const Running& r) override { num_free_ += r.num_blocks; }
  void account(const Running& r, MemoryUse& use) const override {
    const std::int64_t slots = r.num_blocks * block_size_;
    const std::int64_t to_be_used = std::min(slots, r.request->final_length());
    use.used += r.held();
    use.reserved += to_be_used - r.held();
    use.internal += slots - to_be_used;
  }
  void account_free(bool, MemoryUse& use) const override {
    use.free += num_free_ * block_size_;
    use.rounding += left_over_;
  }

 private:
  std::int64_t blocks_for(std::int64_t tokens) const {
    return num_blocks_for(tokens, static_cast<std::int32_t>(block_size_));
  }

  std::int64_t block_size_;
  std::int64_t num_blocks_;
  std::int64_t left_over_;  // tokens that make no whole block
  std::int64_t kept_;       // blocks, see kKeptForGrowth
  std::int64_t num_free_;
};

std::unique_ptr<Memory> make_memory(const ReservationPolicy& policy, std::int64_t capacity,
                                    std::int64_t max_len) {
  if (policy.is_paged()) return std::make_unique<PagedMemory>(policy.block_size, capacity);
  return std::make_unique<ContiguousMemory>(policy, capacity, max_len);
}

// One run of a trace.
class Simulation {
 public:
  Simulation(std::span<const Request> trace, Memory& memory) : trace_(trace), memory_(memory) {}

  bool is_done() const { return next_ == trace_.size() && waiting_.empty() && running_.empty(); }

  // Who waits comes in, as far as there is room.
  void admit() {
    while (next_ < trace_.size() && trace_[next_].arrival <= step_)
      waiting_.push_back({&trace_[next_++], 0, {}, 0, 0});
    while (!waiting_.empty() && memory_.place(waiting_.front(), running_.empty())) {
      running_.push_back(waiting_.front());
      waiting_.pop_front();
    }
  }

  MemorySample sample() const {
    MemorySample sample;
    sample.step = step_;
    sample.num_running = static_cast<std::int64_t>(running_.size());
    sample.num_waiting = static_cast<std::int64_t>(waiting_.size());
    for (const Running& r : running_) {
      memory_.account(r, sample.use);
      sample.num_blocks += r.num_blocks;
    }
    memory_.account_free(!waiting_.empty(), sample.use);
    return sample;
  }

  // Every request that runs gets a token.
  void generate() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      Running& r = running_[i];
      ++r.generated;
      if (r.generated == r.request->output_tokens) {
        memory_.remove(r);
        continue;
      }
      bool is_kept = true;
      while (is_kept && !memory_.grow(r)) {
        is_kept = i + 1 < running_.size();  // else it is itself the one that started last
        preempt_last();
      }
      if (is_kept) running_[kept++] = r;
    }
    running_.resize(kept);
    ++step_;
    // Nothing happens before the next arrival.
    if (running_.empty() && waiting_.empty() && next_ < trace_.size())
      step_ = std::max(step_, trace_[next_].arrival);
  }

  std::int64_t step() const { return step_; }
  std::int64_t num_preemptions() const { return num_preemptions_; }

 private:
  void preempt_last() {
    memory_.remove(running_.back());
    waiting_.push_front(running_.back());
    waiting_.front().num_blocks = 0;
    running_.pop_back();
    ++num_preemptions_;
  }

  std::span<const Request> trace_;
  Memory& memory_;
  std::size_t next_ = 0;  // who has not arrived yet
  std::deque<Running> waiting_;
  std::vector<Running> running_;  // in the order in which they started
  std::int64_t step_ = 0;
  std::int64_t num_preemptions_ = 0;
};

// Sums over steps.
struct Sums {
  std::int64_t num_steps = 0, num_running = 0, num_blocks = 0;
  double used = 0, reserved = 0, internal = 0, rounding = 0, holes = 0, free = 0;

  void add(const MemorySample& sample) {
    ++num_steps;
    num_running += sample.num_running;
    num_blocks += sample.num_blocks;
    used += static_cast<double>(sample.use.used);
    reserved += static_cast<double>(sample.use.reserved);
    internal += static_cast<double>(sample.use.internal);
    rounding += static_cast<double>(sample.use.rounding);
    holes += static_cast<double>(sample.use.holes);
    free += static_cast<double>(sample.use.free);
  }
  void write(ReservationResult& result, std::int64_t capacity) const {
    if (num_steps == 0) return;
    const double steps = static_cast<double>(num_steps);
    const double all = steps * static_cast<double>(capacity);
    result.shares = {used / all,     reserved / all, internal / all,
                     rounding / all, holes / all,    free / all};
    result.mean_running = static_cast<double>(num_running) / steps;
    result.mean_blocks = static_cast<double>(num_blocks) / steps;
  }
};

void check_trace(std::span<const Request> trace, const Memory& memory,
                 const ReservationPolicy& policy, std::int64_t capacity, std::int64_t max_len) {
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const std::string who = "request " + std::to_string(i + 1);
    require(trace[i].prompt_tokens > 0 && trace[i].output_tokens > 0, "a request has tokens");
    if (trace[i].final_length() > max_len)
      throw InputError(who + " comes to " + std::to_string(trace[i].final_length()) +
                       " tokens, more than the most that is allowed (" + std::to_string(max_len) +
                       "); give a larger --max-len");
    if (!memory.ever_fits(trace[i]))
      throw InputError(who + " does not fit into an empty memory of " + std::to_string(capacity) +
                       " tokens when it reserves by '" + policy.name() +
                       "'; give a larger --capacity");
  }
}

}  // namespace

std::string ReservationPolicy::name() const {
  switch (reserve) {
    case Reserve::max_length:
      return "max length";
    case Reserve::power_of_two:
      return "power of two";
    case Reserve::true_length:
      return "true length";
    case Reserve::blocks:
      return "blocks of " + std::to_string(block_size);
  }
  return "unknown";
}

//! [reserved tokens]
KV_EXERCISE std::int64_t reserved_tokens(Reserve reserve, const Request& request,
                                         std::int64_t max_len) {
  const auto output = static_cast<std::uint64_t>(request.output_tokens);
  switch (reserve) {
    case Reserve::max_length:
      return max_len;
    case Reserve::power_of_two:
      return std::min(request.prompt_tokens + static_cast<std::int64_t>(std::bit_ceil(output)),
                      max_len);
    case Reserve::true_length:
      return request.final_length();
    case Reserve::blocks:
      break;
  }
  require(false, "blocks are not reserved in advance");
  return 0;
}
//! [reserved tokens]

//! [kinds of waste]
KV_EXERCISE void add_reservation(const Request& request, std::int64_t held, std::int64_t reserved,
                                 std::int64_t size, MemoryUse& use) {
  use.used += held;
  use.reserved += request.final_length() - held;
  use.internal += reserved - request.final_length();
  use.rounding += size - reserved;
}
//! [kinds of waste]

ReservationResult simulate(std::span<const Request> trace, const ReservationPolicy& policy,
                           std::int64_t capacity, std::int64_t max_len,
                           const std::function<void(const MemorySample&)>& on_sample) {
  require(capacity > 0 && max_len > 0, "capacity and max_len must be positive");
  require(!policy.is_paged() || (policy.block_size > 0 && policy.block_size <= 1 << 30),
          "a block holds 1 to 2^30 tokens");
  require(std::ranges::is_sorted(trace, {}, &Request::arrival),
          "requests must come in the order of their arrival");
  const std::unique_ptr<Memory> memory = make_memory(policy, capacity, max_len);
  check_trace(trace, *memory, policy, capacity, max_len);

  ReservationResult result;
  result.policy = policy;
  Sums all, waiting;
  for (Simulation simulation(trace, *memory); !simulation.is_done(); simulation.generate()) {
    simulation.admit();
    const MemorySample sample = simulation.sample();
    all.add(sample);
    if (sample.num_waiting > 0) waiting.add(sample);
    result.most_running = std::max(result.most_running, sample.num_running);
    result.num_preemptions = simulation.num_preemptions();
    if (on_sample) on_sample(sample);
  }
  (waiting.num_steps > 0 ? waiting : all).write(result, capacity);
  result.num_steps = all.num_steps;
  result.num_steps_waiting = waiting.num_steps;
  return result;
}

}  // namespace kv
