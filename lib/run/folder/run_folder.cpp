// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/folder/run_folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "base/duration.hpp"
#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "base/text_file.hpp"
#include "io/output_file.hpp"
#include "parallel/asynchronous/push_order.hpp"
#include "run/monitor/summary.hpp"

namespace lockstep {
namespace fs = std::filesystem;

namespace {

constexpr const char* deck_mark = "# Resolved by Lockstep: every key that has a value. It is itself a deck.\n";

/// A file that a run keeps next to its checkpoints, and its first bytes, by which it is recognised as Lockstep's.
struct OwnFile {
  const char* name;
  std::string_view begins;
};
constexpr OwnFile files[] = {{"metrics.csv", "step,epoch,split,loss,accuracy,"},
                             {"summary.json", "{\n  \"status\": "},
                             {"deck.yaml", resolved_deck_begins}};

/// Returns where the file itself is, even if it is a link to another.
fs::path place_of(const fs::path& file) {
  return fs::weakly_canonical(fs::absolute(file).parent_path()) / file.filename();
}

/// Returns the status in a summary; empty if the JSON is no summary.
std::string status_of(const nlohmann::json& summary) {
  const auto status = summary.is_object() ? summary.find("status") : summary.end();
  return status != summary.end() && status->is_string() ? status->get<std::string>() : "";
}

/// Shows that this rank is alive while it reads a large checkpoint.
void sign_of_life() { heartbeat().beat(); }

bool holds_a_run(const RunPaths& paths) {
  return fs::exists(paths.metrics()) || fs::exists(paths.summary()) || !list_checkpoints(paths.checkpoints()).empty();
}

Error cannot_be_changed(const fs::path& folder, const std::string& why) {
  return {ExitStatus::cannot_create,
          fmt::format("{}: the output folder cannot be created or changed ({}); choose another run.output_dir",
                      folder.string(), why)};
}

/// Says that a path is a link that leads nowhere; else `problem`.
std::string problem_with(const fs::path& path, const std::string& problem) {
  std::error_code ignored;
  if (!fs::is_symlink(path, ignored) || fs::exists(path, ignored)) return problem;
  return fmt::format("it is a link to {}, which does not exist", fs::read_symlink(path, ignored).string());
}

/// Makes a folder, and those above it. Returns whether there was none.
bool make_folder(const fs::path& folder) {
  std::error_code code;
  const bool is_new = fs::create_directories(folder, code);
  if (!code) return is_new;
  throw cannot_be_changed(folder, problem_with(folder, code.message()));
}

/// Throws cannot_create if a folder cannot be written or, where there is none, cannot be made, as far as can be seen
/// without doing so.
void require_writable(const fs::path& folder) {
  std::error_code code;
  fs::path nearest = fs::absolute(folder);  // the nearest folder that exists, or link that leads nowhere
  while (!fs::exists(fs::symlink_status(nearest, code)) && nearest.has_relative_path()) nearest = nearest.parent_path();
  int problem = 0;
  if (!fs::is_directory(nearest, code)) problem = ENOTDIR;
  else if (::access(nearest.c_str(), W_OK | X_OK) != 0) problem = errno;
  if (problem != 0) throw cannot_be_changed(folder, problem_with(nearest, std::strerror(problem)));
}

/// Throws cannot_create if the folder has files that this run must not replace or remove. Checked for a run that goes
/// on as well: somebody may have replaced what it wrote.
void refuse_foreign_files(const RunPaths& paths, const std::string& input_deck, const std::string& deck) {
  for (const OwnFile& file : files) {
    const fs::path path = paths.path() / file.name;
    if (!fs::exists(fs::symlink_status(path))) continue;
    const int error = fs::is_regular_file(path) && ::access(path.c_str(), R_OK) != 0 ? errno : 0;
    validate(error == 0, ExitStatus::io_error,
             "{}: cannot be read ({}), so it is not known whether it is this run's; check its permissions",
             path.string(), std::strerror(error));
    validate(
        fs::is_regular_file(path) && file_begins_with(path, file.begins), ExitStatus::cannot_create,
        "{}: was not written by Lockstep, and is not replaced; choose another run.output_dir, or move that file away",
        path.string());
  }
  const fs::path own_deck = paths.path() / "deck.yaml";
  std::error_code ignored;
  validate(
      !fs::equivalent(own_deck, input_deck, ignored) || text_if_readable(own_deck) == deck, ExitStatus::cannot_create,
      "{}: is the deck that this run was started with, and would be replaced by the resolved one (with the command "
      "line's overrides); start from a copy of it, or choose another run.output_dir",
      own_deck.string());
  validate(
      !fs::exists(paths.stop_file()) ||
          (fs::is_regular_file(paths.stop_file()) && fs::file_size(paths.stop_file()) <= 1),
      ExitStatus::cannot_create,
      "{}: an empty file of this name asks a run to stop, but this one is not empty; choose another run.output_dir, or move "
      "it away",
      paths.stop_file().string());
}

void refuse_earlier_run(const RunPaths& paths, const RunOptions& options) {
  if (options.overwrite || !holds_a_run(paths)) return;
  validate(options.resume == "auto", ExitStatus::cannot_create,
           "{}: holds an earlier run, which is not overwritten; choose another run.output_dir, continue with "
           "run.resume=auto, or give run.overwrite=true",
           paths.path().string());
  const auto json = nlohmann::json::parse(text_if_readable(paths.summary()), nullptr, false);
  const std::string status = status_of(json);
  validate(status.empty() || status == failed_status, ExitStatus::cannot_create,
           "{}: holds a run that has ended ({}), whose checkpoints are gone (its results are not overwritten); choose "
           "another run.output_dir, or give run.overwrite=true",
           paths.path().string(), status);
}

/// Throws cannot_create if a run that begins would replace the record of the order of gradients of another run, unless
/// that is the run that is here already.
void refuse_other_record(const RunPaths& paths, const std::string& record) {
  if (record.empty() || !fs::exists(record)) return;
  const auto is_of_run_here = [&] {
    const fs::path deck = paths.path() / "deck.yaml";
    try {
      return place_of(read_run_config(parse_deck(text_if_readable(deck), deck.string())).parallel.record()) ==
             place_of(record);
    } catch (const Error&) {  // there is no deck, or it is of another version
      return false;
    }
  };
  validate(is_of_run_here(), ExitStatus::cannot_create,
           "{}: holds the order of gradients of another run, which is not overwritten; record to another file, or give "
           "run.overwrite=true",
           record);
}

/// Logs that an earlier run has ended before its first checkpoint, if one has.
void say_what_is_lost(const RunPaths& paths) {
  if (fs::exists(paths.summary()) || !list_checkpoints(paths.checkpoints()).empty()) return;
  std::istringstream curves(text_if_readable(paths.metrics()));
  std::string row, last;
  while (std::getline(curves, row))
    if (!row.empty()) last = row;
  const std::string step = last.substr(0, last.find(','));
  if (number_of(step))
    log("{}: an earlier run reached step {} without a checkpoint; this one starts from scratch", paths.path().string(),
        step);
  else if (fs::exists(paths.metrics()))
    log("{}: an earlier run ended before its first row, without a checkpoint; this one starts from scratch",
        paths.path().string());
}

std::vector<fs::path> files_of_run(const RunPaths& paths) {
  std::vector<fs::path> found = list_checkpoints(paths.checkpoints());
  for (const char* link : {latest_name, best_name})
    if (fs::is_symlink(paths.checkpoints() / link)) found.push_back(paths.checkpoints() / link);
  for (const OwnFile& file : files) found.push_back(paths.path() / file.name);
  return found;
}

/// Throws cannot_create if `key` of the deck begins the run with a file of the earlier run, which would be removed.
void refuse_own_start(const RunPaths& paths, const char* key, const std::string& start, const DeckNode& input_deck) {
  // The checkpoint of run.resume needs no check: if it were here, this would be the same run.
  if (!fs::exists(start)) return;
  const fs::path place = place_of(start), target = fs::canonical(start);
  for (const fs::path& file : files_of_run(paths)) {
    if (const fs::path removed = place_of(file); removed != place && removed != target) continue;
    const KeyError error(key, fmt::format("{} belongs to the earlier run in {}, which run.overwrite would remove, "
                                          "but this run starts from it; choose another run.output_dir, or copy the "
                                          "file to another folder",
                                          start, paths.path().string()));
    throw Error(ExitStatus::cannot_create, located(input_deck, error).what());
  }
}

/// Removes temporary files that killed processes have left.
void remove_leftovers(const RunPaths& paths) {
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(paths.path())) {
    const auto of = ReplaceFile::left_of(entry.path().filename().string());
    const auto is_ours = [&](const OwnFile& file) { return of == file.name; };
    if (std::ranges::any_of(files, is_ours) || of == RunLock::file_name) left.push_back(entry.path());
  }
  std::error_code ignored;
  for (fs::directory_iterator mark(paths.waiting(), ignored), end; !ignored && mark != end; mark.increment(ignored)) {
    const std::string name = mark->path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos && fs::is_empty(mark->path(), ignored))
      left.push_back(mark->path());
  }
  for (const fs::path& path : left) fs::remove(path, ignored);  // it may be another user's, and does no harm
  fs::remove(paths.waiting(), ignored);                         // only if it is empty
  prune_checkpoints(paths.checkpoints(), 0);
}

}  // namespace

