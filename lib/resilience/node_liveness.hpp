// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace lockstep {

/// Finds the node that stands still as a whole, watchdogs and all, which no other node can see: nodes whose ranks have
/// waited for too long say so, by a file each in a folder that all of them see. Those that have not are to blame.
///
/// File systems hang too, and hold up nobody here: threads of their own touch them.
class NodeLiveness {
 public:
  /// `first_of_node`: the lowest of the ranks that this one watches; `folder`: for the files, made when it is needed.
  /// None unless all ranks see the same folder around it. Collective.
  static std::optional<NodeLiveness> make(const Communicator& ranks, int first_of_node,
                                          const std::filesystem::path& folder);

  /// This node's ranks wait, or no longer do.
  void waits(bool waits);

  struct Node {
    std::string host;
    std::vector<int> ranks;
  };
  struct Answer {
    bool speaks = false;       ///< of the nodes that have said so this is the first: the others leave it the word
    std::vector<Node> silent;  ///< who have not; all of them where this one speaks, or wants to `in_any_case`
  };
  /// None when the file system does not answer within a second, or has not taken this node's own file.
  std::optional<Answer> ask(bool in_any_case) const;

 private:
  struct WaitMark;
  NodeLiveness() = default;

  int first_ = 0;
  std::map<int, Node> nodes_;  ///< by their first ranks
  std::filesystem::path folder_;
  std::shared_ptr<WaitMark> wait_mark_;  // with threads that may outlive this object
};

}  // namespace lockstep
