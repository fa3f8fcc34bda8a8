// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string_view>

#include "config/fields.hpp"

namespace lockstep {

/// Of CompressConfig::Method.
inline constexpr std::string_view compression_names[] = {"int8", "qsgd", "sign", "topk", "powersgd"};

/// The deck's parallel.compress.
struct CompressConfig : Config {
  enum class Method { int8, qsgd, sign, topk, powersgd };

  bool present = false;
  Method method = Method::int8;
  std::int64_t block = 256;   ///< elements, of int8 and qsgd
  std::int64_t levels = 127;  ///< of qsgd
  double keep = 0.01;         ///< of topk
  std::int64_t rank = 2;      ///< of powersgd
  double min_ratio = 2;       ///< of powersgd
  bool error_feedback = true;
  std::int64_t from_step = 0;

  bool keeps_errors() const { return present && error_feedback; }
  void describe(Fields& fields) override;
};

}  // namespace lockstep
