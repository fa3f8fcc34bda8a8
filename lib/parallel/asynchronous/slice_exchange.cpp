// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/slice_exchange.hpp"

#include <algorithm>
#include <utility>

#include "comm/collective/executor.hpp"
#include "data/batch_partition.hpp"

namespace lockstep {
namespace {

void send(Transport& transport, int rank, const Tensor& numbers) {
  transport.send(rank, numbers.data, numbers.bytes());
  count_bytes_sent(numbers.bytes());
}

}  // namespace

SliceExchange::SliceExchange(const Communicator& ranks, int servers, ElementRange all)
    : ranks_(ranks), servers_(servers), all_(all) {
  std::vector<std::unique_ptr<Transport>> transports = make_transports(ranks, 2 * ranks.size());
  for (auto next = transports.begin(); next != transports.end();) {
    values_.push_back(std::move(*next++));
    gradients_.push_back(std::move(*next++));
  }
}

ElementRange SliceExchange::slice_of(int rank) const {
  if (!keeps_slice(rank)) return {all_.first, 0};
  const RankShare share = share_of(all_.count, rank, servers_ > 0 ? servers_ : ranks_.size());
  return {all_.first + share.first, share.count};
}

void SliceExchange::send_values(int reader, const Tensor& slice) {
  send(*values_[places_after(reader)], reader, slice);
}

void SliceExchange::receive_gradients(int worker, const Tensor& slice) {
  gradients_[places_before(worker)]->receive(worker, slice.data, slice.bytes());
}

void SliceExchange::receive_values(const ParameterBuffer& parameters) {
  for (std::size_t places = 1; places < size(); ++places) {
    const int keeper = rank_before(places);
    if (!keeps_slice(keeper)) continue;
    const Tensor slice = parameters.values(slice_of(keeper));
    values_[places]->receive(keeper, slice.data, slice.bytes());
  }
}

bool SliceExchange::has_received_values() const { return std::ranges::all_of(values_, &Transport::received); }

void SliceExchange::send_gradients(const ParameterBuffer& parameters) {
  for (std::size_t places = 1; places < size(); ++places)
    if (const int keeper = rank_after(places); keeps_slice(keeper))
      send(*gradients_[places], keeper, parameters.gradients(slice_of(keeper)));
}

bool SliceExchange::has_sent_gradients() const { return std::ranges::all_of(gradients_, &Transport::sent); }

void SliceExchange::send_values_to_all(const Tensor& slice) {
  for (std::size_t places = 1; places < size(); ++places) send(*values_[places], rank_after(places), slice);
}

bool SliceExchange::has_sent_values() const { return std::ranges::all_of(values_, &Transport::sent); }

int SliceExchange::rank_after(std::size_t places) const { return (rank() + static_cast<int>(places)) % ranks_.size(); }

int SliceExchange::rank_before(std::size_t places) const {
  return (rank() + ranks_.size() - static_cast<int>(places)) % ranks_.size();
}

std::size_t SliceExchange::places_after(int rank) const {
  return static_cast<std::size_t>((rank + ranks_.size() - ranks_.rank()) % ranks_.size());
}

std::size_t SliceExchange::places_before(int rank) const {
  return static_cast<std::size_t>((ranks_.rank() + ranks_.size() - rank) % ranks_.size());
}

}  // namespace lockstep
