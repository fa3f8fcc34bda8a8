// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/run_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "io/replace_file.hpp"
#include "train/summary.hpp"

namespace lockstep {
namespace fs = std::filesystem;

namespace {

/// What a run keeps beside its checkpoints.
constexpr const char* files[] = {"metrics.csv", "summary.json", "deck.yaml"};

/// Large checkpoints take their time.
void sign_of_life() { heartbeat().beat(); }

}  // namespace

std::optional<RunFolder::Found> RunFolder::newest_checkpoint(const std::string& but) const {
  auto candidates = list_checkpoints(checkpoints());
  if (const auto last = std::ranges::find(candidates, checkpoints() / but); last != candidates.end())
    std::rotate(candidates.begin(), last, last + 1);  // to where it is tried last
  bool all_damaged = true;
  for (auto candidate = candidates.rbegin(); candidate != candidates.rend(); ++candidate) {
    try {
      return Found{candidate->string(), read_checkpoint(*candidate, sign_of_life)};
    } catch (const Error& error) {
      warn("{}{}", error.what(), candidate + 1 == candidates.rend() ? "" : "; the one before it is tried");
      all_damaged = all_damaged && error.status() == ExitStatus::bad_data;
    }
  }
  validate(
      candidates.empty() || !all_damaged, ExitStatus::bad_data,
      "{}: none of its {} checkpoints can be read; remove them, or start anew with run.resume=never run.overwrite=true",
      checkpoints().string(), candidates.size());
  validate(candidates.empty(), ExitStatus::io_error,
           "{}: none of its {} checkpoints can be read now; look at the file system, and start again",
           checkpoints().string(), candidates.size());
  return std::nullopt;
}

std::optional<Checkpoint> RunFolder::find_checkpoint() {
  resumed_from_.clear();
  std::optional<Found> found;
  if (options_.resume == "auto") found = newest_checkpoint();
  else if (options_.resume != "never") found = Found{options_.resume, read_checkpoint(options_.resume, sign_of_life)};
  if (!found) return std::nullopt;
  resumed_from_ = found->file;
  return std::move(found->checkpoint);
}

bool RunFolder::goes_on() const {
  if (resumed_from_.empty()) return false;
  // Either may be a link: `latest`, or a checkpoint that lies elsewhere.
  const fs::path file = fs::absolute(resumed_from_), folder = fs::weakly_canonical(checkpoints());
  return fs::weakly_canonical(file.parent_path()) == folder || fs::weakly_canonical(file).parent_path() == folder;
}

bool RunFolder::has_ended() const {
  std::ifstream file(summary());
  if (!goes_on() || !file) return false;
  const auto json = nlohmann::json::parse(file, nullptr, false);
  return json.is_object() && json.value("status", stopped_status) != stopped_status;
}

bool RunFolder::holds_a_run() const {
  return fs::exists(metrics()) || fs::exists(summary()) || !list_checkpoints(checkpoints()).empty();
}

void RunFolder::remove_run() const {
  for (const auto& checkpoint : list_checkpoints(checkpoints())) fs::remove(checkpoint);
  fs::remove(checkpoints() / latest_name);
  for (const char* name : files) fs::remove(path_ / name);
}

void RunFolder::remove_leftovers() const {
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(path_))
    if (const auto of = ReplaceFile::left_of(entry.path().filename().string()); of && std::ranges::count(files, *of))
      left.push_back(entry.path());
  for (const fs::path& path : left) fs::remove(path);
  fs::remove_all(waiting());
  prune_checkpoints(checkpoints(), 0);
}

void RunFolder::prepare(std::int64_t step) {
  try {
    if (!goes_on() && holds_a_run()) {
      validate(options_.overwrite || options_.resume == "auto", ExitStatus::cannot_create,
               "{}: holds an earlier run, which is not overwritten; choose another run.output_dir, go on with "
               "run.resume=auto, or give run.overwrite=true",
               path_.string());
      remove_run();
    }
    fs::create_directories(checkpoints());
    remove_leftovers();
    if (goes_on()) {
      set_aside_checkpoints_after(checkpoints(), step);
      if (fs::exists(checkpoints() / checkpoint_name(step))) point_latest(checkpoints(), checkpoint_name(step));
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitStatus::cannot_create,
                fmt::format("{}: the output folder cannot be created or changed ({}); choose another run.output_dir",
                            path_.string(), error.code().message()));
  }
}

void RunFolder::remove_summary() const {
  std::error_code ignored;
  fs::remove(summary(), ignored);
}

void RunFolder::write_text(const std::string& name, const std::string& text) const {
  const fs::path path = path_ / name;
  ReplaceFile replacement(path);
  std::ofstream out(replacement.temporary(), std::ios::binary);
  out << text;
  out.close();
  validate(out.good(), ExitStatus::io_error, "{}: cannot be written ({}); check the disk", path.string(),
           std::strerror(errno));
  replacement.commit();
}

}  // namespace lockstep
