// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/plan/execution_plan.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <set>

#include "nn/plan/tensor_uses.hpp"

namespace lockstep {
namespace {

class ExecutionPlanner {
 public:
  /// `stride` n > 0: every n-th of the cuts() keeps its output, and all outputs between these are recomputed. 0: all
  /// activations are kept. `tile_rows`: see ExecutionPlan.
  ExecutionPlanner(const Graph& graph, DType dtype, std::int64_t max_batch, Purpose purpose, std::size_t stride,
                   std::int64_t tile_rows)
      : graph_(graph),
        nodes_(graph.nodes()),
        count_(static_cast<int>(nodes_.size())),
        dtype_(dtype),
        batch_(max_batch),
        purpose_(purpose),
        stride_(stride) {
    plan_.tile_rows = tile_rows;
  }

  ExecutionPlan plan() {
    find_owners();
    plan_.needs_gradient = graph_.needs_gradient();
    plan_.forward = schedule_forward(graph_, nodes_.size() - (tiled() ? 1 : 0), plan_.owner, dtype_, batch_, purpose_);
    if (training()) {
      plan_.backward = schedule_backward(graph_, plan_.forward);
      if (stride_ > 0) recompute_blocks();
      else choose_recomputed();
    }
    join_sums(plan_.forward);
    join_sums(plan_.backward);
    output_ = recomputed_output_ = gradient_ = saved_ = recomputed_saved_ = std::vector<int>(nodes_.size(), -1);
    use_outputs();
    if (training()) use_gradients();
    place();
    plan_.final_from = final_nodes(graph_, plan_.backward, tiled());
    return std::move(plan_);
  }

 private:
  using Index = std::size_t;
  static Index at(int i) { return static_cast<Index>(i); }
  bool training() const { return purpose_ == Purpose::training; }
  bool tiled() const { return plan_.tile_rows > 0; }
  const GraphNode& node(int i) const { return nodes_[at(i)]; }
  int owner(int i) const { return i == GraphNode::data ? i : plan_.owner[at(i)]; }
  std::size_t bytes_of(int i) const { return static_cast<std::size_t>(node(i).shape.count()) * size_of(dtype_); }

  void find_owners() {
    for (int i = 0; i < count_; ++i) plan_.owner.push_back(node(i).view ? owner(node(i).inputs[0]) : i);
  }

  /// Calls f with the owner of each output that a forward task reads.
  template <class F>
  void for_inputs(const Task& task, F f) const {
    for (const int input : node(task.sum >= 0 ? task.sum : task.node).inputs) f(owner(input));
  }

  /// Calls f with the owner of each output that a task of the backward pass reads.
  template <class F>
  void for_reads(const Task& task, F f) const {
    const Layer& layer = *node(task.node).layer;
    if (task.kind == Task::Kind::recompute) {
      for_inputs(task, f);
      return;
    }
    if (layer.traits().backward_reads_output) f(task.node);
    for (Index k = 0; k < node(task.node).inputs.size(); ++k)
      if (layer.traits().backward_reads_inputs[k]) f(owner(node(task.node).inputs[k]));
  }

  /// A cheap layer whose output is read only within its own segment of the forward pass is recomputed, chunk by chunk,
  /// where the backward pass reads that output; its inputs are kept for this.
  void choose_recomputed() {
    std::vector<std::vector<Index>> readers(nodes_.size());
    for (Index s = 0; s < plan_.forward.size(); ++s)
      for (const Task& task : plan_.forward[s].tasks)
        for (const int input : node(task.node).inputs)
          if (owner(input) != GraphNode::data) readers[at(owner(input))].push_back(s);
    if (const int input = owner(nodes_.back().inputs[0]); tiled() && input != GraphNode::data)
      readers[at(input)].push_back(plan_.forward.size());
    std::vector<bool> again(nodes_.size(), false);
    for (Index s = 0; s < plan_.forward.size(); ++s) {
      if (plan_.forward[s].chunk >= batch_) continue;
      for (const Task& task : plan_.forward[s].tasks) {
        if (task.kind != Task::Kind::forward || !node(task.node).layer->traits().is_cheap ||
            task.node == owner(count_ - 1))
          continue;
        const auto& where = readers[at(task.node)];
        const auto& inputs = node(task.node).inputs;
        again[at(task.node)] = std::all_of(where.begin(), where.end(), [&](Index reader) { return reader == s; }) &&
                               std::none_of(inputs.begin(), inputs.end(), [&](int input) {
                                 return owner(input) != GraphNode::data && again[at(owner(input))];
                               });
      }
    }
    for (Segment& segment : plan_.backward) {
      std::vector<int> wanted;
      for (const Task& task : segment.tasks)
        for_reads(task, [&](int read) {
          if (read != GraphNode::data && again[at(read)]) wanted.push_back(read);
        });
      std::sort(wanted.begin(), wanted.end(), std::greater<>());
      wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
      for (const int i : wanted) segment.tasks.insert(segment.tasks.begin(), {Task::Kind::recompute, i});
    }
  }

