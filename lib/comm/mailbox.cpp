// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/mailbox.hpp"

#include <mpi.h>

#include "comm/mpi_handle.hpp"
#include "comm/spin_backoff.hpp"

namespace lockstep {

struct Mailbox::Sent {
  std::string text;
  MPI_Request request = MPI_REQUEST_NULL;
};

Mailbox::Mailbox(const Communicator& ranks) : ranks_(ranks.duplicate()) {}

Mailbox::~Mailbox() = default;

void Mailbox::send(std::string text, int to) {
  if (to == ranks_.rank()) {
    own_.push_back({to, std::move(text)});
    return;
  }
  auto& sent = sent_.emplace_back(std::make_unique<Sent>());
  sent->text = std::move(text);
  const MpiLock lock;
  expect_mpi(MPI_Isend(sent->text.data(), static_cast<int>(sent->text.size()), MPI_CHAR, to, 0, ranks_.mpi().comm,
                       &sent->request));
}

std::optional<Mailbox::Letter> Mailbox::take() {
  while (!sent_.empty() && has_ended(sent_.front()->request)) sent_.pop_front();
  if (!own_.empty()) {
    Letter letter = std::move(own_.front());
    own_.pop_front();
    return letter;
  }
  if (ranks_.size() == 1) return std::nullopt;
  const MpiLock lock;
  int is_there = 0;
  MPI_Status status;
  expect_mpi(MPI_Iprobe(MPI_ANY_SOURCE, 0, ranks_.mpi().comm, &is_there, &status));
  if (is_there == 0) return std::nullopt;
  int size = 0;
  MPI_Get_count(&status, MPI_CHAR, &size);
  Letter letter{status.MPI_SOURCE, std::string(static_cast<std::size_t>(size), '\0')};
  expect_mpi(MPI_Recv(letter.text.data(), size, MPI_CHAR, status.MPI_SOURCE, 0, ranks_.mpi().comm, MPI_STATUS_IGNORE));
  return letter;
}

void Mailbox::wait_until_sent() {
  for (const auto& sent : sent_) wait_until([&] { return has_ended(sent->request); });
  sent_.clear();
}

}  // namespace lockstep
