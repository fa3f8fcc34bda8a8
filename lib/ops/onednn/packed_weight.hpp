// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <vector>

#include "ops/onednn/call.hpp"

namespace lockstep {

/// A weight in the layouts that products prefer, repacked after it has changed. The layouts of the forward and the
/// backward pass, and of several batch sizes, take turns in one buffer. Each is thus made once per pass: once per step,
/// or more often if micro-batches (batch.micro) or recomputed blocks make the passes alternate.
class PackedWeight {
 public:
  PackedWeight() = default;
  PackedWeight(const PackedWeight&) = delete;
  PackedWeight& operator=(const PackedWeight&) = delete;

  /// Registers a product whose wanted layout differs from the given one; returns the argument for `get`. Called at plan
  /// time.
  std::size_t prepare(const dnnl::memory::desc& given, const dnnl::memory::desc& wanted) {
    if (given == wanted) return as_given;
    for (std::size_t i = 0; i < packings_.size(); ++i)
      if (packings_[i].given == given && packings_[i].wanted == wanted) return i;
    const Packing& made = packings_.emplace_back(given, wanted, OnednnCall::reorder(given, wanted));
    if (wanted.get_size() > packed_.size()) packed_ = Buffer("lockstep::packed_weight", wanted.get_size());
    if (made.reorder.scratchpad_bytes() > scratchpad_.size())
      scratchpad_ = Buffer("lockstep::packed_weight_scratchpad", made.reorder.scratchpad_bytes());
    holds_ = as_given;
    return packings_.size() - 1;
  }

  void set(const void* weight) {
    given_ = weight;
    holds_ = as_given;
  }
  const void* get(std::size_t packing) {
    if (packing == as_given) return given_;
    if (holds_ != packing) {
      packings_[packing].reorder.run(scratchpad_.data(), {{DNNL_ARG_FROM, given_}, {DNNL_ARG_TO, packed_.data()}});
      holds_ = packing;
    }
    return packed_.data();
  }

 private:
  static constexpr auto as_given = static_cast<std::size_t>(-1);
  struct Packing {
    dnnl::memory::desc given, wanted;
    OnednnCall reorder;
  };

  std::vector<Packing> packings_;
  Buffer packed_, scratchpad_;
  const void* given_ = nullptr;
  std::size_t holds_ = as_given;  // the packing whose layout packed_ has; as_given: none
};

}  // namespace lockstep
