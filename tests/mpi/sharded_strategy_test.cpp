// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// That the seam of ParallelStrategy holds: a strategy that shards the optimizer's state trains to the same bits as
// DataParallel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <vector>

#include "comm/collective/algorithm.hpp"
#include "comm/mpi_transport.hpp"
#include "comm/spin_backoff.hpp"
#include "ops/reduction.hpp"
#include "parallel/parallel_strategy.hpp"
#include "run/experiment.hpp"
#include "serial_training.hpp"
#include "support/fixtures.hpp"
#include "support/scratch.hpp"
#include "train/trainer.hpp"

namespace lockstep {
namespace {

/// ZeRO's first stage (Rajbhandari et al. 2020): gradients are reduce-scattered, each rank updates a slice of the
/// parameters with a slice of the optimizer's state, and slices are all-gathered. They end where blocks of
/// sum_of_squares do, so that norms are the same bits.
template <class T>
class ShardedOptimizer final : public ParallelStrategy {
 public:
  ShardedOptimizer(const Communicator& ranks, ParameterBuffer& parameters)
      : ranks_(ranks), parameters_(parameters), trained_(parameters.trained_size()) {
    const auto divided = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
    blocks_each_ = divided(divided(trained_, sum_of_squares_block), ranks.size());
    slice_ = blocks_each_ * sum_of_squares_block;
    const std::int64_t first = std::min(trained_, ranks.rank() * slice_);
    own_ = {first, std::min(slice_, trained_ - first)};
    parameters.layout().own({own_});
    gradients_.resize(static_cast<std::size_t>(ranks.size() * slice_));
    values_.resize(gradients_.size());
    statistics_.resize(static_cast<std::size_t>(parameters.statistics_range().count));
    blocks_ = OwnedTensor("blocks", DType::f64, {blocks_each_ * ranks.size()});
    host_blocks_.resize(static_cast<std::size_t>(blocks_.get().count()));
    square_ = OwnedTensor("square", DType::f64, {1});
    nonfinite_ = OwnedTensor("nonfinite", DType::f64, {1});
    const Algorithm& algorithm = *find_algorithm("halving_doubling");
    const DType dtype = parameters.dtype();
    scatter_ = reduce_scatter(algorithm, mpi_transport(ranks), {dtype, gradients_.data()});
    gather_ = all_gather(*find_algorithm("ring"), mpi_transport(ranks), {dtype, values_.data()});
    gather_blocks_ = all_gather(*find_algorithm("ring"), mpi_transport(ranks), {DType::f64, host_blocks_.data()});
    sum_statistics_ = all_reduce(algorithm, mpi_transport(ranks), {dtype, statistics_.data()});
  }

  void gradient_ready(const ExecSpace&, ParameterRange) override {}
  void shard_done(const ExecSpace&) override {}
  void finish_gradients(const ExecSpace& space, const std::function<void()>&) override {
    const Tensor trained = parameters_.trained_gradients();
    const Tensor statistics = parameters_.gradients(parameters_.statistics_range());
    std::ranges::fill(gradients_, T(0));
    copy_to_host(space, trained, gradients_.data());
    run(*scatter_, static_cast<std::int64_t>(gradients_.size()));
    copy_from_host(space, gradients_.data() + own_.first, parameters_.gradients(own_));
    if (statistics_.empty()) return;
    copy_to_host(space, statistics, statistics_.data());
    run(*sum_statistics_, statistics.count());
    copy_from_host(space, statistics_.data(), statistics);
  }

  Tensor gradient_square(const ExecSpace& space) override {
    auto* const own = blocks_.get().as<double>() + ranks_.rank() * blocks_each_;
    const Tensor own_blocks{own, DType::f64, {blocks_each_}};
    fill_zero(space, own_blocks);
    if (own_.count > 0) block_sums_of_squares(space, parameters_.gradients(own_), own_blocks);
    copy_to_host(space, own_blocks, host_blocks_.data() + ranks_.rank() * blocks_each_);
    run(*gather_blocks_, blocks_.get().count());
    copy_from_host(space, host_blocks_.data(), blocks_.get());
    const std::int64_t blocks = (trained_ + sum_of_squares_block - 1) / sum_of_squares_block;
    add_block_sums(space, {blocks_.get().data, DType::f64, {blocks}}, square_.get());
    return square_.get();
  }

  Tensor nonfinite_gradients(const ExecSpace& space) override {
    double count = 0;
    if (own_.count > 0) {
      count_nonfinite(space, parameters_.gradients(own_), nonfinite_.get());
      copy_to_host(space, nonfinite_.get(), &count);
    }
    count = static_cast<double>(ranks_.all_reduce_max(count > 0 ? 1 : 0));
    copy_from_host(space, &count, nonfinite_.get());
    return nonfinite_.get();
  }

