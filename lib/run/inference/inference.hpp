// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "comm/communicator.hpp"
#include "data/batch/upload.hpp"
#include "nn/model.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep {

/// What is needed of a checkpoint without training: its deck and its parameters.
struct TrainedModel {
  std::string name;  ///< name of the file
  std::string deck;
  std::string provenance;  ///< see run/experiment/provenance.hpp; empty in files of other programs
  RunConfig config;
  ParameterFile file;  ///< on the rank that has read the file; elsewhere empty

  /// Reads a checkpoint. Throws bad_data if the file is no checkpoint of a run.
  static TrainedModel read(const std::string& file);

  /// Format of the network's inputs, as far as the checkpoint records it.
  std::optional<ExampleFormat> inputs() const;

  /// Sends what rank 0 has read, except the parameters, to all ranks. Collective.
  void share(const Communicator& comm);
  /// Loads rank 0's parameters into the model of each rank. Collective.
  void load(const Communicator& comm, Model& model) const;
  /// Loads this rank's parameters into its model.
  void load(Model& model) const;
};

/// Applies a trained network to examples in host memory (or on the device). Its parameters must be loaded first
/// (TrainedModel).
class Inference {
 public:
  /// Makes a network for at most `max_batch` examples at once, of this format, whose targets are not read.
  Inference(const RunConfig& config, Graph graph, const ExampleFormat& format, std::int64_t max_batch);

  Model& model() { return model_; }
  const Model& model() const { return model_; }
  /// Writes the outputs of `count` examples (at most max_batch) from `first` on to `outputs`: [count, output…], f32 or
  /// f64. An example whose inputs are not all finite gets NaN (InputCheck).
  void compute(const ExecSpace& space, const HostBatch& batch, std::int64_t first, std::int64_t count,
               const Tensor& outputs);

 private:
  Model model_;
  BatchUploader uploader_;
  bool has_computed_ = false;
};

/// Type of the outputs that users get: f64 for a network in f64, else f32.
inline DType output_type(DType compute) { return compute == DType::f64 ? DType::f64 : DType::f32; }

/// How many examples are computed at once, if there are as many. Independent of the number of ranks, since results may
/// depend on how many examples are computed together.
std::int64_t inference_batch(const RunConfig& config, const Graph& graph);

}  // namespace lockstep
