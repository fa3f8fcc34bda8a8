// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/link.hpp"

#include <chrono>

#include <algorithm>

#include "comm/mpi_handle.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;  // the same for all processes of a machine

class MpiLink final : public Link {
 public:
  explicit MpiLink(const Communicator& comm) : ranks_(comm.duplicate()) {}
  ~MpiLink() override {
    // Only after a failure is anything still under way, and the end of this process is near.
    if (receive_ != MPI_REQUEST_NULL) MPI_Cancel(&receive_);
  }

  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }

  void send(int peer, const void* data, std::size_t bytes) override {
    const std::lock_guard lock(mpi_lock());
    MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, 0, ranks_.mpi().comm, &send_);
  }
  void receive(int peer, void* data, std::size_t bytes) override {
    const std::lock_guard lock(mpi_lock());
    MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, 0, ranks_.mpi().comm, &receive_);
  }
  bool sent() override { return send_ == MPI_REQUEST_NULL || has_ended(send_); }
  bool received() override { return receive_ == MPI_REQUEST_NULL || has_ended(receive_); }

 private:
  Communicator ranks_;
  MPI_Request send_ = MPI_REQUEST_NULL, receive_ = MPI_REQUEST_NULL;
};

/// Beside every message goes another one that says when it may be seen.
class EmulatedLink final : public Link {
 public:
  EmulatedLink(const Communicator& comm, const EmulatedNetwork& network, std::vector<int> node)
      : data_(comm), times_(comm), network_(network), node_(std::move(node)), free_(node_.size()) {}

  int rank() const override { return data_.rank(); }
  int size() const override { return data_.size(); }

  void send(int peer, const void* data, std::size_t bytes) override {
    data_.send(peer, data, bytes);
    sent_at_ = {};
    if (is_near(peer)) return;
    Clock::time_point& wire = free_[static_cast<std::size_t>(peer)];
    const double bytes_per_s = network_.bandwidth_gbps * 1e9;
    wire = std::max(wire, Clock::now()) + seconds(bytes_per_s > 0 ? static_cast<double>(bytes) / bytes_per_s : 0.0);
    sent_at_ = wire;
    seen_at_there_ = (wire + seconds(1e-6 * network_.latency_us)).time_since_epoch().count();
    times_.send(peer, &seen_at_there_, sizeof(seen_at_there_));
  }
  void receive(int peer, void* data, std::size_t bytes) override {
    data_.receive(peer, data, bytes);
    seen_at_here_ = 0;
    if (!is_near(peer)) times_.receive(peer, &seen_at_here_, sizeof(seen_at_here_));
  }
  bool sent() override { return data_.sent() && times_.sent() && Clock::now() >= sent_at_; }
  bool received() override {
    return data_.received() && times_.received() && Clock::now().time_since_epoch().count() >= seen_at_here_;
  }

 private:
  static Clock::duration seconds(double value) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(value));
  }
  bool is_near(int peer) const {
    return node_[static_cast<std::size_t>(peer)] == node_[static_cast<std::size_t>(rank())];
  }

  MpiLink data_, times_;
  EmulatedNetwork network_;
  std::vector<int> node_;                // of each rank
  std::vector<Clock::time_point> free_;  // when the wire to each rank is
  Clock::time_point sent_at_{};
  Clock::rep seen_at_there_ = 0, seen_at_here_ = 0;
};

}  // namespace

std::unique_ptr<Link> mpi_link(const Communicator& comm) { return std::make_unique<MpiLink>(comm); }

std::unique_ptr<Link> emulated_link(const Communicator& comm, const EmulatedNetwork& network, std::vector<int> node) {
  return std::make_unique<EmulatedLink>(comm, network, std::move(node));
}

}  // namespace lockstep
