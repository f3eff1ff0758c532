#include "collectives.hpp"

#include <bit>
#include <cstring>

#include "checker.hpp"
#include "matrix.hpp"
#include "scheduler.hpp"

namespace kv::emulator {

const char* name(Barrier barrier) {
  switch (barrier) {
    case Barrier::plain:
      return "__syncthreads";
    case Barrier::count:
      return "__syncthreads_count";
    case Barrier::all:
      return "__syncthreads_and";
    case Barrier::any:
      return "__syncthreads_or";
  }
  return "barrier";
}

const char* name(Collective operation) {
  static constexpr const char* kNames[] = {"__syncwarp",       "__shfl_sync",     "__shfl_up_sync",
                                           "__shfl_down_sync", "__shfl_xor_sync", "__any_sync",
                                           "__all_sync",       "__ballot_sync",   "ldmatrix",
                                           "mma.sync (bf16)",  "mma.sync (f16)"};
  return kNames[static_cast<int>(operation)];
}

namespace {

bool same_place(const Site& a, const Site& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

// The combined predicate; every thread is in the barrier.
int combine(Worker& worker, Barrier barrier) {
  int count = 0;
  const int num_threads = static_cast<int>(worker.num_threads());
  for (int i = 0; i < num_threads; ++i) count += worker.thread(i).predicate != 0;
  if (barrier == Barrier::count) return count;
  if (barrier == Barrier::all) return count == num_threads;
  if (barrier == Barrier::any) return count > 0;
  return 0;
}

// One warp operation whose lanes have all arrived, run by the last of them.
class Meeting {
 public:
  Meeting(Worker& worker, const Thread& representative, unsigned lanes)
      : worker_(worker),
        operation_(representative.operation),
        first_(representative.warp() * kWarpSize),
        lanes_(lanes) {}

  void complete() {
    switch (operation_) {
      case Collective::sync:
        if (Checker* checker = worker_.checker()) checker->warp_sync(first_, lanes_);
        break;
      case Collective::vote_any:
      case Collective::vote_all:
      case Collective::ballot:
        vote();
        break;
      case Collective::load_matrix:
      case Collective::multiply_bf16:
      case Collective::multiply_f16:
        whole_warp();
        break;
      default:
        shuffle();
    }
    worker_.made_progress();
    // All lanes of the warp are here: their memory requests so far are complete.
    if (Checker* checker = worker_.checker())
      if (lanes_ == worker_.alive(first_ / kWarpSize)) checker->close_requests(first_ / kWarpSize);
  }

 private:
  Thread& lane(unsigned number) { return worker_.thread(first_ + number); }
  bool takes_part(unsigned number) const { return lanes_ >> number & 1; }

  void give(unsigned number, std::uint64_t bits) {
    std::memcpy(lane(number).out, &bits, sizeof(bits));
  }

  void vote() {
    unsigned ballot = 0;
    for (unsigned i = 0; i < kWarpSize; ++i)
      if (takes_part(i) && static_cast<const LaneValue*>(lane(i).in)->bits != 0) ballot |= 1u << i;
    const std::uint64_t result = operation_ == Collective::ballot     ? ballot
                                 : operation_ == Collective::vote_any ? ballot != 0
                                                                      : ballot == lanes_;
    for (unsigned i = 0; i < kWarpSize; ++i)
      if (takes_part(i)) give(i, result);
  }

  // The lane that lane `number` reads, by the rules of shfl.sync: out of the segment means itself.
  unsigned source_of(unsigned number, const LaneValue& value) const {
    const int width = value.width;
    const int me = static_cast<int>(number);
    const int begin = me / width * width;
    int source = me;
    if (operation_ == Collective::shuffle_index) source = begin + (value.argument & (width - 1));
    if (operation_ == Collective::shuffle_up) source = me - value.argument;
    if (operation_ == Collective::shuffle_down) source = me + value.argument;
    if (operation_ == Collective::shuffle_xor) source = me ^ value.argument;
    const bool upwards = operation_ == Collective::shuffle_up;
    if (upwards ? source < begin : source >= begin + width) source = me;
    return static_cast<unsigned>(source);
  }

  void shuffle() {
    for (unsigned i = 0; i < kWarpSize; ++i) {
      if (!takes_part(i)) continue;
      const auto& value = *static_cast<const LaneValue*>(lane(i).in);
      if (value.width < 1 || value.width > 32 || !std::has_single_bit(unsigned(value.width)))
        fail(i, "the width must be a power of two up to 32");
      const unsigned source = source_of(i, value);
      if (source >= kWarpSize || !takes_part(source))
        fail(i, Text("reads lane %u, which has returned, does not exist or is not in the mask",
                     source));
      give(i, static_cast<const LaneValue*>(lane(source).in)->bits);
    }
  }

  void whole_warp() {
    if (lanes_ != 0xffffffffu) fail(std::countr_zero(lanes_), "needs all 32 lanes of the warp");
    if (operation_ == Collective::load_matrix) {
      load_matrix(worker_, first_);
    } else {
      multiply(worker_, first_, operation_ == Collective::multiply_bf16);
    }
  }

  [[noreturn]] void fail(unsigned number, const Text& what) {
    worker_.fail(Fault::collective, first_ + number, Where(lane(number).site),
                 Text("%s: %s", name(operation_), what.c_str()));
  }

  Worker& worker_;
  Collective operation_;
  unsigned first_;  // thread number of lane 0
  unsigned lanes_;
};

// The lanes of `mask` that wait in the same operation as `thread`.
unsigned lanes_with(Worker& worker, const Thread& thread) {
  unsigned lanes = 0;
  const unsigned first = thread.warp() * kWarpSize;
  for (unsigned i = 0; i < kWarpSize; ++i) {
    if (!(worker.alive(thread.warp()) & thread.mask & (1u << i))) continue;
    const Thread& other = worker.thread(first + i);
    if (&other == &thread || (other.state == Thread::State::in_collective &&
                              other.operation == thread.operation && other.mask == thread.mask))
      lanes |= 1u << i;
  }
  return lanes;
}

// Two lanes that each wait for the other in a different operation can never meet.
void refuse_mismatch(Worker& worker, const Thread& me) {
  const unsigned first = me.warp() * kWarpSize;
  for (unsigned i = 0; i < kWarpSize; ++i) {
    if (!(worker.alive(me.warp()) & me.mask & (1u << i))) continue;
    const Thread& other = worker.thread(first + i);
    if (other.state != Thread::State::in_collective || !(other.mask >> me.lane() & 1)) continue;
    if (other.operation == me.operation && other.mask == me.mask) continue;
    worker.fail(Fault::collective, me.number, Where(me.site),
                Text("is in %s, $other of the same warp in %s at $2 (masks 0x%08x and 0x%08x)",
                     name(me.operation), name(other.operation), me.mask, other.mask),
                Where(other.site), other.number);
  }
}

void release(Worker& worker, const Thread& thread, unsigned lanes) {
  for (unsigned i = 0; i < kWarpSize; ++i) {
    Thread& other = worker.thread(thread.warp() * kWarpSize + i);
    if ((lanes >> i & 1) && &other != &thread) other.state = Thread::State::ready;
  }
}

}  // namespace

int cta_barrier(Barrier barrier, int predicate, Site site) {
  Worker& worker = *Worker::running();
  RuntimeScope scope(worker, Where(site));
  Thread& me = worker.thread();
  me.site = site;
  me.barrier = barrier;
  me.predicate = predicate;
  if (const Thread* other = worker.first_in_barrier())
    if (other->barrier != barrier || !same_place(other->site, site))
      worker.fail(Fault::barrier, me.number, Where(site),
                  Text("is in %s, $other in %s at $2: all threads must come to the same barrier",
                       name(barrier), name(other->barrier)),
                  Where(other->site), other->number);
  if (!worker.is_last_at_barrier()) {
    worker.wait(Thread::State::in_barrier);
    return worker.thread().predicate;
  }
  const int result = combine(worker, barrier);
  for (unsigned i = 0; i < worker.num_threads(); ++i) {
    worker.thread(i).state = Thread::State::ready;
    worker.thread(i).predicate = result;
  }
  worker.made_progress();
  if (Checker* checker = worker.checker()) checker->cta_sync();
  return result;
}

void warp_collective(Collective operation, unsigned mask, const void* in, void* out, Site site) {
  Worker& worker = *Worker::running();
  RuntimeScope scope(worker, Where(site));
  Thread& me = worker.thread();
  me.site = site;
  me.operation = operation;
  me.mask = mask;
  me.in = in;
  me.out = out;
  if (!(mask >> me.lane() & 1))
    worker.fail(Fault::collective, me.number, Where(site),
                Text("%s: lane %u is not in the mask that it passes", name(operation), me.lane()));
  refuse_mismatch(worker, me);
  const unsigned here = lanes_with(worker, me);
  if (here == (mask & worker.alive(me.warp()))) {
    Meeting(worker, me, here).complete();
    release(worker, me, here);
  } else {
    worker.wait(Thread::State::in_collective);
  }
}

void complete_without(Worker& worker, Thread& returned) {
  const unsigned warp = returned.warp();
  for (unsigned i = 0; i < kWarpSize; ++i) {
    if (!(worker.alive(warp) >> i & 1)) continue;
    Thread& thread = worker.thread(warp * kWarpSize + i);
    if (thread.state != Thread::State::in_collective) continue;
    const unsigned here = lanes_with(worker, thread);
    if (here != (thread.mask & worker.alive(warp))) continue;
    Meeting(worker, thread, here).complete();
    release(worker, thread, here);
    thread.state = Thread::State::ready;
  }
}

}  // namespace kv::emulator
