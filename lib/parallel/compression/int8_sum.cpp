// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <cmath>
#include <limits>

#include "comm/collective/executor.hpp"
#include "parallel/compression/compressed_sum.hpp"

namespace lockstep {
namespace {

/// Returns the largest absolute value; NaN if one of the numbers is not finite.
template <class T>
T largest_size(const T* numbers, std::int64_t count) {
  constexpr int lanes = 16;  // maxima that vector instructions may find side by side
  T sizes[lanes] = {}, nothing[lanes] = {};
  for (std::int64_t first = 0; first < count; first += lanes)
    for (int lane = 0; lane < std::min<std::int64_t>(lanes, count - first); ++lane) {
      const T size = std::abs(numbers[first + lane]);
      sizes[lane] = sizes[lane] < size ? size : sizes[lane];
      nothing[lane] += numbers[first + lane] * T(0);
    }
  T largest = 0;
  for (const T size : sizes) largest = std::max(largest, size);
  for (const T none : nothing) largest += none;
  return largest;
}

/// Writes x / scale, rounded to the nearest whole number, ties to even, in arithmetic that vector instructions have. If
/// the scale is 0, or is not finite because one of the numbers is not, all bytes are 0.
template <class T>
void quantize(const T* __restrict numbers, std::int64_t count, T scale, std::int8_t* __restrict bytes) {
  if (!(scale > 0) || !std::isfinite(scale)) {
    std::fill_n(bytes, count, std::int8_t{0});
    return;
  }
  constexpr T whole = T(1.5) / std::numeric_limits<T>::epsilon();  // near which numbers have no fractions
  for (std::int64_t i = 0; i < count; ++i) {
    const T x = std::clamp(numbers[i] / scale, T(-127), T(127));
    bytes[i] = static_cast<std::int8_t>((x + whole) - whole);
  }
}

/// Bytes of a message of `count` numbers: scales, and then one byte for each number.
std::size_t bytes_of(std::int64_t count, std::int64_t block, std::size_t element_bytes) {
  return static_cast<std::size_t>(blocks_of(count, block)) * element_bytes + static_cast<std::size_t>(count);
}

/// Bytes reserved for a slice: those of the largest that one of `ranks` ranks adds up (whole blocks, except for the
/// last).
std::size_t room_of(const CompressConfig& config, const std::vector<CompressedBucket>& buckets, int ranks,
                    std::size_t element_bytes) {
  const std::size_t most = largest_of(buckets, [&](const CompressedBucket& bucket) {
    const std::int64_t count = bucket.place.count, blocks = blocks_of(blocks_of(count, config.block), ranks);
    return bytes_of(std::min(count, blocks * config.block), config.block, element_bytes);
  });
  return in_whole_elements(most, element_bytes);
}

template <class T>
class Int8Sum final : public Collective {
 public:
  Int8Sum(const CompressedNumbers<T>& numbers, std::unique_ptr<Transport> transport)
      : own_(numbers),
        exchange_(std::move(transport)),
        most_bytes_(room_of(own_.config, own_.buckets, exchange_.size(), sizeof(T))) {
    outgoing_.resize(most_bytes_ * static_cast<std::size_t>(exchange_.size()));
    incoming_.resize(outgoing_.size());
  }

