// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cmath>

#include "comm/collective/exchange.hpp"
#include "parallel/compression/compressed_sum.hpp"

namespace lockstep {
namespace {

/// x / scale, rounded, for a scale that may be 0, or no number where one of the numbers is none.
template <class T>
std::int8_t quantized(T x, T scale) {
  if (!(scale > 0) || !std::isfinite(scale)) return 0;
  return static_cast<std::int8_t>(std::lrint(std::clamp(x / scale, T(-127), T(127))));
}

template <class T>
class Int8Sum final : public Collective {
 public:
  Int8Sum(const CompressedNumbers<T>& numbers, std::unique_ptr<Transport> transport)
      : own_(numbers), exchange_(std::move(transport)) {
    most_bytes_ = largest_of(own_.buckets, [&](const CompressedBucket& bucket) {
      place_ = bucket.place;
      std::size_t most = 0;
      for (int rank = 0; rank < exchange_.size(); ++rank) most = std::max(most, bytes(slice(rank)));
      return most;
    });
    most_bytes_ = (most_bytes_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    outgoing_.resize(most_bytes_ * static_cast<std::size_t>(exchange_.size()));
    incoming_.resize(outgoing_.size());
  }

  void start(std::int64_t first, std::int64_t count) override {
    place_ = {first, first + count};
    own_.add_errors(place_);
    const Stretch mine = slice(exchange_.rank());
    for (int rank = 0; rank < exchange_.size(); ++rank) {
      if (rank == exchange_.rank()) continue;
      const Stretch theirs = slice(rank);
      encode(theirs, room(outgoing_, rank), Keep::numbers);
      exchange_.to(rank) = {room(outgoing_, rank), bytes(theirs)};
      exchange_.from(rank) = {room(incoming_, rank), bytes(mine)};
    }
    exchange_.start();
    stage_ = Stage::slices;
  }

  bool advance() override {
    if (stage_ == Stage::done) return true;
    if (!exchange_.advance()) return false;
    if (stage_ == Stage::slices) {
      gather();
      stage_ = Stage::sums;
      if (!exchange_.advance()) return false;
    }
    for (int rank = 0; rank < exchange_.size(); ++rank)
      if (rank != exchange_.rank())
        decode(slice(rank), room(incoming_, rank), [](T& number, T value) { number = value; });
    stage_ = Stage::done;
    return true;
  }

 private:
  enum class Stage { slices, sums, done };
  enum class Keep { numbers, sent };  ///< what stands in the buffer behind an encoding

  /// The sums of this rank's slice go to all.
  void gather() {
    const Stretch mine = slice(exchange_.rank());
    for (int rank = 0; rank < exchange_.size(); ++rank)
      if (rank != exchange_.rank()) decode(mine, room(incoming_, rank), [](T& number, T value) { number += value; });
    std::byte* const sums = room(outgoing_, exchange_.rank());
    encode(mine, sums, Keep::sent);
    for (int rank = 0; rank < exchange_.size(); ++rank) {
      exchange_.to(rank) = {sums, bytes(mine)};
      exchange_.from(rank) = {room(incoming_, rank), bytes(slice(rank))};
    }
    exchange_.start();
  }

  std::int64_t blocks(const Stretch& place) const {
    return (place.count() + own_.config.block - 1) / own_.config.block;
  }
  std::size_t bytes(const Stretch& place) const {
    return static_cast<std::size_t>(blocks(place)) * sizeof(T) + static_cast<std::size_t>(place.count());
  }
  /// What a rank adds up: whole blocks, but for the last.
  Stretch slice(int rank) const {
    const Stretch whole = slice_of(blocks(place_), rank, exchange_.size());
    return {std::min(place_.end, place_.first + whole.first * own_.config.block),
            std::min(place_.end, place_.first + whole.end * own_.config.block)};
  }
  std::byte* room(std::vector<std::byte>& memory, int rank) const {
    return memory.data() + most_bytes_ * static_cast<std::size_t>(rank);
  }

  /// Scales, and then the bytes.
  void encode(const Stretch& place, std::byte* to, Keep keep) const {
    T* scale = reinterpret_cast<T*>(to);
    auto* code = reinterpret_cast<std::int8_t*>(scale + blocks(place));
    const T unit = own_.error_unit();
    for (std::int64_t first = place.first; first < place.end; first += own_.config.block, ++scale) {
      const std::int64_t end = std::min(place.end, first + own_.config.block);
      T largest = 0, nothing = 0;  // no number, where one of them is none
      for (std::int64_t i = first; i < end; ++i) {
        largest = std::max(largest, std::abs(own_.numbers[i]));
        nothing += own_.numbers[i] * T(0);
      }
      *scale = largest / 127 + nothing;
      for (std::int64_t i = first; i < end; ++i) {
        const std::int8_t byte = quantized(own_.numbers[i], *scale);
        const T sent = *scale * static_cast<T>(byte);
        if (own_.errors) own_.errors[i] = (own_.numbers[i] - sent) * unit;
        if (keep == Keep::sent) own_.numbers[i] = sent;
        *code++ = byte;
      }
    }
  }
  template <class Put>
  void decode(const Stretch& place, const std::byte* from, Put put) const {
    const T* scale = reinterpret_cast<const T*>(from);
    const auto* code = reinterpret_cast<const std::int8_t*>(scale + blocks(place));
    for (std::int64_t first = place.first; first < place.end; first += own_.config.block, ++scale)
      for (std::int64_t i = first; i < std::min(place.end, first + own_.config.block); ++i)
        put(own_.numbers[i], *scale * static_cast<T>(*code++));
  }

  CompressedNumbers<T> own_;
  Exchange exchange_;
  std::size_t most_bytes_ = 0;  ///< of a slice
  std::vector<std::byte> outgoing_, incoming_;
  Stretch place_;  ///< of the running sum
  Stage stage_ = Stage::done;
};

}  // namespace

template <class T>
std::unique_ptr<Collective> int8_sum(const CompressedNumbers<T>& numbers, std::unique_ptr<Transport> transport) {
  return std::make_unique<Int8Sum<T>>(numbers, std::move(transport));
}

template std::unique_ptr<Collective> int8_sum(const CompressedNumbers<float>&, std::unique_ptr<Transport>);
template std::unique_ptr<Collective> int8_sum(const CompressedNumbers<double>&, std::unique_ptr<Transport>);

}  // namespace lockstep
