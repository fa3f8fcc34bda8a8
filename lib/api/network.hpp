// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "api/array.hpp"

namespace lockstep {

/// A trained network from a checkpoint of a Session or of `lockstep train`, for this process alone.
class Network {
 public:
  /// Kokkos must have been started; MPI need not. Throws missing_file or bad_data.
  static Network load(const std::string& file);
  /// Loads the network on each rank of `comm`; rank 0 reads the file. Collective.
  static Network load(const std::string& file, MPI_Comm comm);
  Network(Network&&) noexcept;
  Network& operator=(Network&&) noexcept;
  ~Network();

  /// Computes y [n, output_shape…], float or double, from x [n, input_shape…] of input_dtype: the inputs that the
  /// network was trained on, before data.normalize. Any n is possible; memory is allocated only in the first call for
  /// an n. Waits for the result. Throws Error(bad_usage) for other arrays.
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