std::optional<RunFolder::Found> RunFolder::newest_checkpoint(const std::string& but) const {
  auto candidates = list_checkpoints(checkpoints());
  if (const auto last = std::ranges::find(candidates, checkpoints() / but); last != candidates.end())
    std::rotate(candidates.begin(), last, last + 1);  // so that it is tried last
  bool all_damaged = true;
  for (auto candidate = candidates.rbegin(); candidate != candidates.rend(); ++candidate) {
    try {
      return Found{candidate->string(), open_checkpoint(*candidate, sign_of_life)};
    } catch (const Error& error) {
      warn("{}{}", error.what(), candidate + 1 == candidates.rend() ? "" : "; the previous checkpoint is tried");
      all_damaged = all_damaged && error.status() == ExitStatus::bad_data;
    }
  }
  validate(candidates.empty() || !all_damaged, ExitStatus::bad_data,
           "{}: none of its {} checkpoints can be read; remove them, or start from scratch with run.resume=never "
           "run.overwrite=true",
           checkpoints().string(), candidates.size());
  validate(candidates.empty(), ExitStatus::io_error,
           "{}: none of its {} checkpoints can be read now; check the file system, and start again",
           checkpoints().string(), candidates.size());
  return std::nullopt;
}

std::optional<Checkpoint> RunFolder::find_checkpoint() {
  resumed_from_.clear();
  std::optional<Found> found;
  if (options_.resume == "auto") found = newest_checkpoint();
  else if (options_.resume != "never") found = Found{options_.resume, open_checkpoint(options_.resume, sign_of_life)};
  if (!found) return std::nullopt;
  resumed_from_ = found->file;
  return std::move(found->checkpoint);
}

