// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "monitor/metrics_file.hpp"

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/replace_file.hpp"

namespace lockstep {
namespace {

constexpr std::string_view header =
    "step,epoch,split,loss,accuracy,learning_rate,loss_scale,grad_norm,examples_per_s,step_ms,noise_scale,reduce_exposed_ms\n";

std::string field(const std::optional<double>& value) { return value ? fmt::format("{:.9g}", *value) : ""; }

/// The header and the first `rows` rows that are there.
std::string keep_rows(const std::filesystem::path& path, std::int64_t rows) {
  std::ifstream in(path);
  std::string kept, line;
  std::getline(in, line);
  std::int64_t found = 0;
  for (; found < rows && std::getline(in, line) && !in.eof(); ++found) kept += line + "\n";
  if (found < rows)
    warn("{}: has {} of the {} rows that were there at the checkpoint; the curve has a gap", path.string(), found,
         rows);
  return std::string(header) + kept;
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path, std::int64_t rows) {
  const std::string kept = rows > 0 ? keep_rows(path, rows) : std::string(header);
  rows_ = std::ranges::count(kept, '\n') - 1;  // the header
  ReplaceFile replacement(path);
  RawFile(replacement.temporary(), RawFile::Access::change).write(0, kept.data(), kept.size());
  replacement.commit();
  file_.emplace(path, RawFile::Access::change);
  bytes_ = kept.size();
}

void MetricsFile::write(const MetricsRow& row) {
  const std::lock_guard lock(mutex_);
  waiting_ += fmt::format("{},{},{},{:.9g},{},{},{},{},{},{},{},{}\n", row.step, row.epoch, row.split, row.loss,
                          field(row.accuracy), field(row.learning_rate), field(row.loss_scale), field(row.grad_norm),
                          field(row.examples_per_s), field(row.step_ms), field(row.noise_scale),
                          field(row.reduce_exposed_ms));
  ++rows_;
  try {
    write_waiting();
  } catch (const Error& error) {
    if (!std::exchange(fails_, true))
      warn("{}; the run goes on, and the rows are kept until they can be written", error.what());
  }
}

void MetricsFile::write_waiting() {
  file_->write(bytes_, waiting_.data(), waiting_.size());
  bytes_ += waiting_.size();
  waiting_.clear();
  fails_ = false;
}

void MetricsFile::flush_to_disk() {
  {
    const std::lock_guard lock(mutex_);
    write_waiting();
  }
  file_->flush_to_disk();  // while the next row may be written
}

}  // namespace lockstep
