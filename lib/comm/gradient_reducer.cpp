// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/gradient_reducer.hpp"

#include <algorithm>

#include "base/timer.hpp"

namespace lockstep {

void ParallelConfig::describe(Fields& fields) {
  static constexpr std::string_view algorithms[] = {"auto", "mpi"};
  static constexpr std::string_view overlaps[] = {"auto", "none"};
  fields.number("bucket_mb", bucket_mb, {0.001, 4096},
                "gradients are summed over ranks in pieces of this many megabytes");
  fields.choice("all_reduce", all_reduce, algorithms,
                "algorithm of the sum; mpi is the MPI library's own, the only one so far");
  fields.choice("overlap", overlap, overlaps,
                "whether sums run beside the backward pass; none, the only way so far, reduces as buckets fill");
}

GradientReducer::GradientReducer(const Communicator& comm, const ParallelConfig& config, const Tensor& gradients)
    : comm_(comm),
      gradients_(gradients),
      bucket_(std::max<std::int64_t>(1, static_cast<std::int64_t>(config.bucket_mb * 1e6) /
                                            static_cast<std::int64_t>(size_of(gradients.dtype)))) {}

void GradientReducer::ready(const ExecSpace& space, std::int64_t count) {
  ready_ += count;
  while (ready_ - reduced_ >= bucket_) reduce_to(space, reduced_ + bucket_);
}

void GradientReducer::finish(const ExecSpace& space) {
  reduce_to(space, gradients_.count());
  ready_ = reduced_ = 0;
}

void GradientReducer::reduce_to(const ExecSpace& space, std::int64_t end) {
  const Timer timer;
  while (reduced_ < end) {
    const std::int64_t count = std::min(bucket_, end - reduced_);
    std::byte* first = static_cast<std::byte*>(gradients_.data) +
                       static_cast<std::size_t>(reduced_) * size_of(gradients_.dtype);
    comm_.sum(space, {first, gradients_.dtype, {count}});
    reduced_ += count;
  }
  exposed_seconds_ += timer.seconds();
}

double GradientReducer::take_exposed_seconds() { return std::exchange(exposed_seconds_, 0.0); }

}  // namespace lockstep
