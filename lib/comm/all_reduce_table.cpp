// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/all_reduce_table.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace lockstep {
namespace {

struct RowConfig : Config {
  std::optional<std::int64_t> up_to;

  void describe(Fields& fields) override {
    fields.integer("up_to", up_to, at_least_one, "bytes for which it is the fastest; none: whatever else there is");
  }
};

constexpr Alternative kinds[] = {
    {all_reduce_names[1], "the MPI library's own", make_config<RowConfig>},
    {all_reduce_names[2], "slices go round", make_config<RowConfig>},
    {all_reduce_names[3], "halves are exchanged", make_config<RowConfig>},
    {all_reduce_names[4], "up a binary tree and down again", make_config<RowConfig>},
    {all_reduce_names[5], "in a node's shared memory, then between nodes", make_config<RowConfig>},
};
constexpr std::int64_t endless = std::numeric_limits<std::int64_t>::max();

}  // namespace

void AllReduceTable::describe(Fields& fields) {
  fields.integer("ranks", ranks, at_least_one, "that it was measured on", Presence::required);
  fields.integer("nodes", nodes, at_least_one, "that these were on", Presence::required);
  fields.list_of("fastest", fastest, kinds, "all-reduces, by rising number of bytes");
  fields.check(!fastest.empty(), "fastest", "is missing; make the table again with lockstep bench allreduce --save");
}

std::vector<AllReduceRow> AllReduceTable::rows() const {
  std::vector<AllReduceRow> rows;
  for (const ListItem& item : fastest) {
    const auto name = std::ranges::find(all_reduce_names, item.type);
    rows.push_back({dynamic_cast<const RowConfig&>(*item.config).up_to.value_or(endless),
                    static_cast<AllReduceKind>(name - std::begin(all_reduce_names))});
  }
  std::ranges::sort(rows, {}, &AllReduceRow::up_to);
  rows.back().up_to = endless;
  return rows;
}

std::string table_text(std::int64_t ranks, std::int64_t nodes, const std::vector<AllReduceRow>& rows) {
  std::string text = fmt::format("ranks: {}\nnodes: {}\nfastest:\n", ranks, nodes);
  for (const auto& row : rows) {
    const std::string_view name = all_reduce_names[static_cast<std::size_t>(row.kind)];
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

}  // namespace lockstep
