// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "comm/communicator.hpp"
#include "comm/transport.hpp"

namespace lockstep::test {

/// A network of MPI's messages between nodes of `ranks_per_node` ranks that counts the bytes of messages of more than
/// 1000 bytes, hence neither votes nor statistics.
class CountingNetwork final : public Interconnect {
 public:
  explicit CountingNetwork(int ranks_per_node) : ranks_per_node_(ranks_per_node) {}

  std::vector<std::unique_ptr<Transport>> transports(const Communicator& ranks, int count) const override {
    std::vector<std::unique_ptr<Transport>> all;
    for (std::unique_ptr<Transport>& each : mpi_transports(ranks, count))
      all.push_back(std::make_unique<Counting>(std::move(each), bytes_));
    return all;
  }
  Communicator node(const Communicator& ranks) const override { return ranks.split(ranks.rank() / ranks_per_node_); }
  std::string description() const override { return "counting"; }
  /// Bytes that all ranks have sent since the last call. Collective.
  double take_bytes(const Communicator& ranks) const {
    double bytes = std::exchange(*bytes_, 0.0);
    ranks.all_reduce_sum({&bytes, 1});
    return bytes;
  }

 private:
  class Counting final : public Transport {
   public:
    Counting(std::unique_ptr<Transport> mpi, std::shared_ptr<double> bytes)
        : mpi_(std::move(mpi)), bytes_(std::move(bytes)) {}
    int rank() const override { return mpi_->rank(); }
    int size() const override { return mpi_->size(); }
    void send(int peer, const void* data, std::size_t bytes) override {
      if (bytes > 1000) *bytes_ += static_cast<double>(bytes);
      mpi_->send(peer, data, bytes);
    }
    void receive(int peer, void* data, std::size_t bytes) override { mpi_->receive(peer, data, bytes); }
    bool sent() override { return mpi_->sent(); }
    bool received() override { return mpi_->received(); }

   private:
    std::unique_ptr<Transport> mpi_;
    std::shared_ptr<double> bytes_;
  };

  int ranks_per_node_;
  std::shared_ptr<double> bytes_ = std::make_shared<double>(0.0);
};

}  // namespace lockstep::test
