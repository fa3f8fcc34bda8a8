// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/all_reduce.hpp"

#include <cassert>
#include <map>
#include <vector>

#include "comm/all_reduce_rounds.hpp"
#include "comm/mpi_handle.hpp"
#include "core/float16.hpp"

namespace lockstep {
namespace {

/// T: of the summands; W: of the wire.
template <class T, class W>
class PeerAllReduce final : public AllReduce {
  static constexpr bool same = std::is_same_v<T, W>;

 public:
  PeerAllReduce(PeerAlgorithm algorithm, std::unique_ptr<Link> link, void* data)
      : algorithm_(algorithm), link_(std::move(link)), data_(static_cast<T*>(data)) {}

  void start(std::int64_t first, std::int64_t count) override {
    assert(round_ == rounds_->end());
    rounds_ = &rounds_of(count);
    round_ = rounds_->begin();
    begin_ = data_ + first;
    if (round_ != rounds_->end()) begin_round();
  }

  bool advance() override {
    while (round_ != rounds_->end()) {
      if (!link_->received() || !link_->sent()) return false;
      if (round_->receive) take(round_->receive);
      if (++round_ != rounds_->end()) begin_round();
    }
    return true;
  }

 private:
  using Rounds = std::vector<Round>;

  const Rounds& rounds_of(std::int64_t count) {
    const auto [found, is_new] = known_.try_emplace(count);
    if (!is_new) return found->second;
    constexpr decltype(&ring_rounds) make[] = {ring_rounds, halving_doubling_rounds, tree_rounds};
    found->second = make[static_cast<std::size_t>(algorithm_)](link_->rank(), link_->size(), count);
    std::int64_t outgoing = 0, incoming = 0;
    for (const Round& round : found->second) {
      outgoing = std::max(outgoing, round.send.count);
      incoming = std::max(incoming, round.receive.count);
    }
    if (!same && static_cast<std::int64_t>(outgoing_.size()) < outgoing)
      outgoing_.resize(static_cast<std::size_t>(outgoing));
    if (static_cast<std::int64_t>(incoming_.size()) < incoming) incoming_.resize(static_cast<std::size_t>(incoming));
    return found->second;
  }

  void begin_round() {
    // What replaces this rank's numbers can come straight to their place, if nothing has to be converted.
    if (const Round::Part& part = round_->receive)
      link_->receive(part.peer, same && part.final ? static_cast<void*>(begin_ + part.first) : incoming_.data(),
                     static_cast<std::size_t>(part.count) * sizeof(W));
    if (const Round::Part& part = round_->send)
      link_->send(part.peer, packed(part), static_cast<std::size_t>(part.count) * sizeof(W));
  }

  const void* packed(const Round::Part& part) {
    T* from = begin_ + part.first;
    if constexpr (same) {
      return from;
    } else {
      W* to = outgoing_.data();
      for (std::int64_t i = 0; i < part.count; ++i) to[i] = W(from[i]);
      if (part.final)  // this rank keeps what the others get
        for (std::int64_t i = 0; i < part.count; ++i) from[i] = T(to[i]);
      return to;
    }
  }

  void take(const Round::Part& part) {
    T* to = begin_ + part.first;
    const W* from = incoming_.data();
    if (!part.final)
      for (std::int64_t i = 0; i < part.count; ++i) to[i] += T(from[i]);
    else if (!same)
      for (std::int64_t i = 0; i < part.count; ++i) to[i] = T(from[i]);
  }

  PeerAlgorithm algorithm_;
  std::unique_ptr<Link> link_;
  T* data_;
  std::map<std::int64_t, Rounds> known_;  // by count
  std::vector<W> outgoing_, incoming_;
  static inline const Rounds none_;
  const Rounds* rounds_ = &none_;
  Rounds::const_iterator round_ = none_.end();
  T* begin_ = nullptr;
};

class LibraryAllReduce final : public AllReduce {
 public:
  LibraryAllReduce(const Communicator& comm, const Summands& summands)
      : ranks_(comm.duplicate()), summands_(summands) {}

  void start(std::int64_t first, std::int64_t count) override {
    const std::lock_guard lock(mpi_lock());
    void* begin = static_cast<std::byte*>(summands_.data) + static_cast<std::size_t>(first) * size_of(summands_.dtype);
    MPI_Iallreduce(MPI_IN_PLACE, begin, static_cast<int>(count), mpi_type(summands_.dtype), MPI_SUM, ranks_.mpi().comm,
                   &request_);
  }
  bool advance() override { return has_ended(request_); }

 private:
  Communicator ranks_;
  Summands summands_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace

std::unique_ptr<AllReduce> peer_all_reduce(PeerAlgorithm algorithm, std::unique_ptr<Link> link,
                                           const Summands& summands, DType wire) {
  const auto make = [&]<class T, class W>(T, W) -> std::unique_ptr<AllReduce> {
    return std::make_unique<PeerAllReduce<T, W>>(algorithm, std::move(link), summands.data);
  };
  if (summands.dtype == DType::f64) return make(double(), double());
  switch (wire) {
    case DType::bf16: return make(float(), bfloat16());
    case DType::f16: return make(float(), half());
    default: return make(float(), float());
  }
}

std::unique_ptr<AllReduce> library_all_reduce(const Communicator& comm, const Summands& summands) {
  return std::make_unique<LibraryAllReduce>(comm, summands);
}

}  // namespace lockstep
