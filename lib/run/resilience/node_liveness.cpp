// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/resilience/node_liveness.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "comm/topology.hpp"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// Less than the time after which a watchdog takes another one for stopped, because this one waits for the answer.
constexpr auto answers_within = std::chrono::seconds(1);

fs::path mark(const fs::path& folder, int first_of_node) { return folder / std::to_string(first_of_node); }

/// Returns a number that differs between folders of the same path on nodes that share no file system; 0: there is no
/// folder. The folder is opened, so that network file systems do not answer from a cache.
std::int64_t identity(const fs::path& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return 0;
  struct stat status{};
  const bool known = ::fstat(file, &status) == 0;
  ::close(file);
  if (!known) return 0;
  return static_cast<std::int64_t>(status.st_ino) ^ (status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec);
}

/// Does `work` in a thread that nobody waits for. Returns whether a thread could be had.
template <class Work>
bool start_apart(Work work) {
  try {
    std::thread(std::move(work)).detach();
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

}  // namespace

/// Whether this node's file is to be there. Threads bring that about one after the other, however late they come.
struct NodeLiveness::WaitMark {
  std::mutex one_at_a_time;
  std::atomic<bool> waits{false};
};

std::optional<NodeLiveness> NodeLiveness::make(const Communicator& ranks, int number, int first_of_node,
                                               const fs::path& folder) {
  const fs::path absolute = fs::absolute(folder);
  const std::vector<std::int64_t> seen = ranks.all_gather(identity(absolute.parent_path())),
                                  firsts = ranks.all_gather(first_of_node), numbers = ranks.all_gather(number);
  const std::vector<std::string> hosts = host_names(ranks);
  if (seen[0] == 0 || std::ranges::count(seen, seen[0]) != std::ssize(seen)) return std::nullopt;

  NodeLiveness liveness;
  liveness.first_ = first_of_node;
  liveness.folder_ = absolute;
  liveness.wait_mark_ = std::make_shared<WaitMark>();
  for (std::size_t rank = 0; rank < firsts.size(); ++rank) {
    Node& node = liveness.nodes_[static_cast<int>(firsts[rank])];
    node.host = hosts[rank];
    node.ranks.push_back(static_cast<int>(numbers[rank]));
  }
  return liveness;
}

void NodeLiveness::waits(bool waits) {
  if (waits == wait_mark_->waits.exchange(waits)) return;
  const bool started = start_apart([state = wait_mark_, folder = folder_, file = mark(folder_, first_)] {
    const std::lock_guard lock(state->one_at_a_time);
    std::error_code ignored;  // `ask` looks what is there
    if (!state->waits) {
      fs::remove(file, ignored);
      return;
    }
    fs::create_directory(folder, ignored);
    std::ofstream{file};
  });
  if (!started) wait_mark_->waits = !waits;  // the next call tries again
}

std::optional<NodeLiveness::Answer> NodeLiveness::ask(bool in_any_case) const {
  using Found = std::optional<Answer>;
  std::packaged_task<Found()> task([=, nodes = nodes_, folder = folder_, first = first_]() -> Found {
    std::error_code error;
    std::set<std::string> marks;  // of all nodes at once: a question for each may take a file server too long
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
      marks.insert(entry->path().filename());
    const auto waits_at = [&](int node) { return marks.contains(mark(folder, node).filename()); };
    if (error || !waits_at(first)) return std::nullopt;  // nor would other nodes' files be there
    Answer answer{.speaks = true, .silent = {}};
    for (const auto& [other, node] : nodes) {
      const bool waits = waits_at(other);
      if (!waits) answer.silent.push_back(node);
      if (!waits || other >= first) continue;
      answer.speaks = false;
      if (!in_any_case) break;
    }
    return answer;
  });
  std::future<Found> answer = task.get_future();
  if (!start_apart(std::move(task)) || answer.wait_for(answers_within) != std::future_status::ready)
    return std::nullopt;
  return answer.get();
}

}  // namespace lockstep
