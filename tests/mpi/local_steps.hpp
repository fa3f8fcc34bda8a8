// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Softmax regression by groups of ranks that step by themselves, and a replica of it in plain loops in fp64.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "deck_trainer.hpp"
#include "serial_training.hpp"
#include "softmax_regression.hpp"
#include "support/fixtures.hpp"

namespace lockstep::test::local_steps {

using namespace test::softmax_regression;

constexpr int data_size = 61;
constexpr double rate = 0.3, momentum = 0.9;

/// A trainer of a deck, whose parameters have their first values.
struct Steps : DeckTrainer {
  Steps(const std::string& deck, const Communicator& comm) : DeckTrainer(deck, comm) { initialize(comm); }
  std::vector<double> values() { return values_of(parameters().values()); }
};

/// A deck of softmax regression. `optimizer`: the section, and more sections after it; empty: the SGD of Replica.
inline std::string plain_deck(const std::string& parallel, int batch, int steps, const std::string& optimizer = "") {
  return fmt::format(
      "{{run: {{steps: {}}}, batch: {{global: {}}}, precision: {{compute: fp64}},"
      " data: {{synthetic: {{kind: random, shape: [{}], classes: {}, train: {}}}}},"
      " model: {{layers: [{{linear: {{features: {}}}, name: fc}}]}},"
      " optimizer: {}, parallel: {{{}}}}}",
      steps, batch, inputs, classes, data_size, classes,
      optimizer.empty() ? fmt::format("{{type: sgd, learning_rate: {}, momentum: {}}}", rate, momentum) : optimizer,
      parallel);
}

/// The examples of each step, by groups of `group` ranks.
class GroupBatches {
 public:
  GroupBatches(const Communicator& comm, int group, int batch)
      : group_(group), groups_(static_cast<std::size_t>(comm.size() / group)) {
    for (int rank = 0; rank < comm.size(); ++rank)
      samplers_.emplace_back(Sampler::Options{.dataset_size = data_size,
                                              .global_batch = batch,
                                              .seed = 5,
                                              .rank = rank,
                                              .partition = {.ranks = comm.size(), .micro = batch}});
  }
  /// The examples of the next step for each group; if `together`, all examples for every group.
  std::vector<std::vector<std::int64_t>> next(bool together) {
    std::vector<std::vector<std::int64_t>> batches(groups_);
    for (std::size_t rank = 0; rank < samplers_.size(); ++rank) {
      const BatchPlan plan = *samplers_[rank].next();
      for (std::size_t group = 0; group < groups_; ++group)
        if (together || group == rank / static_cast<std::size_t>(group_))
          batches[group].insert(batches[group].end(), plan.examples.begin(), plan.examples.end());
    }
    return batches;
  }

 private:
  int group_;
  std::size_t groups_;
  std::vector<Sampler> samplers_;
};

/// The outer step of replicas in plain loops, by averages or Nesterov's momentum.
struct PlainOuter {
  explicit PlainOuter(const LocalConfig& keys) : local(keys) {}

  /// Moves a common number by `way`, which leads from the replicas' mean to it. `velocity` is the number's.
  void step(double& common, double& velocity, double way) const {
    if (local.outer == LocalConfig::Outer::nesterov) {
      const double decay = local.momentum.value_or(0.9);
      velocity = decay * velocity + way;
      common -= local.learning_rate.value_or(0.7) * (way + decay * velocity);
    } else {
      common -= way;
    }
  }

  const LocalConfig& local;
};

/// Computes a ← (1 − a·b / 2|a|²) a + (1 − a·b / 2|b|²) b for the elements [first, end).
inline void add_by_adasum(std::vector<double>& a, const std::vector<double>& b, std::size_t first, std::size_t end) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = first; i < end; ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  for (std::size_t i = first; i < end; ++i)
    a[i] = (aa > 0 ? 1 - ab / (2 * aa) : 1) * a[i] + (bb > 0 ? 1 - ab / (2 * bb) : 1) * b[i];
}

/// A replica: parameters x (weights [classes, inputs], then biases), and their velocities v.
struct Replica {
  std::vector<double> x, v;
  bool is_new = true;
  double examples = 0;  ///< number of examples since the last synchronization

  void step(const Dataset& data, const std::vector<std::int64_t>& batch) {
    if (batch.empty()) return;
    const std::vector<double> gradient = gradient_of(data, batch, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      v[i] = is_new ? gradient[i] : momentum * v[i] + gradient[i];
      x[i] -= rate * v[i];
    }
    is_new = false;
    examples += static_cast<double>(batch.size());
  }
};

}  // namespace lockstep::test::local_steps
