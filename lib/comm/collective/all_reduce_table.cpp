// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/all_reduce_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace lockstep {
namespace {

struct RowConfig : Config {
  std::optional<std::int64_t> up_to;

  void describe(Fields& fields) override {
    fields.integer("up_to", up_to, at_least_one,
                   "largest number of bytes for which the algorithm is the fastest (when not given: all larger sizes)");
  }
};

const std::vector<Alternative>& alternatives() {
  static const std::vector<Alternative> all = [] {
    std::vector<Alternative> made;
    for (const Algorithm& algorithm : algorithms())
      if (!algorithm.in_device_memory) made.push_back({algorithm.name, algorithm.help, make_config<RowConfig>});
    return made;
  }();
  return all;
}

constexpr std::int64_t endless = std::numeric_limits<std::int64_t>::max();

}  // namespace

void AllReduceTable::describe(Fields& fields) {
  fields.integer("ranks", ranks, at_least_one, "that it was measured on", Presence::required);
  fields.integer("nodes", nodes, at_least_one, "that these were on", Presence::required);
  fields.list_of("fastest", fastest, alternatives(), "all-reduces, by rising number of bytes");
  fields.check(!fastest.empty(), "fastest", "is missing; make the table again with lockstep bench allreduce --save");
}

std::vector<AllReduceRow> AllReduceTable::rows() const {
  std::vector<AllReduceRow> rows;
  for (const ListItem& item : fastest)
    rows.push_back({dynamic_cast<const RowConfig&>(*item.config).up_to.value_or(endless), find_algorithm(item.type)});
  std::ranges::sort(rows, {}, &AllReduceRow::up_to);
  rows.back().up_to = endless;
  return rows;
}

std::string table_text(std::int64_t ranks, std::int64_t nodes, std::span<const AllReduceRow> rows) {
  std::string text = fmt::format("ranks: {}\nnodes: {}\nfastest:\n", ranks, nodes);
  for (const auto& row : rows) {
    const std::string_view name = row.algorithm->name;
    text += &row == &rows.back() ? fmt::format("  - {}\n", name)
                                 : fmt::format("  - {}: {{up_to: {}}}\n", name, row.up_to);
  }
  return text;
}

AllReduceTable read_table(const std::string& text, const std::string& file) {
  AllReduceTable table;
  read_config(parse_deck(text, file), table);
  return table;
}

std::vector<AllReduceRow> fastest_by_messages(int ranks) {
  // Least message size at which a ring is worth its many messages.
  constexpr std::int64_t ring_message_bytes = 64 * 1024;
  // Both send the same bytes, the ring in more messages; but if ranks are no power of two, halving sends some of them
  // twice.
  const Algorithm* const by_halves = find_algorithm("halving_doubling");
  if (std::has_single_bit(static_cast<unsigned>(ranks))) return {{endless, by_halves}};
  return {{ring_message_bytes * ranks, by_halves}, {endless, find_algorithm("ring")}};
}

int leaders_of(std::optional<std::int64_t> asked, int smallest_node) {
  constexpr int most_leaders = 4;  // more do not make the network faster
  return static_cast<int>(std::min<std::int64_t>(asked.value_or(most_leaders), smallest_node));
}

}  // namespace lockstep
