// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "support/print.hpp"

namespace lockstep::test {

/// Element i of the pseudorandom numbers with this tag: in [−1, 1) and a multiple of 2⁻²³, so that it is exact in f32
/// and f64 and equal to `filled` in golden/make_golden.py.
double filled(std::uint64_t tag, std::uint64_t i);
std::vector<double> filling(std::uint64_t tag, std::int64_t count, double scale = 1.0);

/// Conversions between tensors and host numbers, for any floating-point type.
OwnedTensor make_tensor(DType dtype, const Shape& shape, const std::vector<double>& values);
OwnedTensor make_filled(DType dtype, const Shape& shape, std::uint64_t tag, double scale = 1.0);
OwnedTensor make_classes(const std::vector<std::int32_t>& classes);
void set_values(const Tensor& tensor, const std::vector<double>& values);
std::vector<double> values_of(const Tensor& tensor);
std::vector<std::uint8_t> bytes_of(const Tensor& tensor);

/// The same conversions for numbers in host memory.
struct HostNumbers {
  void* data;
  DType dtype;
  std::int64_t count;
};
void set_values(const HostNumbers& numbers, const std::vector<double>& values);
std::vector<double> values_of(const HostNumbers& numbers);
std::vector<std::uint8_t> bytes_of(const HostNumbers& numbers);

/// Largest relative rounding error of this type.
double rounding_error(DType dtype);
/// Values after rounding to this type.
std::vector<double> rounded(DType dtype, const std::vector<double>& values);

/// Fills the tensor with bytes that are NaN in every floating-point type, so that reading it by mistake shows.
void poison(const Tensor& tensor);

/// Largest |a − b| / max(1, |b|); infinite if sizes differ or a number is not finite.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

/// A folder that is removed at the end with its contents. All ranks share one; its construction and destruction are
/// collective.
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

/// Folder of real data: $LOCKSTEP_DATA_DIR, or else shared/data beside the source folder; empty if there is none.
std::filesystem::path data_dir();

/// Reads the file <name> from tests/golden or $LOCKSTEP_GOLDEN_DIR.
std::string read_golden(const std::string& name);

}  // namespace lockstep::test
