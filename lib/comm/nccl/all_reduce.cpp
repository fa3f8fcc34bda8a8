// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <Kokkos_Macros.hpp>
#include <cstddef>
#include <deque>
#include <span>

#if defined(KOKKOS_ENABLE_CUDA)
#include <nccl.h>
#else
#include <rccl/rccl.h>
#endif

#include "base/error.hpp"
#include "comm/device_all_reduce.hpp"
#include "comm/mpi_handle.hpp"
#include "comm/spin_backoff.hpp"
#include "comm/surviving_ranks.hpp"
#include "core/device_runtime.hpp"

namespace lockstep {
namespace {

#if defined(KOKKOS_ENABLE_CUDA)
constexpr std::string_view library = "NCCL";
#else
constexpr std::string_view library = "RCCL";
#endif

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return ncclFloat32;
    case DType::f64: return ncclFloat64;
    case DType::bf16: return ncclBfloat16;
    case DType::f16: return ncclFloat16;
    default: refuse_dtype(dtype, "a floating-point type");
  }
}

/// All-reduce by NCCL. No call of the library blocks, so that the death of a rank leaves no other one inside it.
class NcclAllReduce final : public DeviceAllReduce {
 public:
  // Delegates, so that the destructor runs if this constructor fails.
  explicit NcclAllReduce(const Communicator& ranks) : NcclAllReduce() {
    ncclUniqueId id{};
    ranks.run_collectively([&] {
      if (ranks.is_root()) finish_call(ncclGetUniqueId(&id));
    });
    ranks.broadcast(std::as_writable_bytes(std::span(&id, 1)));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ranks.run_collectively(
        [&] { finish_call(ncclCommInitRankConfig(&all_, ranks.size(), id, ranks.rank(), &config)); });
  }
  NcclAllReduce(const NcclAllReduce&) = delete;
  NcclAllReduce& operator=(const NcclAllReduce&) = delete;
  ~NcclAllReduce() override {
    // Sums still in progress belong to a step that was abandoned, and other ranks may never join them.
    if (all_ != nullptr && under_way_.empty() && may_release()) release();
    abandon();
  }

  void start(const Tensor& values, const StreamEvent& written) override {
    wait_for(beside_, written);
    finish_call(ncclAllReduce(values.data, values.data, static_cast<std::size_t>(values.count()),
                              nccl_type(values.dtype), ncclSum, all_, stream_of(beside_)));
    under_way_.emplace_back(beside_);
  }

  std::size_t advance() override {
    ncclResult_t result = ncclInProgress;
    static_cast<void>(is_in_progress(result));
    expect_success(result);
    while (!under_way_.empty() && under_way_.front().has_happened()) under_way_.pop_front();
    return under_way_.size();
  }

 private:
  NcclAllReduce() : beside_(space_beside(ExecSpace())) {}

  /// Updates the status of a call that was in progress, or of work on the device; returns whether it still is.
  bool is_in_progress(ncclResult_t& result) {
    if (result == ncclInProgress)
      if (const ncclResult_t asked = ncclCommGetAsyncError(all_, &result); asked != ncclSuccess) result = asked;
    return result == ncclInProgress;
  }

  /// Waits until the call is complete; only then is its kernel in the stream. The first sums have to connect the ranks.
  void finish_call(ncclResult_t result) {
    wait_until([&] { return !is_in_progress(result); });
    expect_success(result);
  }

  void expect_success(ncclResult_t result) {
    if (result == ncclSuccess || result == ncclInProgress) return;
    const std::string said = all_ == nullptr ? "" : ncclGetLastError(all_);
    abandon();
    throw Error(
        result == ncclRemoteError ? ExitStatus::rank_lost : ExitStatus::internal,
        fmt::format("{} cannot sum over ranks: {}{}{}; set NCCL_DEBUG=WARN in the environment for details, or use "
                    "parallel.all_reduce: hierarchical, which does not need it",
                    library, ncclGetErrorString(result), said.empty() ? "" : ": ", said));
  }

  /// Releases the communicator, collectively; releases nothing if a rank has died meanwhile.
  void release() {
    ncclResult_t result = ncclCommFinalize(all_);
    try {
      wait_until([&] { return !is_in_progress(result); });
    } catch (const RankLost&) {
      return;
    }
    if (result == ncclSuccess) static_cast<void>(ncclCommDestroy(std::exchange(all_, nullptr)));
  }

  /// Ends kernels that other ranks may never join; otherwise whoever frees device memory would wait for them.
  void abandon() {
    if (all_ != nullptr) static_cast<void>(ncclCommAbort(std::exchange(all_, nullptr)));
  }

  ExecSpace beside_;
  ncclComm_t all_ = nullptr;
  std::deque<StreamEvent> under_way_;  ///< an event after each sum
};

}  // namespace

std::string nccl_version() {
  int number = 0;
  static_cast<void>(ncclGetVersion(&number));
  return fmt::format("{} {}.{}.{}", library, number / 10000, number / 100 % 100, number % 100);
}

std::unique_ptr<DeviceAllReduce> nccl_all_reduce(const Communicator& ranks) {
  return std::make_unique<NcclAllReduce>(ranks);
}

}  // namespace lockstep
