// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "config/deck.hpp"

namespace lockstep {

/// What Lockstep reads as YAML.
enum class FileKind { deck, study, machine };

/// Throws DeckError where a file that is to be of one kind has the keys of another one: in one line, what it is and
/// what reads it, in the place of one for each key.
void require_kind(const DeckNode& file, FileKind wanted);

}  // namespace lockstep
