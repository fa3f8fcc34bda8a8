// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/fixtures.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::test {

double filled(std::uint64_t tag, std::uint64_t i) {
  // splitmix64 (Steele et al. 2014), reduced to 24 bits.
  std::uint64_t z = tag * 0xD1342543DE82EF95u + i * 0x9E3779B97F4A7C15u + 0x632BE59BD9B4E019u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return (static_cast<double>(z >> 40) - 8388608.0) / 8388608.0;
}

std::vector<double> filling(std::uint64_t tag, std::int64_t count, double scale) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = scale * filled(tag, i);
  return values;
}

void set_values(const HostNumbers& numbers, const std::vector<double>& values) {
  if (static_cast<std::int64_t>(values.size()) != numbers.count) throw std::logic_error("set_values: sizes differ");
  dispatch_float(numbers.dtype,
                 [&]<class T>(T) { std::copy(values.begin(), values.end(), static_cast<T*>(numbers.data)); });
}

std::vector<double> values_of(const HostNumbers& numbers) {
  std::vector<double> values(static_cast<std::size_t>(numbers.count));
  dispatch_float(numbers.dtype,
                 [&]<class T>(T) { std::copy_n(static_cast<const T*>(numbers.data), numbers.count, values.begin()); });
  return values;
}

std::vector<std::uint8_t> bytes_of(const HostNumbers& numbers) {
  const auto* first = static_cast<const std::uint8_t*>(numbers.data);
  return {first, first + static_cast<std::size_t>(numbers.count) * size_of(numbers.dtype)};
}

void set_values(const Tensor& tensor, const std::vector<double>& values) {
  std::vector<std::uint8_t> host(tensor.bytes());
  set_values(HostNumbers{host.data(), tensor.dtype, tensor.count()}, values);
  copy_from_host(ExecSpace(), host.data(), tensor);
}

std::vector<double> values_of(const Tensor& tensor) {
  std::vector<std::uint8_t> host = bytes_of(tensor);
  return values_of(HostNumbers{host.data(), tensor.dtype, tensor.count()});
}

std::vector<std::uint8_t> bytes_of(const Tensor& tensor) {
  std::vector<std::uint8_t> bytes(tensor.bytes());
  copy_to_host(ExecSpace(), tensor, bytes.data());
  return bytes;
}

OwnedTensor make_tensor(DType dtype, const Shape& shape, const std::vector<double>& values) {
  OwnedTensor tensor("test", dtype, shape);
  set_values(tensor.get(), values);
  return tensor;
}

OwnedTensor make_filled(DType dtype, const Shape& shape, std::uint64_t tag, double scale) {
  return make_tensor(dtype, shape, filling(tag, shape.count(), scale));
}

OwnedTensor make_classes(const std::vector<std::int32_t>& classes) {
  OwnedTensor tensor("test", DType::i32, {static_cast<std::int64_t>(classes.size())});
  copy_from_host(ExecSpace(), classes.data(), tensor.get());
  return tensor;
}

double rounding_error(DType dtype) {
  switch (dtype) {
    case DType::f64: return std::ldexp(1.0, -53);
    case DType::f16: return std::ldexp(1.0, -11);
    case DType::bf16: return std::ldexp(1.0, -8);
    default: return std::ldexp(1.0, -24);
  }
}

std::vector<double> rounded(DType dtype, const std::vector<double>& values) {
  std::vector<double> result(values.size());
  dispatch_float(dtype, [&]<class T>(T) {
    for (std::size_t i = 0; i < values.size(); ++i)
      result[i] = static_cast<double>(T(static_cast<Compute<T>>(values[i])));
  });
  return result;
}

void poison(const Tensor& tensor) {
  if (!tensor || tensor.bytes() == 0) return;
  const std::vector<std::uint8_t> bytes(tensor.bytes(), 0xFF);
  copy_from_host(ExecSpace(), bytes.data(), tensor);
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i])));
  }
  return largest;
}

}  // namespace lockstep::test
