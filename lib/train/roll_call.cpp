// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/roll_call.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>
#include <utility>

namespace lockstep {

namespace fs = std::filesystem;

namespace {

constexpr auto answers_within = std::chrono::seconds(2);

fs::path mark(const fs::path& folder, int first_of_node) { return folder / std::to_string(first_of_node); }

/// Another one for other folders of that name, on nodes that share none; 0: there is none.
std::int64_t identity(const fs::path& folder) {
  struct stat status{};
  if (::stat(folder.c_str(), &status) != 0) return 0;
  return static_cast<std::int64_t>(status.st_ino) ^ (status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec);
}

}  // namespace

std::optional<RollCall> RollCall::make(const Communicator& ranks, int first_of_node, const fs::path& folder) {
  const fs::path absolute = fs::absolute(folder);
  const std::vector<std::int64_t> seen = ranks.gather(identity(absolute.parent_path())),
                                  firsts = ranks.gather(first_of_node);
  std::string hosts = fmt::format("{}", fmt::join(ranks.gather(host_name()), "\n"));
  ranks.broadcast(hosts);
  if (seen[0] == 0 || std::ranges::count(seen, seen[0]) != std::ssize(seen)) return std::nullopt;

  RollCall call;
  call.first_ = first_of_node;
  call.folder_ = absolute;
  std::istringstream names(hosts);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    Node& node = call.nodes_[static_cast<int>(firsts[static_cast<std::size_t>(rank)])];
    std::getline(names, node.host);
    node.ranks.push_back(rank);
  }
  return call;
}

void RollCall::waits(bool waits) {
  if (waits == std::exchange(waits_, waits)) return;
  std::thread([waits, folder = folder_, file = mark(folder_, first_)] {
    std::error_code ignored;
    if (!waits) {
      fs::remove(file, ignored);
      return;
    }
    fs::create_directory(folder, ignored);
    std::ofstream{file};
  }).detach();
}

std::optional<RollCall::Answer> RollCall::ask() const {
  std::packaged_task<Answer()> task([nodes = nodes_, folder = folder_, first = first_] {
    Answer answer{.speaks = true, .silent = {}};
    for (const auto& [other, node] : nodes) {
      std::error_code ignored;
      if (other == first) continue;
      if (!fs::exists(mark(folder, other), ignored)) answer.silent.push_back(node);
      else if (other < first) return Answer{};
    }
    return answer;
  });
  std::future<Answer> answer = task.get_future();
  std::thread(std::move(task)).detach();
  if (answer.wait_for(answers_within) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

}  // namespace lockstep
