// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>

#include "ops/onednn/call.hpp"

namespace lockstep {

/// A weight in the layouts that the products of the forward and of the backward pass like best, made anew when it has
/// been changed. Both take their turns in one buffer, so that each is made once a pass: once a step, but more often
/// where pieces (batch.micro) or blocks that are computed again let passes alternate.
class PackedWeight {
 public:
  /// How the weight is given, and how a product wants it; the same where it takes it as it is.
  struct Layouts {
    dnnl::memory::desc given, wanted;
    bool packs() const { return given != wanted; }
  };

  PackedWeight(const Layouts& forward, const Layouts& backward) : forward_(forward), backward_(backward) {
    std::size_t packed = 0, scratchpad = 0;
    for (const Direction* direction : {&forward_, &backward_}) {
      if (!direction->layouts.packs()) continue;
      packed = std::max(packed, direction->layouts.wanted.get_size());
      scratchpad = std::max(scratchpad, direction->reorder.scratchpad_bytes());
    }
    if (packed > 0) packed_ = Buffer("lockstep::packed_weight", packed);
    if (scratchpad > 0) scratchpad_ = Buffer("lockstep::packed_weight_scratchpad", scratchpad);
  }

  PackedWeight(const PackedWeight&) = delete;
  PackedWeight& operator=(const PackedWeight&) = delete;

  const dnnl::memory::desc& forward_layout() const { return forward_.layouts.wanted; }
  const dnnl::memory::desc& backward_layout() const { return backward_.layouts.wanted; }

  void set(const void* weight) {
    given_ = weight;
    holds_ = nullptr;
  }
  const void* forward() { return get(forward_); }
  const void* backward() { return get(backward_); }

 private:
  struct Direction {
    explicit Direction(const Layouts& given_and_wanted) : layouts(given_and_wanted) {
      if (layouts.packs()) reorder = OnednnCall::reorder(layouts.given, layouts.wanted);
    }
    Layouts layouts;
    OnednnCall reorder;
  };

  const void* get(Direction& direction) {
    if (!direction.layouts.packs()) return given_;
    if (holds_ != &direction) {
      direction.reorder.run(scratchpad_.data(), {{DNNL_ARG_FROM, given_}, {DNNL_ARG_TO, packed_.data()}});
      holds_ = &direction;
    }
    return packed_.data();
  }

  Direction forward_, backward_;
  Buffer packed_, scratchpad_;
  const void* given_ = nullptr;
  const Direction* holds_ = nullptr;  // whose layout packed_ has
};

}  // namespace lockstep
