// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checkpoint/checkpoint_numbers.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "checkpoint/training_arrays.hpp"

namespace lockstep {
namespace {

std::string prefix_of(const HeldNumbers& numbers) {
  return (numbers.state.empty() ? "/model" : "/optimizer/" + numbers.state) + "/";
}

/// What of a block is numbers of parameters, and where in the block and in the parameter.
template <class Visit>
void for_each_part(const HeldNumbers& numbers, const NumberStream::Block& block, Visit visit) {
  const std::int64_t end = block.first + block.count;
  const auto& layout = numbers.layout;
  const auto behind = std::ranges::partition_point(
      layout, [&](const Parameter& each) { return each.range.first + each.range.count <= block.first; });
  for (auto parameter = behind; parameter != layout.end() && parameter->range.first < end; ++parameter) {
    const std::int64_t first = std::max(parameter->range.first, block.first),
                       stop = std::min(parameter->range.first + parameter->range.count, end);
    if (first < stop)
      visit(static_cast<std::size_t>(parameter - layout.begin()), first - parameter->range.first, first - block.first,
            stop - first);
  }
}

}  // namespace

std::vector<NamedArray> arrays_of(const std::vector<HeldNumbers>& numbers) {
  std::vector<NamedArray> arrays;
  for (const HeldNumbers& each : numbers)
    for (const Parameter& parameter : each.layout)
      arrays.push_back({prefix_of(each) + parameter.name, each.values.dtype, parameter.shape, nullptr});
  return arrays;
}

NumberSource source_of(NumberStream& stream) {
  return [&stream](const NumberSink& sink) {
    std::vector<std::size_t> first_array;
    std::size_t arrays = 0;
    for (const HeldNumbers& each : stream.numbers()) {
      first_array.push_back(arrays);
      arrays += each.layout.size();
    }
    stream.collect([&](const NumberStream::Block& block, const std::byte* bytes) {
      const HeldNumbers& numbers = stream.numbers()[block.of];
      const std::size_t element = size_of(numbers.values.dtype);
      for_each_part(
          numbers, block, [&](std::size_t parameter, std::int64_t, std::int64_t in_block, std::int64_t count) {
            sink(first_array[block.of] + parameter,
                 {bytes + static_cast<std::size_t>(in_block) * element, static_cast<std::size_t>(count) * element});
          });
    });
  };
}

CheckpointNumbers::Array& CheckpointNumbers::array(const std::string& name) {
  if (open_ && open_name_ == name) return *open_;
  const StoredArray stored = file_.info(name);
  const std::optional<DType> dtype = stored.type.dtype();
  validate(dtype.has_value(), ExitStatus::bad_data, "{}:{}: holds {} (f32 or f64 is needed); convert them", file(),
           name, to_string(stored.type));
  open_.emplace(*dtype, stored.count(), file_.place(name, stored.type));
  open_name_ = name;
  return *open_;
}

void CheckpointNumbers::read(const std::string& name, std::int64_t first, std::int64_t count, DType dtype,
                             std::byte* to) {
  Array& from = array(name);
  const std::size_t element = size_of(from.dtype), bytes = static_cast<std::size_t>(count) * element;
  std::byte* target = to;
  if (from.dtype != dtype) {
    stored_.resize(bytes);
    target = stored_.data();
  }
  if (from.place) bytes_.read(*from.place + static_cast<std::size_t>(first) * element, target, bytes);
  from.hash.add(target, bytes);
  if (from.dtype != dtype) convert_numbers(target, from.dtype, to, dtype, count);
  if (first + count == from.count) verify_checksum(file_, name, from.hash.value(), Checksum::required);
}

void restore_numbers(NumberStream& stream, CheckpointNumbers& from, const std::function<void()>& progress) {
  stream.deal([&](const NumberStream::Block& block, std::byte* bytes) {
    const HeldNumbers& numbers = stream.numbers()[block.of];
    const DType dtype = numbers.values.dtype;
    std::memset(bytes, 0, static_cast<std::size_t>(block.count) * size_of(dtype));  // the gaps
    for_each_part(numbers, block,
                  [&](std::size_t parameter, std::int64_t first, std::int64_t in_block, std::int64_t count) {
                    from.read(prefix_of(numbers) + numbers.layout[parameter].name, first, count, dtype,
                              bytes + static_cast<std::size_t>(in_block) * size_of(dtype));
                  });
    progress();
  });
}

}  // namespace lockstep