  /// Returns the nodes whose output alone connects the nodes before them to those after.
  std::vector<int> cuts() const {
    std::vector<int> last_reader(nodes_.size(), -1);
    for (int j = 0; j < count_; ++j)
      for (const int input : node(j).inputs)
        if (owner(input) != GraphNode::data) last_reader[at(owner(input))] = std::max(last_reader[at(owner(input))], j);
    std::vector<int> found;
    int open_until = -1;  // last reader of any output before i
    for (int i = 0; i < count_; ++i) {
      if (owner(i) == i && open_until <= i && i != owner(count_ - 1)) found.push_back(i);
      if (owner(i) == i) open_until = std::max(open_until, last_reader[at(i)]);
    }
    return found;
  }

  /// Before the backward pass enters a block, the block's forward tasks are run again as they ran before. What comes
  /// after the last block is still in memory.
  void recompute_blocks() {
    const std::vector<int> all = cuts();
    std::vector<int> block(nodes_.size(), -1);  // block of each node before a kept cut; -1 for others
    std::vector<bool> kept(nodes_.size(), false);
    int begin = 0, blocks = 0;
    for (Index c = stride_ - 1; c < all.size(); c += stride_) {
      std::fill(block.begin() + begin, block.begin() + all[c] + 1, blocks++);
      begin = all[c] + 1;
      kept[at(all[c])] = true;
    }
    std::vector<Segment> backward;
    std::vector<bool> entered(at(blocks), false);
    for (Segment& segment : plan_.backward) {
      for (const Task& task : segment.tasks) {
        const int entering = block[at(task.node)];
        if (entering < 0 || entered[at(entering)]) continue;
        entered[at(entering)] = true;
        for (const Segment& before : plan_.forward) {
          Segment again{{}, before.chunk};
          for (const Task& other : before.tasks)
            if (other.kind == Task::Kind::forward && block[at(other.node)] == entering && !kept[at(other.node)])
              again.tasks.push_back({Task::Kind::recompute, other.node});
          if (!again.tasks.empty()) backward.push_back(std::move(again));
        }
      }
      backward.push_back(std::move(segment));
    }
    plan_.backward = std::move(backward);
  }

  /// Merges the addition of two inputs into the task of a layer that runs right after it, reads its result and can
  /// compute it.
  void join_sums(std::vector<Segment>& segments) const {
    const auto joins = [&](const Task& sum, const Task& task) {
      const Layer& layer = *node(task.node).layer;
      const bool forward = task.kind == Task::Kind::forward || task.kind == Task::Kind::recompute;
      return forward && sum.kind == task.kind && layer.traits().takes_sum &&
             owner(node(task.node).inputs[0]) == sum.node && node(sum.node).layer->traits().is_sum &&
             node(sum.node).inputs.size() == 2;
    };
    std::vector<Segment> joined;
    for (const Segment& segment : segments) {
      const bool follows = !joined.empty() && joined.back().chunk >= batch_ && segment.chunk >= batch_;
      if (follows && joins(joined.back().tasks.back(), segment.tasks.front())) {
        Segment last = std::move(joined.back());
        joined.pop_back();
        last.tasks.insert(last.tasks.end(), segment.tasks.begin(), segment.tasks.end());
        joined.push_back(std::move(last));
      } else {
        joined.push_back(segment);
      }
      auto& tasks = joined.back().tasks;
      for (Index i = 1; i < tasks.size(); ++i)
        if (joins(tasks[i - 1], tasks[i])) {
          tasks[i].sum = tasks[i - 1].node;
          tasks.erase(tasks.begin() + static_cast<std::ptrdiff_t>(--i));
        }
    }
    segments = std::move(joined);
  }

  void use_output(int i, int time) {
    if (i == GraphNode::data) return;
    const bool backward = time > loss_time_ && loss_time_ >= 0;
    int& tensor = backward && is_recomputed_[at(i)] ? recomputed_output_[at(i)] : output_[at(i)];
    if (tensor < 0) tensor = uses_.add_tensor(bytes_of(i));
    uses_.use(tensor, time);
  }

