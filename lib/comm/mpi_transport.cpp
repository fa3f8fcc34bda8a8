// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/mpi_transport.hpp"

#include <algorithm>
#include <vector>

#include "comm/mpi_handle.hpp"
#include "comm/surviving_ranks.hpp"

namespace lockstep {
namespace {

/// A message under way, in as many pieces as MPI's counts, which are ints, make of it.
class Message {
 public:
  explicit Message(std::size_t largest_piece) : largest_piece_(largest_piece), pieces_(1, MPI_REQUEST_NULL) {}

  /// `begin(first, count, request)` begins one piece. The last message has ended.
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
  MpiTransport(const Communicator& ranks, std::size_t largest_piece)
      : ranks_(ranks.duplicate()), send_(largest_piece), receive_(largest_piece) {}
  ~MpiTransport() override {
    // Only after a failure is anything still under way, and the end of this process is near; or it is revoked.
    if (!ranks_were_lost()) receive_.cancel();
  }

  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }

  void send(int peer, const void* data, std::size_t bytes) override {
    send_.begin(bytes, [&](std::size_t first, int count, MPI_Request* request) {
      return MPI_Isend(static_cast<const std::byte*>(data) + first, count, MPI_BYTE, peer, 0, ranks_.mpi().comm,
                       request);
    });
  }
  void receive(int peer, void* data, std::size_t bytes) override {
    receive_.begin(bytes, [&](std::size_t first, int count, MPI_Request* request) {
      return MPI_Irecv(static_cast<std::byte*>(data) + first, count, MPI_BYTE, peer, 0, ranks_.mpi().comm, request);
    });
  }
  bool sent() override { return send_.has_ended(); }
  bool received() override { return receive_.has_ended(); }

 private:
  Communicator ranks_;
  Message send_, receive_;
};

}  // namespace

std::unique_ptr<Transport> mpi_transport(const Communicator& ranks, std::size_t largest_piece) {
  return std::make_unique<MpiTransport>(ranks, largest_piece);
}

std::unique_ptr<Transport> make_transport(const Communicator& ranks) {
  return ranks.network() ? ranks.network()->transport(ranks) : mpi_transport(ranks);
}

}  // namespace lockstep
