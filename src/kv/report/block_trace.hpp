// What the allocator did, step by step, as JSON: enough to play it back without the allocator.
//
// {
//   "schema": "kv-block-trace-1",
//   "block_size": 4,
//   "num_blocks": 8,
//   "steps": [{                                // the first is the state at the beginning
//     "narration": "B forks A",
//     "events": [{                             // since the step before, in order
//       "kind": "share",                       // see BlockEvent::Kind
//       "sequence": 1,                         // null when none has to do with it
//       "block": 0,                            // null for exhausted
//       "from": null,                          // for copy
//       "num_holders": 2                       // of the block, afterwards
//     }],
//     "tables": [{                             // of the sequences that the caller names
//       "name": "A", "length": 6, "blocks": [0, 1],
//       "texts": ["To", " be"]                 // one a token; empty when not given
//     }],
//     "holders": [2, 2, 0],                    // [num_blocks]
//     "free": [2],                             // in the order in which they will be handed out
//     "known": [{"block": 0, "parent": null}]  // in the prefix index; parent null: a beginning
//   }]
// }
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv/cache/block_allocator.hpp"
#include "kv/report/json.hpp"

namespace kv {

/// A sequence as a step of a trace shows it.
struct TracedTable {
  std::string name;                     ///< as the reader sees it
  const BlockTable* table = nullptr;    ///< the blocks of the sequence
  std::vector<std::string> texts = {};  ///< one a token, or empty
};

/// Listens to an allocator as long as it lives. One listener at a time.
class BlockTrace final : public BlockListener {
 public:
  /// \param allocator must outlive this
  explicit BlockTrace(BlockAllocator& allocator);
  ~BlockTrace() override;
  BlockTrace(const BlockTrace&) = delete;
  BlockTrace& operator=(const BlockTrace&) = delete;

  /// Adds the event to the step in progress.
  void on_event(const BlockEvent& event) override;

  /// Ends a step: the events since the last one, and the state as it is now.
  /// \param narration what has happened, for a reader
  /// \param tables    the sequences that live
  void end_step(std::string_view narration, std::span<const TracedTable> tables);

  /// All steps that have ended.
  Json json() const;
  /// Writes them to a file, whole or not at all.
  /// \throws InputError naming option and path
  void write(std::string_view option, const std::string& path) const;

 private:
  BlockAllocator& allocator_;
  std::vector<Json> events_;  // since the last step
  std::vector<Json> steps_;
};

}  // namespace kv
