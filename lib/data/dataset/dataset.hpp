// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.hpp"
#include "core/random.hpp"
#include "core/shape.hpp"

namespace lockstep {

/// Format of the examples of a dataset. Inputs: images [H, W, C] or volumes [D, H, W, C], u8, f32 or f64; sequences
/// [T, C]; vectors [F]; or T tokens (i32, shape {T}). Targets: a class number (i32, shape {}), one for each token
/// (shape {T}: the token that follows) or for each pixel of an image (shape {H, W}); or values (f32 or f64, shape {K}
/// or {H, W, K}; {0}: no targets).
struct ExampleFormat {
  Shape input_shape;
  DType input_dtype = DType::f32;
  Shape target_shape;
  DType target_dtype = DType::i32;

  bool has_classes() const { return target_dtype == DType::i32; }
  bool has_tokens() const { return input_dtype == DType::i32; }
  std::size_t input_bytes() const { return static_cast<std::size_t>(input_shape.count()) * size_of(input_dtype); }
  std::size_t target_bytes() const { return static_cast<std::size_t>(target_shape.count()) * size_of(target_dtype); }
  friend bool operator==(const ExampleFormat&, const ExampleFormat&) = default;
};

/// Examples with numbers 0 … size() − 1. Reading is const, and safe from one thread besides the main one.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  virtual const ExampleFormat& format() const = 0;
  /// Name for messages, such as "mnist.h5:/train".
  virtual std::string description() const = 0;
  /// Gathers examples in the given order into packed arrays in host memory.
  virtual void read(std::span<const std::int64_t> examples, void* inputs, void* targets) const = 0;
  /// Bytes that are read, and unpacked, for one example alone: many times its own where a file's chunks cross examples.
  virtual std::size_t unpacked_bytes() const { return format().input_bytes() + format().target_bytes(); }
  /// Number of this example in its file, for messages.
  virtual std::int64_t number_in_file(std::int64_t example) const { return example; }
  /// Class of an example; none if its target is not a single class.
  virtual std::optional<std::int32_t> class_of(std::int64_t /*example*/) const { return std::nullopt; }
  /// Weights by which the sampler `weighted` draws each example; empty: the dataset has none.
  virtual std::vector<double> sampling_weights() const { return {}; }
  /// Numbers that stand for missing ones, as the file says.
  virtual std::vector<double> fill_values() const { return {}; }
  /// Whether examples of earlier steps can be read. False if a program gives them batch by batch.
  virtual bool can_be_read_again() const { return true; }
  /// Whether examples are computed, by the same formula on every rank.
  virtual bool is_computed() const { return false; }
  /// Characters that the tokens stand for, in the tokens' order (UTF-8); empty if the file does not say.
  virtual std::string vocabulary() const { return ""; }
  /// Throws Error(bad_data) naming the first class outside [0, classes), other than `ignored`.
  virtual void check_classes(std::int64_t classes, std::int64_t ignored = -1) const = 0;
  /// Throws Error(bad_data) naming the first example with a target below `least` or above `most`, and its value. NaN is
  /// neither: steps report it. Does nothing for targets that are classes.
  virtual void check_values(double /*least*/, double /*most*/) const {}
  /// Throws Error(bad_data) naming the first token outside [0, vocabulary). Does nothing for inputs that are no tokens.
  virtual void check_tokens(std::int64_t /*vocabulary*/) const {}
};

/// Returns the first of `count` values that is below `least` or above `most`; empty if there is none.
std::optional<std::int64_t> first_outside(const std::byte* values, DType dtype, std::int64_t count, double least,
                                          double most);
/// Number `i` of these values, which are f32 or f64.
double value_at(const std::byte* values, DType dtype, std::int64_t i);

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
  std::vector<double> fill_values() const override { return all_->fill_values(); }
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
