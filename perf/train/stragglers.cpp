// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures steps of ranks of which one is slow: with equal and measured shares, with local steps, and asynchronous,
// also in groups, with servers and with backup ranks; called by perf/run stragglers. Ranks sleep for some milliseconds
// an example, so that there may be more ranks than cores. Usage, under mpirun: stragglers MILLISECONDS SLOWDOWN [PART];
// PART: only rows with this text in their names.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/duration.hpp"
#include "base/log.hpp"
#include "config/deck.hpp"
#include "core/device.hpp"
#include "run/experiment/experiment.hpp"
#include "run/experiment/starting_weights.hpp"
#include "run/training/batch_feed.hpp"
#include "run/training/prepared_run.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t batch = 84;

/// A loss that computes another one, and then sleeps for some time for each example.
class SlowLoss final : public Loss {
 public:
  SlowLoss(std::unique_ptr<Loss> loss, double seconds) : loss_(std::move(loss)), seconds_(seconds) {}
  bool wants_classes() const override { return loss_->wants_classes(); }
  std::int64_t ignored_class() const override { return loss_->ignored_class(); }
  void evaluate(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& doutputs,
                const Tensor& per_row, const Tensor& sums, const GradientFactor& gradient_scale,
                const MixedTargets& mixed) const override {
    loss_->evaluate(space, outputs, targets, doutputs, per_row, sums, gradient_scale, mixed);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds_ * static_cast<double>(outputs.shape[0])));
  }

 private:
  std::unique_ptr<Loss> loss_;
  double seconds_;
};

struct Result {
  double examples_per_second = 0;
  std::uint64_t bits = 14695981039346656037u;  ///< a hash of the parameters
  std::vector<std::int64_t> shares;
};

/// Trains and measures. `batch_keys`: keys of the deck's batch section besides global.
Result train(const std::string& parallel, const std::string& batch_keys, double seconds, const Communicator& comm) {
  const RunConfig config = read_run_config(
      parse_deck(fmt::format("{{run: {{steps: 1000, evaluate_every: 50 steps}},"
                             " data: {{synthetic: {{kind: random, shape: [64], classes: 10, train: 840}}}},"
                             " model: {{layers: [{{linear: {{features: 64}}}}, relu, {{linear: {{features: 10}}}}]}},"
                             " batch: {{global: {}{}}}, parallel: {{{}}}}}",
                             batch, batch_keys, parallel),
                 "stragglers"));
  PreparedRun run(config, comm);
  Experiment slow = open_experiment(config);
  run.run_trainer = make_run_trainer(config, std::move(slow.graph),
                                     std::make_unique<SlowLoss>(std::move(slow.loss), seconds), *run.data.train, comm);
  RunTrainer& run_trainer = *run.run_trainer;
  DataPosition position;
  BatchFeed batches(run, position);
  initialize_parameters(config, run.trainer().model());
  run_trainer.share_parameters();
  batches.begin();
  // Free-running ranks synchronize every 50 steps.
  const std::int64_t settling = config.parallel.runs_freely() ? 50 : 40, measured = 2 * settling;
  Timer timer;
  std::int64_t computed = 0;
  while (run.trainer().steps() < settling + measured) {
    computed += run_trainer.step(batches, {}).examples;
    batches.step_done();
    batches.balance(run.trainer().take_exposed_seconds());
    if (run.trainer().steps() != settling) continue;
    computed = 0;
    timer.restart();
  }
  Result result{.examples_per_second = static_cast<double>(computed) / timer.seconds(),
                .shares = batches.partition().rank_shares};
  const Tensor values = run.trainer().model().parameters().values();
  std::vector<std::byte> bytes(values.bytes());
  copy_to_host(ExecSpace(), values, bytes.data());
  for (const std::byte byte : bytes) result.bits = (result.bits ^ static_cast<std::uint64_t>(byte)) * 1099511628211u;
  return result;
}

void compare(double seconds, double slowdown, const std::string& part, const Communicator& comm) {
  struct Row {
    const char *name, *parallel;
    bool is_slow;
    const char* batch_keys = "";
  };
  // Free-running ranks serve others between micro-batches, and a kernel that sleeps is long.
  constexpr Row rows[] = {
      {"none is slow, equal", "shares: equal", false},
      {"equal", "shares: equal", true},
      {"measured", "shares: measured", true},
      {"none is slow, equal, 28 shards", "shares: equal, deterministic: {shards: 28}", false},
      {"equal, 28 shards", "shares: equal, deterministic: {shards: 28}", true},
      {"measured, 28 shards", "shares: measured, deterministic: {shards: 28}", true},
      {"none is slow, local", "local: 20", false},
      {"local", "local: 20", true},
      {"none is slow, asynchronous", "asynchronous: {collect: 4, schedule: {free: true}}", false, ", micro: 1"},
      {"asynchronous", "asynchronous: {collect: 4, schedule: {free: true}}", true, ", micro: 1"},
      {"none is slow, asynchronous, 5 steps by themselves",
       "local: {every: 5, outer: nesterov}, asynchronous: {collect: 4, schedule: {free: true}}", false, ", micro: 1"},
      {"asynchronous, 5 steps by themselves",
       "local: {every: 5, outer: nesterov}, asynchronous: {collect: 4, schedule: {free: true}}", true, ", micro: 1"},
      {"none is slow, a server", "servers: 1, asynchronous: {collect: 3, schedule: {free: true}}", false},
      {"a server", "servers: 1, asynchronous: {collect: 3, schedule: {free: true}}", true},
      {"none is slow, 2 groups", "asynchronous: {groups: 2, collect: 2, schedule: {free: true}}", false, ", micro: 1"},
      {"2 groups", "asynchronous: {groups: 2, collect: 2, schedule: {free: true}}", true, ", micro: 1"},
      {"none is slow, one of 4 dropped", "backup: {ranks: 1, mode: drop}", false, ", micro: 1"},
      {"one of 4 dropped", "backup: {ranks: 1, mode: drop}", true, ", micro: 1"},
      {"none is slow, one of 4 a duplicate", "backup: {ranks: 1, mode: duplicate}", false, ", micro: 1"},
      {"one of 4 a duplicate", "backup: {ranks: 1, mode: duplicate}", true, ", micro: 1"},
  };
  double undisturbed = 0;
  if (comm.is_root())
    std::puts("| shares | examples/s | of undisturbed | parts at the end | parameters |\n|---|--:|--:|---|---|");
  for (const Row& row : rows) {
    if (std::string(row.name).find(part) == std::string::npos) continue;
    const bool last = comm.rank() == comm.size() - 1;
    const Result result = train(row.parallel, row.batch_keys, seconds * (row.is_slow && last ? slowdown : 1), comm);
    if (!row.is_slow) undisturbed = result.examples_per_second;
    std::string parts;
    for (const std::int64_t part : result.shares) parts += fmt::format("{} ", part);
    if (comm.is_root())
      std::printf("| %s | %.0f | %.2f | %s | %016llx |\n", row.name, result.examples_per_second,
                  result.examples_per_second / undisturbed, parts.c_str(),
                  static_cast<unsigned long long>(result.bits));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  lockstep::MpiSession mpi(argc, argv);
  const Kokkos::ScopeGuard kokkos;
  lockstep::enable_log(false);
  const double milliseconds = argc > 1 ? std::atof(argv[1]) : 5, slowdown = argc > 2 ? std::atof(argv[2]) : 2;
  lockstep::compare(1e-3 * milliseconds, slowdown, argc > 3 ? argv[3] : "", lockstep::Communicator::world());
}
