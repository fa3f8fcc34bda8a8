// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/dataset/hdf5_dataset.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "data/dataset/stored_examples.hpp"
#include "io/checksum.hpp"

namespace lockstep {
namespace {

void gather(std::span<const std::int64_t> examples, const std::byte* from, std::size_t bytes, std::byte* to) {
  if (bytes == 0) return;
  for (const auto example : examples) {
    std::memcpy(to, from + static_cast<std::size_t>(example) * bytes, bytes);
    to += bytes;
  }
}

std::int32_t class_at(const std::byte* targets, std::int64_t place) {
  std::int32_t target = 0;
  std::memcpy(&target, targets + static_cast<std::size_t>(place) * sizeof target, sizeof target);
  return target;
}

/// A dataset whose inputs stay in the file.
class FileDataset final : public DatasetWithTargets {
 public:
  /// `unpacked`: bytes that are read for one example's inputs.
  FileDataset(std::string description, std::int64_t size, const ExampleFormat& format, std::size_t unpacked,
              Hdf5Rows rows, Targets targets, std::shared_ptr<const Hdf5File> file)
      : DatasetWithTargets(std::move(description), size, format, std::move(targets)),
        unpacked_(unpacked),
        file_(std::move(file)),
        rows_(std::move(rows)) {}

  std::size_t unpacked_bytes() const override { return unpacked_ + format().target_bytes(); }

 private:
  void read_inputs(std::span<const std::int64_t> examples, std::byte* inputs) const override {
    for (std::size_t begin = 0; begin < examples.size();) {
      // Examples that are neighbours in the file (unshuffled epochs, evaluations) are read together.
      std::size_t end = begin + 1;
      while (end < examples.size() && examples[end] == examples[end - 1] + 1) ++end;
      rows_.read(examples[begin], static_cast<std::int64_t>(end - begin), inputs);
      inputs += (end - begin) * format().input_bytes();
      begin = end;
    }
  }

  std::size_t unpacked_;
  std::shared_ptr<const Hdf5File> file_;
  Hdf5Rows rows_;
};

template <class... Args>
void require(bool ok, const std::string& where, fmt::format_string<Args...> problem, Args&&... args) {
  if (!ok) throw Error(ExitStatus::bad_data, where + ": " + fmt::format(problem, std::forward<Args>(args)...));
}

void check_weights(const StoredArray& weights, const std::string& where, std::int64_t examples,
                   const std::string& inputs) {
  require(weights.type == StoredType::of(DType::f32) && weights.extents.size() == 1, where,
          "holds {} {} (N f32 numbers are expected); store one f32 number per example", extents_text(weights.extents),
          to_string(weights.type));
  require(weights.extents[0] == examples, where, "has {} weights ({} has {} examples); give one weight per example",
          weights.extents[0], inputs, examples);
}

/// Loads an array as it is stored.
SharedReading::Bytes load(const Hdf5File& file, const std::string& name, const StoredArray& array,
                          const SharedReading& reading) {
  return reading.load(array.bytes(), [&](std::byte* to) {
    read_in_pieces(file, name, array, [&](std::int64_t, std::int64_t rows, const std::byte* values) {
      const std::size_t bytes = array.bytes() / static_cast<std::size_t>(array.extents[0]) *
                                static_cast<std::size_t>(rows);
      std::memcpy(to, values, bytes);
      to += bytes;
    });
  });
}

/// Loads integers of any width as i32. The memory has the largest of them after the classes.
Targets load_classes(const Hdf5File& file, const std::string& name, const StoredArray& array,
                     const SharedReading& reading) {
  const auto count = static_cast<std::size_t>(array.count());
  const std::int64_t of_each = array.count() / array.extents[0];
  const std::string where = file.name() + ":" + name;
  Targets targets;
  targets.values = reading.load(count * sizeof(std::int32_t) + sizeof(std::int64_t), [&](std::byte* to) {
    std::int64_t largest = 0;
    read_in_pieces(file, name, array, [&](std::int64_t first, std::int64_t rows, const std::byte* values) {
      for_each_integer(array.type, rows * of_each, values, [&](std::int64_t i, std::int64_t value) {
        check_class(value, first + i / of_each, where);
        const auto narrow = static_cast<std::int32_t>(value);
        std::memcpy(to + static_cast<std::size_t>(first * of_each + i) * sizeof narrow, &narrow, sizeof narrow);
        largest = std::max(largest, value);
      });
    });
    std::memcpy(to + count * sizeof(std::int32_t), &largest, sizeof largest);
  });
  std::memcpy(&targets.largest_class, targets.values.get() + count * sizeof(std::int32_t), sizeof(std::int64_t));
  return targets;
}

/// Description of a group's examples, before any of them is read.
struct Found {
  StoredArray inputs, targets;
  StoredArray weights;  ///< without extents: there are none
  ExampleFormat format;
  std::vector<double> fill_values;

