// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/device_graph.hpp"

#include <exception>

#include "base/error.hpp"
#include "core/device_runtime.hpp"
#include "core/fake_device.hpp"

namespace lockstep {

#ifdef LOCKSTEP_DEVICE
namespace {

using Status = LOCKSTEP_DEVICE(Error_t);
using Graph = LOCKSTEP_DEVICE(Graph_t);
using Executable = LOCKSTEP_DEVICE(GraphExec_t);

constexpr Status good = LOCKSTEP_DEVICE(Success);

/// For its lifetime, work submitted to the stream is recorded instead of executed. Calls of other threads (the data
/// loader, MPI) do not interfere; a call of this thread that waits or allocates invalidates the recording.
class Recording {
 public:
  explicit Recording(const ExecSpace& space)
      : space_(space),
        status_(LOCKSTEP_DEVICE(StreamBeginCapture)(stream_of(space), LOCKSTEP_DEVICE(StreamCaptureModeThreadLocal))),
        is_open_(status_ == good) {}
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    end();
    if (graph_ != nullptr) static_cast<void>(LOCKSTEP_DEVICE(GraphDestroy)(graph_));
    static_cast<void>(LOCKSTEP_DEVICE(GetLastError)());  // otherwise the next kernel launch would report this error
  }

  /// Ends the recording; returns success if it is complete and can be launched.
  Status end_as(Executable& executable) {
    end();
    if (status_ == good) status_ = LOCKSTEP_DEVICE(GraphInstantiateWithFlags)(&executable, graph_, 0);
    return status_;
  }

 private:
  void end() {
    if (!is_open_) return;
    is_open_ = false;
    status_ = LOCKSTEP_DEVICE(StreamEndCapture)(stream_of(space_), &graph_);
  }

  ExecSpace space_;
  Status status_;
  bool is_open_;
  Graph graph_ = nullptr;
};

}  // namespace

DeviceGraph::DeviceGraph(const ExecSpace& space, const std::function<void()>& work) {
  try {
    scratch_ = scratch_of(space);
    Recording recording(space);
    work();
    Executable executable = nullptr;
    if (const Status status = recording.end_as(executable); status != good) {
      failure_ = LOCKSTEP_DEVICE(GetErrorString)(status);
      return;
    }
    recorded_ = {executable, [](void* made) {
                   static_cast<void>(LOCKSTEP_DEVICE(GraphExecDestroy)(static_cast<Executable>(made)));
                 }};
    launch(space);
  } catch (const std::exception& error) {  // Kokkos throws on calls that cannot be recorded
    failure_ = error.what();
  }
}

bool DeviceGraph::is_valid(const ExecSpace& space) const { return scratch_of(space) == scratch_; }

void DeviceGraph::launch(const ExecSpace& space) const {
  const Status status = LOCKSTEP_DEVICE(GraphLaunch)(static_cast<Executable>(recorded_.get()), stream_of(space));
  validate(status == good, ExitStatus::internal,
           "the device cannot launch the recorded graph ({}); set device.graph to off",
           LOCKSTEP_DEVICE(GetErrorString)(status));
}
#elif LOCKSTEP_FAKE_DEVICE
DeviceGraph::DeviceGraph(const ExecSpace&, const std::function<void()>& work) {
  recorded_ = std::make_shared<fake_device::FrozenWork>(work);
  work();
}

bool DeviceGraph::is_valid(const ExecSpace&) const { return true; }

void DeviceGraph::launch(const ExecSpace&) const {
  static_cast<const fake_device::FrozenWork*>(recorded_.get())->run();
}
#else
DeviceGraph::DeviceGraph(const ExecSpace&, const std::function<void()>&)
    : failure_("this build does not record kernels") {}

bool DeviceGraph::is_valid(const ExecSpace&) const { return false; }

void DeviceGraph::launch(const ExecSpace&) const {}
#endif

}  // namespace lockstep
