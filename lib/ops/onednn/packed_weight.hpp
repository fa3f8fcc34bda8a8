// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ops/onednn/call.hpp"

namespace lockstep {

/// A weight in the layout that a product likes best, made anew when it has been changed.
class PackedWeight {
 public:
  PackedWeight() = default;
  PackedWeight(const dnnl::memory::desc& plain, const dnnl::memory::desc& inner) {
    if (plain == inner) return;
    packed_ = Buffer("lockstep::packed_weight", inner.get_size());
    reorder_ = OnednnCall::reorder(plain, inner);
    if (reorder_.scratchpad_bytes() > 0)
      scratchpad_ = Buffer("lockstep::packed_weight_scratchpad", reorder_.scratchpad_bytes());
  }

  void set(const void* weight) {
    given_ = weight;
    stale_ = true;
  }
  const void* get() {
    if (packed_.size() == 0) return given_;
    if (stale_) reorder_.run(scratchpad_.data(), {{DNNL_ARG_FROM, given_}, {DNNL_ARG_TO, packed_.data()}});
    stale_ = false;
    return packed_.data();
  }

 private:
  OnednnCall reorder_;
  Buffer packed_, scratchpad_;
  const void* given_ = nullptr;
  bool stale_ = true;
};

}  // namespace lockstep
