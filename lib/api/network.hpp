// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "api/array.hpp"

namespace lockstep {

/// A trained network, for this process alone: what a checkpoint holds, of a Session or of `lockstep train`.
class Network {
 public:
  /// What examples look like, where the checkpoint does not say so (it was written by a version before this one).
  struct Inputs {
    Shape shape;
    DType dtype = DType::f32;
  };

  /// Kokkos has been started, MPI need not. Throws missing_file or bad_data.
  static Network load(const std::string& file, const std::optional<Inputs>& inputs = std::nullopt);
  /// Loads the network on each rank of `comm`, of which one reads the file. Collective.
  static Network load(const std::string& file, MPI_Comm comm, const std::optional<Inputs>& inputs = std::nullopt);
  Network(Network&&) noexcept;
  Network& operator=(Network&&) noexcept;
  ~Network();

  /// y [n, output_shape…], float or double, of x [n, input_shape…] of input_dtype: what the network was trained on,
  /// before data.normalize. Any n; nothing is allocated but in the first call of an n. Throws Error(bad_usage) for
  /// other arrays.
  void predict(const Array& x, const OutputArray& y);

  const Shape& input_shape() const;
  DType input_dtype() const;
  const Shape& output_shape() const;

 private:
  struct State;
  explicit Network(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