  void use_outputs() {
    is_recomputed_.assign(nodes_.size(), false);
    for (const Segment& segment : plan_.backward)
      for (const Task& task : segment.tasks)
        if (task.kind == Task::Kind::recompute) {
          is_recomputed_[at(task.node)] = true;
          if (task.sum >= 0) is_recomputed_[at(task.sum)] = true;
        }
    for (const Segment& segment : plan_.forward) {
      int time = uses_.add_segment(segment.tasks.size(), segment.chunk);
      for (const Task& task : segment.tasks) {
        for_inputs(task, [&](int read) { use_output(read, time); });
        if (task.sum >= 0) use_output(task.sum, time);
        if (task.kind == Task::Kind::forward) {
          use_output(task.node, time);
          use_saved(task.node, time);
        }
        ++time;
      }
    }
    loss_time_ = uses_.add_segment(1, batch_);
    if (tiled()) {
      const std::size_t bytes = at(plan_.tile_rows) * at(nodes_.back().shape[-1]) * size_of(dtype_);
      output_.back() = uses_.add_tensor((bytes + at(batch_) - 1) / at(batch_));
      use_output(owner(nodes_.back().inputs[0]), loss_time_);
    }
    use_output(owner(count_ - 1), loss_time_);
    for (const Segment& segment : plan_.backward) {
      int time = uses_.add_segment(segment.tasks.size(), segment.chunk);
      for (const Task& task : segment.tasks) {
        for_reads(task, [&](int read) { use_output(read, time); });
        if (task.sum >= 0) use_output(task.sum, time);
        if (task.kind == Task::Kind::recompute) use_output(task.node, time);
        use_saved(task.node, time);
        ++time;
      }
    }
  }

  void use_saved(int i, int time) {
    if (!training() || node(i).layer->saved_bytes(1, node(i).shape) == 0) return;
    int& tensor = loss_time_ >= 0 && is_recomputed_[at(i)] ? recomputed_saved_[at(i)] : saved_[at(i)];
    if (tensor < 0) tensor = uses_.add_tensor(ExecutionPlan::saved_stride(node(i)));
    uses_.use(tensor, time);
  }

  /// A backward task that writes the gradient of one of its node's inputs.
  struct Contribution {
    int time, node;
    Index input;
  };

  void use_gradients() {
    std::vector<std::vector<Contribution>> contributions(nodes_.size());
    // First and last backward task of each node; where nodes share gradient memory, of all of them once that is known.
    std::vector<std::array<int, 2>> own(nodes_.size(), {std::numeric_limits<int>::max(), -1});
    for (const auto& n : nodes_) plan_.staging.emplace_back(n.inputs.size());
    plan_.adds_gradient.assign(nodes_.size(), false);
    int time = loss_time_;
    for (const Segment& segment : plan_.backward)
      for (const Task& task : segment.tasks) {
        ++time;
        if (task.kind == Task::Kind::recompute) continue;
        auto& [first, last] = own[at(task.node)];
        first = std::min(first, time);
        last = std::max(last, time);
        for (Index k = 0; k < node(task.node).inputs.size(); ++k) {
          if (!plan_.writes_gradient(graph_, task, k)) continue;
          const int target = owner(node(task.node).inputs[k]);
          contributions[at(target)].push_back({time, task.node, k});
        }
      }

    // Placed in the order in which they are first written, so that memory that a gradient may share is placed before
    // it.
    if (const int last = owner(count_ - 1); tiled()) {
      const Task task{Task::Kind::backward, last};
      if (plan_.writes_gradient(graph_, task, 0))
        contributions[at(owner(node(last).inputs[0]))].push_back({loss_time_, last, 0});
    } else if (last != GraphNode::data) {
      gradient_[at(last)] = is_read_backward(last) ? uses_.add_tensor(bytes_of(last)) : output_[at(last)];
      uses_.use(gradient_[at(last)], loss_time_);
    }
    std::vector<int> order;
    for (int i = 0; i < count_; ++i)
      if (owner(i) == i && plan_.needs_gradient[at(i)] && !(tiled() && i == count_ - 1)) order.push_back(i);
    const auto begun = [&](int i) { return contributions[at(i)].empty() ? -1 : contributions[at(i)][0].time; };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return begun(a) < begun(b); });
    for (const int i : order) {
      const bool from_loss = gradient_[at(i)] >= 0;
      for (Index c = 0; c < contributions[at(i)].size(); ++c) {
        const Contribution& part = contributions[at(i)][c];
        if (c == 0 && !from_loss) {
          if (may_share(part, contributions[at(i)], own, own[at(i)][0])) {
            gradient_[at(i)] = gradient_[at(part.node)];
            own[at(i)][1] = std::max(own[at(i)][1], own[at(part.node)][1]);
          } else {
            gradient_[at(i)] = uses_.add_tensor(bytes_of(i));
          }
        } else if (part.input == 0 && node(part.node).layer->traits().adds_gradient) {
          plan_.adds_gradient[at(part.node)] = true;
        } else {
          const int tensor = uses_.add_tensor(bytes_of(i));
          uses_.use(tensor, part.time);
          stagings_.push_back({part, tensor});
        }
        uses_.use(gradient_[at(i)], part.time);
      }
      for (const int own_time : own[at(i)]) uses_.use(gradient_[at(i)], own_time);
    }
  }