bool RunFolder::continues_own_run() const {
  if (resumed_from_.empty()) return false;
  // The file may be a link here (`latest`, or one to a checkpoint elsewhere), or a link elsewhere to a checkpoint here.
  const fs::path file = fs::absolute(resumed_from_), folder = fs::weakly_canonical(checkpoints());
  return fs::weakly_canonical(file.parent_path()) == folder || fs::weakly_canonical(file).parent_path() == folder;
}

bool RunFolder::has_ended() const {
  std::ifstream file(summary());
  if (!continues_own_run() || !file) return false;
  const auto json = nlohmann::json::parse(file, nullptr, false);
  const std::string status = status_of(json);
  return !status.empty() && status != stopped_status && status != failed_status;
}

void RunFolder::claim() {
  made_ = make_folder(path());
  if (::access(path().c_str(), W_OK | X_OK) == 0) lock_ = std::make_unique<RunLock>(path());
}

void RunFolder::continue_attempt() {
  options_.overwrite = true;
  if (options_.resume == "never" || !list_checkpoints(checkpoints()).empty()) options_.resume = "auto";
}

RunFolder::~RunFolder() {
  lock_.reset();
  std::error_code ignored;
  if (made_) fs::remove(path(), ignored);  // only if it is empty
}

void RunFolder::check(std::int64_t step, const std::string& resolved) const {
  try {
    require_writable(path());
    require_writable(checkpoints());
    refuse_foreign_files(*this, input_deck_.position.file, deck_mark + resolved);
    if (!record_.empty()) refuse_other_file(record_);
    if (continues_own_run()) return;
    refuse_earlier_run(*this, options_);
    if (step == 0 && !options_.overwrite) refuse_other_record(*this, record_);
    refuse_own_start(*this, "model.weights.file", weights_, input_deck_);
    refuse_own_start(*this, "run.branch_from", options_.branch_from, input_deck_);
  } catch (const fs::filesystem_error& error) {
    throw cannot_be_changed(path(), error.code().message());
  }
}

void RunFolder::prepare(std::int64_t step, const std::string& resolved) {
  check(step, resolved);
  const std::string deck = deck_mark + resolved;
  try {
    if (!continues_own_run()) {
      if (options_.resume == "auto") say_what_is_lost(*this);
      for (const fs::path& file : files_of_run(*this)) fs::remove(file);
    }
    make_folder(checkpoints());
    remove_leftovers(*this);
    if (continues_own_run()) {
      quarantine_checkpoints_after(checkpoints(), step);
      if (fs::exists(checkpoints() / checkpoint_name(step)))
        point_link(checkpoints(), latest_name, checkpoint_name(step));
    }
    fs::remove(summary());  // it no longer holds
    if (text_if_readable(path() / "deck.yaml") != deck) write_text("deck.yaml", deck);
  } catch (const fs::filesystem_error& error) {
    throw cannot_be_changed(path(), error.code().message());
  }
}

void RunFolder::write_text(const std::string& name, const std::string& text) const {
  replace_text_file(path() / name, text);
}

}  // namespace lockstep
