// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/collective/algorithm.hpp"
#include "config/fields.hpp"

namespace lockstep {

/// An all-reduce, and the most bytes that it is for.
struct AllReduceRow {
  std::int64_t up_to;
  const Algorithm* algorithm;
};

/// Which all-reduce is the fastest for how many bytes, as `lockstep bench allreduce --save` has measured it.
struct AllReduceTable : Config {
  std::int64_t ranks = 1, nodes = 1;  ///< that it was measured on
  std::vector<ListItem> fastest;

  void describe(Fields& fields) override;
  /// By rising size; the last one has no limit.
  std::vector<AllReduceRow> rows() const;
};

/// The file's text, from its rows.
std::string table_text(std::int64_t ranks, std::int64_t nodes, std::span<const AllReduceRow> rows);
/// Throws DeckError for anything wrong in it.
AllReduceTable read_table(const std::string& text, const std::string& file);

}  // namespace lockstep
