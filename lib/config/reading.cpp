// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "config/reading.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "config/deck_scalars.hpp"

namespace lockstep {
namespace {

std::string text_of(const Complaints& complaints) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most_complaints, complaints.size()); ++i)
    text += (i > 0 ? "\n" : "") + std::string(complaints[i].what());
  if (complaints.size() > most_complaints) text += fmt::format("\nand {} more", complaints.size() - most_complaints);
  return text;
}

}  // namespace

void throw_complaints(Complaints& complaints) {
  if (complaints.empty()) return;
  std::ranges::stable_sort(complaints, {},
                           [](const DeckError& error) { return std::pair(error.where().line, error.where().column); });
  if (complaints.size() == 1) throw DeckError(complaints.front());
  throw Error(ExitStatus::bad_deck, text_of(complaints));
}

DeckNode spelled_out(const DeckNode& node, std::string_view key) {
  DeckNode value = node;
  value.path = fmt::format("{}.{}", node.path, key);
  return {.kind = DeckNode::Kind::mapping,
          .entries = {{std::string(key), node.position, std::move(value)}},
          .position = node.position,
          .path = node.path};
}

std::vector<std::string> read_names(const DeckNode& node) {
  std::vector<std::string> names;
  if (node.kind == DeckNode::Kind::scalar) names.push_back(node.text);
  for (const auto& item : node.items) {
    if (item.kind != DeckNode::Kind::scalar) wrong_type(item, "a name");
    names.push_back(item.text);
  }
  if (names.empty()) wrong_type(node, "a name or a list of names");
  return names;
}

std::vector<std::string> names_of(std::span<const Alternative> alternatives) {
  std::vector<std::string> names;
  for (const Alternative& alternative : alternatives) names.emplace_back(alternative.name);
  return names;
}

const Alternative* find(std::span<const Alternative> alternatives, std::string_view name) {
  const auto found = std::ranges::find(alternatives, name, &Alternative::name);
  return found == alternatives.end() ? nullptr : &*found;
}

}  // namespace lockstep
