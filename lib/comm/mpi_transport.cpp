// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/mpi_transport.hpp"

#include "comm/mpi_handle.hpp"
#include "comm/surviving_ranks.hpp"

namespace lockstep {
namespace {

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(const Communicator& ranks) : ranks_(ranks.duplicate()) {}
  ~MpiTransport() override {
    // Only after a failure is anything still under way, and the end of this process is near; or it is revoked.
    if (receive_ != MPI_REQUEST_NULL && !ranks_were_lost()) MPI_Cancel(&receive_);
  }

  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }

  void send(int peer, const void* data, std::size_t bytes) override {
    const MpiLock lock;
    note_message(bytes);
    expect_mpi(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, 0, ranks_.mpi().comm, &send_));
  }
  void receive(int peer, void* data, std::size_t bytes) override {
    const MpiLock lock;
    note_message(bytes);
    expect_mpi(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, 0, ranks_.mpi().comm, &receive_));
  }
  bool sent() override { return send_ == MPI_REQUEST_NULL || has_ended(send_); }
  bool received() override { return receive_ == MPI_REQUEST_NULL || has_ended(receive_); }

 private:
  Communicator ranks_;
  MPI_Request send_ = MPI_REQUEST_NULL, receive_ = MPI_REQUEST_NULL;
};

}  // namespace

std::unique_ptr<Transport> mpi_transport(const Communicator& ranks) { return std::make_unique<MpiTransport>(ranks); }

std::unique_ptr<Transport> make_transport(const Communicator& ranks) {
  return ranks.network() ? ranks.network()->transport(ranks) : mpi_transport(ranks);
}

}  // namespace lockstep
