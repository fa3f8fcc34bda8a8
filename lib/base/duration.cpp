// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/duration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace lockstep {
namespace {

std::optional<double> seconds_of(const std::string& text) {
  constexpr double minute = 60, hour = 60 * minute, day = 24 * hour;
  if (text.find(':') == std::string::npos) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
    const std::size_t unit = std::min(text.find_first_not_of(' ', digits), text.size());
    const std::optional<double> count = number_of(std::string_view(text).substr(0, digits));
    for (const auto& [name, seconds] : {std::pair("s", 1.0), {"min", minute}, {"h", hour}, {"d", day}})
      if (count && text.substr(unit) == name) return *count * seconds;
    return std::nullopt;
  }
  std::string_view left = text;
  // `most`: limit of the next part, one unit of the part before it.
  double seconds = 0, most = std::numeric_limits<double>::infinity();
  if (const std::size_t dash = left.find('-'); dash != std::string_view::npos) {
    const std::optional<double> days = number_of(left.substr(0, dash));
    if (!days) return std::nullopt;
    seconds = *days * day;
    most = day;
    left.remove_prefix(dash + 1);
  }
  for (const double unit : {hour, minute, 1.0}) {
    const std::size_t end = std::min(left.find(':'), left.size());
    const std::optional<double> count = number_of(left.substr(0, end));
    if (!count || (end == left.size()) != (unit == 1.0) || *count * unit >= most) return std::nullopt;
    seconds += *count * unit;
    most = unit;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return seconds;
}

}  // namespace

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || !(value >= 0) || value > 1e12) return std::nullopt;
  return value;
}

std::optional<double> duration_of(const std::string& text) {
  constexpr double longest = 1e9;
  const std::optional<double> seconds = seconds_of(text);
  return seconds && *seconds > 0 && *seconds <= longest ? seconds : std::nullopt;
}

std::string problem_of_duration(const std::string& text) {
  return fmt::format(
      "'{}' is not a valid duration (it must be more than 0 s and at most 10^9 s, with minutes and seconds up to 59 "
      "after hours, and hours up to 23 after days); write \"2:00:00\", \"1-12:00:00\" or \"90 min\"",
      text);
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds > 1e9) return "?";
  const auto s = static_cast<std::int64_t>(std::ceil(seconds));
  if (s >= 3600) return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
  if (s >= 60) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} s", s);
}

std::string milliseconds_text(double seconds, int digits) {
  const double ms = 1e3 * seconds;
  return ms < 999.5 ? fmt::format("{:.{}g}", ms, digits) : fmt::format("{:.0f}", ms);  // 999.5 has 4 digits if rounded
}

}  // namespace lockstep
