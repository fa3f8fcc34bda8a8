// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <nlohmann/json.hpp>

#include "config/deck.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const DeckNode& node) {
  Json json;
  switch (node.kind) {
    case DeckNode::Kind::null: break;
    case DeckNode::Kind::scalar:
      // Numbers, true and false are written alike in YAML and JSON; other unquoted words are text.
      if (!node.quoted) json = Json::parse(node.text, nullptr, false);
      if (node.quoted || json.is_discarded()) json = node.text;
      break;
    case DeckNode::Kind::sequence:
      json = Json::array();
      for (const DeckNode& item : node.items) json.push_back(json_of(item));
      break;
    case DeckNode::Kind::mapping:
      json = Json::object();
      for (const auto& entry : node.entries) json[entry.key] = json_of(entry.value);
      break;
  }
  return json;
}

}  // namespace

std::string deck_json(const DeckNode& deck) { return json_of(deck).dump(); }

}  // namespace lockstep