  void set_inputs(const Hdf5File& file, const std::string& name) {
    const std::string where = file.name() + ":" + name;
    inputs = file.info(name);
    check_inputs(inputs, where);
    say_unwritten(inputs, where);
    add_fill_values(file, name);
    format.input_shape = Shape(std::span(inputs.extents).subspan(1));
    format.input_dtype = *type_in_memory(inputs.type);
    inputs.type = StoredType::of(format.input_dtype);
  }
  /// `inputs`: name of the inputs.
  void set_targets(const Hdf5File& file, const std::string& name, const std::string& inputs) {
    const std::string where = file.name() + ":" + name;
    targets = file.info(name);
    const bool classes = targets.type.kind == StoredType::Kind::integer ||
                         targets.type.kind == StoredType::Kind::boolean;
    if (classes && targets.extents.size() == 2 && targets.extents[1] == 1) targets.extents.pop_back();  // N×1 is N
    check_targets(targets, where, size(), inputs);
    say_unwritten(targets, where);
    add_fill_values(file, name);
    format.target_shape = Shape(std::span(targets.extents).subspan(1));
    format.target_dtype = classes ? DType::i32 : *type_in_memory(targets.type);
    if (!classes) targets.type = StoredType::of(format.target_dtype);
    else targets.type.kind = StoredType::Kind::integer;
  }
  std::int64_t size() const { return inputs.extents[0]; }

