// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/inference/predictor.hpp"

#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>

#include "checkpoint/training_arrays.hpp"
#include "data/dataset/dataset.hpp"
#include "io/array_file.hpp"
#include "io/output_file.hpp"
#include "run/experiment/experiment.hpp"
#include "run/experiment/provenance.hpp"
#include "run/inference/inference.hpp"

namespace lockstep {
namespace {

constexpr const char* names[] = {"outputs", "class", "probabilities"};

/// Converts each vector of outputs to the bytes that the file holds for it.
template <class T>
class Conversion {
 public:
  Conversion(PredictOptions::Form form, Loss::Probabilities probabilities, std::int64_t count)
      : form_(form), probabilities_(probabilities), count_(static_cast<std::size_t>(count)) {}

  void append(const T* outputs, std::string& to) const {
    const std::span<const T> values(outputs, count_);
    if (form_ == PredictOptions::Form::classes) return put(class_of(values), to);
    if (form_ == PredictOptions::Form::outputs)
      for (const T value : values) put(value, to);
    else if (probabilities_ == Loss::Probabilities::sigmoid)
      for (const T value : values) put(static_cast<T>(1 / (1 + std::exp(-static_cast<double>(value)))), to);
    else put_softmax(values, to);
  }

 private:
  /// The index of the largest output; −1 if any is NaN.
  static std::int32_t class_of(std::span<const T> values) {
    if (std::ranges::any_of(values, [](T value) { return std::isnan(value); })) return -1;
    return static_cast<std::int32_t>(std::ranges::max_element(values) - values.begin());
  }
  static void put_softmax(std::span<const T> values, std::string& to) {
    const auto largest = static_cast<double>(std::ranges::max(values));
    double sum = 0;
    for (const T value : values) sum += std::exp(static_cast<double>(value) - largest);
    for (const T value : values) put(static_cast<T>(std::exp(static_cast<double>(value) - largest) / sum), to);
  }
  template <class Number>
  static void put(Number number, std::string& to) {
    char bytes[sizeof number];
    std::memcpy(bytes, &number, sizeof number);
    to.append(bytes, sizeof number);
  }

  PredictOptions::Form form_;
  Loss::Probabilities probabilities_;
  std::size_t count_;
};

/// Applies the network to blocks of examples.
class Blocks {
 public:
  Blocks(const RunConfig& config, Graph graph, const Dataset& data, PredictOptions::Form form)
      : data_(data),
        form_(form),
        probabilities_(config.loss.make()->probabilities()),
        type_(output_type(config.dtype())),
        size_(std::min(inference_batch(config, graph), data.size())),
        inference_(config, std::move(graph), data.format(), size_) {
    const auto most = static_cast<std::size_t>(size_);
    batch_.inputs = staging_memory("lockstep::inputs", most * data.format().input_bytes());
    batch_.targets = staging_memory("lockstep::targets", most * data.format().target_bytes());
  }

  Model& model() { return inference_.model(); }
  std::int64_t count() const { return (data_.size() + size_ - 1) / size_; }
  std::int64_t examples_of(std::int64_t block) const { return std::min(size_, data_.size() - block * size_); }

  /// Returns the bytes that the file holds for the examples of a block.
  std::string compute(std::int64_t block) {
    const std::int64_t n = examples_of(block);
    batch_.plan.examples.resize(static_cast<std::size_t>(n));
    std::iota(batch_.plan.examples.begin(), batch_.plan.examples.end(), block * size_);
    data_.read(batch_.plan.examples, batch_.inputs.data(), batch_.targets.data());
    const Shape& output = inference_.model().graph().output_shape();
    const OwnedTensor outputs("lockstep::outputs", type_, {n * output.count() / output[-1], output[-1]});
    inference_.compute(space_, batch_, 0, n, outputs.get());
    return type_ == DType::f64 ? converted<double>(outputs.get()) : converted<float>(outputs.get());
  }

 private:
  template <class T>
  std::string converted(const Tensor& outputs) const {
    std::vector<T> values(static_cast<std::size_t>(outputs.count()));
    copy_to_host(space_, outputs, values.data());
    const std::int64_t each = outputs.shape[-1];
    const Conversion<T> conversion(form_, probabilities_, each);
    std::string bytes;
    for (std::int64_t i = 0; i < outputs.count(); i += each) conversion.append(values.data() + i, bytes);
    return bytes;
  }

