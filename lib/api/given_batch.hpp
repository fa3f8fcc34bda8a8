// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "api/array.hpp"
#include "data/batch/data_loader.hpp"
#include "data/dataset/dataset.hpp"
#include "nn/graph.hpp"

namespace lockstep {

/// The examples of a Session, as its Trainer knows them: their format, and their number, which is that of a batch. They
/// can be read only in the step that they are given to.
class GivenExamples final : public Dataset {
 public:
  GivenExamples(const ExampleFormat& format, std::int64_t batch) : format_(format), batch_(batch) {}

  std::int64_t size() const override { return batch_; }
  const ExampleFormat& format() const override { return format_; }
  std::string description() const override { return "data.memory"; }
  bool can_be_read_again() const override { return false; }
  void read(std::span<const std::int64_t> examples, void* inputs, void* targets) const override;
  void check_classes(std::int64_t /*classes*/, std::int64_t /*ignored*/) const override {
  }  // checked for each batch: see check_numbers

 private:
  ExampleFormat format_;
  std::int64_t batch_;
};

/// Throws Error(bad_usage) unless the array has memory with numbers of this type and examples of this shape. `what`:
/// name of the array in messages, such as "inputs".
void check_array(const std::string& what, const Array& array, DType dtype, const Shape& shape);
/// Throws Error(bad_data) unless all of the array's 32-bit integers are in [0, end) or equal `ignored`.
void check_numbers(const std::string& what, const Array& array, const Shape& shape, std::int64_t end,
                   std::int64_t ignored = -1);

/// Throws Error(bad_data) unless all of the array's values, f32 or f64, are from `least` to `most`, or NaN.
void check_values(const Array& targets, const Shape& shape, double least, double most);

/// Makes the batch use the memory of the arrays, which stays the caller's.
void point_at(HostBatch& batch, const ExampleFormat& format, const Array& inputs, const Array* targets);

}  // namespace lockstep
