// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string_view>

#include "config/fields.hpp"

namespace lockstep {

/// Names of CompressConfig::Method.
inline constexpr std::string_view compression_names[] = {"int8", "sign", "topk", "powersgd"};

/// The deck's `parallel.compress` section.
struct CompressConfig : Config {
  enum class Method { int8, sign, topk, powersgd };

  bool present = false;
  Method method = Method::int8;
  std::int64_t block = 256;     ///< elements, for int8
  double keep = 0.01;           ///< for topk
  std::int64_t ramp_steps = 0;  ///< for topk: see kept_in
  std::int64_t rank = 2;        ///< for powersgd
  double min_ratio = 2;         ///< for powersgd
  bool error_feedback = true;
  std::int64_t from_step = 0;

  /// Fraction of a tensor's numbers that travels in a step, counted from 1: after from_step, 1/4, 1/16, 1/64 and 1/256
  /// of them (sparsities of 75, 93.75, 98.4 and 99.6 %: Lin et al. 2018) for ramp_steps each, but never less than
  /// `keep`.
  double kept_in(std::int64_t step) const;
  void describe(Fields& fields) override;
};

}  // namespace lockstep
