// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/device_all_reduce.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <deque>
#include <map>
#include <vector>

#include "base/log.hpp"
#include "base/process.hpp"
#include "comm/mpi_handle.hpp"
#include "comm/spin_backoff.hpp"
#include "core/device.hpp"

#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace lockstep {
namespace {

class MpiDeviceAllReduce final : public DeviceAllReduce {
 public:
  explicit MpiDeviceAllReduce(const Communicator& ranks) : ranks_(ranks.duplicate()) {}

  void start(const Tensor& values, const StreamEvent& written) override { under_way_.push_back({values, written}); }

  std::size_t advance() override {
    for (;;) {
      if (adding_) {
        if (!has_ended(request_)) return under_way_.size();
        adding_ = false;
        under_way_.pop_front();
      }
      if (under_way_.empty() || !under_way_.front().written.has_happened()) return under_way_.size();
      const Tensor& values = under_way_.front().values;
      const MpiLock lock;
      expect_mpi(MPI_Iallreduce(MPI_IN_PLACE, values.data, static_cast<int>(values.count()), mpi_type(values.dtype),
                                MPI_SUM, ranks_.mpi().comm, &request_));
      adding_ = true;
    }
  }

 private:
  struct Sum {
    Tensor values;
    StreamEvent written;
  };

  Communicator ranks_;
  std::deque<Sum> under_way_;
  bool adding_ = false;  ///< the first sum is being added
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// True if the library claims support. Open MPI and MPICH have their own functions for that, other libraries none.
bool mpi_claims_device_memory() {
  if constexpr (!memory_is_separate) return true;
  int claims = 0;
#if defined(KOKKOS_ENABLE_CUDA) && defined(MPIX_CUDA_AWARE_SUPPORT)
  claims = MPIX_Query_cuda_support();
#elif defined(KOKKOS_ENABLE_HIP) && defined(MPIX_ROCM_AWARE_SUPPORT)
  claims = MPIX_Query_rocm_support();
#elif defined(KOKKOS_ENABLE_CUDA) && defined(MPIX_GPU_SUPPORT_CUDA)
  MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &claims);
#elif defined(KOKKOS_ENABLE_HIP) && defined(MPIX_GPU_SUPPORT_HIP)
  MPIX_GPU_query_support(MPIX_GPU_SUPPORT_HIP, &claims);
#endif
  return claims != 0;
}

/// Tests a short and a long sum, because libraries use different protocols for them. Collective.
bool sums_known_numbers(const Communicator& ranks) {
  const ExecSpace space;
  const std::unique_ptr<DeviceAllReduce> sums = mpi_device_all_reduce(ranks);
  bool right = true;
  for (const std::int64_t count : {5, 1 << 20}) {
    std::vector<double> numbers(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i % 97) * (ranks.rank() + 1);
    const OwnedTensor on_device("lockstep::known_numbers", DType::f64, {count});
    copy_from_host(space, numbers.data(), on_device.get());
    sums->start(on_device.get(), StreamEvent(space));
    wait_until([&] { return sums->advance() == 0; });
    copy_to_host(space, on_device.get(), numbers.data());
    const double of_ranks = 0.5 * ranks.size() * (ranks.size() + 1);
    for (std::size_t i = 0; i < numbers.size(); ++i) right &= numbers[i] == static_cast<double>(i % 97) * of_ranks;
  }
  return right;
}

}  // namespace

std::unique_ptr<DeviceAllReduce> mpi_device_all_reduce(const Communicator& ranks) {
  return std::make_unique<MpiDeviceAllReduce>(ranks);
}

bool mpi_takes_device_memory(const Communicator& ranks) {
  return ranks.every_rank(mpi_claims_device_memory()) && ranks.every_rank(sums_known_numbers(ranks));
}

std::string own_device_place() {
  const std::string address = device_address();
  return address.empty() ? "" : fmt::format("{} {}", host_name(), address);
}

std::vector<std::string> shared_devices(const std::vector<std::string>& places) {
  std::map<std::string, std::vector<std::size_t>> ranks_on;
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    if (!places[rank].empty()) ranks_on[places[rank]].push_back(rank);
  std::vector<std::string> remarks;
  for (const auto& [place, ranks] : ranks_on)
    if (ranks.size() > 1)
      remarks.push_back(
          fmt::format("ranks {} share one device ({}), and compute in turns; request one device for each rank, or "
                      "start fewer ranks",
                      fmt::join(ranks, ", "), place));
  return remarks;
}

DeviceFacts expected_devices(int ranks) {
  return {.ranks = ranks, .all_have_devices = runs_on_device, .has_nccl = !nccl_version().empty()};
}

DeviceFacts device_facts(const Communicator& ranks) {
  const std::vector<std::string> places = ranks.gather_to_root(own_device_place());
  const std::vector<std::string> remarks = shared_devices(places);
  DeviceFacts facts = expected_devices(ranks.size());
  if (!remarks.empty()) facts.shared = remarks.front();
  ranks.broadcast(facts.shared);
  facts.emulates_network = ranks.network() != nullptr;
  return facts;
}

std::unique_ptr<DeviceAllReduce> device_all_reduce(const DeviceSums& sums, const Communicator& ranks) {
  if (!sums.remark.empty() && ranks.is_root()) warn_line(sums.remark);
  switch (sums.path) {
    case DeviceSums::Path::nccl: return nccl_all_reduce(ranks);
    case DeviceSums::Path::mpi:
      if (mpi_takes_device_memory(ranks)) return mpi_device_all_reduce(ranks);
      if (ranks.is_root())
        warn_line(
            "parallel.all_reduce: this MPI library cannot sum device memory; gradients are copied to the hosts first");
      return nullptr;
    case DeviceSums::Path::on_hosts: break;
  }
  return nullptr;
}

}  // namespace lockstep
