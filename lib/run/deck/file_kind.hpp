// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "config/deck.hpp"

namespace lockstep {

/// The kinds of YAML files that Lockstep reads.
enum class FileKind { deck, study, machine };

/// Throws DeckError if `file` lacks the keys of kind `wanted` and has those of another kind: one message says what the
/// file is and what reads it, instead of one message for each unknown key.
void require_kind(const DeckNode& file, FileKind wanted);

}  // namespace lockstep
