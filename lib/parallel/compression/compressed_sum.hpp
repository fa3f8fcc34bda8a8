// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "comm/collective/collective.hpp"
#include "comm/collective/schedule.hpp"
#include "optim/optimizer.hpp"
#include "parallel/config/compress_config.hpp"

// Sums of buckets in which each rank sends p = g + e in a smaller form C(p), and keeps e = p − C(p): Seide et al. 2014,
// "1-bit stochastic gradient descent"; Karimireddy et al. 2019, "Error feedback fixes SignSGD". All ranks get the same
// bits. The functions are collective over the ranks of the transports that they are given.
namespace lockstep {

/// What sums depend on besides their numbers.
struct SumFacts {
  std::int64_t number = 1;  ///< from 1
  double examples = 1;      ///< of all ranks
  std::uint64_t seed = 0;   ///< of the run
};

/// Number of blocks of `block` numbers in `count`; the last block may have fewer.
constexpr std::int64_t blocks_of(std::int64_t count, std::int64_t block) { return (count + block - 1) / block; }

/// A gradient in the flat buffer, as a matrix: its first dimension by all others.
struct CompressedTensor {
  ElementRange place;
  std::int64_t rows = 1, columns = 1;
};

/// What is summed at once: consecutive whole tensors, and the gaps after them, which hold zeros.
struct CompressedBucket {
  ElementRange place;
  std::vector<CompressedTensor> tensors;
};

/// What a compressed sum of this rank works on.
template <class T>
struct CompressedNumbers {
  const CompressConfig& config;
  const SumFacts& step;  ///< the current step
  const std::vector<CompressedBucket>& buckets;
  T* numbers = nullptr;  ///< the flat buffer
  /// What this rank has not sent, in units of the mean's gradient and not of the sum, so that its size does not depend
  /// on the batch. Null: it is forgotten.
  T* errors = nullptr;

  const CompressedBucket& bucket_at(std::int64_t first) const {
    return *std::ranges::lower_bound(buckets, first, {}, [](const auto& bucket) { return bucket.place.first; });
  }
  /// Adds the errors: numbers become p = g + e.
  void add_errors(const ElementRange& place) const {
    if (!errors) return;
    const T examples = static_cast<T>(step.examples);
    for (std::int64_t i = place.first; i < place.end(); ++i) numbers[i] += errors[i] * examples;
  }
  /// Factor from a number of the sum to one of `errors`.
  T error_unit() const { return static_cast<T>(1 / step.examples); }
};

/// Largest value of `measure` over the buckets.
template <class Measure>
auto largest_of(const std::vector<CompressedBucket>& buckets, Measure measure) {
  decltype(measure(buckets.front())) most{};
  for (const CompressedBucket& bucket : buckets) most = std::max(most, measure(bucket));
  return most;
}

/// Number of elements of the largest tensor.
inline std::int64_t largest_tensor(const std::vector<CompressedBucket>& buckets) {
  return largest_of(buckets, [](const CompressedBucket& bucket) {
    std::int64_t most = 0;
    for (const CompressedTensor& tensor : bucket.tensors) most = std::max(most, tensor.place.count);
    return most;
  });
}

/// `bytes`, rounded up to a multiple of an element's bytes.
constexpr std::size_t in_whole_elements(std::size_t bytes, std::size_t element_bytes) {
  return (bytes + element_bytes - 1) / element_bytes * element_bytes;
}

/// Each rank sends to every other rank that rank's slice of the numbers in 8 bits, with a scale max |x| / 127 for each
/// block; adds up what it gets in the buffer's type; and sends the sum to all, again in 8 bits. What the second
/// rounding loses is an error of the slice's owner.
template <class T>
std::unique_ptr<Collective> int8_sum(const CompressedNumbers<T>& numbers, std::unique_ptr<Transport> transport);
/// Bytes of messages that int8_sum needs on each of `ranks` ranks, for numbers of `element_bytes`.
std::size_t int8_buffer_bytes(const CompressConfig& config, const std::vector<CompressedBucket>& buckets, int ranks,
                              std::size_t element_bytes);

/// The form of a message with a rank's numbers. All ranks get all messages, and add them up in the order of ranks.
template <class T>
class Code {
 public:
  virtual ~Code() = default;
  /// Writes this rank's numbers of the bucket to `to`, and keeps what is left of them as errors.
  virtual void encode(const CompressedBucket& bucket, std::byte* to) = 0;
  /// Adds what a rank has written.
  virtual void add(const CompressedBucket& bucket, const std::byte* from) const = 0;
};
/// Bytes of a bucket's message in a step, in the method's code; never more than in the first step.
std::size_t code_bytes(const CompressConfig& config, const CompressedBucket& bucket, std::int64_t step,
                       std::size_t element_bytes);
template <class T>
std::unique_ptr<Collective> gathered_sum(const CompressedNumbers<T>& numbers, std::unique_ptr<Code<T>> code,
                                         std::unique_ptr<Transport> transport);
/// Bytes of messages, and of the code's scratch memory, that gathered_sum needs on each of `ranks` ranks.
std::size_t gathered_buffer_bytes(const CompressConfig& config, const std::vector<CompressedBucket>& buckets, int ranks,
                                  std::size_t element_bytes);

/// ‖p‖₁ / d · sgn(p) for each tensor of d numbers, one bit for each; 0 has the sign +.
template <class T>
std::unique_ptr<Code<T>> sign_code(const CompressedNumbers<T>& numbers);
/// The ⌈keep · d⌉ largest numbers of each tensor of d numbers, with their places; of equal numbers the first.
template <class T>
std::unique_ptr<Code<T>> top_k_code(const CompressedNumbers<T>& numbers);

/// Sums gradients exactly up to from_step, and compressed from then on.
template <class T>
std::unique_ptr<Collective> sum_by_step(const CompressedNumbers<T>& numbers, std::unique_ptr<Collective> exact,
                                        std::unique_ptr<Collective> compressed);

/// Number of columns of a tensor's thin matrices; 0: the tensor travels as it is.
std::int64_t thin_columns(const CompressConfig& config, const CompressedTensor& tensor);
/// Vogels et al. 2019, "PowerSGD", as in PyTorch's powerSGD_hook: M of n × m becomes P Qᵀ with P = M Q, summed and made
/// orthonormal, and Q = Mᵀ P, summed; the next step begins with this Q, made orthonormal. Where PyTorch divides by the
/// norm 0, that column of P is 0, and that of Q is drawn anew. `thin` holds all Q, [columns, m] for each tensor; zeros
/// in it are to be drawn. `sum` makes an exact sum of a buffer over the same ranks; `ranks` is their number.
template <class T>
std::unique_ptr<Collective> power_sum(const CompressedNumbers<T>& numbers, T* thin, int ranks,
                                      const std::function<std::unique_ptr<Collective>(const ReduceBuffer&)>& sum);
/// Bytes that power_sum needs besides Q and besides what the sums by `sum` need.
std::size_t power_buffer_bytes(const CompressConfig& config, const std::vector<CompressedBucket>& buckets,
                               std::size_t element_bytes);

}  // namespace lockstep
