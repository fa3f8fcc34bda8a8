// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/shared_coefficients.hpp"

namespace lockstep {

SharedCoefficients::Table SharedCoefficients::cover(std::int64_t step, std::int64_t count) {
  if (step < first_ || step + count > first_ + static_cast<std::int64_t>(known_.size())) {
    first_ = step;
    known_.resize(static_cast<std::size_t>(steps_at_once));
    if (comm_.is_root())
      for (std::int64_t i = 0; i < steps_at_once; ++i) known_[static_cast<std::size_t>(i)] = compute_(first_ + i);
    comm_.broadcast({known_.front().data(), known_.size() * known_.front().size()});
  }
  return {first_, known_};
}

}  // namespace lockstep
