// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "nn/model.hpp"

namespace lockstep {
namespace {

/// Forward of node i happens at time i, the loss at L, backward of node i at 2L − i.
class Planner {
 public:
  Planner(const Graph& graph, DType dtype, std::int64_t max_batch, Purpose purpose)
      : nodes_(graph.nodes()),
        count_(static_cast<int>(nodes_.size())),
        dtype_(dtype),
        batch_(max_batch),
        training_(purpose == Purpose::training) {}

  ActivationPlan plan() {
    find_owners();
    place_outputs();
    if (training_) {
      place_gradients();
      place_saved();
    }
    const MemoryPlan memory = plan_memory(lifetimes_);
    const auto resolve = [&](std::vector<std::size_t>& places) {
      for (auto& place : places)
        if (place != ActivationPlan::no_place) place = memory.offsets[place];
    };
    for (auto* places : {&plan_.output, &plan_.gradient, &plan_.saved}) resolve(*places);
    for (auto& places : plan_.detour) resolve(places);
    plan_.bytes = memory.bytes;
    return plan_;
  }

 private:
  int backward_time(int node) const { return 2 * count_ - node; }
  const GraphNode& node(int i) const { return nodes_[static_cast<std::size_t>(i)]; }
  int owner(int i) const { return i == GraphNode::data ? i : plan_.owner[static_cast<std::size_t>(i)]; }

  std::size_t add(std::size_t bytes, int first, int last) {
    lifetimes_.push_back({bytes, first, last});
    return lifetimes_.size() - 1;
  }
  std::size_t bytes_of(int i) const {
    return static_cast<std::size_t>(batch_ * node(i).shape.count()) * size_of(dtype_);
  }

  void find_owners() {
    for (int i = 0; i < count_; ++i) plan_.owner.push_back(node(i).view ? owner(node(i).inputs[0]) : i);
    plan_.output.assign(nodes_.size(), ActivationPlan::no_place);
    plan_.gradient = plan_.saved = plan_.output;
    for (const auto& n : nodes_) plan_.detour.emplace_back(n.inputs.size(), ActivationPlan::no_place);
  }

  void place_outputs() {
    std::vector<int> last(nodes_.size());
    const auto needed_at = [&](int i, int time) {
      if (owner(i) != GraphNode::data)
        last[static_cast<std::size_t>(owner(i))] = std::max(last[static_cast<std::size_t>(owner(i))], time);
    };
    for (int i = 0; i < count_; ++i) {
      needed_at(i, i);
      for (const int input : node(i).inputs) needed_at(input, i);
      if (!training_ || node(i).view) continue;
      if (node(i).layer->backward_reads_output()) needed_at(i, backward_time(i));
      for (std::size_t k = 0; k < node(i).inputs.size(); ++k)
        if (node(i).layer->backward_reads_input(k)) needed_at(node(i).inputs[k], backward_time(i));
    }
    needed_at(count_ - 1, count_);
    for (int i = 0; i < count_; ++i)
      if (owner(i) == i) plan_.output[static_cast<std::size_t>(i)] = add(bytes_of(i), i, last[static_cast<std::size_t>(i)]);
  }

  /// The gradient of an output is alive from the first layer behind it that gives a part of it to
  /// its own backward.
  void place_gradients() {
    std::vector<int> first(nodes_.size(), -1);
    if (owner(count_ - 1) != GraphNode::data) first[static_cast<std::size_t>(owner(count_ - 1))] = count_;
    for (int i = count_; i-- > 0;) {
      if (node(i).view) continue;
      for (std::size_t k = 0; k < node(i).inputs.size(); ++k) {
        const int target = owner(node(i).inputs[k]);
        if (target == GraphNode::data) continue;
        int& begun = first[static_cast<std::size_t>(target)];
        if (begun < 0) begun = backward_time(i);
        else plan_.detour[static_cast<std::size_t>(i)][k] = add(bytes_of(target), backward_time(i), backward_time(i));
      }
    }
    for (int i = 0; i < count_; ++i)
      if (owner(i) == i)
        plan_.gradient[static_cast<std::size_t>(i)] = add(bytes_of(i), first[static_cast<std::size_t>(i)], backward_time(i));
  }

  void place_saved() {
    for (int i = 0; i < count_; ++i)
      if (const std::size_t bytes = node(i).view ? 0 : node(i).layer->saved_bytes(batch_, node(i).shape); bytes > 0)
        plan_.saved[static_cast<std::size_t>(i)] = add(bytes, i, backward_time(i));
  }

  const std::vector<GraphNode>& nodes_;
  int count_;
  DType dtype_;
  std::int64_t batch_;
  bool training_;
  ActivationPlan plan_;
  std::vector<Lifetime> lifetimes_;
};

}  // namespace

ActivationPlan plan_activations(const Graph& graph, DType dtype, std::int64_t max_batch, Purpose purpose) {
  return Planner(graph, dtype, max_batch, purpose).plan();
}

}  // namespace lockstep
