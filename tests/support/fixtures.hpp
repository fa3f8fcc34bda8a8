// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "support/print.hpp"

namespace lockstep::test {

/// Element i of the filling with this tag: in [−1, 1), a multiple of 2⁻²³, so that it is the same
/// number in f32, in f64 and in golden/make_golden.py (`filled` there).
double filled(std::uint64_t tag, std::uint64_t i);
std::vector<double> filling(std::uint64_t tag, std::int64_t count, double scale = 1.0);

/// Tensors from and to numbers of the host, whatever their floating-point type.
OwnedTensor make_tensor(DType dtype, const Shape& shape, const std::vector<double>& values);
OwnedTensor make_filled(DType dtype, const Shape& shape, std::uint64_t tag, double scale = 1.0);
OwnedTensor make_classes(const std::vector<std::int32_t>& classes);
void set_values(const Tensor& tensor, const std::vector<double>& values);
std::vector<double> values_of(const Tensor& tensor);
std::vector<std::uint8_t> bytes_of(const Tensor& tensor);

/// As these, of numbers in the host's own memory.
struct HostNumbers {
  void* data;
  DType dtype;
  std::int64_t count;
};
void set_values(const HostNumbers& numbers, const std::vector<double>& values);
std::vector<double> values_of(const HostNumbers& numbers);
std::vector<std::uint8_t> bytes_of(const HostNumbers& numbers);

/// The largest relative error of rounding a number to this type.
double rounding_error(DType dtype);
/// What is left of numbers that are stored as this type.
std::vector<double> rounded(DType dtype, const std::vector<double>& values);

/// Fills with bytes that are NaN as any floating-point type: what reads it by mistake shows it.
void poison(const Tensor& tensor);

/// The largest |a − b| / max(1, |b|); infinite when sizes differ or a number is not finite.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

/// A folder that is removed with everything in it. One for all ranks (collective when there are several).
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Where real data are: $LOCKSTEP_DATA_DIR, else shared/data beside the source folder; empty when there is none.
std::filesystem::path data_dir();

/// <name> in tests/golden, or in $LOCKSTEP_GOLDEN_DIR.
std::string read_golden(const std::string& name);

}  // namespace lockstep::test
