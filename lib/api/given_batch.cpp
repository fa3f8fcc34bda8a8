// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "api/given_batch.hpp"

namespace lockstep {
namespace {

/// Counts numbers that are neither in [0, end) nor equal to `ignored`.
template <class Space>
std::int64_t count_outside(const std::int32_t* numbers, std::int64_t count, std::int64_t end, std::int64_t ignored) {
  std::int64_t outside = 0;
  Kokkos::parallel_reduce(
      "lockstep::check_numbers", Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(0, count),
      KOKKOS_LAMBDA(const std::int64_t i, std::int64_t& sum) {
        const std::int64_t number = numbers[i];
        sum += number < 0 || (number >= end && number != ignored) ? 1 : 0;
      },
      outside);
  return outside;
}

/// Counts values that are below `least` or above `most`.
template <class Space, class T>
std::int64_t count_values_in(const T* values, std::int64_t count, double least, double most) {
  std::int64_t outside = 0;
  Kokkos::parallel_reduce(
      "lockstep::check_values", Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(0, count),
      KOKKOS_LAMBDA(const std::int64_t i, std::int64_t& sum) {
        const auto value = static_cast<double>(values[i]);
        sum += value < least || value > most ? 1 : 0;
      },
      outside);
  return outside;
}

template <class T>
std::int64_t count_values_outside(const Array& array, std::int64_t count, double least, double most) {
  const auto* values = static_cast<const T*>(array.data);
  return array.on_device ? count_values_in<ExecSpace>(values, count, least, most)
                         : count_values_in<Kokkos::DefaultHostExecutionSpace>(values, count, least, most);
}

Kokkos::View<std::byte*, StagingSpace> view_of(const Array& array, std::size_t bytes_each) {
  auto* data = static_cast<std::byte*>(const_cast<void*>(array.data));  // it is only read
  return Kokkos::View<std::byte*, StagingSpace>(data, static_cast<std::size_t>(array.examples) * bytes_each);
}

}  // namespace

void GivenExamples::read(std::span<const std::int64_t>, void*, void*) const {
  throw Error(ExitStatus::internal, "examples that a program has given are read in place");
}

void check_array(const std::string& what, const Array& array, DType dtype, const Shape& shape) {
  validate(array.dtype == dtype, ExitStatus::bad_usage, "the {} are numbers of type {} ({} is expected); convert them",
           what, name_of(array.dtype), name_of(dtype));
  validate(
      array.row_major, ExitStatus::bad_usage,
      "the {} are in a view that is not row-major and contiguous; make it Kokkos::LayoutRight, or copy it into one",
      what);
  // A view of examples with one number each may lack an extent for it.
  const bool fits = !array.example || *array.example == shape || (array.example->rank() == 0 && shape.count() == 1);
  validate(fits, ExitStatus::bad_usage, "the {} of an example have the shape {} ({} is expected); reshape them", what,
           to_string(array.example.value_or(shape)), to_string(shape));
  validate(array.examples >= 0 && (array.data || array.examples == 0), ExitStatus::bad_usage,
           "the {} are {} examples at {}; give memory that holds them", what, array.examples,
           array.data ? "an address" : "a null pointer");
}

void check_numbers(const std::string& what, const Array& array, const Shape& shape, std::int64_t end,
                   std::int64_t ignored) {
  const auto* numbers = static_cast<const std::int32_t*>(array.data);
  const std::int64_t count = array.examples * shape.count();
  const std::int64_t outside = array.on_device
                                   ? count_outside<ExecSpace>(numbers, count, end, ignored)
                                   : count_outside<Kokkos::DefaultHostExecutionSpace>(numbers, count, end, ignored);
  validate(outside == 0, ExitStatus::bad_data,
           "{} of the {} {} are not from 0 to {}; correct them, or change the model", outside, count, what, end - 1);
}

void check_values(const Array& targets, const Shape& shape, double least, double most) {
  const std::int64_t count = targets.examples * shape.count();
  const std::int64_t outside = targets.dtype == DType::f64 ? count_values_outside<double>(targets, count, least, most)
                                                           : count_values_outside<float>(targets, count, least, most);
  validate(outside == 0, ExitStatus::bad_data,
           "{} of the {} targets are not from {:g} to {:g}, as this loss reads them; correct them, or choose another "
           "loss",
           outside, count, least, most);
}

void point_at(HostBatch& batch, const ExampleFormat& format, const Array& inputs, const Array* targets) {
  batch.inputs = view_of(inputs, format.input_bytes());
  batch.inputs_on_device = inputs.on_device;
  batch.plan.examples.resize(static_cast<std::size_t>(inputs.examples));
  if (!targets) return;
  batch.targets = view_of(*targets, format.target_bytes());
  batch.targets_on_device = targets->on_device;
}

}  // namespace lockstep
