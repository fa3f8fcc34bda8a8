// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "api/session.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "api/given_batch.hpp"
#include "base/log.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_reader.hpp"
#include "comm/mpi_handle.hpp"
#include "ops/products/library_threads.hpp"
#include "run/deck/deck_changes.hpp"
#include "run/deck/deck_values.hpp"
#include "run/experiment/experiment.hpp"
#include "run/experiment/provenance.hpp"
#include "run/experiment/starting_weights.hpp"
#include "run/training/prepared_run.hpp"
#include "run/training/resume.hpp"
#include "run/training/run_state.hpp"

namespace lockstep {
namespace {

/// While this exists, only rank 0 logs.
class LogOfRoot {
 public:
  explicit LogOfRoot(const Communicator& comm) : before_(enable_log(comm.is_root())) {}
  LogOfRoot(const LogOfRoot&) = delete;
  LogOfRoot& operator=(const LogOfRoot&) = delete;
  ~LogOfRoot() { enable_log(before_); }

 private:
  bool before_;
};

/// Settings that hold during a call, and not for the rest of the program.
struct DuringCall {
  explicit DuringCall(const Communicator& comm) : log(comm) {}

  LogOfRoot log;
  KokkosThreads threads;
};

/// Throws KeyError for the first key with a value that a session would ignore or misunderstand.
void refuse_keys_of_runs(RunConfig config) {
  RunConfig defaults;
  defaults.data.has_memory = true;
  defaults.data.memory.inputs = {1};
  const DeckValues usual = deck_values(write_config(defaults), "");
  const std::vector<Option> options = config.options();
  const auto is_ours = [&](const std::string& key) {
    for (const char* section : {"run.name", "run.seed", "run.steps", "data.memory", "data.normalize", "data.scale"})
      if (is_below(key, section)) return true;
    return !is_below(key, "run") && !is_below(key, "data") && !is_below(key, "checkpoint") &&
           std::ranges::none_of(options, [&](const Option& option) {
             return option.requires_capability(Capability::run_loop) && is_below(key, option.key);
           });
  };
  for (const auto& [key, value] : deck_values(write_config(config), "")) {
    const std::string* before = find_value(usual, key);
    validate_key(is_ours(key) || (before && *before == value), key,
                 "is {}, which is for runs of `lockstep train` (a session trains, evaluates and saves when its program "
                 "says so); remove it",
                 value);
    validate_key(!is_below(key, "schedule") || value.find(" epoch") == std::string::npos, key,
                 "is {}, but a session has no epochs (its program chooses the examples of each step); give steps, or "
                 "examples",
                 value);
  }
}

RunConfig checked(RunConfig config) {
  with_positions(config.source, [&] {
    validate_key(
        config.data.has_memory, "data",
        "has no memory section (the program gives a session's examples); describe their format, as {{memory: {{inputs: "
        "[28, 28, 1]}}}}");
    refuse_keys_of_runs(config);
  });
  return config;
}

}  // namespace

struct Session::State {
  State(const std::function<RunConfig()>& read, MPI_Comm mpi);

  /// Returns this rank's part of a batch. Throws if any rank's part is wrong. `divided`: whether the partition's shares
  /// apply, if there are shards. Collective.
  const HostBatch& batch_of(const Array& inputs, const Array& targets, bool divided);
  void divide_into_shards(const std::vector<std::int64_t>& counts);
  void check(const Array& inputs, const Array& targets) const;
  /// Warns of differences from the deck of the checkpoint that the session goes on from.
  void say_what_has_changed(const Checkpoint& checkpoint, const std::string& file) const;
  void require_whole() const;
  void describe_state(StateFields& fields) { trainer->describe_state(fields); }
  void share();