  void start(std::int64_t first, std::int64_t count) override {
    place_ = {first, count};
    const ElementRange mine = slice(exchange_.rank());
    own_.add_errors(mine);
    for (int rank = 0; rank < exchange_.size(); ++rank) {
      if (rank == exchange_.rank()) continue;
      const ElementRange theirs = slice(rank);
      encode(theirs, room(outgoing_, rank), Of::parts);
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
  enum class Of { parts, sums };  ///< parts: errors are added first; sums: numbers become what was sent

  /// Adds up this rank's slice, and sends the sums to all.
  void gather() {
    const ElementRange mine = slice(exchange_.rank());
    for (int rank = 0; rank < exchange_.size(); ++rank)
      if (rank != exchange_.rank()) decode(mine, room(incoming_, rank), [](T& number, T value) { number += value; });
    std::byte* const sums = room(outgoing_, exchange_.rank());
    encode(mine, sums, Of::sums);
    for (int rank = 0; rank < exchange_.size(); ++rank) {
      exchange_.to(rank) = {sums, bytes(mine)};
      exchange_.from(rank) = {room(incoming_, rank), bytes(slice(rank))};
    }
    exchange_.start();
  }

  std::int64_t blocks(const ElementRange& place) const { return blocks_of(place.count, own_.config.block); }
  std::size_t bytes(const ElementRange& place) const { return bytes_of(place.count, own_.config.block, sizeof(T)); }
  /// Returns the slice that a rank adds up: whole blocks, except for the last.
  ElementRange slice(int rank) const {
    const ElementRange whole = slice_of(blocks(place_), rank, exchange_.size());
    return ElementRange::between(std::min(place_.end(), place_.first + whole.first * own_.config.block),
                                 std::min(place_.end(), place_.first + whole.end() * own_.config.block));
  }
  std::byte* room(std::vector<std::byte>& memory, int rank) const {
    return memory.data() + most_bytes_ * static_cast<std::size_t>(rank);
  }

  /// Writes scales, and then bytes.
  void encode(const ElementRange& place, std::byte* to, Of what) const {
    T* scale = reinterpret_cast<T*>(to);
    auto* bytes = reinterpret_cast<std::int8_t*>(scale + blocks(place));
    for (std::int64_t first = place.first; first < place.end(); first += own_.config.block, ++scale) {
      T* const numbers = own_.numbers + first;
      const std::int64_t count = std::min(place.end() - first, own_.config.block);
      if (what == Of::parts) own_.add_errors({first, count});  // while the block is in cache
      *scale = largest_size(numbers, count) / 127;
      quantize(numbers, count, *scale, bytes);
      leave(numbers, count, *scale, bytes, own_.errors ? own_.errors + first : nullptr, what);
      bytes += count;
    }
  }
  void leave(T* __restrict numbers, std::int64_t count, T scale, const std::int8_t* __restrict bytes,
             T* __restrict errors, Of what) const {
    const T unit = own_.error_unit();
    for (std::int64_t i = 0; i < count; ++i) {
      const T sent = scale * static_cast<T>(bytes[i]);
      if (errors) errors[i] = (numbers[i] - sent) * unit;
      if (what == Of::sums) numbers[i] = sent;
    }
  }
  template <class Put>
  void decode(const ElementRange& place, const std::byte* from, Put put) const {
    const T* scales = reinterpret_cast<const T*>(from);
    const auto* bytes = reinterpret_cast<const std::int8_t*>(scales + blocks(place));
    for (std::int64_t first = place.first; first < place.end(); first += own_.config.block) {
      const std::int64_t count = std::min(place.end() - first, own_.config.block);
      T* const __restrict numbers = own_.numbers + first;
      const T scale = *scales++;
      for (std::int64_t i = 0; i < count; ++i) put(numbers[i], scale * static_cast<T>(*bytes++));
    }
  }

  CompressedNumbers<T> own_;
  Exchange exchange_;
  std::size_t most_bytes_;  ///< of a slice
  std::vector<std::byte> outgoing_, incoming_;
  ElementRange place_;  ///< of the running sum
  Stage stage_ = Stage::done;
};

}  // namespace

std::size_t int8_buffer_bytes(const CompressConfig& config, const std::vector<CompressedBucket>& buckets, int ranks,
                              std::size_t element_bytes) {
  return 2 * static_cast<std::size_t>(ranks) * room_of(config, buckets, ranks, element_bytes);
}

template <class T>
std::unique_ptr<Collective> int8_sum(const CompressedNumbers<T>& numbers, std::unique_ptr<Transport> transport) {
  return std::make_unique<Int8Sum<T>>(numbers, std::move(transport));
}

template std::unique_ptr<Collective> int8_sum(const CompressedNumbers<float>&, std::unique_ptr<Transport>);
template std::unique_ptr<Collective> int8_sum(const CompressedNumbers<double>&, std::unique_ptr<Transport>);

}  // namespace lockstep
