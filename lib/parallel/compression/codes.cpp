// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cmath>
#include <cstring>
#include <limits>

#include "core/random.hpp"
#include "parallel/compression/compressed_sum.hpp"

namespace lockstep {
namespace {

std::size_t bytes_of_signs(const CompressedTensor& tensor) {
  return static_cast<std::size_t>(tensor.place.count + 7) / 8;
}

/// Number of elements that travel in a step.
std::int64_t kept_of(const CompressConfig& config, const CompressedTensor& tensor, std::int64_t step) {
  return static_cast<std::int64_t>(std::ceil(config.kept_in(step) * static_cast<double>(tensor.place.count)));
}
std::int64_t kept_of(const CompressConfig& config, const CompressedBucket& bucket, std::int64_t step) {
  std::int64_t count = 0;
  for (const CompressedTensor& tensor : bucket.tensors) count += kept_of(config, tensor, step);
  return count;
}

/// A message has norms of blocks, and then one byte for each number: the level, with the number's sign.
template <class T>
class QsgdCode final : public Code<T> {
 public:
  QsgdCode(const CompressedNumbers<T>& numbers, int rank)
      : own_(numbers), first_draw_(numbers.buckets.empty() ? 0 : rank * numbers.buckets.back().place.end()) {}

  void encode(const CompressedBucket& bucket, std::byte* to) override {
    const RandomStream draws(own_.step.seed, RandomPurpose::compression, static_cast<std::uint64_t>(own_.step.number));
    const auto levels = static_cast<double>(own_.config.levels);
    T* norm = reinterpret_cast<T*>(to);
    auto* level = reinterpret_cast<std::int8_t*>(norm + blocks(bucket));
    for_each_block(bucket, [&](std::int64_t first, std::int64_t end) {
      double squares = 0;
      for (std::int64_t i = first; i < end; ++i)
        squares += static_cast<double>(own_.numbers[i]) * static_cast<double>(own_.numbers[i]);
      *norm = static_cast<T>(std::sqrt(squares));
      const double scale = squares > 0 && std::isfinite(squares) ? levels / std::sqrt(squares) : 0;
      for (std::int64_t i = first; i < end; ++i) {
        const double size = scale == 0 ? 0 : std::abs(static_cast<double>(own_.numbers[i])) * scale;
        const double below = std::floor(size);
        const bool up = draws.uniform(static_cast<std::uint64_t>(first_draw_ + i)) < size - below;
        const double drawn = std::copysign(std::min(levels, below + (up ? 1 : 0)), own_.numbers[i]);
        *level = static_cast<std::int8_t>(drawn);
        if (own_.errors) own_.errors[i] = (own_.numbers[i] - value(*norm, *level)) * own_.error_unit();
        ++level;
      }
      ++norm;
    });
  }

  void add(const CompressedBucket& bucket, const std::byte* from) const override {
    const T* norm = reinterpret_cast<const T*>(from);
    const auto* level = reinterpret_cast<const std::int8_t*>(norm + blocks(bucket));
    for_each_block(bucket, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t i = first; i < end; ++i) own_.numbers[i] += value(*norm, *level++);
      ++norm;
    });
  }

 private:
  std::int64_t blocks(const CompressedBucket& bucket) const { return blocks_of(bucket.place.count, own_.config.block); }
  template <class Visit>
  void for_each_block(const CompressedBucket& bucket, Visit visit) const {
    for (std::int64_t first = bucket.place.first; first < bucket.place.end(); first += own_.config.block)
      visit(first, std::min(bucket.place.end(), first + own_.config.block));
  }
  T value(T norm, std::int8_t level) const { return norm * static_cast<T>(level) / static_cast<T>(own_.config.levels); }

  CompressedNumbers<T> own_;
  std::int64_t first_draw_;
};

/// A message has sizes of tensors, and then the sign bits of each tensor, which begin at a byte; 1 is −.
template <class T>
class SignCode final : public Code<T> {
 public:
  explicit SignCode(const CompressedNumbers<T>& numbers) : own_(numbers) {}

  void encode(const CompressedBucket& bucket, std::byte* to) override {
    T* size = reinterpret_cast<T*>(to);
    auto* bits = reinterpret_cast<std::uint8_t*>(size + bucket.tensors.size());
    for (const CompressedTensor& tensor : bucket.tensors) {
      const T* numbers = own_.numbers + tensor.place.first;
      const std::int64_t count = tensor.place.count;
      double sum = 0;
      for (std::int64_t i = 0; i < count; ++i) sum += std::abs(static_cast<double>(numbers[i]));
      *size = static_cast<T>(sum / static_cast<double>(count));
      std::memset(bits, 0, bytes_of_signs(tensor));
      for (std::int64_t i = 0; i < count; ++i) {
        const bool negative = numbers[i] < 0;
        bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | (negative ? 1 << i % 8 : 0));
        if (own_.errors)
          own_.errors[tensor.place.first + i] = (numbers[i] - (negative ? -*size : *size)) * own_.error_unit();
      }
      ++size;
      bits += bytes_of_signs(tensor);
    }
  }

  void add(const CompressedBucket& bucket, const std::byte* from) const override {
    const T* size = reinterpret_cast<const T*>(from);
    const auto* bits = reinterpret_cast<const std::uint8_t*>(size + bucket.tensors.size());
    for (const CompressedTensor& tensor : bucket.tensors) {
      T* numbers = own_.numbers + tensor.place.first;
      for (std::int64_t i = 0; i < tensor.place.count; ++i)
        numbers[i] += (bits[i / 8] >> i % 8 & 1) != 0 ? -*size : *size;
      ++size;
      bits += bytes_of_signs(tensor);
    }
  }

 private:
  CompressedNumbers<T> own_;
};

