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

/// Finds a node that stands still as a whole, watchdogs and all, which no other node can see. Nodes whose ranks have
/// waited for too long say so, each by a file in a folder that all of them see; the nodes that have not are to blame.
///
/// File systems hang too, but nobody waits for them here: threads of their own use them.
class NodeLiveness {
 public:
  /// `number` is this rank's number for users, and `first_of_node` the lowest such number of the ranks on its node.
  /// `folder` is for the files, and is made when it is needed. Returns none unless all ranks see the same parent
  /// folder. Collective.
  static std::optional<NodeLiveness> make(const Communicator& ranks, int number, int first_of_node,
                                          const std::filesystem::path& folder);

  /// Says that this node's ranks wait, or no longer do. Does not wait for the file system.
  void waits(bool waits);

  struct Node {
    std::string host;
    std::vector<int> ranks;
  };
  struct Answer {
    bool speaks = false;       ///< this node is the first of those that have said so: the others leave the report to it
    std::vector<Node> silent;  ///< nodes that have not said so; all of them only if this node speaks, or `in_any_case`
  };
  /// Returns none if the file system does not answer within a second, or has not taken this node's own file.
  std::optional<Answer> ask(bool in_any_case) const;

 private:
  struct WaitMark;
  NodeLiveness() = default;

  int first_ = 0;
  std::map<int, Node> nodes_;  ///< by their first ranks
  std::filesystem::path folder_;
  std::shared_ptr<WaitMark> wait_mark_;  // shared with threads that may outlive this object
};

}  // namespace lockstep
