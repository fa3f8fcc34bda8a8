// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cmath>
#include <cstring>
#include <limits>

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
  if (config.method == CompressConfig::Method::topk)
    return static_cast<std::size_t>(kept_of(config, bucket, step)) * (element_bytes + sizeof(std::uint32_t));
  std::size_t bytes = bucket.tensors.size() * element_bytes;
  for (const CompressedTensor& tensor : bucket.tensors) bytes += bytes_of_signs(tensor);
  return bytes;
}

template <class T>
std::unique_ptr<Code<T>> sign_code(const CompressedNumbers<T>& numbers) {
  return std::make_unique<SignCode<T>>(numbers);
}
template <class T>
std::unique_ptr<Code<T>> top_k_code(const CompressedNumbers<T>& numbers) {
  return std::make_unique<TopKCode<T>>(numbers);
}

template std::unique_ptr<Code<float>> sign_code(const CompressedNumbers<float>&);
template std::unique_ptr<Code<double>> sign_code(const CompressedNumbers<double>&);
template std::unique_ptr<Code<float>> top_k_code(const CompressedNumbers<float>&);
template std::unique_ptr<Code<double>> top_k_code(const CompressedNumbers<double>&);

}  // namespace lockstep