 private:
  /// Reads what the conventions of netCDF and CF call them.
  void add_fill_values(const Hdf5File& file, const std::string& name) {
    for (const char* key : {"_FillValue", "missing_value"})
      if (const std::optional<double> value = file.number(name, key);
          value && std::ranges::find(fill_values, *value) == fill_values.end())
        fill_values.push_back(*value);
  }
};

std::unique_ptr<Dataset> with_inputs(std::shared_ptr<const Hdf5File> file, std::string description,
                                     const std::string& name, const Found& found, Targets targets,
                                     const SharedReading& reading, std::size_t memory_limit) {
  if (found.inputs.bytes() <= memory_limit)
    return std::make_unique<MemoryDataset>(std::move(description), found.size(), found.format,
                                           load(*file, name, found.inputs, reading), std::move(targets));
  warn_of_chunks(found.inputs, 1, file->name() + ":" + name);
  Hdf5Rows rows = file->rows(name, found.inputs.type);
  return std::make_unique<FileDataset>(std::move(description), found.size(), found.format,
                                       found.inputs.unpacked_bytes(1), std::move(rows), std::move(targets),
                                       std::move(file));
}

}  // namespace

void DatasetWithTargets::read(std::span<const std::int64_t> examples, void* inputs, void* targets) const {
  read_inputs(examples, static_cast<std::byte*>(inputs));
  gather(examples, targets_.values.get(), format_.target_bytes(), static_cast<std::byte*>(targets));
}

std::optional<std::int32_t> DatasetWithTargets::class_of(std::int64_t example) const {
  if (!format_.has_classes() || format_.target_shape.rank() > 0) return std::nullopt;
  return class_at(targets_.values.get(), example);
}

std::vector<double> DatasetWithTargets::sampling_weights() const {
  if (!targets_.weights) return {};
  std::vector<float> weights(static_cast<std::size_t>(size_));
  std::memcpy(weights.data(), targets_.weights.get(), weights.size() * sizeof(float));
  return {weights.begin(), weights.end()};
}

void DatasetWithTargets::check_classes(std::int64_t classes, std::int64_t ignored) const {
  validate(format_.has_classes(), ExitStatus::bad_data,
           "{}: has targets of {} numbers, not classes; choose a loss for values, such as mse, or give class numbers",
           description_, to_string(format_.target_shape));
  if (targets_.largest_class < classes) return;
  const std::int64_t of_each = format_.target_shape.count();
  for (std::int64_t place = 0; place < size_ * of_each; ++place) {
    const std::int32_t target = class_at(targets_.values.get(), place);
    validate(target < classes || target == ignored, ExitStatus::bad_data,
             "{}: example {} is of class {} (the model has {} classes, 0 to {}); correct the targets, give the model's "
             "last layer more features, or set loss.ignore_class for targets without a class",
             description_, place / of_each, target, classes, classes - 1);
  }
}

void DatasetWithTargets::check_values(double least, double most) const {
  if (format_.has_classes()) return;
  const std::int64_t of_each = format_.target_shape.count();
  const std::byte* const values = targets_.values.get();
  const std::optional<std::int64_t> place = first_outside(values, format_.target_dtype, size_ * of_each, least, most);
  if (!place) return;
  throw Error(
      ExitStatus::bad_data,
      fmt::format("{}: example {} has the target {:g}{} (this loss reads targets from {:g} to {:g}); correct the "
                  "targets (`lockstep check --data` names the first ten such examples), or choose another loss",
                  description_, *place / of_each, value_at(values, format_.target_dtype, *place),
                  of_each > 1 ? fmt::format(" as its number {}", *place % of_each) : "", least, most));
}

void MemoryDataset::read_inputs(std::span<const std::int64_t> examples, std::byte* inputs) const {
  gather(examples, inputs_.get(), format().input_bytes(), inputs);
}

std::unique_ptr<Dataset> open_hdf5_dataset(std::shared_ptr<const Hdf5File> file, const ExampleNames& names,
                                           const SharedReading& reading, std::size_t memory_limit) {
  const auto& [inputs, targets, weights, whole] = names;
  std::optional<Found> found;
  reading.run_collectively([&] {
    const bool has_inputs = file->has(inputs), has_targets = file->has(targets);
    if (!has_inputs && !has_targets) return;
    require(has_inputs && has_targets, file->name(), "has {} but no {}; give both", has_inputs ? inputs : targets,
            has_targets ? inputs : targets);
    found.emplace();
    found->set_inputs(*file, inputs);
    found->set_targets(*file, targets, inputs);
    if (!weights.empty() && file->has(weights)) {
      found->weights = file->info(weights);
      check_weights(found->weights, file->name() + ":" + weights, found->size(), inputs);
    }
  });
  reading.agree(
      file->name() + ":" + whole,
      found ? fmt::format("inputs {} {}, targets {} {}, {}", extents_text(found->inputs.extents),
                          to_string(found->inputs.type), extents_text(found->targets.extents),
                          to_string(found->targets.type), found->weights.extents.empty() ? "no weights" : "weights")
            : "no examples");
  if (!found) return nullptr;
  Targets values;
  if (found->format.has_classes()) values = load_classes(*file, targets, found->targets, reading);
  else values.values = load(*file, targets, found->targets, reading);
  values.fill_values = found->fill_values;
  if (!found->weights.extents.empty()) values.weights = load(*file, weights, found->weights, reading);
  std::string description = file->name() + ":" + whole;
  return with_inputs(std::move(file), std::move(description), inputs, *found, std::move(values), reading, memory_limit);
}

std::unique_ptr<Dataset> open_hdf5_inputs(std::shared_ptr<const Hdf5File> file, const std::string& dataset,
                                          const SharedReading& reading, std::size_t memory_limit) {
  Found found;
  reading.run_collectively([&] { found.set_inputs(*file, dataset); });
  found.format.target_shape = {0};
  found.format.target_dtype = DType::f32;
  std::string description = file->name() + ":" + dataset;
  Targets none;
  none.fill_values = found.fill_values;
  return with_inputs(std::move(file), std::move(description), dataset, found, std::move(none), reading, memory_limit);
}

}  // namespace lockstep
