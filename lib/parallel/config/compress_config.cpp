// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/config/compress_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep {

void CompressConfig::describe(Fields& fields) {
  fields.choice("method", method, compression_names,
                "what is sent in place of a gradient: int8 (bytes, and a scale for each block), sign (signs, and a "
                "mean size for each tensor), topk (the largest elements of each tensor) or powersgd (two thin matrices "
                "for each tensor)");
  fields.integer("block", block, {1, 1 << 20}, "number of elements that share a scale (int8)");
  fields.number("keep", keep, {0, 1, true}, "share of the elements of each tensor that is sent (topk)");
  fields.integer("ramp_steps", ramp_steps, not_negative,
                 "number of steps, after from_step, in which 1/4 of the elements is sent, then as many with 1/16, 1/64 "
                 "and 1/256, as long as that is more than keep (topk; 0: keep at once)");
  fields.integer("rank", rank, at_least_one,
                 "number of columns of the thin matrices; a larger number is more exact (powersgd)");
  fields.number("min_ratio", min_ratio, positive,
                "a tensor that would shrink by less than this factor is sent as it is (powersgd)");
  fields.boolean("error_feedback", error_feedback,
                 "whether what a step has not sent is added to the gradient of the next step");
  fields.integer("from_step", from_step, not_negative, "number of steps at the start whose sums are exact");
  const CompressConfig usual;
  const auto is_of = [&](std::string_view key, bool is_usual, Method one) {
    fields.check(is_usual || method == one, key,
                 fmt::format("is for {}, and has no effect with {}; leave it out",
                             compression_names[static_cast<std::size_t>(one)],
                             compression_names[static_cast<std::size_t>(method)]));
  };
  is_of("block", block == usual.block, Method::int8);
  is_of("keep", keep == usual.keep, Method::topk);
  is_of("ramp_steps", ramp_steps == usual.ramp_steps, Method::topk);
  is_of("rank", rank == usual.rank, Method::powersgd);
  is_of("min_ratio", min_ratio == usual.min_ratio, Method::powersgd);
  fields.check(ramp_steps == 0 || keep < 0.25, "ramp_steps",
               "begins with a quarter of the elements, but keep sends at least as many; leave it out");
}

double CompressConfig::kept_in(std::int64_t step) const {
  if (ramp_steps == 0) return keep;
  const std::int64_t stage = std::max<std::int64_t>(0, step - 1 - from_step) / ramp_steps;
  return stage < 4 ? std::max(keep, std::pow(0.25, static_cast<double>(stage + 1))) : keep;
}

}  // namespace lockstep
