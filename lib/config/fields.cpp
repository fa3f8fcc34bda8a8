// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "config/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace lockstep {
namespace {

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

}  // namespace

std::string range_text(const Range& range) {
  const std::string low = std::isfinite(range.min)
                              ? fmt::format("{} {}", range.above_min ? "more than" : "at least", range.min)
                              : "";
  const std::string high = std::isfinite(range.max)
                               ? fmt::format("{} {}", range.below_max ? "less than" : "at most", range.max)
                               : "";
  if (low.empty() && high.empty()) return "any";
  return low.empty() || high.empty() ? low + high : low + " and " + high;
}

std::string one_of_words(std::span<const std::string_view> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

std::string nearest(std::string_view given, const std::vector<std::string>& candidates) {
  const std::string word = in_lower_case(given);
  const auto distance = [&](const std::string& candidate) {
    const std::string other = in_lower_case(candidate);
    std::vector<std::size_t> before, above, row(other.size() + 1);
    std::iota(row.begin(), row.end(), 0);
    for (std::size_t i = 1; i <= word.size(); ++i) {
      before = std::exchange(above, row);
      row[0] = i;
      for (std::size_t j = 1; j <= other.size(); ++j) {
        row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (word[i - 1] == other[j - 1] ? 0u : 2u)});
        if (i > 1 && j > 1 && word[i - 1] == other[j - 2] && word[i - 2] == other[j - 1])
          row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    return row.back();
  };
  if (word.size() > 64) return "";
  std::string best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 2) + 1;
  for (const auto& candidate : candidates)
    if (const auto d = distance(candidate); d < least && d < candidate.size()) least = d, best = candidate;
  return best;
}

}  // namespace lockstep
