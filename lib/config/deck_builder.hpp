// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "config/deck.hpp"

namespace lockstep {

/// The tree of one YAML document; null where the text has none. Throws DeckError for broken YAML, repeated keys, tags,
/// documents that are larger, deeper or more aliased than any deck (alias bombs), and a second document.
DeckNode build_deck(const std::string& text, const std::string& file);

/// "batch.global" of "batch" and "global".
std::string child_path(const std::string& parent, const std::string& key);

/// Gives a node, and all below it, the paths that they have where it now stands.
void repath(DeckNode& node, const std::string& path);

}  // namespace lockstep
