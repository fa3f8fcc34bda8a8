// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replaces NCCL in preset fake_device, with its types and its use of streams and events; MPI adds the numbers.
#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include "comm/device_all_reduce.hpp"
#include "comm/mpi_handle.hpp"

namespace lockstep {
namespace {

/// The numbers pass through the host, invisibly to callers: a stream next to the step's copies them out after the
/// event, and back when they are summed.
class StandInAllReduce final : public DeviceAllReduce {
 public:
  explicit StandInAllReduce(const Communicator& ranks)
      : ranks_(ranks.duplicate()), beside_(space_beside(ExecSpace())) {}

  void start(const Tensor& values, const StreamEvent& written) override {
    wait_for(beside_, written);
    Sum& sum = under_way_.emplace_back(values, std::vector<std::byte>(values.bytes()));
    start_copy_to_host(beside_, values, sum.on_host.data());
    sum.copied.emplace(beside_);
  }

  std::size_t advance() override {
    while (!under_way_.empty() && pass(under_way_.front())) under_way_.pop_front();
    return under_way_.size();
  }

 private:
  enum class Stage { out, adding, back };
  struct Sum {
    Sum(const Tensor& values_of_device, std::vector<std::byte> memory)
        : values(values_of_device), on_host(std::move(memory)) {}

    Tensor values;
    std::vector<std::byte> on_host;
    std::vector<double> numbers;
    std::optional<StreamEvent> copied;
    Stage stage = Stage::out;
  };

  /// Advances a sum as far as possible; returns true if it is complete.
  bool pass(Sum& sum) {
    if (sum.stage == Stage::out) {
      if (!sum.copied->has_happened()) return false;
      begin_adding(sum);
    }
    if (sum.stage == Stage::adding) {
      if (!has_ended(request_)) return false;
      begin_copy_back(sum);
    }
    return sum.copied->has_happened();
  }

  void begin_adding(Sum& sum) {
    dispatch_float(sum.values.dtype, [&]<class T>(T) {
      const auto* own = reinterpret_cast<const T*>(sum.on_host.data());
      sum.numbers.assign(own, own + sum.values.count());
    });
    const MpiLock lock;
    expect_mpi(MPI_Iallreduce(MPI_IN_PLACE, sum.numbers.data(), static_cast<int>(sum.numbers.size()), MPI_DOUBLE,
                              MPI_SUM, ranks_.mpi().comm, &request_));
    sum.stage = Stage::adding;
  }

  void begin_copy_back(Sum& sum) {
    dispatch_float(sum.values.dtype, [&]<class T>(T) {
      std::ranges::transform(sum.numbers, reinterpret_cast<T*>(sum.on_host.data()),
                             [](double number) { return static_cast<T>(static_cast<Compute<T>>(number)); });
    });
    start_copy_from_host(beside_, sum.on_host.data(), sum.values);
    sum.copied.emplace(beside_);
    sum.stage = Stage::back;
  }

  Communicator ranks_;
  ExecSpace beside_;
  std::deque<Sum> under_way_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace

std::string nccl_version() { return "stand-in of preset fake_device"; }

std::unique_ptr<DeviceAllReduce> nccl_all_reduce(const Communicator& ranks) {
  return std::make_unique<StandInAllReduce>(ranks);
}

}  // namespace lockstep
