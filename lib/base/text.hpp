// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

/// Whether a terminal would obey it rather than print it.
bool is_control(char c);

/// As part of a message, which is one line: control characters are written \x1b, and the middle of long text is left
/// out.
std::string for_message(std::string_view text, std::size_t most);

/// Whether a name is what a pattern stands for, in which * stands for anything and ? for a letter.
bool matches_pattern(const std::string& pattern, const std::string& name);

/// As a cell of CSV: quoted, where it has to be, as RFC 4180 says.
std::string csv_cell(const std::string& text);

/// The first lines in which two texts differ, without blanks at their beginning; "nothing" where a text has ended.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b);

/// "812 B", "1.50 KB", "3.27 GB": powers of 1000.
std::string bytes_text(double bytes);

}  // namespace lockstep
