#include "kv/report/block_trace.hpp"

#include <utility>

#include "kv/check.hpp"
#include "kv/report/output_file.hpp"

namespace kv {

namespace {

std::string_view name_of(BlockEvent::Kind kind) {
  switch (kind) {
    case BlockEvent::Kind::allocate:
      return "allocate";
    case BlockEvent::Kind::share:
      return "share";
    case BlockEvent::Kind::release:
      return "release";
    case BlockEvent::Kind::free:
      return "free";
    case BlockEvent::Kind::copy:
      return "copy";
    case BlockEvent::Kind::learn:
      return "learn";
    case BlockEvent::Kind::evict:
      return "evict";
    case BlockEvent::Kind::exhausted:
      return "exhausted";
  }
  return "unknown";
}

// -1 stands for "none" in an event.
Json id(std::int32_t value) { return value < 0 ? Json() : Json(value); }

Json json_of(const TracedTable& traced) {
  require(traced.table != nullptr, "a traced sequence needs a table");
  Json table = Json::object();
  table.set("name", traced.name)
      .set("length", traced.table->length)
      .set("blocks", Json::array_of(traced.table->blocks))
      .set("texts", Json::array_of(traced.texts));
  return table;
}

}  // namespace

BlockTrace::BlockTrace(BlockAllocator& allocator) : allocator_(allocator) {
  allocator.set_listener(this);
  end_step("The beginning.", {});
}

BlockTrace::~BlockTrace() { allocator_.set_listener(nullptr); }

void BlockTrace::on_event(const BlockEvent& event) {
  Json json = Json::object();
  json.set("kind", name_of(event.kind))
      .set("sequence", id(event.sequence))
      .set("block", id(event.block))
      .set("from", id(event.from))
      .set("num_holders", event.num_holders);
  events_.push_back(std::move(json));
}

void BlockTrace::end_step(std::string_view narration, std::span<const TracedTable> tables) {
  const BlockPool& pool = allocator_.pool();
  Json events = Json::array(), listed = Json::array(), holders = Json::array();
  Json known = Json::array();
  for (Json& event : std::exchange(events_, {})) events.push(std::move(event));
  for (const TracedTable& traced : tables) listed.push(json_of(traced));
  for (BlockId block = 0; block < pool.num_blocks(); ++block) {
    holders.push(pool.num_holders(block));
    if (!allocator_.index().knows(block)) continue;
    Json entry = Json::object();
    entry.set("block", block).set("parent", id(allocator_.index().parent(block)));
    known.push(std::move(entry));
  }
  Json step = Json::object();
  step.set("narration", narration)
      .set("events", std::move(events))
      .set("tables", std::move(listed))
      .set("holders", std::move(holders))
      .set("free", Json::array_of(pool.free_blocks()))
      .set("known", std::move(known));
  steps_.push_back(std::move(step));
}

Json BlockTrace::json() const {
  Json steps = Json::array();
  for (const Json& step : steps_) steps.push(step);
  Json trace = Json::object();
  trace.set("schema", "kv-block-trace-1")
      .set("block_size", allocator_.block_size())
      .set("num_blocks", allocator_.pool().num_blocks())
      .set("steps", std::move(steps));
  return trace;
}

void BlockTrace::write(std::string_view option, const std::string& path) const {
  write_file_atomically(option, path, json().str());
}

}  // namespace kv