  bool is_read_backward(int output) const {
    bool read = false;
    for (const Segment& segment : plan_.backward)
      for (const Task& task : segment.tasks) for_reads(task, [&](int other) { read = read || other == output; });
    return read;
  }

  /// True if the gradient that `first` begins can share the memory of dy of `first`'s layer: the layer must pass dy on
  /// unchanged, and all users of that memory must be done with it before anything changes it.
  bool may_share(const Contribution& first, const std::vector<Contribution>& all,
                 const std::vector<std::array<int, 2>>& own, int target_begins) {
    const Layer& layer = *node(first.node).layer;
    const int done = own[at(first.node)][1];
    const int target = owner(node(first.node).inputs[first.input]);
    if (!layer.traits().passes_gradient[first.input] || shared_.count(first.node) > 0) return false;
    const bool added_later = std::all_of(all.begin() + 1, all.end(),
                                         [&](const Contribution& other) { return other.time > done; });
    const bool left_alone = target_begins > done || !node(target).layer->traits().overwrites_gradient;
    if (!added_later || !left_alone) return false;
    shared_.insert(first.node);
    return true;
  }

  void place() {
    std::vector<Lifetime> lifetimes;
    for (int tensor = 0; tensor < static_cast<int>(uses_.tensors()); ++tensor)
      lifetimes.push_back(uses_.lifetime(tensor, batch_));
    const MemoryPlan memory = plan_memory(lifetimes);
    const auto allocation_of = [&](int tensor) {
      return tensor < 0 ? Allocation{} : Allocation{memory.offsets[at(tensor)], uses_.whole(tensor)};
    };
    for (Index i = 0; i < nodes_.size(); ++i) {
      plan_.output.push_back(allocation_of(output_[i]));
      plan_.recomputed_output.push_back(allocation_of(recomputed_output_[i]));
      plan_.gradient.push_back(allocation_of(gradient_[i]));
      plan_.saved.push_back(allocation_of(saved_[i]));
      plan_.recomputed_saved.push_back(allocation_of(recomputed_saved_[i]));
    }
    for (const auto& [part, tensor] : stagings_) plan_.staging[at(part.node)][part.input] = allocation_of(tensor);
    plan_.bytes = memory.bytes;
  }

  const Graph& graph_;
  const std::vector<GraphNode>& nodes_;
  int count_;
  DType dtype_;
  std::int64_t batch_;
  Purpose purpose_;
  std::size_t stride_;
  ExecutionPlan plan_;
  TensorUses uses_;
  int loss_time_ = -1;
  std::vector<bool> is_recomputed_;
  std::vector<int> output_, recomputed_output_, gradient_, saved_, recomputed_saved_;  // tensors in `uses_`, by node
  std::vector<std::pair<Contribution, int>> stagings_;
  std::set<int> shared_;  // nodes whose gradient memory another node shares
};

}  // namespace

bool ExecutionPlan::writes_gradient(const Graph& graph, const Task& task, std::size_t k) const {
  const GraphNode& node = graph.nodes()[static_cast<std::size_t>(task.node)];
  if (node.inputs[k] == GraphNode::data) return false;
  const int target = owner[static_cast<std::size_t>(node.inputs[k])];
  if (target == GraphNode::data || !needs_gradient[static_cast<std::size_t>(target)]) return false;
  // A layer that needs statistics writes the gradient of its first input in `backward`, the others while accumulating.
  return !node.layer->traits().needs_statistics || (k == 0) == (task.kind == Task::Kind::backward);
}

std::size_t ExecutionPlan::saved_stride(const GraphNode& of) { return align_up(of.layer->saved_bytes(1, of.shape)); }

ExecutionPlan plan_step(const Graph& graph, DType dtype, std::int64_t max_batch, Purpose purpose,
                        Checkpointing checkpointing, std::int64_t tile_rows) {
  ExecutionPlan best = ExecutionPlanner(graph, dtype, max_batch, purpose, 0, tile_rows).plan();
  if (checkpointing == Checkpointing::none || purpose == Purpose::inference) return best;
  for (std::size_t stride = 1; stride <= graph.nodes().size(); ++stride) {
    ExecutionPlan plan = ExecutionPlanner(graph, dtype, max_batch, purpose, stride, tile_rows).plan();
    if (plan.bytes < best.bytes) best = std::move(plan);
  }
  return best;
}

}  // namespace lockstep
