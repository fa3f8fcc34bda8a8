// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/stream_event.hpp"

#include "core/device_runtime.hpp"

namespace lockstep {

#ifdef LOCKSTEP_DEVICE
namespace {

using Event = LOCKSTEP_DEVICE(Event_t);

Event event_in(const std::shared_ptr<void>& pointer) { return static_cast<Event>(pointer.get()); }

auto stream_of(const ExecSpace& space) {
#ifdef KOKKOS_ENABLE_CUDA
  return space.cuda_stream();
#else
  return space.hip_stream();
#endif
}

}  // namespace

// Statuses are not looked at: a device that has failed says so at its next kernel or copy.

StreamEvent::StreamEvent(const ExecSpace& space) {
  Event event = nullptr;
  static_cast<void>(LOCKSTEP_DEVICE(EventCreate)(&event));
  event_ = {event, [](void* made) { static_cast<void>(LOCKSTEP_DEVICE(EventDestroy)(static_cast<Event>(made))); }};
  static_cast<void>(LOCKSTEP_DEVICE(EventRecord)(event, stream_of(space)));
}
bool StreamEvent::has_happened() const {
  return LOCKSTEP_DEVICE(EventQuery)(event_in(event_)) != LOCKSTEP_DEVICE(ErrorNotReady);
}
double StreamEvent::seconds_since(const StreamEvent& before) const {
  float milliseconds = 0;
  static_cast<void>(LOCKSTEP_DEVICE(EventSynchronize)(event_in(event_)));
  static_cast<void>(LOCKSTEP_DEVICE(EventElapsedTime)(&milliseconds, event_in(before.event_), event_in(event_)));
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
