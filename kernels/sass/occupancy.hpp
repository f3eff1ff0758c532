// How many CTAs an SM holds at a time, computed on the host.
#pragma once

namespace kv::sass {

/// What one CTA of a kernel takes.
struct CtaNeeds {
  int threads = 0;               ///< of the CTA
  int registers_per_thread = 0;  ///< as compiled
  int static_shared_bytes = 0;   ///< as compiled
  int dynamic_shared_bytes = 0;  ///< as the launch asks for it
};

/// \param architecture e.g. 90 for sm_90
/// \param needs        threads, registers and shared memory of a CTA
/// \return CTAs that are resident on one SM; 0 when one does not fit
/// \throws InputError when the architecture's limits are not known here
int resident_ctas(int architecture, const CtaNeeds& needs);

/// Threads that an SM of the architecture holds at most. \throws InputError as resident_ctas()
int max_threads_per_sm(int architecture);

}  // namespace kv::sass
