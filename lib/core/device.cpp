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
#include "core/execution.hpp"

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

}  // namespace lockstep