/// A message has numbers, and then their places in the bucket.
template <class T>
class TopKCode final : public Code<T> {
 public:
  explicit TopKCode(const CompressedNumbers<T>& numbers)
      : own_(numbers), sizes_(static_cast<std::size_t>(largest_tensor(numbers.buckets))) {}

  void encode(const CompressedBucket& bucket, std::byte* to) override {
    T* value = reinterpret_cast<T*>(to);
    auto* place = reinterpret_cast<std::uint32_t*>(value + kept(bucket));
    const auto send = [&](std::int64_t i) {
      *value++ = own_.numbers[i];
      *place++ = static_cast<std::uint32_t>(i - bucket.place.first);
      if (own_.errors) own_.errors[i] = 0;
    };
    for (const CompressedTensor& tensor : bucket.tensors) {
      const ElementRange& all = tensor.place;
      const std::int64_t count = kept(tensor);
      const bool masks = own_.velocities && count < all.count;  // if all numbers travel, nothing comes late
      for (std::int64_t i = all.first; i < all.end(); ++i) sizes_[static_cast<std::size_t>(i - all.first)] = size(i);
      const auto last = sizes_.begin() + (count - 1);
      std::nth_element(sizes_.begin(), last, sizes_.begin() + all.count, std::greater<>());
      const T least = *last;
      std::int64_t of_least = count;  // how many of this size travel: what the larger ones leave
      for (std::int64_t i = all.first; i < all.end(); ++i) of_least -= size(i) > least ? 1 : 0;
      for (std::int64_t i = all.first; i < all.end(); ++i) {
        const bool is_sent = size(i) > least || (size(i) == least && of_least-- > 0);
        if (is_sent) send(i);
        else if (own_.errors) own_.errors[i] = own_.numbers[i] * own_.error_unit();
        if (is_sent && masks) own_.velocities[i] = 0;
      }
    }
  }

  void add(const CompressedBucket& bucket, const std::byte* from) const override {
    const std::int64_t count = kept(bucket);
    const T* value = reinterpret_cast<const T*>(from);
    const auto* place = reinterpret_cast<const std::uint32_t*>(value + count);
    for (std::int64_t i = 0; i < count; ++i) own_.numbers[bucket.place.first + place[i]] += value[i];
  }

 private:
  /// A NaN counts as larger than all others, so that it travels.
  T size(std::int64_t i) const {
    const T size = std::abs(own_.numbers[i]);
    return std::isnan(size) ? std::numeric_limits<T>::infinity() : size;
  }
  template <class Part>
  std::int64_t kept(const Part& part) const {
    return kept_of(own_.config, part, own_.step.number);
  }

  CompressedNumbers<T> own_;
  std::vector<T> sizes_;  ///< of the numbers of a tensor
};

}  // namespace

std::size_t code_bytes(const CompressConfig& config, const CompressedBucket& bucket, std::int64_t step,
                       std::size_t element_bytes) {
  if (config.sends_largest())
    return static_cast<std::size_t>(kept_of(config, bucket, step)) * (element_bytes + sizeof(std::uint32_t));
  const std::int64_t count = bucket.place.count;
  if (config.method == CompressConfig::Method::qsgd)
    return static_cast<std::size_t>(blocks_of(count, config.block)) * element_bytes + static_cast<std::size_t>(count);
  std::size_t bytes = bucket.tensors.size() * element_bytes;
  for (const CompressedTensor& tensor : bucket.tensors) bytes += bytes_of_signs(tensor);
  return bytes;
}

template <class T>
std::unique_ptr<Code<T>> qsgd_code(const CompressedNumbers<T>& numbers, int rank) {
  return std::make_unique<QsgdCode<T>>(numbers, rank);
}
template <class T>
std::unique_ptr<Code<T>> sign_code(const CompressedNumbers<T>& numbers) {
  return std::make_unique<SignCode<T>>(numbers);
}
template <class T>
std::unique_ptr<Code<T>> top_k_code(const CompressedNumbers<T>& numbers) {
  return std::make_unique<TopKCode<T>>(numbers);
}

template std::unique_ptr<Code<float>> qsgd_code(const CompressedNumbers<float>&, int);
template std::unique_ptr<Code<double>> qsgd_code(const CompressedNumbers<double>&, int);
template std::unique_ptr<Code<float>> sign_code(const CompressedNumbers<float>&);
template std::unique_ptr<Code<double>> sign_code(const CompressedNumbers<double>&);
template std::unique_ptr<Code<float>> top_k_code(const CompressedNumbers<float>&);
template std::unique_ptr<Code<double>> top_k_code(const CompressedNumbers<double>&);

}  // namespace lockstep
