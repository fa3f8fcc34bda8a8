// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/metrics_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/raw_file.hpp"
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

MetricsFile::MetricsFile(const std::filesystem::path& path, std::int64_t rows)
    : path_(path), file_(nullptr, std::fclose) {
  const std::string kept = rows > 0 ? keep_rows(path, rows) : std::string(header);
  for (const char c : kept) rows_ += c == '\n';
  --rows_;  // the header
  ReplaceFile replacement(path);
  file_.reset(std::fopen(replacement.temporary().c_str(), "wb"));
  validate(file_ != nullptr, ExitStatus::cannot_create, "{}: cannot be created ({}); check the folder's permissions",
           path.string(), std::strerror(errno));
  const bool written = std::fwrite(kept.data(), 1, kept.size(), file_.get()) == kept.size() &&
                       std::fflush(file_.get()) == 0;
  validate(written, ExitStatus::io_error, "{}: cannot be written ({}); check the disk", path.string(),
           std::strerror(errno));
  replacement.commit();
}

void MetricsFile::flush_to_disk() {
  RawFile(path_, RawFile::Access::change).flush_to_disk();  // every row has left this process
}

void MetricsFile::write(const MetricsRow& row) {
  const std::string line = fmt::format("{},{},{},{:.9g},{},{},{},{},{},{},{},{}\n", row.step, row.epoch, row.split,
                                       row.loss, field(row.accuracy), field(row.learning_rate), field(row.loss_scale),
                                       field(row.grad_norm), field(row.examples_per_s), field(row.step_ms),
                                       field(row.noise_scale), field(row.reduce_exposed_ms));
  const bool written = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() &&
                       std::fflush(file_.get()) == 0;
  validate(written, ExitStatus::io_error, "{}: cannot be written ({}); check the disk", path_.string(),
           std::strerror(errno));
  ++rows_;
}

}  // namespace lockstep
