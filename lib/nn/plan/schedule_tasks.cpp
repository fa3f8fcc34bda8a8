// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/plan/execution_plan.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "core/execution.hpp"

namespace lockstep {
namespace {

// Bytes of a chunk's inputs and outputs. They fit in a core's level-2 cache (at least 512 KB on today's servers)
// together with weights. The value is the same on every machine, so that sums depend only on the number of threads.
constexpr double cache_bytes = 384 * 1024;

// With several threads, which all wait for the slowest at the end of every task, chunks are longer: four times as many
// bytes per thread, which still fit in its share of the level-3 cache.
double chunk_bytes() {
  const int threads = planned_threads();
  return threads == 1 ? cache_bytes : 4 * cache_bytes * threads;
}

class Scheduler {
 public:
  Scheduler(std::span<const GraphNode> nodes, const std::vector<int>& owner, DType dtype, std::int64_t max_batch,
            Purpose purpose)
      : nodes_(nodes),
        owner_(owner),
        element_(static_cast<double>(size_of(dtype))),
        batch_(max_batch),
        training_(purpose == Purpose::training) {}

  std::vector<Segment> schedule() {
    find_levels();
    const int last = *std::max_element(level_.begin(), level_.end());
    for (int level = 0; level <= last; ++level) cut(tasks_of(level));
    return std::move(segments_);
  }

 private:
  using Index = std::size_t;
  bool needs_statistics(Index i) const { return training_ && nodes_[i].layer->traits().needs_statistics; }
  int owner_of(int node) const { return node == GraphNode::data ? node : owner_[static_cast<Index>(node)]; }
  int level_of(int node) const {
    const int owner = owner_of(node);
    return owner == GraphNode::data ? 0 : level_[static_cast<Index>(owner)];
  }

  /// Computes the number of barriers before each layer's output, and before the observation of its statistics.
  void find_levels() {
    level_.assign(nodes_.size(), 0);
    statistics_level_.assign(nodes_.size(), 0);
    for (Index i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].view) continue;
      for (const int input : nodes_[i].inputs) level_[i] = std::max(level_[i], level_of(input));
      if (!needs_statistics(i)) continue;
      statistics_level_[i] = level_of(nodes_[i].inputs[0]);
      level_[i] = std::max(level_[i], statistics_level_[i] + 1);
    }
    // A cheap layer whose input is kept anyway is moved to the level of its first reader.
    std::vector<int> first_reader(nodes_.size(), std::numeric_limits<int>::max());
    for (Index i = nodes_.size(); i-- > 0;) {
      if (nodes_[i].view) continue;
      if (needs_statistics(i) && nodes_[i].layer->traits().is_cheap &&
          first_reader[i] < std::numeric_limits<int>::max())
        level_[i] = std::max(level_[i], first_reader[i]);
      for (Index k = 0; k < nodes_[i].inputs.size(); ++k)
        if (const int owner = owner_of(nodes_[i].inputs[k]); owner != GraphNode::data) {
          int& reader = first_reader[static_cast<Index>(owner)];
          reader = std::min(reader, k == 0 && needs_statistics(i) ? statistics_level_[i] : level_[i]);
        }
    }
  }