  const Dataset& data_;
  PredictOptions::Form form_;
  Loss::Probabilities probabilities_;
  DType type_;  ///< type of the outputs
  std::int64_t size_;
  ExecSpace space_;
  Inference inference_;
  HostBatch batch_;
};

/// Throws if the data have another shape than the training data. If the deck does not say what the network reads, it
/// takes the shape of the data, and only the sizes of its parameters show whether that is right.
void require_shape(const Dataset& data, const TrainedModel& trained, const ParameterBuffer& parameters) {
  try {
    check_arrays(trained.file.arrays, "/model", trained.name, parameters.parameters());
  } catch (const ArraysDiffer& error) {
    throw Error(error.status(), fmt::format("{}: its examples are {}, but the network was trained on examples of "
                                            "another shape ({})",
                                            data.description(), to_string(data.format().input_shape), error.what()));
  }
}

/// Reads the network on rank 0, after checking that the output can be written, and tells the other ranks what they need
/// to know of it. Collective.
TrainedModel read_network(const PredictOptions& options, const Communicator& comm) {
  TrainedModel trained;
  comm.run_on_root([&] {
    ArrayFile::require_kind(options.output);
    check_output(options.output, options.overwrite, {options.checkpoint, DataPlace::of(options.data).file});
    trained = TrainedModel::read(options.checkpoint);
  });
  trained.share(comm);
  return trained;
}

/// Makes the network for these data, and gives it the parameters of the checkpoint. Collective.
std::unique_ptr<Blocks> make_blocks(const PredictOptions& options, const TrainedModel& trained, const Dataset& data,
                                    const SharedReading& reading, const Communicator& comm) {
  const RunConfig& config = trained.config;
  std::unique_ptr<Blocks> blocks;
  reading.run_collectively([&] {
    if (comm.is_root()) {
      check_vocabulary(data, trained.file.vocabulary(), trained.name);
      warn_of_other_input_type(data, trained.provenance, trained.name);
    }
    Graph graph = make_graph(config, data.format());
    check_inputs(data, config.data.augment, graph);
    const std::unique_ptr<Loss> loss = config.loss.make();
    validate(options.form != PredictOptions::Form::classes || loss->wants_classes(), ExitStatus::bad_usage,
             "{}: its network outputs values (loss {}), not classes; leave out --classes", options.checkpoint,
             config.loss.type);
    validate(options.form != PredictOptions::Form::probabilities || loss->probabilities() != Loss::Probabilities::none,
             ExitStatus::bad_usage,
             "{}: its network outputs values (loss {}), not probabilities; leave out --probabilities",
             options.checkpoint, config.loss.type);
    blocks = std::make_unique<Blocks>(config, std::move(graph), data, options.form);
  });
  comm.run_on_root([&] { require_shape(data, trained, blocks->model().parameters()); });
  trained.load(comm, blocks->model());
  return blocks;
}

/// Returns the extents of the array in the file.
std::vector<std::int64_t> output_extents(const PredictOptions& options, Blocks& blocks, const Dataset& data) {
  const Shape& output = blocks.model().graph().output_shape();
  const int classes = options.form == PredictOptions::Form::classes ? 1 : 0;
  std::vector<std::int64_t> extents{data.size()};
  extents.insert(extents.end(), output.extents().begin(), output.extents().end() - classes);
  return extents;
}

/// Writes one block of each rank, from block `first` on, to the file of rank 0. `own`: the bytes of this rank's block.
/// Ranks send their blocks one after the other, so that rank 0 never holds more than one. An error of rank 0 in writing
/// is thrown after all have sent theirs. Collective.
void write_round(const Blocks& blocks, std::int64_t first, const std::string& own, std::optional<ArrayFile>& file,
                 const Communicator& comm) {
  std::exception_ptr failure;
  for (std::int64_t block = first; block < std::min(first + comm.size(), blocks.count()); ++block) {
    const std::string received = comm.to_root(own, static_cast<int>(block - first));
    if (!comm.is_root() || failure) continue;
    try {
      file->append(received.data(), blocks.examples_of(block));
    } catch (const std::exception&) {
      failure = std::current_exception();
    }
  }
  comm.run_on_root([&] {
    if (failure) std::rethrow_exception(failure);
  });
}

}  // namespace

std::string predict(const PredictOptions& options, const Communicator& comm) {
  const bool classes = options.form == PredictOptions::Form::classes;
  const char* const name = names[static_cast<std::size_t>(options.form)];
  const TrainedModel trained = read_network(options, comm);
  const RunConfig& config = trained.config;
  const SharedReading reading(comm, config.source);
  const std::unique_ptr<Dataset> data = open_inputs(options.data, "/" + options.split, trained.inputs(), reading,
                                                    config.data.external());
  const std::unique_ptr<Blocks> blocks = make_blocks(options, trained, *data, reading, comm);
  const std::vector<std::int64_t> extents = output_extents(options, *blocks, *data);
  std::optional<ArrayFile> file;  // on rank 0
  comm.run_on_root(
      [&] { file.emplace(options.output, name, classes ? DType::i32 : output_type(config.dtype()), extents); });
  for (std::int64_t first = 0; first < blocks->count(); first += comm.size()) {
    const std::int64_t mine = first + comm.rank();
    std::string bytes;
    comm.run_collectively([&] {
      if (mine < blocks->count()) bytes = blocks->compute(mine);
    });
    write_round(*blocks, first, bytes, file, comm);
  }
  comm.run_on_root([&] { file->commit(); });
  return fmt::format(
      "{}: {} of {} examples of {} ({} each)", options.output, classes ? "classes" : name, data->size(),
      data->description(),
      extents.size() == 1 ? "one" : fmt::format("{}", fmt::join(extents.begin() + 1, extents.end(), "×")));
}

}  // namespace lockstep
