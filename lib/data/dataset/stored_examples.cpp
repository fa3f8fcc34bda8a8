// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/dataset/stored_examples.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <ranges>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace lockstep {

std::optional<DType> type_in_memory(const StoredType& type) {
  using Kind = StoredType::Kind;
  if (type == StoredType::of(DType::u8)) return DType::u8;
  if (type == StoredType::of(DType::f64)) return DType::f64;
  if (type.kind == Kind::integer || type.kind == Kind::boolean || (type.kind == Kind::real && type.bytes <= 8))
    return DType::f32;
  return std::nullopt;
}

void check_inputs(const StoredArray& inputs, const std::string& where) {
  const auto dtype = type_in_memory(inputs.type);
  const std::string shape = extents_text(inputs.extents);
  validate(dtype.has_value(), ExitStatus::bad_data, "{}: holds {} (numbers are expected); store it as {}", where,
           to_string(inputs.type),
           inputs.type.kind == StoredType::Kind::variable_length
               ? "one array, with rows of the same length: numpy.stack(x).astype(\"f4\")"
               : "x.astype(\"f4\")");
  const auto rank = inputs.extents.size();
  validate(rank != 3 || dtype != DType::u8, ExitStatus::bad_data,
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
  using Kind = StoredType::Kind;
  const bool classes = targets.type.kind == Kind::integer || targets.type.kind == Kind::boolean;
  const std::string shape = extents_text(targets.extents);
  validate(
      classes || type_in_memory(targets.type), ExitStatus::bad_data,
      "{}: holds {} (integers for classes, or values, are expected); store it as {}", where, to_string(targets.type),
      targets.type.kind == Kind::text ? "numbers of classes: numpy.unique(y, return_inverse=True)[1].astype(\"i4\")"
                                      : "y.astype(\"i4\") or y.astype(\"f4\")");
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
             "{}: has the shape {} (values are N×K, or N×H×W×K for K per pixel of an image); reshape it (y[:, "
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

void warn_of_missing_classes(const std::set<std::int64_t>& train, const std::string& train_name,
                             const std::set<std::int64_t>& other, const std::string& other_name) {
  if (train.empty() || other.empty()) return;
  const auto named = [](const std::set<std::int64_t>& these, const std::set<std::int64_t>& are_not_in) {
    constexpr std::size_t most = 5;
    std::vector<std::int64_t> missing;
    std::ranges::set_difference(these, are_not_in, std::back_inserter(missing));
    if (missing.empty()) return std::string();
    return fmt::format("{} of {} classes ({}{})", missing.size(), these.size(),
                       fmt::join(missing | std::views::take(most), ", "), missing.size() > most ? ", …" : "");
  };
  constexpr std::string_view advice = "choose the examples of each split at random";
  if (const std::string missing = named(other, train); !missing.empty())
    warn("{}: has no example of {} of {}, so the network cannot learn them; {}", train_name, missing, other_name,
         advice);
  if (const std::string missing = named(train, other); !missing.empty())
    warn("{}: has no example of {} of {}, so its metrics say nothing about them; {}", other_name, missing, train_name,
         advice);
}

void say_unwritten(const StoredArray& array, const std::string& where) {
  if (array.unwritten == 0) return;
  log("{}: {} never written, and {} read as its fill value", where,
      array.chunk.empty()
          ? "was"
          : fmt::format("{} {}", counted(array.unwritten, "chunk"), array.unwritten == 1 ? "was" : "were"),
      array.chunk.empty() || array.unwritten == 1 ? "is" : "are");
}

void warn_of_channels_first(const Shape& example, const std::string& where) {
  constexpr std::int64_t most_channels = 4;
  const std::int64_t rank = example.rank();
  if (rank != 3 && rank != 4) return;
  const bool few_come_first = example[0] <= most_channels && example[-1] > most_channels;
  const bool square_comes_last = example[-1] == example[-2] && example[0] < example[-1] &&
                                 (rank == 3 || example[1] == example[2]);
  if (!few_come_first && !square_comes_last) return;
  warn(
      "{}: its examples are {}, which is read as {}height × width × channels; if channels come first, as in PyTorch, "
      "store them transposed: numpy.transpose(inputs, {})",
      where, to_string(example), rank == 4 ? "depth × " : "", rank == 4 ? "(0, 2, 3, 4, 1)" : "(0, 2, 3, 1)");
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
