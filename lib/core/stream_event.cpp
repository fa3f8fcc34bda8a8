// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/stream_event.hpp"

#include "core/device_runtime.hpp"

namespace lockstep {

#ifdef LOCKSTEP_DEVICE
namespace {

using Event = LOCKSTEP_DEVICE(Event_t);

Event event_in(const std::shared_ptr<void>& pointer) { return static_cast<Event>(pointer.get()); }

}  // namespace

// Return codes are ignored here: a failed device reports its error at the next copy or wait.

StreamEvent::StreamEvent(const ExecSpace& space) {
  Event event = nullptr;
  static_cast<void>(LOCKSTEP_DEVICE(EventCreate)(&event));
  event_ = {event, [](void* made) { static_cast<void>(LOCKSTEP_DEVICE(EventDestroy)(static_cast<Event>(made))); }};
  static_cast<void>(LOCKSTEP_DEVICE(EventRecord)(event, stream_of(space)));
}
bool StreamEvent::has_happened() const {
  if (LOCKSTEP_DEVICE(EventQuery)(event_in(event_)) != LOCKSTEP_DEVICE(ErrorNotReady)) return true;
  // Otherwise the next kernel launch would report this status as its error.
  static_cast<void>(LOCKSTEP_DEVICE(GetLastError)());
  return false;
}
void StreamEvent::wait() const { static_cast<void>(LOCKSTEP_DEVICE(EventSynchronize)(event_in(event_))); }
double StreamEvent::seconds_since(const StreamEvent& before) const {
  float milliseconds = 0;
  wait();
  static_cast<void>(LOCKSTEP_DEVICE(EventElapsedTime)(&milliseconds, event_in(before.event_), event_in(event_)));
  return 1e-3 * static_cast<double>(milliseconds);
}
void wait_for(const ExecSpace& space, const StreamEvent& event) {
  static_cast<void>(LOCKSTEP_DEVICE(StreamWaitEvent)(stream_of(space), event_in(event.event_), 0));
}
void bind_thread(const ExecSpace& space) {
#ifdef KOKKOS_ENABLE_CUDA
  static_cast<void>(LOCKSTEP_DEVICE(SetDevice)(space.cuda_device()));
#else
  static_cast<void>(LOCKSTEP_DEVICE(SetDevice)(space.hip_device()));
#endif
}
#else
StreamEvent::StreamEvent(const ExecSpace& space) {
  if constexpr (LOCKSTEP_FAKE_DEVICE) moment_ = fake_device::now(space.impl_internal_space_instance());
}
bool StreamEvent::has_happened() const {
  if constexpr (LOCKSTEP_FAKE_DEVICE) return fake_device::has_come(moment_);
  else return true;
}
void StreamEvent::wait() const { static_cast<void>(has_happened()); }
double StreamEvent::seconds_since(const StreamEvent& before) const {
  wait();
  return before.since_.seconds() - since_.seconds();
}
void wait_for(const ExecSpace& space, const StreamEvent& event) {
  if constexpr (LOCKSTEP_FAKE_DEVICE) fake_device::order(space.impl_internal_space_instance(), event.moment_);
}
void bind_thread(const ExecSpace&) {}
#endif

ExecSpace space_beside(const ExecSpace& space) {
  const ExecSpace made = Kokkos::Experimental::partition_space(space, 1)[0];
  if constexpr (LOCKSTEP_FAKE_DEVICE) fake_device::add_stream(made.impl_internal_space_instance());
  return made;
}

}  // namespace lockstep
