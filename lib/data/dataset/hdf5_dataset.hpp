// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset/dataset.hpp"
#include "data/dataset/shared_reading.hpp"
#include "io/hdf5.hpp"

namespace lockstep {

/// Targets of a dataset, in memory.
struct Targets {
  SharedReading::Bytes values;      ///< in the format's target type; null: no targets
  std::int64_t largest_class = 0;   ///< the largest class, for targets that are classes
  SharedReading::Bytes weights;     ///< f32 [examples]: see Dataset::sampling_weights; null: no weights
  std::vector<double> fill_values;  ///< see Dataset::fill_values; also of the inputs
};

/// A dataset that keeps its targets in memory, since they are small. Derived classes differ in where inputs come from.
class DatasetWithTargets : public Dataset {
 public:
  std::int64_t size() const override { return size_; }
  const ExampleFormat& format() const override { return format_; }
  std::string description() const override { return description_; }
  void read(std::span<const std::int64_t> examples, void* inputs, void* targets) const override;
  std::optional<std::int32_t> class_of(std::int64_t example) const override;
  std::vector<double> sampling_weights() const override;
  std::vector<double> fill_values() const override { return targets_.fill_values; }
  void check_classes(std::int64_t classes, std::int64_t ignored) const override;
  void check_values(double least, double most) const override;

 protected:
  DatasetWithTargets(std::string description, std::int64_t size, const ExampleFormat& format, Targets targets)
      : description_(std::move(description)), size_(size), format_(format), targets_(std::move(targets)) {}

  virtual void read_inputs(std::span<const std::int64_t> examples, std::byte* inputs) const = 0;

 private:
  std::string description_;
  std::int64_t size_;
  ExampleFormat format_;
  Targets targets_;
};

/// A dataset with its inputs in memory as well.
class MemoryDataset final : public DatasetWithTargets {
 public:
  MemoryDataset(std::string description, std::int64_t size, const ExampleFormat& format, SharedReading::Bytes inputs,
                Targets targets)
      : DatasetWithTargets(std::move(description), size, format, std::move(targets)), inputs_(std::move(inputs)) {}

 private:
  void read_inputs(std::span<const std::int64_t> examples, std::byte* inputs) const override;

  SharedReading::Bytes inputs_;
};

/// Inputs up to this size are held in memory (and their checksum is verified); larger ones are
/// read from the file as they are needed.
inline constexpr std::size_t default_memory_limit = std::size_t{2} << 30;

/// The names of the datasets in a file that together are examples.
struct ExampleNames {
  std::string inputs, targets;
  std::string weights;  ///< need not exist
  std::string whole;    ///< what the examples are called in messages, behind the file's name: "/train"

  /// Returns the names of the datasets in a group ("/train"; "" for the file itself).
  static ExampleNames in_group(const std::string& group) {
    return {group + "/inputs", group + "/targets", group + "/weights", group.empty() ? "/" : group};
  }
};

/// Opens examples. Null if the file has neither inputs nor targets. Throws bad_data for every departure from the layout
/// in docs/user/data.md, and says what it is. Collective over the ranks of `reading`.
std::unique_ptr<Dataset> open_hdf5_dataset(std::shared_ptr<const Hdf5File> file, const ExampleNames& names,
                                           const SharedReading& reading = {},
                                           std::size_t memory_limit = default_memory_limit);

/// Opens a dataset of inputs alone ("/train/inputs"), with targets of the shape {0}. Collective.
std::unique_ptr<Dataset> open_hdf5_inputs(std::shared_ptr<const Hdf5File> file, const std::string& dataset,
                                          const SharedReading& reading = {},
                                          std::size_t memory_limit = default_memory_limit);

}  // namespace lockstep
