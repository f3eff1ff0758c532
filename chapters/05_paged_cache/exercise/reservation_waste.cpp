// Chapter 5, exercise reservation_waste: what is set aside for a request, and what of it is wasted.
//
// Who keeps a cache in one piece must set that piece aside before the first token. Write how many
// tokens each policy reserves for a request: max_length the most that any request may come to,
// power_of_two the prompt and the output rounded up to a power of two (together at most max_len),
// true_length exactly what the request holds when it ends. Blocks are not reserved in advance:
// refuse Reserve::blocks with require().
//
// Then say what the places of a reservation are doing while its request holds `held` tokens. They
// are used; or reserved, for tokens that this request will hold; or internal waste, set aside and
// never used; or rounding, what the allocator took beyond the reservation. Add each to `use`.
//
// Declarations, with shapes and errors: src/kv/check.hpp, src/kv/cost/reservation.hpp.
//
// 7 points:
//   1  the longest request decides what all reserve
//   2  an output is rounded up to a power of two
//   1  no reservation is longer than the longest request
//   1  the last output token takes no place
//   2  the four uses of a reservation are told apart
//
// Page:  chapters/05_paged_cache/README.md#what-reservation-wastes
// Grade: ./kv grade 05_reservation_waste
#include <algorithm>
#include <bit>

#include "kv/check.hpp"
#include "kv/cost/reservation.hpp"
#include "kv/exercise.hpp"

namespace kv {

std::int64_t reserved_tokens(Reserve reserve, const Request& request,
                             std::int64_t max_len) {
  KV_TODO();
}

void add_reservation(const Request& request, std::int64_t held, std::int64_t reserved,
                     std::int64_t size, MemoryUse& use) {
  KV_TODO();
}

}  // namespace kv
