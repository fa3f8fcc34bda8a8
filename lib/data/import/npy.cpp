// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import/importers.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/dataset/stored_examples.hpp"
#include "data/import/files.hpp"
#include "io/array_file.hpp"
#include "io/output_file.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t numbers_in_piece = std::int64_t{1} << 19;  // 4 MB of f64

/// An array in a file, and its type in the dataset.
class NpySource {
 public:
  explicit NpySource(const std::string& name) : file_(open_input(name)), npy_(read_npy_header(file_)) {}

  const std::string& name() const { return file_.name(); }
  const StoredArray& array() const { return npy_.array; }
  /// Type and shape in the dataset: f64 becomes f32; other types stay.
  StoredArray stored() const {
    return {array().type == StoredType::of(DType::f64) ? StoredType::of(DType::f32) : array().type, array().extents};
  }

  void write(Hdf5File& to, const std::string& dataset, const Splits& splits) const {
    const auto& extents = array().extents;
    SplitRows rows(to, dataset, stored().type, {extents.begin() + 1, extents.end()}, splits);
    const std::int64_t examples = extents[0], of_each = array().count() / examples;
    const std::size_t row_bytes = array().bytes() / static_cast<std::size_t>(examples);
    const std::int64_t most = std::clamp(numbers_in_piece / of_each, std::int64_t{1}, examples);
    std::vector<std::byte> piece(static_cast<std::size_t>(most) * row_bytes);
    for (std::int64_t first = 0; first < examples; first += most) {
      const std::int64_t count = std::min(most, examples - first);
      file_.read(npy_.begin + static_cast<std::uint64_t>(first) * row_bytes, piece.data(),
                 static_cast<std::size_t>(count) * row_bytes);
      if (stored().type != array().type) narrow(piece.data(), first * of_each, count * of_each, of_each);
      else if (dataset == "targets" && array().type.kind == StoredType::Kind::integer)
        for_each_integer(array().type, count * of_each, piece.data(),
                         [&](std::int64_t i, std::int64_t value) { check_class(value, first + i / of_each, name()); });
      rows.append(piece.data(), count);
    }
    rows.finish();
  }

 private:
  /// Converts f64 to f32 in place.
  void narrow(std::byte* numbers, std::int64_t first, std::int64_t count, std::int64_t of_each) const {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      double wide = 0;
      std::memcpy(&wide, numbers + i * sizeof wide, sizeof wide);
      validate(std::abs(wide) <= std::numeric_limits<float>::max() || !std::isfinite(wide), ExitStatus::bad_data,
               "{}: example {} holds {:g} (numbers are stored as f32, at most 3.4e38); scale them", name(),
               (first + static_cast<std::int64_t>(i)) / of_each, wide);
      const auto number = static_cast<float>(wide);
      std::memcpy(numbers + i * sizeof number, &number, sizeof number);
    }
  }

  RawFile file_;
  NpyArray npy_;
};

void check_arrays(const NpySource& inputs, const NpySource& targets) {
  const StoredArray in = inputs.stored(), out = targets.stored();
  validate(
      in.type.kind != StoredType::Kind::integer || in.type == StoredType::of(DType::u8), ExitStatus::bad_data,
      "{}: holds {} (inputs are u8, 0 to 255 from black to white, f32 or f64); save images as X.astype(\"u1\"), other "
      "numbers as X.astype(\"f4\"); store tokens as one long row, with h5py",
      inputs.name(), to_string(in.type));
  check_inputs(in, inputs.name());
  check_targets(out, targets.name(), in.extents[0], inputs.name());
  warn_of_channels_first(Shape(std::span(in.extents).subspan(1)), inputs.name());
}

}  // namespace

std::string import_npy(const ImportNpyOptions& options) {
  check_output(options.output, options.overwrite, {options.inputs, options.targets});
  const NpySource inputs(options.inputs), targets(options.targets);
  check_arrays(inputs, targets);
  const Splits splits = hold_out(inputs.array().extents[0], options.validation);
  write_output(options.output, [&](Hdf5File& to) {
    inputs.write(to, "inputs", splits);
    targets.write(to, "targets", splits);
  });
  warn_of_missing_classes(options.output);
  std::string said = options.output + ": " + splits.text();
  if (const std::vector<std::int64_t>& extents = inputs.array().extents; extents.size() == 3)
    said += fmt::format("; each input is a sequence of {} steps of {} (an image would be {}×{}×1)", extents[1],
                        counted(extents[2], "number"), extents[1], extents[2]);
  for (const NpySource* source : {&inputs, &targets})
    if (source->stored().type != source->array().type) said += fmt::format("; {}: f64, stored as f32", source->name());
  return said;
}

}  // namespace lockstep
