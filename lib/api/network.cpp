// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "api/network.hpp"

#include <algorithm>

#include "api/given_batch.hpp"
#include "comm/mpi_handle.hpp"
#include "ops/products/library_threads.hpp"
#include "run/experiment/experiment.hpp"
#include "run/inference/inference.hpp"

namespace lockstep {
namespace {

/// Returns the format of the inputs, without targets. Throws bad_data if the checkpoint does not have it.
ExampleFormat format_of(const TrainedModel& trained) {
  const std::optional<ExampleFormat> found = trained.inputs();
  validate(found.has_value(), ExitStatus::bad_data,
           "{}: does not give the format of its network's inputs; give a checkpoint of lockstep train or of a Session",
           trained.name);
  return {.input_shape = found->input_shape,
          .input_dtype = found->input_dtype,
          .target_shape = {0},
          .target_dtype = DType::f32};
}

}  // namespace

struct Network::State {
  State(const TrainedModel& trained, const ExampleFormat& format, Graph graph)
      : format(format),
        max_batch(inference_batch(trained.config, graph)),
        vocabulary(vocabulary_of(graph)),
        inference(trained.config, std::move(graph), format, max_batch) {}

  static std::unique_ptr<State> make(const TrainedModel& trained);
  /// Writes the outputs of `count` examples from `first` on to their place in `y`.
  void compute(std::int64_t first, std::int64_t count, const OutputArray& y);

  ExecSpace space;
  ExampleFormat format;
  std::int64_t max_batch;
  std::int64_t vocabulary;  ///< 0: inputs are no tokens
  Inference inference;
  HostBatch batch;
  OwnedTensor staged;  ///< on devices: outputs in y's type, before they are copied to the host
};

std::unique_ptr<Network::State> Network::State::make(const TrainedModel& trained) {
  validate(Kokkos::is_initialized(), ExitStatus::bad_usage,
           "Kokkos is not initialized; create a Kokkos::ScopeGuard before the first network");
  const ExampleFormat format = format_of(trained);
  Graph graph = make_graph(trained.config, format);
  check_inputs(GivenExamples(format, 1), trained.config.data.augment, graph);
  return std::make_unique<State>(trained, format, std::move(graph));
}

Network Network::load(const std::string& file) {
  const TrainedModel trained = TrainedModel::read(file);
  std::unique_ptr<State> state = State::make(trained);
  trained.load(state->inference.model());
  return Network(std::move(state));
}

Network Network::load(const std::string& file, MPI_Comm mpi) {
  const Communicator comm = communicator_of(mpi);
  TrainedModel trained;
  comm.run_on_root([&] { trained = TrainedModel::read(file); });
  trained.share(comm);
  std::unique_ptr<State> state;
  comm.run_collectively([&] { state = State::make(trained); });
  trained.load(comm, state->inference.model());
  return Network(std::move(state));
}

Network::Network(std::unique_ptr<State> state) : state_(std::move(state)) {}
Network::Network(Network&&) noexcept = default;
Network& Network::operator=(Network&&) noexcept = default;
Network::~Network() = default;

void Network::predict(const Array& x, const OutputArray& y) {
  State& state = *state_;
  check_array("inputs", x, state.format.input_dtype, state.format.input_shape);
  check_array("outputs", y, y.dtype, output_shape());
  validate(x.examples == y.examples, ExitStatus::bad_usage,
           "there are {} examples, but room for the outputs of {}; give the same number of both", x.examples,
           y.examples);
  if (state.vocabulary > 0) check_numbers("tokens", x, state.format.input_shape, state.vocabulary);
  const KokkosThreads threads;
  point_at(state.batch, state.format, x, nullptr);
  for (std::int64_t first = 0; first < x.examples; first += state.max_batch)
    state.compute(first, std::min(state.max_batch, x.examples - first), y);
  state.space.fence("lockstep::predict");
}

void Network::State::compute(std::int64_t first, std::int64_t count, const OutputArray& y) {
  const std::int64_t each = inference.model().graph().output_shape().count();
  std::byte* to = static_cast<std::byte*>(const_cast<void*>(y.data)) +
                  static_cast<std::size_t>(first * each) * size_of(y.dtype);
  if (!memory_is_separate || y.on_device) {
    inference.compute(space, batch, first, count, {to, y.dtype, {count, each}});
    return;
  }
  if (!staged.get() || staged.get().dtype != y.dtype)
    staged = OwnedTensor("lockstep::network::outputs", y.dtype, Shape({max_batch, each}));
  const Tensor outputs{staged.get().data, y.dtype, {count, each}};
  inference.compute(space, batch, first, count, outputs);
  copy_to_host(space, outputs, to);
}

const Shape& Network::input_shape() const { return state_->format.input_shape; }
DType Network::input_dtype() const { return state_->format.input_dtype; }
const Shape& Network::output_shape() const { return state_->inference.model().graph().output_shape(); }

}  // namespace lockstep