  Communicator comm;
  RunConfig config;
  std::string deck;  ///< the resolved deck
  std::string provenance;
  std::optional<GivenExamples> data;
  std::unique_ptr<Trainer> trainer;
  std::optional<CheckpointTransfer> numbers_held;                ///< those of the trainer
  std::int64_t classes = 0, ignored_class = -1, vocabulary = 0;  ///< 0: no classes, no tokens
  std::optional<Range> target_range;                             ///< of the loss
  HostBatch batch;
  std::optional<LoggedMetrics> numbers;  ///< numbers of the last step, once they are asked for
  bool has_step = false;                 ///< the last step is done, and its sums are available
  bool is_whole = true;                  ///< all numbers belong to one state
};

Session::State::State(const std::function<RunConfig()>& read, MPI_Comm mpi) : comm(communicator_of(mpi)) {
  const LogOfRoot log(comm);
  std::optional<Graph> graph;
  std::unique_ptr<Loss> loss;
  comm.run_collectively([&] {
    validate(Kokkos::is_initialized(), ExitStatus::bad_usage,
             "Kokkos is not initialized; create a Kokkos::ScopeGuard before the first session");
    config = checked(read());
  });
  const KokkosThreads threads;
  deck = agreed_deck(comm, write_config(config));
  comm.run_collectively([&] {
    with_positions(config.source, [&] {
      data.emplace(config.data.memory.format(), config.batch.global);
      graph.emplace(make_graph(config, data->format()));
      loss = config.loss.make();
      check_metrics(config.metrics, *loss);
      for (const std::string& remark : metric_remarks(config.metrics, graph->output_shape())) warn("{}", remark);
      check_examples(*data, config.data.augment, *graph, *loss);
    });
    vocabulary = data->format().has_tokens() ? vocabulary_of(*graph) : 0;
    classes = loss->wants_classes() ? graph->output_shape()[-1] : 0;
    ignored_class = loss->ignored_class();
    target_range = loss->target_range();
  });
  provenance = lockstep::provenance(comm, {}, {});
  trainer = make_trainer(config, std::move(*graph), std::move(loss), *data, comm);
  numbers_held.emplace(comm, trainer->strategy().sharded_states());
  comm.run_collectively([&] {
    for (const MicroBatch& micro : micro_batches_of(trainer->partition(), config.batch.global, comm.rank()))
      if (micro.count > 0) trainer->model().prepare(micro.count);
  });
  initialize_on_all_ranks(config, trainer->model(), comm);
  trainer->share_parameters();
}

void Session::State::check(const Array& inputs, const Array& targets) const {
  const ExampleFormat& format = data->format();
  check_array("inputs", inputs, format.input_dtype, format.input_shape);
  check_array("targets", targets, format.target_dtype, format.target_shape);
  validate(inputs.examples == targets.examples, ExitStatus::bad_usage,
           "the inputs are {} examples and the targets {}; give the same number of both", inputs.examples,
           targets.examples);
  if (vocabulary > 0) check_numbers("tokens", inputs, format.input_shape, vocabulary);
  if (classes > 0) check_numbers("classes", targets, format.target_shape, classes, ignored_class);
  if (target_range) check_values(targets, format.target_shape, target_range->min, target_range->max);
}

const HostBatch& Session::State::batch_of(const Array& inputs, const Array& targets, bool divided) {
  require_whole();
  const std::int64_t most = trainer->max_micro_batch();
  std::exception_ptr failure;
  try {
    check(inputs, targets);
    for (const std::int64_t n : {std::min(inputs.examples, most), inputs.examples % most})
      if (n > 0) trainer->model().prepare(n);
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  // One exchange tells how many examples there are, and whether anything is wrong with them.
  const std::vector<std::int64_t> counts = comm.all_gather(failure ? -1 : inputs.examples);
  if (std::ranges::min(counts) < 0)
    comm.run_collectively([&] {
      if (failure) std::rethrow_exception(failure);
    });
  BatchPlan& plan = batch.plan;
  plan.global_examples = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  plan.first = std::accumulate(counts.begin(), counts.begin() + comm.rank(), std::int64_t{0});
  if (plan.global_examples == 0) throw SharedError(ExitStatus::bad_usage, "no rank has given an example; give some");
  if (divided && trainer->partition().shards > 1) divide_into_shards(counts);
  else {
    BatchPartition partition = trainer->partition();
    partition.micro = most;
    plan.micro_batches = micro_batches_of(inputs.examples, std::ranges::max(counts), partition);
  }
  point_at(batch, data->format(), inputs, &targets);
  return batch;
}

void Session::State::divide_into_shards(const std::vector<std::int64_t>& counts) {
  BatchPartition partition = trainer->partition();
  partition.micro = trainer->max_micro_batch();
  BatchPlan& plan = batch.plan;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const std::int64_t share = share_of(partition, plan.global_examples, rank).count,
                       given = counts[static_cast<std::size_t>(rank)];
    if (given != share)
      throw SharedError(ExitStatus::bad_usage,
                        fmt::format("rank {} gives {} of {} examples, but its share is {} where parallel.deterministic "
                                    "or parallel.virtual_replicas divides a batch; give that many",
                                    rank, given, plan.global_examples, share));
  }
  plan.micro_batches = micro_batches_of(partition, plan.global_examples, comm.rank());
  if (plan.global_examples == config.batch.global) return;  // everything is prepared for this size
  comm.run_collectively([&] {
    for (const MicroBatch& micro : plan.micro_batches)
      if (micro.count > 0) trainer->model().prepare(micro.count);
  });
}

void Session::State::require_whole() const {
  if (!is_whole)
    throw SharedError(ExitStatus::bad_usage,
                      "the last restore failed halfway (the session holds numbers of two states); restore a checkpoint "
                      "first");
}

void Session::State::say_what_has_changed(const Checkpoint& checkpoint, const std::string& file) const {
  for (const DeckChange& change : changes_since(checkpoint.texts, deck))
    if (change.effect == DeckChange::Effect::training)
      warn("{}: {} was {} and is {} in this session", file, change.key, change.was, change.is);
}

/// Sends rank 0's state to all ranks. Collective.
void Session::State::share() {
  const auto describe = [this](StateFields& fields) { describe_state(fields); };
  std::string text = state_text(describe);
  comm.broadcast(text);
  lockstep::restore_state(text, describe);
  trainer->share_parameters();
}

Session::Session(const std::string& deck, MPI_Comm comm)
    : state_(std::make_unique<State>([&] { return read_run_config(parse_deck(deck, "deck")); }, comm)) {}

Session::Session(const RunConfig& config, MPI_Comm comm)
    : state_(std::make_unique<State>(
          [&] {  // through the deck's text, which is checked as any deck is
            RunConfig copy = config;
            return read_run_config(parse_deck(write_config(copy), "config"));
          },
          comm)) {}

Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

StepResult Session::step(const Array& inputs, const Array& targets) {
  State& state = *state_;
  const DuringCall call(state.comm);
  const HostBatch& batch = state.batch_of(inputs, targets, true);
  state.numbers.reset();
  state.has_step = false;
  StepResult result = state.trainer->step(batch);
  if (auto later = state.trainer->settle()) result.outcome = std::move(later);
  if (batch.copied) batch.copied->wait();  // the arrays belong to the program again
  const StepOutcome& outcome = *result.outcome;
  if (!outcome.done()) throw SharedError(ExitStatus::internal, outcome.message);
  state.has_step = true;
  if (!outcome.message.empty()) warn("{}", outcome.message);
  return result;
}

LoggedMetrics Session::numbers() {
  State& state = *state_;
  if (!state.has_step) throw SharedError(ExitStatus::bad_usage, "there are no numbers of a step yet; do a step first");
  const DuringCall call(state.comm);
  if (!state.numbers) state.numbers = state.trainer->step_metrics();
  return *state.numbers;
}

Metrics Session::evaluate(const Array& inputs, const Array& targets) {
  State& state = *state_;
  const DuringCall call(state.comm);
  const HostBatch& batch = state.batch_of(inputs, targets, false);
  if (state.has_step) numbers();  // an evaluation overwrites the step's sums
  return state.trainer->evaluate(batch);
}

std::int64_t Session::steps() const { return state_->trainer->steps(); }

void Session::save(const std::string& file) {
  State& state = *state_;
  state.require_whole();
  const DuringCall call(state.comm);
  const ExecSpace space;
  const bool is_finite = state.trainer->parameters_are_finite(state.comm);
  space.fence("lockstep::save");
  state.comm.run_collectively([&] {
    if (!state.comm.is_root()) return state.numbers_held->serve();
    const CheckpointTransfer::Turn turn(*state.numbers_held);
    validate(
        is_finite, ExitStatus::internal,
        "{}: not written (some parameters are not finite); restore an earlier checkpoint, and use a smaller learning "
        "rate",
        file);
    const std::string text = state_text([&](StateFields& fields) { state.describe_state(fields); });
    write_checkpoint(file,
                     {.arrays = arrays_of(state.numbers_held->states()),
                      .texts = {{"deck", state.deck}, {"provenance", state.provenance}, {"state", text}}},
                     source_of(*state.numbers_held));
  });
}

void Session::restore(const std::string& file) {
  State& state = *state_;
  const DuringCall call(state.comm);
  std::optional<CheckpointReader> numbers;  // on rank 0
  state.comm.run_on_root([&] {
    const Checkpoint checkpoint = open_checkpoint(file);
    state.say_what_has_changed(checkpoint, file);
    with_positions(state.config.source, [&] {
      check_training_arrays(checkpoint, file, state.config.optimizer, state.trainer->model().parameters().parameters());
      check_own_steps(checkpoint, file, state.config.optimizer, "parallel.local");
    });
    numbers.emplace(file);
    const auto describe = [&](StateFields& fields) { state.describe_state(fields); };
    const std::string before = state_text(describe);
    try {
      restore_state(checkpoint, file, describe);
    } catch (const Error&) {
      restore_state(before, describe);
      throw;
    }
  });
  state.numbers.reset();
  state.has_step = false;
  state.is_whole = false;
  state.comm.run_collectively([&] {
    if (!state.comm.is_root()) return state.numbers_held->serve();
    const CheckpointTransfer::Turn turn(*state.numbers_held);
    restore_numbers(*state.numbers_held, *numbers);
  });
  state.share();
  state.is_whole = true;
}

}  // namespace lockstep
