// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// `lockstep import text`: every character (Unicode code point) of a UTF-8 file becomes a token.
struct ImportTextOptions {
  std::string file;
  std::string output;
  double validation = 0;  ///< the last fraction of the characters, in [0, 1)
  bool overwrite = false;
};

/// Writes /train/tokens, /validation/tokens and /vocabulary, a text: token t is its character t,
/// in order of code points. Returns a line that says what was written.
std::string import_text(const ImportTextOptions& options);

/// The code points of UTF-8 text (RFC 3629). Throws bad_data at the first byte that is none;
/// `name` is for the message.
std::vector<std::uint32_t> decode_utf8(std::string_view text, const std::string& name);
std::string encode_utf8(const std::vector<std::uint32_t>& code_points);

}  // namespace lockstep
