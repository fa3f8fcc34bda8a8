// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <memory>

#include "comm/collective/collective.hpp"
#include "parallel/compression/compressed_bucket.hpp"

// Sums of buckets in which each rank sends p = g + e in a smaller form C(p), and keeps e = p − C(p): Seide et al. 2014,
// "1-bit stochastic gradient descent"; Karimireddy et al. 2019, "Error feedback fixes SignSGD". All ranks get the same
// bits. They are collective over the ranks of the transports that they are given.
namespace lockstep {

/// Each rank sends each other its slice of numbers in 8 bits, with a scale max |x| / 127 for each block; adds up what
/// it gets in the buffer's type; and sends that to all, in 8 bits again. What the second rounding loses is an error of
/// the slice's owner.
template <class T>
std::unique_ptr<Collective> int8_sum(const CompressedNumbers<T>& numbers, std::unique_ptr<Transport> transport);
/// Bytes of messages that each of so many ranks has for it, of numbers of `element_bytes`.
std::size_t int8_buffer_bytes(const CompressConfig& config, const std::vector<CompressedBucket>& buckets, int ranks,
                              std::size_t element_bytes);

/// What all ranks send to all others, who add it up in the order of ranks.
template <class T>
class Code {
 public:
  virtual ~Code() = default;
  /// Writes this rank's numbers of the bucket, and keeps what is left of them.
  virtual void encode(const CompressedBucket& bucket, std::byte* to) = 0;
  /// Adds what a rank has written.
  virtual void add(const CompressedBucket& bucket, const std::byte* from) const = 0;
};
/// Bytes of a bucket's message in a step, by the method's code; in no step are they more than in the first.
std::size_t code_bytes(const CompressConfig& config, const CompressedBucket& bucket, std::int64_t step,
                       std::size_t element_bytes);
template <class T>
std::unique_ptr<Collective> gathered_sum(const CompressedNumbers<T>& numbers, std::unique_ptr<Code<T>> code,
                                         std::unique_ptr<Transport> transport);
/// Bytes of messages, and of what the code works on, that each of so many ranks has for it.
std::size_t gathered_buffer_bytes(const CompressConfig& config, const std::vector<CompressedBucket>& buckets, int ranks,
                                  std::size_t element_bytes);

/// ‖v‖ · sgn(v) · ξ for each block, ξ ∈ {l/s, (l + 1)/s} with the mean |v| / ‖v‖: Alistarh et al. 2017, "QSGD". A byte
/// for each number. `rank` draws by itself.
template <class T>
std::unique_ptr<Code<T>> qsgd_code(const CompressedNumbers<T>& numbers, int rank);
/// ‖p‖₁ / d · sgn(p) for each tensor of d numbers, a bit for each; 0 has the sign +.
template <class T>
std::unique_ptr<Code<T>> sign_code(const CompressedNumbers<T>& numbers);
/// The ⌈keep · d⌉ largest of each tensor of d numbers, with their places; of equal ones the first. Where there are
/// velocities, those of what is sent become 0 (momentum factor masking: Lin et al. 2018, "Deep gradient compression"),
/// unless the whole tensor is, of which nothing was late.
template <class T>
std::unique_ptr<Code<T>> top_k_code(const CompressedNumbers<T>& numbers);

/// Sums of gradients with their momentum, where there are velocities; exact up to from_step, compressed from then on.
template <class T>
std::unique_ptr<Collective> sum_by_step(const CompressedNumbers<T>& numbers, std::unique_ptr<Collective> exact,
                                        std::unique_ptr<Collective> compressed);

/// Columns of the thin matrices of a tensor; 0: it travels as it is.
std::int64_t thin_columns(const CompressConfig& config, const CompressedTensor& tensor);
/// Vogels et al. 2019, "PowerSGD", as PyTorch's powerSGD_hook: M of n × m becomes P Qᵀ with P = M Q, summed and made
/// orthonormal, and Q = Mᵀ P, summed; the next step begins with this Q, made orthonormal. Where PyTorch divides by the
/// norm 0, that column of P is 0, and that of Q is drawn anew. `thin`: all Q, of each tensor [columns, m], where
/// zeros are to be drawn. `sum`: makes an exact sum over the same ranks of a buffer; `ranks`: how many there are.
template <class T>
std::unique_ptr<Collective> power_sum(const CompressedNumbers<T>& numbers, T* thin, int ranks,
                                      const std::function<std::unique_ptr<Collective>(const ReduceBuffer&)>& sum);
/// Bytes that it has beside Q, and beside what these sums have.
std::size_t power_buffer_bytes(const CompressConfig& config, const std::vector<CompressedBucket>& buckets,
                               std::size_t element_bytes);

}  // namespace lockstep
