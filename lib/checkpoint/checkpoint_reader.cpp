// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checkpoint/checkpoint_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "checkpoint/training_arrays.hpp"
#include "config/deck.hpp"

namespace lockstep {
namespace {

std::string folder_in(const char* owners, int owner) { return fmt::format("{}{}/", owners, owner); }

std::string name_in(const char* owners, int owner, const std::string& state, const std::string& parameter) {
  return fmt::format("{}{}/{}", folder_in(owners, owner), state.empty() ? replica_parameters : state, parameter);
}
std::string name_of_part(int part, const std::string& state, const std::string& parameter) {
  return fmt::format("/compression/{}/{}/{}", state, part, parameter);
}

/// Returns the name of a parameter's array.
std::string name_of(const ShardedState& numbers, const std::string& parameter) {
  if (numbers.replica)
    return name_in(numbers.of_simulated_worker ? workers_folder : replicas_folder, numbers.replica->number,
                   numbers.state, parameter);
  if (numbers.state.empty()) return "/model/" + parameter;
  switch (numbers.kind) {
    case ShardedState::Kind::optimizer: return fmt::format("{}{}/{}", optimizer_folder, numbers.state, parameter);
    case ShardedState::Kind::strategy: return fmt::format("/outer/{}/{}", numbers.state, parameter);
    case ShardedState::Kind::compression: return name_of_part(numbers.part->number, numbers.state, parameter);
  }
  return {};
}

/// sum += share · numbers, for `count` numbers.
template <class T>
void add_share(double share, const std::vector<std::byte>& numbers, std::int64_t count, std::byte* sum) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * sizeof(T);
    T number, all;
    std::memcpy(&number, numbers.data() + at, sizeof(T));
    std::memcpy(&all, sum + at, sizeof(T));
    all += static_cast<T>(share * number);
    std::memcpy(sum + at, &all, sizeof(T));
  }
}

/// Visits the parts of a block that belong to parameters: parameter, first element in it and in the block, and count.
template <class Visit>
void for_each_part(const ShardedState& numbers, const CheckpointTransfer::Block& block, Visit visit) {
  const std::int64_t end = block.first + block.count;
  const auto& layout = numbers.layout;
  const auto after = std::ranges::partition_point(
      layout, [&](const Parameter& each) { return each.range.first + each.range.count <= block.first; });
  for (auto parameter = after; parameter != layout.end() && parameter->range.first < end; ++parameter) {
    const std::int64_t first = std::max(parameter->range.first, block.first),
                       stop = std::min(parameter->range.first + parameter->range.count, end);
    if (first < stop)
      visit(static_cast<std::size_t>(parameter - layout.begin()), first - parameter->range.first, first - block.first,
            stop - first);
  }
}

}  // namespace

std::string replica_folder(int replica) { return folder_in(replicas_folder, replica); }

std::vector<NamedArray> arrays_of(const std::vector<ShardedState>& numbers) {
  std::vector<NamedArray> arrays;
  for (const ShardedState& each : numbers)
    for (const Parameter& parameter : each.layout)
      arrays.push_back({name_of(each, parameter.name), each.values.dtype, parameter.shape, nullptr});
  return arrays;
}

NumberSource source_of(CheckpointTransfer& transfer) {
  return [&transfer](const NumberSink& sink) {
    std::vector<std::size_t> first_array;
    std::size_t arrays = 0;
    for (const ShardedState& each : transfer.states()) {
      first_array.push_back(arrays);
      arrays += each.layout.size();
    }
    transfer.gather([&](const CheckpointTransfer::Block& block, const std::byte* bytes) {
      const ShardedState& numbers = transfer.states()[block.of];
      const std::size_t element = size_of(numbers.values.dtype);
      for_each_part(
          numbers, block, [&](std::size_t parameter, std::int64_t, std::int64_t in_block, std::int64_t count) {
            sink(first_array[block.of] + parameter,
                 {bytes + static_cast<std::size_t>(in_block) * element, static_cast<std::size_t>(count) * element});
          });
    });
  };
}

CheckpointReader::CheckpointReader(const std::string& path)
    : file_(Hdf5File::open(path)), bytes_(path, RawFile::Access::read) {
  for (std::string& name : file_.datasets()) names_.insert(std::move(name));
  const auto has = [&](const std::string& folder) {
    const auto next = names_.lower_bound(folder);
    return next != names_.end() && next->starts_with(folder);
  };
  for (Owners* owners : {&replicas_, &workers_})
    while (has(folder_in(owners->folder, owners->count))) ++owners->count;
}

