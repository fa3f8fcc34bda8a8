// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/hdf5_dataset.hpp"

#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "data/memory_dataset.hpp"
#include "io/checksum.hpp"

namespace lockstep {
namespace {

/// Inputs that stay in the file.
class FileDataset final : public DatasetWithTargets {
 public:
  FileDataset(std::string description, std::int64_t size, const ExampleFormat& format, Hdf5Rows rows,
              std::vector<std::byte> targets, std::shared_ptr<const Hdf5File> file)
      : DatasetWithTargets(std::move(description), size, format, std::move(targets)),
        file_(std::move(file)),
        rows_(std::move(rows)) {}

 private:
  void read_inputs(std::span<const std::int64_t> examples, std::byte* inputs) const override {
    for (std::size_t begin = 0; begin < examples.size();) {
      // Neighbours in the file (unshuffled epochs, evaluation) are read together.
      std::size_t end = begin + 1;
      while (end < examples.size() && examples[end] == examples[end - 1] + 1) ++end;
      rows_.read(examples[begin], static_cast<std::int64_t>(end - begin), inputs);
      inputs += (end - begin) * format().input_bytes();
      begin = end;
    }
  }

  std::shared_ptr<const Hdf5File> file_;
  Hdf5Rows rows_;
};

template <class... Args>
void require(bool ok, const std::string& where, fmt::format_string<Args...> problem, Args&&... args) {
  if (!ok) throw Error(ExitStatus::bad_data, where + ": " + fmt::format(problem, std::forward<Args>(args)...));
}

void check_inputs(const StoredArray& inputs, const std::string& where) {
  const auto dtype = inputs.type.dtype();
  require(dtype == DType::u8 || dtype == DType::f32, where, "holds {} (u8 or f32 is expected); store it as f32",
          to_string(inputs.type));
  const auto rank = inputs.extents.size();
  require(rank != 3, where,
          "has the shape {} (images have four dimensions); store it as N×H×W×C, C = 1 for grey images",
          extents_text(inputs.extents));
  require(rank == 2 || rank == 4, where, "has the shape {} (N×features or N×H×W×C is expected); reshape it",
          extents_text(inputs.extents));
  require(inputs.extents[0] > 0, where, "has no examples; give at least one");
  require(inputs.count() > 0, where, "has the shape {}, so that its examples are empty; give them values",
          extents_text(inputs.extents));
}

void check_targets(const StoredArray& targets, const std::string& where, std::int64_t examples,
                   const std::string& inputs) {
  const bool classes = targets.type.kind == StoredType::Kind::integer;
  require(classes || targets.type == StoredType::of(DType::f32), where,
          "holds {} (integers for classes, or f32, are expected); store it as one of these", to_string(targets.type));
  if (classes)
    require(targets.extents.size() == 1, where, "has the shape {} (class targets have one dimension, N); reshape it",
            extents_text(targets.extents));
  else
    require(targets.extents.size() == 2 && targets.extents[1] > 0, where,
            "has the shape {} (f32 targets have two dimensions, N×K); reshape it", extents_text(targets.extents));
  require(targets.extents[0] == examples, where, "has {} targets ({} has {} examples); give each example its target",
          targets.extents[0], inputs, examples);
}

std::vector<std::byte> read_verified(const Hdf5File& file, const std::string& name, const StoredArray& array) {
  std::vector<std::byte> bytes(array.bytes());
  file.read(name, array.type, bytes.data());
  verify_checksum(file, name, bytes.data(), bytes.size(), Checksum::if_present);
  return bytes;
}

/// Integers of any width become i32.
std::vector<std::byte> read_classes(const Hdf5File& file, const std::string& name, const StoredArray& array) {
  read_verified(file, name, array);
  const auto count = static_cast<std::size_t>(array.count());
  std::vector<std::int64_t> wide(count);
  file.read(name, StoredType::of(DType::i64), wide.data());
  std::vector<std::byte> bytes(count * sizeof(std::int32_t));
  for (std::size_t i = 0; i < count; ++i) {
    require(wide[i] >= 0 && wide[i] <= std::numeric_limits<std::int32_t>::max(), file.name() + ":" + name,
            "example {} is of class {} (classes count from 0 and fit into 32 bits); correct it", i, wide[i]);
    const auto narrow = static_cast<std::int32_t>(wide[i]);
    std::memcpy(bytes.data() + i * sizeof narrow, &narrow, sizeof narrow);
  }
  return bytes;
}

}  // namespace

std::unique_ptr<Dataset> open_hdf5_dataset(std::shared_ptr<const Hdf5File> file, const std::string& split,
                                           std::size_t memory_limit) {
  const std::string group = "/" + split, inputs_name = group + "/inputs", targets_name = group + "/targets";
  const std::string description = file->name() + ":" + group;
  const bool has_inputs = file->has(inputs_name), has_targets = file->has(targets_name);
  if (!has_inputs && !has_targets) return nullptr;
  require(has_inputs && has_targets, file->name(), "has {} but no {}; give both",
          has_inputs ? inputs_name : targets_name, has_inputs ? targets_name : inputs_name);

  const StoredArray inputs = file->info(inputs_name), targets = file->info(targets_name);
  check_inputs(inputs, description + "/inputs");
  const std::int64_t size = inputs.extents[0];
  check_targets(targets, description + "/targets", size, inputs_name);

  ExampleFormat format;
  format.input_shape = Shape(std::span(inputs.extents).subspan(1));
  format.input_dtype = *inputs.type.dtype();
  format.target_shape = Shape(std::span(targets.extents).subspan(1));
  format.target_dtype = targets.type.kind == StoredType::Kind::integer ? DType::i32 : DType::f32;

  auto target_bytes = format.has_classes() ? read_classes(*file, targets_name, targets)
                                           : read_verified(*file, targets_name, targets);
  if (inputs.bytes() > memory_limit) {
    Hdf5Rows rows = file->rows(inputs_name, inputs.type);
    return std::make_unique<FileDataset>(description, size, format, std::move(rows), std::move(target_bytes),
                                         std::move(file));
  }
  return std::make_unique<MemoryDataset>(description, size, format, read_verified(*file, inputs_name, inputs),
                                         std::move(target_bytes));
}

}  // namespace lockstep
