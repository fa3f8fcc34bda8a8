// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "config/deck_builder.hpp"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>
#include <vector>

namespace lockstep {
namespace {

constexpr std::size_t max_depth = 64;
constexpr std::size_t max_nodes = 100000;

DeckPosition position_of(const YAML::Mark& mark, const std::string& file) {
  if (mark.is_null()) return {file, 1, 1};
  return {file, mark.line + 1, mark.column + 1};
}

DeckError too_deep(const DeckPosition& where) {
  return {where, "",
          fmt::format("nested more than {} levels deep (no deck needs that); check the indentation", max_depth)};
}

class NotAKey : public DeckError {
  using DeckError::DeckError;
};

/// Number of nodes and depth of a subtree, to be checked against the limits.
struct Extent {
  std::size_t nodes = 1;
  std::size_t depth = 0;  ///< levels below it
};

Extent extent_of(const DeckNode& node) {
  Extent extent;
  const auto add = [&](const DeckNode& child) {
    const Extent below = extent_of(child);
    extent.nodes += below.nodes;
    extent.depth = std::max(extent.depth, below.depth + 1);
  };
  for (const auto& item : node.items) add(item);
  for (const auto& entry : node.entries) add(entry.value);
  return extent;
}

/// Builds the tree from yaml-cpp's parser events, so that limits hold before much memory is used, and repeated keys,
/// tags and aliases, which yaml-cpp's own tree hides, are seen.
class DeckBuilder final : public YAML::EventHandler {
 public:
  explicit DeckBuilder(const std::string& file) : file_(file), root_{.position = {file, 1, 1}} {}

  DeckNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (begun_)
      throw DeckError(position_of(mark, file_), "",
                      "a second YAML document begins (a deck is one document); remove the '---', or the text that "
                      "does not belong here");
    begun_ = true;
    root_.position = position_of(mark, file_);
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    begin(mark, "?");
    end(anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (expects_key()) return key(mark, tag, value);
    DeckNode& node = begin(mark, tag);
    node.kind = DeckNode::Kind::scalar;
    node.text = value;
    node.quoted = tag == "!";
    end(anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const DeckPosition where = position_of(mark, file_);
    refuse_as_key(where);
    const auto named = anchors_.find(anchor);
    if (named == anchors_.end())
      throw DeckError(where, next_path(),
                      "an alias of a value that contains it (it would never end); write the value itself");
    const Extent extent = extent_of(named->second);
    count(where, extent.nodes);
    if (open_.size() + extent.depth > max_depth) throw too_deep(where);
    DeckNode copy = named->second;
    repath(copy, next_path());
    place() = std::move(copy);
    value_done();
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(begin(mark, tag), DeckNode::Kind::sequence, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(begin(mark, tag), DeckNode::Kind::mapping, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    DeckNode* node;  // stays valid: its parent's vector grows only after this node is closed
    YAML::anchor_t anchor;
    bool has_key = false;  // for a mapping: a key was read, its value comes next
    std::unordered_map<std::string, DeckPosition> keys;
  };

  bool expects_key() const {
    return !open_.empty() && open_.back().node->kind == DeckNode::Kind::mapping && !open_.back().has_key;
  }
  void refuse_as_key(const DeckPosition& where) const {
    if (expects_key()) throw NotAKey(where, open_.back().node->path, "a key is not plain text; write key: value");
  }

  void key(const YAML::Mark& mark, const std::string& tag, const std::string& name) {
    const DeckPosition where = position_of(mark, file_);
    DeckNode& mapping = *open_.back().node;
    const std::string path = child_path(mapping.path, name);
    refuse_tag(tag, where, path);
    const auto [same, is_new] = open_.back().keys.emplace(name, where);
    if (!is_new)
      throw DeckError(where, path,
                      fmt::format("repeated key (first given at line {}, column {}); keep one of them",
                                  same->second.line, same->second.column));
    mapping.entries.push_back({name, where, {}});
    open_.back().has_key = true;
  }

  /// Creates the next node at its place in the tree.
  DeckNode& begin(const YAML::Mark& mark, const std::string& tag) {
    const DeckPosition where = position_of(mark, file_);
    refuse_as_key(where);
    if (open_.size() > max_depth) throw too_deep(where);
    count(where, 1);
    const std::string path = next_path();
    refuse_tag(tag, where, path);
    DeckNode& node = place();
    node.position = where;
    node.path = path;
    return node;
  }
  void end(YAML::anchor_t anchor) {
    keep(anchor, last());
    value_done();
  }

  void open(DeckNode& node, DeckNode::Kind kind, YAML::anchor_t anchor) {
    node.kind = kind;
    open_.push_back({.node = &node, .anchor = anchor});
  }
  void close() {
    const Open done = std::move(open_.back());
    open_.pop_back();
    keep(done.anchor, *done.node);
    value_done();
  }
  void keep(YAML::anchor_t anchor, const DeckNode& node) {
    if (anchor == YAML::NullAnchor) return;
    // Each anchor keeps a copy, and anchors within each other multiply memory.
    count(node.position, extent_of(node).nodes);
    anchors_[anchor] = node;
  }
  void value_done() {
    if (!open_.empty()) open_.back().has_key = false;
  }

  std::string next_path() const {
    if (open_.empty()) return "";
    const DeckNode& around = *open_.back().node;
    return child_path(around.path, around.kind == DeckNode::Kind::mapping ? around.entries.back().key
                                                                          : std::to_string(around.items.size()));
  }
  DeckNode& place() {
    if (open_.empty()) return root_;
    DeckNode& around = *open_.back().node;
    return around.kind == DeckNode::Kind::mapping ? around.entries.back().value : around.items.emplace_back();
  }
  const DeckNode& last() const {
    if (open_.empty()) return root_;
    const DeckNode& around = *open_.back().node;
    return around.kind == DeckNode::Kind::mapping ? around.entries.back().value : around.items.back();
  }

  void count(const DeckPosition& where, std::size_t nodes) {
    nodes_ += nodes;
    if (nodes_ > max_nodes)
      throw DeckError(
          where, "",
          fmt::format("more than {} values (an alias counts each time it is used); write a smaller deck", max_nodes));
  }
  /// yaml-cpp reports "?" for values without a tag and "!" for quoted text.
  static void refuse_tag(const std::string& tag, const DeckPosition& where, const std::string& path) {
    if (!tag.empty() && tag != "?" && tag != "!")
      throw DeckError(where, path, fmt::format("has the tag '{}' (tags mean nothing in a deck); remove it", tag));
  }

  const std::string& file_;
  DeckNode root_;
  bool begun_ = false;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, DeckNode> anchors_;  // only complete nodes: an open one cannot be copied
  std::size_t nodes_ = 0;
};

/// Ignores all events: checks only that the text is YAML.
class SyntaxOnly final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

void parse(const std::string& text, YAML::EventHandler& handler) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  // YAML::LoadAll is not used: it does not end if a stray comma begins a document that never advances.
  if (parser.HandleNextDocument(handler)) parser.HandleNextDocument(handler);
}

}  // namespace

std::string child_path(const std::string& parent, const std::string& key) {
  return parent.empty() ? key : parent + "." + key;
}

void repath(DeckNode& node, const std::string& path) {
  node.path = path;
  for (std::size_t i = 0; i < node.items.size(); ++i) repath(node.items[i], child_path(path, std::to_string(i)));
  for (auto& entry : node.entries) repath(entry.value, child_path(path, entry.key));
}

DeckNode build_deck(const std::string& text, const std::string& file) {
  try {
    DeckBuilder builder(file);
    try {
      parse(text, builder);
    } catch (const NotAKey&) {
      // yaml-cpp invents such keys in broken YAML before it reports the syntax error, which says more.
      SyntaxOnly syntax;
      parse(text, syntax);
      throw;
    }
    return builder.take();
  } catch (const YAML::DeepRecursion& error) {  // yaml-cpp recurses deeply here without sending events
    throw too_deep(position_of(error.mark, file));
  } catch (const YAML::Exception& error) {
    throw DeckError(
        position_of(error.mark, file), "",
        fmt::format("not valid YAML ({}); look here and in the line before for a colon without a space after "
                    "it, an open bracket, unequal indentation, or text that needs quotation marks",
                    error.msg));
  }
}

}  // namespace lockstep