  std::vector<Task> tasks_of(int level) const {
    std::vector<Task> tasks;
    for (Index i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].view) continue;
      if (needs_statistics(i) && statistics_level_[i] == level)
        tasks.push_back({Task::Kind::accumulate_statistics, static_cast<int>(i)});
      if (level_[i] == level) tasks.push_back({Task::Kind::forward, static_cast<int>(i)});
    }
    return tasks;
  }

  double weight_bytes(const GraphNode& node) const {
    double count = 0;
    for (const auto& parameter : node.parameters) count += static_cast<double>(parameter.shape.count());
    return count * element_;
  }

  /// The number of chunks that examples are cut into: enough for the data to stay in the cache, but not so many that
  /// more weight bytes (which each chunk reads, and adds gradients to) are moved than data bytes.
  struct Chunks {
    double needed = 0, allowed = std::numeric_limits<double>::infinity();

    double count() const { return std::max(1.0, std::min(needed, allowed)); }
    Chunks with(const Chunks& other) const {
      return {std::max(needed, other.needed), std::min(allowed, other.allowed)};
    }
  };

  Chunks chunks_of(const GraphNode& node) const {
    double data = static_cast<double>(node.shape.count());
    for (const auto& shape : node.input_shapes) data += static_cast<double>(shape.count());
    data *= element_ * static_cast<double>(batch_);
    const double weights = weight_bytes(node);
    return {data / chunk_bytes(), weights > 0 ? data / (4 * weights) : std::numeric_limits<double>::infinity()};
  }

  /// Layers with weights run together unless one of them would then be cut into far fewer chunks than on its own. All
  /// other layers join them, since they can only gain from what their neighbours leave in the cache.
  void cut(const std::vector<Task>& tasks) {
    std::vector<Task> run;
    Chunks chunks, heavy;  // over all tasks in the run, and over those with large weights
    for (const Task& task : tasks) {
      const GraphNode& node = nodes_[static_cast<Index>(task.node)];
      const Chunks mine = chunks_of(node);
      if (weight_bytes(node) > cache_bytes / 16) {
        const Chunks together = heavy.with(mine);
        if (heavy.needed > 0 && (4 * together.count() < heavy.count() || 4 * together.count() < mine.count())) {
          add_segments(run, chunks.count());
          run.clear();
          chunks = heavy = {};
        }
        heavy = heavy.with(mine);
      }
      run.push_back(task);
      chunks = chunks.with(mine);
    }
    add_segments(run, chunks.count());
  }

  void add_segments(const std::vector<Task>& tasks, double chunks) {
    const auto count = static_cast<std::int64_t>(std::min(chunks, static_cast<double>(batch_)));
    const std::int64_t chunk = runs_on_device ? batch_ : (batch_ + count - 1) / count;
    if (chunk < batch_) segments_.push_back({tasks, chunk});
    else  // running them together gains nothing, and would extend the lifetimes of their tensors
      for (const Task& task : tasks) segments_.push_back({{task}, batch_});
  }

  std::span<const GraphNode> nodes_;
  const std::vector<int>& owner_;
  double element_;
  std::int64_t batch_;
  bool training_;
  std::vector<int> level_, statistics_level_;
  std::vector<Segment> segments_;
};

}  // namespace

std::vector<Segment> schedule_forward(const Graph& graph, std::size_t nodes, const std::vector<int>& owner, DType dtype,
                                      std::int64_t max_batch, Purpose purpose) {
  return Scheduler(std::span(graph.nodes()).first(nodes), owner, dtype, max_batch, purpose).schedule();
}

std::int64_t choose_tile_rows(const Graph& graph, DType dtype, std::int64_t max_batch, std::size_t bytes) {
  // With fewer rows, products would be too small; with fewer tiles, little memory would be saved.
  constexpr std::int64_t least_rows = 64, least_tiles = 4;
  const GraphNode& last = graph.nodes().back();
  if (last.view || !last.layer->traits().maps_rows) return 0;
  const auto fitting = static_cast<std::int64_t>(bytes / size_of(dtype)) / last.shape[-1];
  const std::int64_t rows = std::max(least_rows, fitting / least_rows * least_rows);
  return output_rows(graph, max_batch) >= least_tiles * rows ? rows : 0;
}

std::vector<Segment> schedule_backward(const Graph& graph, const std::vector<Segment>& forward) {
  const std::vector<bool> needs_gradient = graph.needs_gradient();
  std::vector<Segment> backward;
  for (auto segment = forward.rbegin(); segment != forward.rend(); ++segment) {
    backward.push_back({{}, segment->chunk});
    for (auto task = segment->tasks.rbegin(); task != segment->tasks.rend(); ++task) {
      if (!needs_gradient[static_cast<std::size_t>(task->node)]) continue;
      const bool needs_statistics =
          graph.nodes()[static_cast<std::size_t>(task->node)].layer->traits().needs_statistics;
      const bool applies = task->kind == Task::Kind::forward;
      backward.back().tasks.push_back(
          {needs_statistics && applies ? Task::Kind::accumulate_gradient_statistics : Task::Kind::backward,
           task->node});
    }
    if (backward.back().tasks.empty()) backward.pop_back();
  }
  return backward;
}

std::vector<std::size_t> final_nodes(const Graph& graph, const std::vector<Segment>& backward, bool tiled) {
  const auto& nodes = graph.nodes();
  const std::vector<bool> needs_gradient = graph.needs_gradient();
  std::vector<bool> done(nodes.size(), false);
  std::vector<std::size_t> first{nodes.size()};
  const auto go_on = [&] {
    std::size_t next = first.back();
    while (next > 0 && (done[next - 1] || nodes[next - 1].view || !needs_gradient[next - 1])) --next;
    return next;
  };
  if (tiled) {
    done.back() = true;
    first.back() = go_on();
  }
  for (const Segment& segment : backward) {
    for (const Task& task : segment.tasks)
      if (task.kind == Task::Kind::backward) done[static_cast<std::size_t>(task.node)] = true;
    first.push_back(go_on());
  }
  return first;
}

}  // namespace lockstep
