// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

namespace lockstep {

/// `lockstep import text`: every character (Unicode code point) of a UTF-8 file becomes a token.
struct ImportTextOptions {
  std::string file;
  std::string output;
  double validation = 0;  ///< fraction of the characters, from the end, for validation; in [0, 1)
  bool overwrite = false;
  std::string vocabulary = {};  ///< an imported text, or a checkpoint, whose vocabulary is taken; empty: the text's own
};

/// Writes /train/tokens, /validation/tokens and /vocabulary, a text whose character t is token t; they are in order of
/// code points, or those of options.vocabulary. Reads the file twice, in pieces, so that a large one takes no more
/// memory than a small one. Returns a line that says what was written.
std::string import_text(const ImportTextOptions& options);

}  // namespace lockstep
