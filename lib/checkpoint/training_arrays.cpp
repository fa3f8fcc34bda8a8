// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checkpoint/training_arrays.hpp"

#include <algorithm>
#include <cstring>

#include "core/tensor.hpp"

namespace lockstep {
namespace {

/// `flat` holds `layout`. Its numbers are copied to `memory`; or, where there is none and the host can read them, not
/// at all; nor where they lie in `on_host`.
void append_arrays(const ExecSpace& space, const std::string& prefix, const std::vector<Parameter>& layout,
                   const Tensor& flat, const std::shared_ptr<std::byte[]>& on_host, std::byte* memory,
                   std::vector<NamedArray>& arrays) {
  std::shared_ptr<const std::byte[]> all;
  if (on_host) {
    all = {on_host, static_cast<const std::byte*>(flat.data)};
  } else if (memory) {
    copy_to_host(space, flat, memory);
    all = {std::shared_ptr<void>(), memory};
  } else if (!memory_is_separate) {
    space.fence("lockstep::checkpoint");
    all = {std::shared_ptr<void>(), static_cast<const std::byte*>(flat.data)};
  } else {
    const std::shared_ptr<std::byte[]> copy(new std::byte[flat.bytes()]);
    copy_to_host(space, flat, copy.get());
    all = copy;
  }
  for (const auto& parameter : layout) {
    const std::byte* first = all.get() + static_cast<std::size_t>(parameter.range.first) * size_of(flat.dtype);
    arrays.push_back({prefix + "/" + parameter.name, flat.dtype, parameter.shape, {all, first}});
  }
}

template <class From, class To>
void convert(const std::byte* from, std::byte* to, std::int64_t count) {
  const auto* source = reinterpret_cast<const From*>(from);
  auto* target = reinterpret_cast<To*>(to);
  std::transform(source, source + count, target, [](From value) { return static_cast<To>(value); });
}

void convert(const NamedArray& array, DType dtype, std::byte* to) {
  const std::int64_t count = array.shape.count();
  if (array.dtype == dtype) std::memcpy(to, array.data.get(), array.bytes());
  else if (dtype == DType::f32) convert<double, float>(array.data.get(), to, count);
  else convert<float, double>(array.data.get(), to, count);
}

/// `to` holds numbers of `dtype` as `layout` says, of which `arrays` may have a part.
void set_on_host(const std::vector<NamedArray>& arrays, const std::string& prefix, const std::vector<Parameter>& layout,
                 DType dtype, std::byte* to) {
  for (const auto& parameter : layout)
    if (const NamedArray* array = find_array(arrays, prefix + "/" + parameter.name))
      convert(*array, dtype, to + static_cast<std::size_t>(parameter.range.first) * size_of(dtype));
}

/// `flat`, in the step's memory, holds numbers as `layout` says, of which `arrays` may have a part.
void set(const ExecSpace& space, const std::vector<NamedArray>& arrays, const std::string& prefix,
         const std::vector<Parameter>& layout, const Tensor& flat) {
  std::vector<std::byte> host(flat.bytes());
  copy_to_host(space, flat, host.data());
  set_on_host(arrays, prefix, layout, flat.dtype, host.data());
  copy_from_host(space, host.data(), flat);
}

}  // namespace

const NamedArray* find_array(const std::vector<NamedArray>& arrays, const std::string& name) {
  const auto found = std::find_if(arrays.begin(), arrays.end(), [&](const NamedArray& a) { return a.name == name; });
  return found == arrays.end() ? nullptr : &*found;
}

std::vector<NamedArray> training_arrays(const ExecSpace& space, const ParameterBuffer& parameters,
                                        const WholeStates& states, std::span<std::byte> memory) {
  std::vector<NamedArray> arrays;
  std::size_t used = 0;
  const auto append = [&](const std::string& prefix, const std::vector<Parameter>& layout, const Tensor& flat,
                          const std::shared_ptr<std::byte[]>& on_host) {
    append_arrays(space, prefix, layout, flat, on_host, memory.empty() ? nullptr : memory.data() + used, arrays);
    if (!on_host) used += flat.bytes();
  };
  append("/model", parameters.parameters(), parameters.values(), nullptr);
  for (const auto& state : states.states)
    append("/optimizer/" + state.name, state.layout, state.values, states.on_host);
  return arrays;
}

std::size_t training_array_bytes(const ParameterBuffer& parameters, const Optimizer& optimizer) {
  std::size_t bytes = parameters.values().bytes();
  for (const auto& state : optimizer.states()) bytes += state.values.bytes();
  return bytes;
}

void check_arrays(const std::vector<NamedArray>& arrays, const std::string& prefix, const std::string& file,
                  const std::vector<Parameter>& parameters) {
  for (const auto& parameter : parameters) {
    const std::string name = prefix + "/" + parameter.name;
    const NamedArray* found = find_array(arrays, name);
    validate(found != nullptr, ExitStatus::bad_data,
             "{}: has no {} (the network of the deck needs it); use a file of the same network", file, name);
    validate(found->shape == parameter.shape, ExitStatus::bad_data,
             "{}:{}: its shape is {}, but the network of the deck needs {}; use a file of the same network", file, name,
             to_string(found->shape), to_string(parameter.shape));
    validate(found->dtype == DType::f32 || found->dtype == DType::f64, ExitStatus::bad_data,
             "{}:{}: its numbers are {} (f32 or f64 is needed); convert them", file, name, name_of(found->dtype));
  }
  for (const auto& array : arrays)
    validate(array.name.rfind(prefix + "/", 0) != 0 ||
                 std::any_of(parameters.begin(), parameters.end(),
                             [&](const Parameter& p) { return array.name == prefix + "/" + p.name; }),
             ExitStatus::bad_data, "{}: holds {}, which the network of the deck lacks; use a file of the same network",
             file, array.name);
}

void restore_parameters(const ExecSpace& space, const std::vector<NamedArray>& arrays, const std::string& file,
                        ParameterBuffer& parameters) {
  check_arrays(arrays, "/model", file, parameters.parameters());
  set_parameters(space, arrays, parameters);
}

void set_parameters(const ExecSpace& space, const std::vector<NamedArray>& arrays, ParameterBuffer& parameters) {
  set(space, arrays, "/model", parameters.parameters(), parameters.values());
  parameters.round(space);
}

void restore_optimizer(const ExecSpace& space, const std::vector<NamedArray>& arrays, const std::string& file,
                       const WholeStates& states) {
  for (const auto& state : states.states) {
    const std::string prefix = "/optimizer/" + state.name;
    check_arrays(arrays, prefix, file, state.layout);
    if (states.on_host)
      set_on_host(arrays, prefix, state.layout, state.values.dtype, static_cast<std::byte*>(state.values.data));
    else set(space, arrays, prefix, state.layout, state.values);
  }
}

}  // namespace lockstep
