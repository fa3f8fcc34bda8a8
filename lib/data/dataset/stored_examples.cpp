// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/dataset/stored_examples.hpp"

#include <fmt/ranges.h>

#include <limits>
#include <span>

#include "base/error.hpp"
#include "base/log.hpp"

namespace lockstep {
void check_inputs(const StoredArray& inputs, const std::string& where) {
  const auto dtype = inputs.type.dtype();
  const std::string shape = extents_text(inputs.extents);
  validate(dtype == DType::u8 || dtype == DType::f32, ExitStatus::bad_data,
           "{}: holds {} (u8 or f32 is expected); store it as f32", where, to_string(inputs.type));
  const auto rank = inputs.extents.size();
  validate(rank != 3 || dtype == DType::f32, ExitStatus::bad_data,
           "{}: has the shape {} (images have four dimensions); store it as N×H×W×C, C = 1 for grey images, or "
           "sequences N×T×C as f32",
           where, shape);
  validate(rank >= 2 && rank <= 5, ExitStatus::bad_data,
           "{}: has the shape {} (N×features, N×T×C, N×H×W×C or N×D×H×W×C is expected); reshape it", where, shape);
  validate(inputs.extents[0] > 0, ExitStatus::bad_data, "{}: has no examples; give at least one", where);
  validate(inputs.count() > 0, ExitStatus::bad_data, "{}: has the shape {} (its examples are empty); give them values",
           where, shape);
}

void check_targets(const StoredArray& targets, const std::string& where, std::int64_t examples,
                   const std::string& inputs) {
  const bool classes = targets.type.kind == StoredType::Kind::integer;
  const std::string shape = extents_text(targets.extents);
  validate(classes || targets.type == StoredType::of(DType::f32), ExitStatus::bad_data,
           "{}: holds {} (integers for classes, or f32, are expected); store it as one of these", where,
           to_string(targets.type));
  const auto rank = targets.extents.size();
  validate(rank <= Shape::max_rank, ExitStatus::bad_data,
           "{}: has the shape {} (targets have at most {} dimensions); reshape it", where, shape, Shape::max_rank);
  if (classes)
    validate(rank == 1 || (rank >= 1 && targets.count() != targets.extents[0]), ExitStatus::bad_data,
             "{}: has the shape {} (class targets are N numbers, or N×H×W for one per pixel of an image); reshape it "
             "(y.ravel() turns N×1 into N numbers)",
             where, shape);
  else
    validate(rank >= 2, ExitStatus::bad_data,
             "{}: has the shape {} (f32 targets are N×K, or N×H×W×K for K per pixel of an image); reshape it (y[:, "
             "None] turns N numbers into N×1), or, if these are classes, store them as integers: labels.astype(\"i4\")",
             where, shape);
  validate(targets.extents[0] == 0 || targets.count() > 0, ExitStatus::bad_data,
           "{}: has the shape {} (its examples have no targets); give them some", where, shape);
  validate(targets.extents[0] == examples, ExitStatus::bad_data,
           "{}: has {} targets ({} has {} examples); give one target per example", where, targets.extents[0], inputs,
           examples);
}

void check_class(std::int64_t value, std::int64_t example, const std::string& where) {
  validate(value >= 0 && value <= std::numeric_limits<std::int32_t>::max(), ExitStatus::bad_data,
           "{}: example {} is of class {} (classes count from 0 and fit in 32 bits; for examples without a class see "
           "loss.ignore_class); correct it",
           where, example, value);
}

void warn_of_channels_first(const Shape& example, const std::string& where) {
  constexpr std::int64_t most_channels = 4;
  if (example.rank() != 3 || example[0] > most_channels || example[2] <= most_channels) return;
  warn(
      "{}: its examples are {}, which is read as height × width × channels; if channels come first, as in PyTorch, "
      "store them transposed: numpy.transpose(inputs, (0, 2, 3, 1))",
      where, to_string(example));
}

void warn_of_chunks(const StoredArray& array, std::int64_t rows, const std::string& where) {
  constexpr std::size_t most = 32;
  const std::size_t times = array.unpacked_bytes(rows) / array.row_bytes(rows);
  if (times <= most) return;
  const std::span<const std::int64_t> example = std::span(array.extents).subspan(1);
  warn(
      "{}: is stored in chunks of {}: for each example, {} times its bytes are read and unpacked, and steps wait; "
      "store it without chunks{}",
      where, extents_text(array.chunk), times,
      example.empty() ? "" : fmt::format(", or in chunks of one example: chunks=(1, {})", fmt::join(example, ", ")));
}

}  // namespace lockstep
