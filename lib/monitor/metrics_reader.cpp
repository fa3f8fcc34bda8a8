// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "monitor/metrics_reader.hpp"

#include <algorithm>

namespace lockstep {

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line)
    if (c == ',') cells.emplace_back();
    else cells.back() += c;
  return cells;
}

MetricsReader::MetricsReader(const std::filesystem::path& file) : in_(file) {
  if (std::getline(in_, line_)) columns_ = cells_of(line_);
}

bool MetricsReader::next() {
  if (!std::getline(in_, line_) || in_.eof()) return false;
  cells_ = cells_of(line_);
  ++line_number_;
  return true;
}

const std::string& MetricsReader::cell(std::string_view column) const {
  static const std::string empty;
  const auto place = static_cast<std::size_t>(std::ranges::find(columns_, column) - columns_.begin());
  return place < std::min(columns_.size(), cells_.size()) ? cells_[place] : empty;
}

}  // namespace lockstep
