// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <memory>

#include "comm/collective/collective.hpp"
#include "parallel/compression/compressed_bucket.hpp"

// Sums of buckets in which each rank sends p = g + e in a smaller form C(p), and keeps e = p − C(p): Seide et al. 2014,
// "1-bit stochastic gradient descent"; Karimireddy et al. 2019, "Error feedback fixes SignSGD". All ranks get the same
// bits. The functions are collective over the ranks of the transports that they are given.
namespace lockstep {

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
