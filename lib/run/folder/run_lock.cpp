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
constexpr double stale_after = 60;             // seconds
constexpr const char* stale_mark = ".stale-";  // in the name of a lock that is being removed

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

/// Contents of a lock that was found.
struct Holder {
  std::string text;
  Json claim = Json::object();

  bool is_ours() const { return claim.contains("lockstep") && claim["lockstep"] == "lock"; }
  std::string name() const {
    const std::string of_job = claim.value("job", "");
    return fmt::format("process {} on {}{}, since {}", claim.value("process", std::int64_t{0}),
                       claim.value("host", "?"), of_job.empty() ? "" : fmt::format(" ({})", of_job),
                       claim.value("since", "?"));
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

/// What a look at a lock shows: its holder, or the errno of reading it (ENOENT: nobody holds it).
struct LockStatus {
  std::optional<Holder> holder;
  int error = 0;

  bool is_missing() const { return error == ENOENT || error == ESTALE; }
};

LockStatus look_at(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return {std::nullopt, errno};
  Holder holder;
  char part[1024];
  ssize_t size = 0;
  while ((size = ::read(file, part, sizeof part)) > 0 || (size < 0 && errno == EINTR))
    holder.text.append(part, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  const int error = size < 0 ? errno : 0;
  ::close(file);
  if (error != 0) return {std::nullopt, error};
  if (const Json claim = Json::parse(holder.text, nullptr, false); claim.is_object()) holder.claim = claim;
  return {std::move(holder), 0};
}

std::optional<Holder> holder_of(const fs::path& path) { return look_at(path).holder; }

/// Time of the file's last change by the file system's clock, in seconds; none if there is no file.
std::optional<double> changed_at(const fs::path& path) {
  // The file is opened, so that network file systems do not answer from a cache.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  struct stat status{};
  const bool known = ::fstat(file, &status) == 0;
  ::close(file);
  if (!known) return std::nullopt;
  return static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
}

/// A temporary file with this process's claim.
class Claim {
 public:
  Claim(const fs::path& lock, const std::string& text, const RunLock::Owner& owner) : file_(lock), owner_(owner) {
    std::ofstream out(file_.temporary(), std::ios::binary);
    out << text;
    out.close();
    const int error = errno;
    validate(out.good(), ExitStatus::io_error, "{}: cannot be written ({}); check the disk", lock.string(),
             std::strerror(error));
  }
  /// Tries to make the claim the lock, and returns whether it is now. Atomic; where a file system has no hard links,
  /// the lock is empty for a moment.
  bool becomes(const fs::path& lock) const {
    if (::link(file_.temporary().c_str(), lock.c_str()) == 0) return true;
    if (errno == EEXIST) {
      // A network file system repeats a request whose answer it has lost, and then finds the link that it has made
      // itself.
      struct stat status{};
      return ::stat(file_.temporary().c_str(), &status) == 0 && status.st_nlink == 2;
    }
    const int no_link = errno;
    const bool never_links = no_link == EPERM || no_link == EOPNOTSUPP || no_link == ENOSYS || no_link == EMLINK;
    if (!never_links) cannot_create(lock, std::strerror(no_link));
    const int made = ::open(lock.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (made < 0) {
      const int error = errno;
      if (error != EEXIST) cannot_create(lock, std::strerror(error));
      return false;
    }
    ::close(made);
    std::error_code code;
    fs::copy_file(file_.temporary(), lock, fs::copy_options::overwrite_existing, code);
    if (code) ::unlink(lock.c_str());
    if (code) cannot_create(lock, code.message());
    return true;
  }
  /// The file system's clock, in seconds.
  double now() const {
    ::utimensat(AT_FDCWD, file_.temporary().c_str(), nullptr, 0);
    return changed_at(file_.temporary()).value_or(0);
  }

 private:
  [[noreturn]] void cannot_create(const fs::path& lock, const std::string& why) const {
    throw Error(ExitStatus::cannot_create,
                fmt::format("{}: cannot be created ({}); choose another {}", lock.string(), why, owner_.folder_key));
  }

  ReplaceFile file_;
  RunLock::Owner owner_;
};

[[noreturn]] void refuse(const fs::path& lock, const Holder& holder, const RunLock::Owner& owner) {
  throw Error(ExitStatus::cannot_create,
              fmt::format("{}: another {} is writing here: {} ({}); choose another {} or {}, or wait until it ends",
                          lock.parent_path().string(), owner.name, holder.name(), RunLock::file_name, owner.folder_key,
                          owner.name_key));
}

/// Returns when nobody can hold the lock any more; throws if somebody does. Since a file server's clock may have been
/// changed, the time for which this process has seen no change of the lock counts as well.
void wait_until_stale(const fs::path& lock, const Holder& holder, const Claim& own, const RunLock::Owner& owner) {
  const std::optional<double> first = changed_at(lock);
  const Timer waiting;
  bool said = false;
  while (first) {
    const std::optional<double> last = changed_at(lock);
    const double age = std::max(own.now() - *first, waiting.seconds());
    if (!last || (age >= stale_after && *last == *first)) return;
    const std::string signal = StopRequest::signal();
    validate(signal.empty(), ExitStatus::stopped_early,
             "{}: {} was received while this {} waited for {}; start it again", lock.string(), signal, owner.name,
             holder.name());
    if (*last != *first || holder.life() == Holder::Life::alive) refuse(lock, holder_of(lock).value_or(holder), owner);
    if (!std::exchange(said, true))
      log("{}: {} may still be writing here; this {} starts unless that one shows a sign of life within {}",
          lock.string(), holder.name(), owner.name, duration_text(stale_after - age));
    heartbeat().beat();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

/// Removes a stale lock. Another process may have done so meanwhile, and hold a new one, which stays.
void take_away(const fs::path& lock, const Holder& stale, const RunLock::Owner& owner) {
  const std::optional<Holder> now = holder_of(lock);
  if (!now || now->text != stale.text) return;
  const fs::path aside = lock.string() + fmt::format("{}{}-{}", stale_mark, host_name(), ::getpid());
  if (::rename(lock.c_str(), aside.c_str()) != 0) {
    const int error = errno;
    validate(error == ENOENT || error == ESTALE, ExitStatus::cannot_create,
             "{}: belongs to {} that has ended ({}), but cannot be removed ({}); choose another {}, or have its owner "
             "remove it",
             lock.string(), owner.name, stale.name(), std::strerror(error), owner.folder_key);
    return;
  }
  const std::optional<Holder> taken = holder_of(aside);
  // A new lock was made between the look and the rename: it goes back. (If yet another was made since, its owner
  // notices.)
  if (taken && taken->text != stale.text) {
    if (::link(aside.c_str(), lock.c_str()) != 0 && errno != EEXIST) {
      ::rename(aside.c_str(), lock.c_str());
      return;
    }
  }
  ::unlink(aside.c_str());
}

/// Makes a lock again that is gone, and returns whether it is there. A failure may be temporary; the next look tries
/// again.
bool makes_again(const fs::path& lock, const std::string& claim, const RunLock::Owner& owner) {
  try {
    return Claim(lock, claim, owner).becomes(lock);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

RunLock::RunLock(const fs::path& folder, const Owner& owner)
    : path_(folder / file_name), owner_(owner), claim_(claim_of_this_process()) {
  acquire();
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
  if (const auto holder = holder_of(path_); holder && holder->text == claim_) ::unlink(path_.c_str());
}

bool RunLock::is_leftover(const fs::path& file) {
  const std::string name = file.filename();
  if (ReplaceFile::left_of(name) != file_name && !name.starts_with(std::string(file_name) + stale_mark)) return false;
  // A process that waits for the lock touches its own file every half second.
  const std::optional<double> last = changed_at(file), now = changed_at(file.parent_path() / file_name);
  return last && now && *now - *last >= stale_after;
}

void RunLock::acquire() {
  const Claim own(path_, claim_, owner_);
  constexpr auto moment = std::chrono::milliseconds(50);
  for (bool taken_over = false; !own.becomes(path_); taken_over = true) {
    const LockStatus found = look_at(path_);
    validate(found.holder || found.is_missing(), ExitStatus::cannot_create,
             "{0}: cannot be read ({1}), so another {2} may be writing here; choose another {3}, or remove the file if "
             "no {2} is",
             path_.string(), std::strerror(found.error), owner_.name, owner_.folder_key);
    if (!found.holder) {  // released meanwhile
      std::this_thread::sleep_for(moment);
      continue;
    }
    const Holder& holder = *found.holder;
    validate(holder.is_ours() || holder.text.empty(), ExitStatus::cannot_create,
             "{}: is not a lock file of Lockstep, and is not replaced; choose another {}", path_.string(),
             owner_.folder_key);
    if (holder.life() != Holder::Life::ended) wait_until_stale(path_, holder, own, owner_);
    if (taken_over) std::this_thread::sleep_for(moment);  // other processes try as well
    take_away(path_, holder, owner_);
  }
}

void RunLock::look() {
  const std::lock_guard alone(looking_);
  const LockStatus found = look_at(path_);
  const auto now = Clock::now();
  if (found.holder && found.holder->text == claim_) {
    ::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0);
    seen_ = now;
  } else if (found.holder && !found.holder->text.empty()) {
    lost_ = true;
  } else if (found.is_missing()) {
    // Another run may have come and gone; before that time, no other process could take the lock.
    if (now - seen_.load() >= std::chrono::duration<double>(stale_after)) lost_ = true;
    else if (makes_again(path_, claim_, owner_)) seen_ = now;
  }  // a lock that cannot be read now may be readable at the next look
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
  const std::optional<Holder> holder = holder_of(path_);
  throw Error(
      ExitStatus::cannot_create,
      fmt::format("{0}: {1} has taken over this {3}'s folder, because this {3} had shown no sign of life for {2}; this "
                  "{3} ends here",
                  path_.string(), holder && holder->is_ours() ? holder->name() : fmt::format("another {}", owner_.name),
                  duration_text(stale_after), owner_.name));
}

}  // namespace lockstep