CheckpointReader::Summands CheckpointReader::summands_for(const ShardedState& numbers, const Parameter& parameter) {
  using Kind = ShardedState::Kind;
  if (numbers.kind == Kind::compression) return parts_for(numbers, parameter);
  std::vector<std::string> arrays;
  const auto add = [&](std::string name) {
    if (names_.contains(name)) arrays.push_back(std::move(name));
  };
  const Owners& owners = numbers.of_simulated_worker ? workers_ : replicas_;
  const bool is_own = numbers.replica && numbers.replica->count == owners.count;
  if (numbers.kind == Kind::strategy && !numbers.replica) {
    add(name_of(numbers, parameter.name));
    return {std::move(arrays), 1};
  }
  const auto add_of = [&](int owner) { add(name_in(owners.folder, owner, numbers.state, parameter.name)); };
  if (is_own) add_of(numbers.replica->number);
  else if (numbers.replica || !numbers.state.empty())
    for (int owner = 0; owner < owners.count; ++owner) add_of(owner);
  const auto count = static_cast<double>(arrays.size());
  if (!arrays.empty()) return {std::move(arrays), 1 / count};
  const ShardedState of_all{.state = numbers.state, .kind = numbers.kind, .layout = {}, .held = {}, .values = {}};
  std::string name = name_of(of_all, parameter.name);
  if (numbers.is_optional && !names_.contains(name)) return {{}, 1};
  return {{std::move(name)}, 1};
}

int CheckpointReader::count_parts(const std::string& state, const Parameter& parameter) const {
  int parts = 0;
  for (;; ++parts) {
    const std::string name = name_of_part(parts, state, parameter.name);
    if (!names_.contains(name) || file_.info(name).count() != parameter.range.count) return parts;
  }
}

CheckpointReader::Summands CheckpointReader::parts_for(const ShardedState& numbers, const Parameter& parameter) {
  const auto [known, is_new] = parts_.try_emplace(numbers.state + '/' + parameter.name);
  if (is_new) known->second = count_parts(numbers.state, parameter);
  if (known->second == numbers.part->of) return {{name_of(numbers, parameter.name)}, 1};
  Summands all{.arrays = {}, .share = 1.0 / numbers.part->of};
  for (int part = 0; part < known->second; ++part)
    all.arrays.push_back(name_of_part(part, numbers.state, parameter.name));
  return all;
}

CheckpointReader::Array& CheckpointReader::array(const std::string& name) {
  if (const auto found = open_.find(name); found != open_.end()) return found->second;
  const StoredArray stored = file_.info(name);
  const std::optional<DType> dtype = stored.type.dtype();
  validate(dtype.has_value(), ExitStatus::bad_data, "{}:{}: holds {} (f32 or f64 is needed); convert it", file(), name,
           to_string(stored.type));
  return open_.try_emplace(name, Array{*dtype, stored.count(), file_.place(name, stored.type), {}}).first->second;
}

void CheckpointReader::read(const std::string& name, std::int64_t first, std::int64_t count, DType dtype,
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
  if (first + count < from.count) return;
  verify_checksum(file_, name, from.hash.value(), Checksum::required);
  open_.erase(name);
}

void restore_numbers(CheckpointTransfer& transfer, CheckpointReader& from, const std::function<void()>& progress) {
  std::vector<std::byte> part;
  transfer.scatter([&](const CheckpointTransfer::Block& block, std::byte* bytes) {
    const ShardedState& numbers = transfer.states()[block.of];
    const DType dtype = numbers.values.dtype;
    std::memset(bytes, 0, static_cast<std::size_t>(block.count) * size_of(dtype));  // zeros the gaps
    for_each_part(numbers, block,
                  [&](std::size_t parameter, std::int64_t first, std::int64_t in_block, std::int64_t count) {
                    std::byte* const to = bytes + static_cast<std::size_t>(in_block) * size_of(dtype);
                    const CheckpointReader::Summands summands = from.summands_for(numbers, numbers.layout[parameter]);
                    const std::vector<std::string>& arrays = summands.arrays;
                    if (arrays.size() == 1 && summands.share == 1) return from.read(arrays[0], first, count, dtype, to);
                    part.resize(static_cast<std::size_t>(count) * size_of(dtype));
                    for (const std::string& array : arrays) {
                      from.read(array, first, count, dtype, part.data());
                      dispatch_master(dtype, [&]<class T>(T) { add_share<T>(summands.share, part, count, to); });
                    }
                  });
    progress();
  });
}

}  // namespace lockstep
