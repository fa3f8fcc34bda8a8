// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/folder/run_lock.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/duration.hpp"
#include "base/error.hpp"
#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "io/output_file.hpp"
#include "run/resilience/signals.hpp"

namespace lockstep {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr auto refreshed_every = std::chrono::seconds(10);
constexpr double stale_after = 60;  // seconds

/// Identifies the machine and its current boot.
std::string boot() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

std::string job() {
  for (const auto& [variable, scheduler] : {std::pair("SLURM_JOB_ID", "Slurm job"),
                                            {"PBS_JOBID", "PBS job"},
                                            {"FLUX_JOB_ID", "Flux job"},
                                            {"LSB_JOBID", "LSF job"}})
    if (const char* number = std::getenv(variable)) return fmt::format("{} {}", scheduler, number);
  return "";
}

std::string claim_of_this_process() {
  const Json claim = {{"lockstep", "lock"},
                      {"host", host_name()},
                      {"process", ::getpid()},
                      {"job", job()},
                      {"since", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
                      {"boot", boot()},
                      {"namespace", process_namespace()},
                      {"birth", process_field(::getpid(), 22)}};
  return claim.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// A lock file that was found.
struct Holder {
  std::string text;
  Json claim = Json::object();
  timespec changed{};  ///< time of its last change, by the file system's clock

  bool is_ours() const { return claim.contains("lockstep") && claim["lockstep"] == "lock"; }
  std::string name() const {
    const std::string of_job = claim.value("job", "");
    return fmt::format("process {} on {}{}, since {}", claim.value("process", std::int64_t{0}),
                       claim.value("host", "?"), of_job.empty() ? "" : fmt::format(" ({})", of_job),
                       claim.value("since", "?"));
  }
  bool is_unchanged(const Holder& later) const {
    return text == later.text && changed.tv_sec == later.changed.tv_sec && changed.tv_nsec == later.changed.tv_nsec;
  }
  enum class Life { alive, ended, unknown };
  Life life() const {
    const auto process = claim.value("process", std::int64_t{0});
    if (claim.value("boot", "") != boot() || process_namespace() == 0 || process <= 0 ||
        claim.value("namespace", std::uint64_t{0}) != process_namespace())
      return Life::unknown;
    // The process number may have been given to another process since.
    const bool same = !process_has_ended(process) && process_field(process, 22) == claim.value("birth", "");
    return same ? Life::alive : Life::ended;
  }
};

/// Returns the lock's holder; none if there is no lock. Throws cannot_create if the file cannot be read.
std::optional<Holder> holder_of(const fs::path& lock, const RunLock::Owner& owner) {
  Holder holder;
  struct stat status{};
  // The file is opened, so that network file systems do not answer from a cache.
  const int file = ::open(lock.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  bool good = file >= 0 && ::fstat(file, &status) == 0;
  char part[1024];
  for (ssize_t size = 1; good && size > 0; holder.text.append(part, static_cast<std::size_t>(size))) {
    do size = ::read(file, part, sizeof part);
    while (size < 0 && errno == EINTR);
    good = size >= 0;
    size = std::max<ssize_t>(size, 0);
  }
  const int error = good ? 0 : errno;
  if (file >= 0) ::close(file);
  if (error == ENOENT || error == ESTALE) return std::nullopt;
  validate(good, ExitStatus::cannot_create,
           "{0}: cannot be read ({1}), so another {2} may be writing here; choose another {3}, or remove the file if "
           "no {2} is",
           lock.string(), std::strerror(error), owner.name, owner.folder_key);
  holder.changed = status.st_mtim;
  if (Json claim = Json::parse(holder.text, nullptr, false); claim.is_object()) holder.claim = std::move(claim);
  return holder;
}

/// Makes the lock with this text, and returns whether there was none.
bool create(const fs::path& lock, const std::string& text, const RunLock::Owner& owner) {
  const int made = ::open(lock.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  const int no_file = errno;
  if (made < 0 && no_file == EEXIST) return false;
  validate(made >= 0, ExitStatus::cannot_create, "{}: cannot be created ({}); choose another {}", lock.string(),
           std::strerror(no_file), owner.folder_key);
  const bool written = ::write(made, text.data(), text.size()) == std::ssize(text);
  const int error = errno;
  ::close(made);
  if (!written) ::unlink(lock.c_str());
  validate(written, ExitStatus::io_error, "{}: cannot be written ({}); check the disk", lock.string(),
           std::strerror(error));
  return true;
}

/// Seconds since the lock's last change, by the file system's clock.
double age_of(const fs::path& lock, const Holder& holder) {
  const ReplaceFile probe(lock);
  std::ofstream(probe.temporary()).close();
  struct stat now{};
  if (::stat(probe.temporary().c_str(), &now) != 0) return 0;
  const auto seconds = [](const timespec& time) {
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  return std::max(0.0, seconds(now.st_mtim) - seconds(holder.changed));
}

/// Returns when nobody can hold the lock any more; throws if somebody does.
void wait_until_stale(const fs::path& lock, const Holder& holder, const RunLock::Owner& owner) {
  const double age = age_of(lock, holder);
  const Timer waiting;
  for (bool said = false; age + waiting.seconds() < stale_after; said = true) {
    const std::optional<Holder> now = holder_of(lock, owner);
    if (!now) return;
    validate(now->life() != Holder::Life::alive && holder.is_unchanged(*now), ExitStatus::cannot_create,
             "{}: another {} is writing here: {} ({}); choose another {} or {}, or wait until it ends",
             lock.parent_path().string(), owner.name, now->name(), RunLock::file_name, owner.folder_key,
             owner.name_key);
    const std::string signal = StopRequest::signal();
    validate(signal.empty(), ExitStatus::stopped_early,
             "{}: {} was received while this {} waited for {}; start it again", lock.string(), signal, owner.name,
             holder.name());
    if (!said)
      log("{}: {} may still be writing here; this {} starts unless that one shows a sign of life within {}",
          lock.string(), holder.name(), owner.name, duration_text(stale_after - age));
    heartbeat().beat();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

/// Puts a lock with this text in the place of that of a holder that has ended, and returns whether it is there. If
/// several processes do so at once, the last one has it; a process that is delayed by more than this waits may take it
/// from another one, which finds out at its next look.
bool take_over(const fs::path& lock, const std::string& text, const Holder& ended, const RunLock::Owner& owner) {
  const ReplaceFile own(lock);
  std::ofstream(own.temporary(), std::ios::binary) << text;
  if (const auto now = holder_of(lock, owner); !now || !ended.is_unchanged(*now)) return false;
  const bool renamed = ::rename(own.temporary().c_str(), lock.c_str()) == 0;
  const int error = errno;
  validate(renamed || error == ENOENT, ExitStatus::cannot_create,
           "{}: belongs to {} that has ended ({}), but cannot be removed ({}); choose another {}, or have its owner "
           "remove it",
           lock.string(), owner.name, ended.name(), std::strerror(error), owner.folder_key);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto now = holder_of(lock, owner);
  return now && now->text == text;
}

}  // namespace

RunLock::RunLock(const fs::path& folder, const Owner& owner)
    : path_(folder / file_name), owner_(owner), claim_(claim_of_this_process()) {
  while (!create(path_, claim_, owner_)) {
    const std::optional<Holder> holder = holder_of(path_, owner_);
    if (!holder) continue;  // released meanwhile
    validate(holder->is_ours() || holder->text.empty(), ExitStatus::cannot_create,
             "{}: is not a lock file of Lockstep, and is not replaced; choose another {}", path_.string(),
             owner_.folder_key);
    if (holder->life() != Holder::Life::ended) wait_until_stale(path_, *holder, owner_);
    if (take_over(path_, claim_, *holder, owner_)) break;
  }
  seen_ = Clock::now();
  thread_ = std::thread([this] { refresh(); });
}

RunLock::~RunLock() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
  try {
    if (const auto holder = holder_of(path_, owner_); holder && holder->text == claim_) ::unlink(path_.c_str());
  } catch (const Error&) {  // then it is not this process's
  }
}

void RunLock::look() {
  const std::lock_guard alone(looking_);
  const auto now = Clock::now();
  try {
    const std::optional<Holder> holder = holder_of(path_, owner_);
    // Without a lock for so long, another run may have come and gone.
    const bool may_have_been_taken = now - seen_.load() >= std::chrono::duration<double>(stale_after);
    if (holder ? holder->text != claim_ : may_have_been_taken) lost_ = true;
    else if (holder) ::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0);
    else if (!create(path_, claim_, owner_)) return;
    if (!lost_) seen_ = now;
  } catch (const Error&) {  // it may be readable, or writable, at the next look
  }
}

void RunLock::refresh() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, refreshed_every, [this] { return done_; })) {
    lock.unlock();
    look();
    lock.lock();
  }
}

void RunLock::require() {
  look();
  require_lately();
}

void RunLock::require_lately() const {
  if (!lost_) return;
  const std::optional<Holder> holder = holder_of(path_, owner_);
  throw Error(
      ExitStatus::cannot_create,
      fmt::format("{0}: {1} has taken over this {3}'s folder, because this {3} had shown no sign of life for {2}; this "
                  "{3} ends here",
                  path_.string(), holder && holder->is_ours() ? holder->name() : fmt::format("another {}", owner_.name),
                  duration_text(stale_after), owner_.name));
}

}  // namespace lockstep