  void update(const ExecSpace& space, Optimizer& optimizer, const StepScalars* step,
              double statistics_factor) override {
    optimizer.step(space, parameters_, step);
    parameters_.update_statistics(space, statistics_factor, &step->left_out);
    if (own_.count > 0) copy_to_host(space, parameters_.values(own_), values_.data() + own_.first);
    run(*gather_, static_cast<std::int64_t>(values_.size()));
    copy_from_host(space, values_.data(), parameters_.trained_values());
    parameters_.round(space);
  }

  double take_exposed_seconds() override { return 0; }

 private:
  static void run(Collective& collective, std::int64_t count) {
    collective.start(0, count);
    wait_until([&] { return collective.advance(); });
  }

  const Communicator& ranks_;
  ParameterBuffer& parameters_;
  std::int64_t trained_, blocks_each_, slice_;
  ParameterRange own_;
  std::vector<T> gradients_, values_, statistics_;
  std::vector<double> host_blocks_;
  OwnedTensor blocks_, square_, nonfinite_;
  std::unique_ptr<Collective> scatter_, gather_, gather_blocks_, sum_statistics_;
};

struct ShardedCase {
  const char* name;
  const char* precision;
  const char* optimizer;
};
void PrintTo(const ShardedCase& c, std::ostream* out) { *out << c.name; }

class ShardedStrategy : public testing::TestWithParam<ShardedCase> {};

TEST_P(ShardedStrategy, SameBitsAsDataParallel) {
  const Communicator comm = Communicator::world();
  const test::TemporaryFolder folder;
  const RunConfig config = test::read_run_config(
      fmt::format(
          "{{run: {{steps: 12}}, batch: {{global: 14, micro: 3}},"
          " data: {{synthetic: {{kind: random, shape: [9, 8, 3], classes: 7, train: 64}}}},"
          " model: {{layers: [{{conv2d: {{filters: 8, kernel: 3, padding: same}}}}, {{batch_norm: {{}}}}, relu, flatten,"
          " {{linear: {{features: 150}}}}, tanh, {{linear: {{features: 7}}}}]}},"
          " parallel: {{all_reduce: halving_doubling}}, precision: {{compute: {}}}, optimizer: {}}}",
          GetParam().precision, GetParam().optimizer),
      (folder.path() / "run").string());
  std::vector<std::uint8_t> parameters[2];
  std::int64_t skipped[2];
  for (const bool sharded : {false, true}) {
    Experiment experiment = open_experiment(config);
    TrainingProblem problem{.loss = std::move(experiment.loss),
                            .data = *experiment.data.train,
                            .normalize = config.data.normalize,
                            .seed = 3,
                            .length = run_length(config, experiment.data.train->size())};
    if (sharded)
      problem.make_strategy = [&](const Topology&, std::optional<NodeMemory>,
                                  ParameterBuffer& buffer) -> std::unique_ptr<ParallelStrategy> {
        if (buffer.dtype() == DType::f64) return std::make_unique<ShardedOptimizer<double>>(comm, buffer);
        return std::make_unique<ShardedOptimizer<float>>(comm, buffer);
      };
    Trainer trainer(config, std::move(experiment.graph), std::move(problem), comm);
    trainer.model().parameters().initialize(ExecSpace(), 5);
    DataLoader loader(*experiment.data.train,
                      Sampler({.dataset_size = 64,
                               .global_batch = config.batch.global,
                               .seed = 5,
                               .rank = comm.rank(),
                               .partition = trainer.partition()}),
                      14, AugmentConfig{}, 5);
    for (int step = 0; step < 12; ++step) ASSERT_TRUE(trainer.step(*loader.next()).done());
    parameters[sharded] = test::bytes_of(trainer.model().parameters().values());
    skipped[sharded] = trainer.steps() - trainer.applied_steps();
    const std::int64_t owned = trainer.model().parameters().layout().owned_count();
    EXPECT_EQ(trainer.optimizer().states()[0].values.count(), owned);
    if (sharded && comm.size() > 1) {
      EXPECT_LT(owned, trainer.model().parameters().trained_size()) << "it shards nothing";
    }
  }
  EXPECT_EQ(parameters[0], parameters[1]);
  EXPECT_EQ(skipped[0], skipped[1]);
  EXPECT_EQ(skipped[0] > 0, std::string_view(GetParam().name) == "fp16_overflows");
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ShardedStrategy,
    testing::Values(ShardedCase{"sgd", "fp32", "{type: sgd, momentum: 0.9}"},
                    ShardedCase{"clipped", "fp32", "{type: adamw, learning_rate: 0.01, clip_norm: 0.5}"},
                    ShardedCase{"fp64", "fp64", "{type: adamw, learning_rate: 0.01}"},
                    ShardedCase{"bf16", "bf16", "{type: sgd, momentum: 0.9, clip_norm: 1}"},
                    ShardedCase{"fp16_overflows", "fp16, loss_scale: {initial: 1.0e+7}", "{type: sgd, momentum: 0.9}"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep
