// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/stream_event.hpp"

#if defined(KOKKOS_ENABLE_CUDA)
#include <cuda_runtime_api.h>
#elif defined(KOKKOS_ENABLE_HIP)
#include <hip/hip_runtime_api.h>
#endif

namespace lockstep {

// Statuses are not looked at: a device that has failed says so at its next kernel or copy.

#if defined(KOKKOS_ENABLE_CUDA)
namespace {
cudaEvent_t event_in(const std::shared_ptr<void>& pointer) { return static_cast<cudaEvent_t>(pointer.get()); }
}  // namespace

StreamEvent::StreamEvent(const ExecSpace& space) {
  cudaEvent_t event = nullptr;
  static_cast<void>(cudaEventCreate(&event));
  event_ = {event, [](void* made) { static_cast<void>(cudaEventDestroy(static_cast<cudaEvent_t>(made))); }};
  static_cast<void>(cudaEventRecord(event, space.cuda_stream()));
}
bool StreamEvent::has_happened() const { return cudaEventQuery(event_in(event_)) != cudaErrorNotReady; }
double StreamEvent::seconds_since(const StreamEvent& before) const {
  float milliseconds = 0;
  static_cast<void>(cudaEventSynchronize(event_in(event_)));
  static_cast<void>(cudaEventElapsedTime(&milliseconds, event_in(before.event_), event_in(event_)));
  return 1e-3 * static_cast<double>(milliseconds);
}
#elif defined(KOKKOS_ENABLE_HIP)
namespace {
hipEvent_t event_in(const std::shared_ptr<void>& pointer) { return static_cast<hipEvent_t>(pointer.get()); }
}  // namespace

StreamEvent::StreamEvent(const ExecSpace& space) {
  hipEvent_t event = nullptr;
  static_cast<void>(hipEventCreate(&event));
  event_ = {event, [](void* made) { static_cast<void>(hipEventDestroy(static_cast<hipEvent_t>(made))); }};
  static_cast<void>(hipEventRecord(event, space.hip_stream()));
}
bool StreamEvent::has_happened() const { return hipEventQuery(event_in(event_)) != hipErrorNotReady; }
double StreamEvent::seconds_since(const StreamEvent& before) const {
  float milliseconds = 0;
  static_cast<void>(hipEventSynchronize(event_in(event_)));
  static_cast<void>(hipEventElapsedTime(&milliseconds, event_in(before.event_), event_in(event_)));
  return 1e-3 * static_cast<double>(milliseconds);
}
#else
StreamEvent::StreamEvent(const ExecSpace&) {}
bool StreamEvent::has_happened() const { return true; }
double StreamEvent::seconds_since(const StreamEvent& before) const {
  return before.since_.seconds() - since_.seconds();
}
#endif

}  // namespace lockstep
