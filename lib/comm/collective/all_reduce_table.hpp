// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/collective/algorithm.hpp"
#include "config/fields.hpp"

namespace lockstep {

/// An all-reduce and the largest number of bytes for which it is used.
struct AllReduceRow {
  std::int64_t up_to;
  const Algorithm* algorithm;
};

/// The fastest all-reduce by number of bytes, as measured by `lockstep bench allreduce --save`.
struct AllReduceTable : Config {
  std::int64_t ranks = 1, nodes = 1;  ///< where it was measured
  std::vector<ListItem> fastest;

  void describe(Fields& fields) override;
  /// Rows ordered by size; the last one has no limit.
  std::vector<AllReduceRow> rows() const;
};

/// Writes a table file of these rows.
std::string table_text(std::int64_t ranks, std::int64_t nodes, std::span<const AllReduceRow> rows);
/// Parses a table file; throws DeckError if it is invalid.
AllReduceTable read_table(const std::string& text, const std::string& file);

// Default algorithms for sums, chosen without measuring. Pure functions, also used by predictions.

/// The fastest message-based all-reduces for this number of ranks, by increasing number of bytes.
std::vector<AllReduceRow> fastest_by_messages(int ranks);
/// Number of ranks of each node that sum between nodes.
int leaders_of(std::optional<std::int64_t> asked, int smallest_node);

}  // namespace lockstep
