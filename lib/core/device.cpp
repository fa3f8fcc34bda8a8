// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/device.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"
#include "base/heartbeat.hpp"
#include "core/device_runtime.hpp"

namespace lockstep {
namespace {

char kernel[128];  // zero-terminated

void record(const char* name, std::uint32_t, std::uint64_t*) {
#ifdef LOCKSTEP_DEVICE
  static_cast<void>(LOCKSTEP_DEVICE(GetLastError)());  // clears errors of earlier calls
#endif
  const std::size_t length = std::min(std::strlen(name), sizeof(kernel) - 1);
  std::memcpy(kernel, name, length);
  kernel[length] = 0;
}

/// Throws if a kernel did not start. Kokkos does not check, so the run would continue without the kernel's results.
/// (The error of a failed device is sticky; that one is left to Kokkos, which reports it at its next copy.)
[[maybe_unused]] void expect_started(std::uint64_t) {
#ifdef LOCKSTEP_DEVICE
  const auto status = LOCKSTEP_DEVICE(GetLastError)();
  if (status == LOCKSTEP_DEVICE(Success) || status == LOCKSTEP_DEVICE(GetLastError)()) return;
  const std::int64_t step = heartbeat().step;
  throw Error(
      ExitStatus::internal,
      fmt::format("the device did not start kernel {}{} ({}), without which results would be wrong; use "
                  "another batch.micro, and report this with the deck",
                  kernel, step > 0 ? fmt::format(" of step {}", step) : "", LOCKSTEP_DEVICE(GetErrorString)(status)));
#endif
}

}  // namespace

int device_count() {
  int count = 1;
#ifdef LOCKSTEP_DEVICE
  if (LOCKSTEP_DEVICE(GetDeviceCount)(&count) != LOCKSTEP_DEVICE(Success)) count = 0;
#else
  if constexpr (is_a_device) count = Kokkos::num_devices();
#endif
  return count;
}

std::optional<int> device_for(int rank_in_node, int devices) {
  for (const char* variable : {"KOKKOS_DEVICE_ID", "KOKKOS_VISIBLE_DEVICES", "KOKKOS_MAP_DEVICE_ID_BY"})
    if (std::getenv(variable) != nullptr) return std::nullopt;
  if (devices < 2) return std::nullopt;
  return rank_in_node % devices;
}

std::string device_address() {
  char address[32] = "";
#ifdef LOCKSTEP_DEVICE
  int device = 0;
  if (LOCKSTEP_DEVICE(GetDevice)(&device) != LOCKSTEP_DEVICE(Success) ||
      LOCKSTEP_DEVICE(DeviceGetPCIBusId)(address, static_cast<int>(sizeof address), device) != LOCKSTEP_DEVICE(Success))
    return "";
#endif
  return address;
}

void record_kernels() {
  if constexpr (runs_on_device) {
    namespace tools = Kokkos::Tools::Experimental;
    // Otherwise Kokkos waits for the device before each kernel.
    tools::set_request_tool_settings_callback(
        [](const std::uint32_t, tools::ToolSettings* settings) { settings->requires_global_fencing = false; });
    tools::set_begin_parallel_for_callback(record);
    tools::set_begin_parallel_reduce_callback(record);
    tools::set_begin_parallel_scan_callback(record);
    if constexpr (is_a_device) {
      tools::set_end_parallel_for_callback(expect_started);
      tools::set_end_parallel_reduce_callback(expect_started);
      tools::set_end_parallel_scan_callback(expect_started);
    }
  }
}

const char* last_kernel() { return kernel; }

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
