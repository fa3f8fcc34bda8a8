// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "core/permutation.hpp"
#include "data/dataset.hpp"

namespace lockstep {

/// A file, and optionally a group in it: "digits.h5", "digits.h5:/test".
struct DataPlace {
  std::string file;
  std::string group;  ///< "/test"; empty: none is named

  static DataPlace of(const std::string& text);
};

/// Examples first … first + count − 1 of another dataset in a random order of it.
class ChosenExamples final : public Dataset {
 public:
  ChosenExamples(std::shared_ptr<const Dataset> all, const Permutation& order, std::int64_t first, std::int64_t count,
                 std::string what)
      : all_(std::move(all)), order_(order), first_(first), count_(count), what_(std::move(what)) {}

  std::int64_t size() const override { return count_; }
  const ExampleFormat& format() const override { return all_->format(); }
  std::string description() const override { return all_->description() + ", " + what_; }
  void read(std::span<const std::int64_t> examples, void* inputs, void* targets) const override;
  std::size_t unpacked_bytes() const override { return all_->unpacked_bytes(); }
  std::int64_t number_in_file(std::int64_t example) const override { return order_(first_ + example); }
  std::optional<std::int32_t> class_of(std::int64_t example) const override {
    return all_->class_of(number_in_file(example));
  }
  std::vector<double> sampling_weights() const override;
  std::string vocabulary() const override { return all_->vocabulary(); }
  // Classes, values and tokens are checked in the whole dataset.
  void check_classes(std::int64_t classes, std::int64_t ignored) const override {
    all_->check_classes(classes, ignored);
  }
  void check_values(double least, double most) const override { all_->check_values(least, most); }
  void check_tokens(std::int64_t vocabulary) const override { all_->check_tokens(vocabulary); }

 private:
  std::shared_ptr<const Dataset> all_;
  Permutation order_;
  std::int64_t first_, count_;
  std::string what_;
};

}  // namespace lockstep
