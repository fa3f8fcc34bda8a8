// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "parameters/parameter_buffer.hpp"

// Arrays of a file for the parameters of a network.
namespace lockstep {

/// Returns the array of this name; null if there is none.
const NamedArray* find_array(const std::vector<NamedArray>& arrays, const std::string& name);

/// Converts `count` numbers to another type: both types f32 or f64, or the same.
void convert_numbers(const std::byte* from, DType dtype, std::byte* to, DType wanted, std::int64_t count);

/// Words for errors about the arrays of a checkpoint: the part of the deck that needs them, and the advice.
struct ArraysOf {
  std::string_view what = "network", advice = "use a file of the same network";
};
inline constexpr ArraysOf of_optimizer{
    "optimizer", "keep the optimizer's options, or start from the parameters alone with model.weights"};

/// bad_data: the arrays of a file are not those of the deck's network or optimizer.
class ArraysDiffer : public Error {
 public:
  /// `difference` is a text such as "model/fc2/weight is 10×32 there, 10×64 here".
  ArraysDiffer(const std::string& message, const ArraysOf& of, std::string difference)
      : Error(ExitStatus::bad_data, message), of_(of), difference_(std::move(difference)) {}

  const ArraysOf& of() const { return of_; }
  const std::string& difference() const { return difference_; }

 private:
  ArraysOf of_;
  std::string difference_;
};

/// Throws ArraysDiffer unless the arrays below `prefix` ("/model") are those of the parameters, with their shapes, and
/// no others. Throws bad_data if they do not hold f32 or f64.
void check_arrays(const std::vector<NamedArray>& arrays, const std::string& prefix, const std::string& file,
                  const std::vector<Parameter>& parameters, const ArraysOf& of = {});

/// Copies the arrays below /model, which must pass check_arrays, into parameters. Values of fp32 files go into fp64
/// models, and the reverse.
void restore_parameters(const ExecSpace& space, const std::vector<NamedArray>& arrays, const std::string& file,
                        ParameterBuffer& parameters);
/// Copies the arrays that are there into parameters, whose names and shapes must fit; other parameters stay as they
/// are. If values are divided, copies those that this rank owns.
void set_parameters(const ExecSpace& space, const std::vector<NamedArray>& arrays, ParameterBuffer& parameters);

}  // namespace lockstep
