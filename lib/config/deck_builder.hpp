// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "config/deck.hpp"

namespace lockstep {

/// Builds the tree of one YAML document; null if the text is empty. Throws DeckError for broken YAML, repeated keys,
/// tags, a second document, and documents beyond the limits on size, depth and aliases (alias bombs).
DeckNode build_deck(const std::string& text, const std::string& file);

/// Joins "batch" and "global" to "batch.global".
std::string child_path(const std::string& parent, const std::string& key);

/// Sets the path of a node to `path`, and the paths of all nodes below it accordingly.
void repath(DeckNode& node, const std::string& path);

}  // namespace lockstep
