// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/transport.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/mpi_handle.hpp"
#include "comm/surviving_ranks.hpp"

namespace lockstep {
namespace {

/// A message in progress, in one or more pieces, because MPI's counts are ints.
class Message {
 public:
  explicit Message(std::size_t largest_piece) : largest_piece_(largest_piece), pieces_(1, MPI_REQUEST_NULL) {}

  /// Starts each piece by `begin(first, count, request)`. The previous message must have ended.
  template <class Begin>
  void begin(std::size_t bytes, const Begin& begin) {
    const MpiLock lock;
    note_message(bytes);
    pieces_.resize(std::max<std::size_t>(1, (bytes + largest_piece_ - 1) / largest_piece_), MPI_REQUEST_NULL);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const std::size_t first = i * largest_piece_;
      expect_mpi(begin(first, static_cast<int>(std::min(bytes - first, largest_piece_)), &pieces_[i]));
    }
  }
  bool has_ended() {
    return std::ranges::all_of(
        pieces_, [](MPI_Request& piece) { return piece == MPI_REQUEST_NULL || lockstep::has_ended(piece); });
  }
  void cancel() {
    for (MPI_Request& piece : pieces_)
      if (piece != MPI_REQUEST_NULL) MPI_Cancel(&piece);
  }

 private:
  std::size_t largest_piece_;
  std::vector<MPI_Request> pieces_;
};

class MpiTransport final : public Transport {
 public:
  /// `ranks`: a communicator on which no other messages have this tag.
  MpiTransport(Communicator ranks, int tag, std::size_t largest_piece)
      : ranks_(std::move(ranks)), tag_(tag), send_(largest_piece), receive_(largest_piece) {}
  ~MpiTransport() override {
    // Something is in progress only after a failure, when this process is about to end, or on a revoked communicator.
    if (!ranks_were_lost()) receive_.cancel();
  }

  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }

  void send(int peer, const void* data, std::size_t bytes) override {
    send_.begin(bytes, [&](std::size_t first, int count, MPI_Request* request) {
      return MPI_Isend(static_cast<const std::byte*>(data) + first, count, MPI_BYTE, peer, tag_, ranks_.mpi().comm,
                       request);
    });
  }
  void receive(int peer, void* data, std::size_t bytes) override {
    receive_.begin(bytes, [&](std::size_t first, int count, MPI_Request* request) {
      return MPI_Irecv(static_cast<std::byte*>(data) + first, count, MPI_BYTE, peer, tag_, ranks_.mpi().comm, request);
    });
  }
  bool sent() override { return send_.has_ended(); }
  bool received() override { return receive_.has_ended(); }

 private:
  Communicator ranks_;
  int tag_;
  Message send_, receive_;
};

}  // namespace

std::unique_ptr<Transport> mpi_transport(const Communicator& ranks, std::size_t largest_piece) {
  return std::move(mpi_transports(ranks, 1, largest_piece).front());
}

std::vector<std::unique_ptr<Transport>> mpi_transports(const Communicator& ranks, int count,
                                                       std::size_t largest_piece) {
  const Communicator own = ranks.duplicate();
  std::vector<std::unique_ptr<Transport>> transports;
  for (int tag = 0; tag < count; ++tag) transports.push_back(std::make_unique<MpiTransport>(own, tag, largest_piece));
  return transports;
}

std::unique_ptr<Transport> make_transport(const Communicator& ranks) {
  return std::move(make_transports(ranks, 1).front());
}

std::vector<std::unique_ptr<Transport>> make_transports(const Communicator& ranks, int count) {
  return ranks.network() ? ranks.network()->transports(ranks, count) : mpi_transports(ranks, count);
}

}  // namespace lockstep
