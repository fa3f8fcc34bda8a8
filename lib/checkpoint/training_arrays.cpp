// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checkpoint/training_arrays.hpp"

#include <algorithm>
#include <cstring>

#include "core/tensor.hpp"

namespace lockstep {
namespace {

template <class From, class To>
void convert(const std::byte* from, std::byte* to, std::int64_t count) {
  const auto* source = reinterpret_cast<const From*>(from);
  auto* target = reinterpret_cast<To*>(to);
  std::transform(source, source + count, target, [](From value) { return static_cast<To>(value); });
}

}  // namespace

const NamedArray* find_array(const std::vector<NamedArray>& arrays, const std::string& name) {
  const auto found = std::find_if(arrays.begin(), arrays.end(), [&](const NamedArray& a) { return a.name == name; });
  return found == arrays.end() ? nullptr : &*found;
}

void convert_numbers(const std::byte* from, DType dtype, std::byte* to, DType wanted, std::int64_t count) {
  if (dtype == wanted) std::memcpy(to, from, static_cast<std::size_t>(count) * size_of(dtype));
  else if (wanted == DType::f32) convert<double, float>(from, to, count);
  else convert<float, double>(from, to, count);
}

void check_arrays(const std::vector<NamedArray>& arrays, const std::string& prefix, const std::string& file,
                  const std::vector<Parameter>& parameters, const ArraysOf& of) {
  for (const auto& parameter : parameters) {
    const std::string name = prefix + "/" + parameter.name;
    const NamedArray* found = find_array(arrays, name);
    if (found == nullptr)
      throw ArraysDiffer(fmt::format("{}: has no {} (the {} of the deck needs it); {}", file, name, of.what, of.advice),
                         of, fmt::format("{} is not there", name.substr(1)));
    if (const std::string there = to_string(found->shape), here = to_string(parameter.shape);
        found->shape != parameter.shape)
      throw ArraysDiffer(fmt::format("{}:{}: its shape is {}, but the {} of the deck needs {}; {}", file, name, there,
                                     of.what, here, of.advice),
                         of, fmt::format("{} is {} there, {} here", name.substr(1), there, here));
    validate(found->dtype == DType::f32 || found->dtype == DType::f64, ExitStatus::bad_data,
             "{}:{}: its numbers are {} (f32 or f64 is needed); convert them", file, name, name_of(found->dtype));
  }
  for (const auto& array : arrays)
    if (array.name.starts_with(prefix + "/") &&
        std::ranges::none_of(parameters, [&](const Parameter& p) { return array.name == prefix + "/" + p.name; }))
      throw ArraysDiffer(
          fmt::format("{}: holds {}, which the {} of the deck does not use; {}", file, array.name, of.what, of.advice),
          of, fmt::format("{} is not here", array.name.substr(1)));
}

void restore_parameters(const ExecSpace& space, const std::vector<NamedArray>& arrays, const std::string& file,
                        ParameterBuffer& parameters) {
  check_arrays(arrays, "/model", file, parameters.parameters());
  set_parameters(space, arrays, parameters);
}

void set_parameters(const ExecSpace& space, const std::vector<NamedArray>& arrays, ParameterBuffer& parameters) {
  std::vector<std::byte> host;
  for (const Parameter& parameter : parameters.parameters())
    if (const NamedArray* array = find_array(arrays, "/model/" + parameter.name)) {
      const std::size_t element = size_of(parameters.dtype());
      host.resize(static_cast<std::size_t>(parameter.range.count) * element);
      convert_numbers(array->data.get(), array->dtype, host.data(), parameters.dtype(), array->shape.count());
      parameters.fill_kept(space, parameter, [&](ElementRange range, const Tensor& values) {
        copy_from_host(space, host.data() + static_cast<std::size_t>(range.first - parameter.range.first) * element,
                       values);
      });
    }
  parameters.round(space);
}

}  // namespace lockstep
