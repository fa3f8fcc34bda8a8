// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checkpoint/copy_file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "io/checksum.hpp"
#include "io/raw_file.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The folder where Linux keeps POSIX shared memory.
constexpr const char* memory = "/dev/shm";

struct Prefix {
  char magic[8] = {'L', 'O', 'C', 'K', 'C', 'O', 'P', 'Y'};
  std::uint64_t description = 0, numbers = 0;  ///< bytes of each
};

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw Error(ExitStatus::bad_data, fmt::format("{}: is damaged ({})", file, why));
}

nlohmann::json json_of(const ShardedState& numbers) {
  nlohmann::json layout = nlohmann::json::array(), held = nlohmann::json::array();
  for (const Parameter& parameter : numbers.layout)
    layout.push_back({parameter.name,
                      std::vector<std::int64_t>(parameter.shape.extents().begin(), parameter.shape.extents().end()),
                      parameter.range.first});
  for (const ElementRange& range : numbers.held) held.push_back({range.first, range.count});
  nlohmann::json json{{"state", numbers.state},
                      {"double", numbers.values.dtype == DType::f64},
                      {"layout", std::move(layout)},
                      {"held", std::move(held)},
                      {"of_outer_step", numbers.kind == ShardedState::Kind::strategy},
                      {"of_simulated_worker", numbers.of_simulated_worker},
                      {"part", numbers.part ? std::array{numbers.part->number, numbers.part->of} : std::array{0, 0}}};
  if (numbers.replica) json["replica"] = {numbers.replica->number, numbers.replica->count};
  return json;
}

ShardedState numbers_of(const nlohmann::json& json) {
  using Kind = ShardedState::Kind;
  ShardedState numbers{.state = json.at("state"), .layout = {}, .held = {}, .values = {}};
  const auto [part, parts] = json.at("part").get<std::array<int, 2>>();
  if (parts > 0) numbers.part = {.number = part, .of = parts};
  numbers.kind = parts > 0                              ? Kind::compression
                 : json.at("of_outer_step").get<bool>() ? Kind::strategy
                                                        : Kind::optimizer;
  numbers.of_simulated_worker = json.at("of_simulated_worker");
  if (const auto replica = json.find("replica"); replica != json.end())
    numbers.replica = {.number = replica->at(0), .count = replica->at(1)};
  std::vector<Parameter> layout;
  for (const nlohmann::json& entry : json.at("layout")) {
    const auto extents = entry.at(1).get<std::vector<std::int64_t>>();
    Parameter& parameter = layout.emplace_back();
    parameter.name = entry.at(0);
    parameter.shape = Shape(std::span<const std::int64_t>(extents));
    parameter.range = {entry.at(2), parameter.shape.count()};
  }
  numbers.layout = std::move(layout);
  std::int64_t count = 0;
  for (const nlohmann::json& range : json.at("held")) {
    numbers.held.push_back({range.at(0), range.at(1)});
    count += numbers.held.back().count;
  }
  numbers.values = {nullptr, json.at("double").get<bool>() ? DType::f64 : DType::f32, {count}};
  return numbers;
}

CopyOrigin origin_in(const nlohmann::json& json) {
  return {.run = json.at("run"),
          .start = json.at("start"),
          .step = json.at("step"),
          .owner = json.at("owner"),
          .owners = json.at("owners")};
}

Prefix read_prefix(const RawFile& file) {
  const Prefix wanted;
  Prefix prefix;
  const std::uint64_t size = file.size();
  if (size < sizeof prefix + sizeof(std::uint64_t)) refuse(file.name(), "it is truncated");
  file.read(0, &prefix, sizeof prefix);
  if (std::memcmp(prefix.magic, wanted.magic, sizeof wanted.magic) != 0)
    refuse(file.name(), "it does not begin with LOCKCOPY");
  const std::uint64_t rest = size - sizeof prefix - sizeof(std::uint64_t);
  if (prefix.description > rest || prefix.numbers != rest - prefix.description) refuse(file.name(), "it is truncated");
  return prefix;
}

nlohmann::json read_description(const RawFile& file, const Prefix& prefix) {
  std::string text(prefix.description, '\0');
  file.read(sizeof prefix, text.data(), text.size());
  return nlohmann::json::parse(text);
}

/// Does `work` on a description, which may be any text if its bytes have changed; refuses the file if it is no valid
/// description.
template <class Work>
auto of_description(const RawFile& file, Work work) {
  try {
    return work();
  } catch (const nlohmann::json::exception& error) {
    refuse(file.name(), error.what());
  }
}

}  // namespace

void MemoryFolder::require() {
  validate(
      fs::is_directory(memory), ExitStatus::cannot_create,
      "checkpoint.neighbours_every: copies are kept in {}, which does not exist; leave the key out on this machine",
      memory);
}

MemoryFolder::MemoryFolder(const fs::path& run_folder) {
  const std::string name = fs::weakly_canonical(run_folder).string();
  prefix_ = "lockstep-" + checksum_text(name.data(), name.size());
}

fs::path MemoryFolder::file(int node, int owner, std::int64_t step) const {
  return fs::path(memory) / fmt::format("{}-node{}-rank{}-step-{}", prefix_, node, owner, step);
}

std::vector<fs::path> MemoryFolder::all() const {
  std::vector<fs::path> found;
  std::error_code code;
  for (fs::directory_iterator entry(memory, code), end; !code && entry != end; entry.increment(code))
    if (entry->path().filename().string().starts_with(prefix_)) found.push_back(entry->path());
  std::ranges::sort(found);
  return found;
}

std::vector<fs::path> MemoryFolder::files() const {
  std::vector<fs::path> files = all();
  std::erase_if(files, [](const fs::path& file) { return file.extension() == unfinished_suffix; });
  return files;
}

void MemoryFolder::clear() const {
  std::error_code ignored;  // another process that shares the memory may have removed it
  for (const fs::path& file : all()) fs::remove(file, ignored);
}

std::string copy_head(const CopyOrigin& origin, const std::map<std::string, std::string>& texts,
                      const std::vector<ShardedState>& numbers) {
  nlohmann::json all = nlohmann::json::array();
  Prefix prefix;
  for (const ShardedState& each : numbers) {
    all.push_back(json_of(each));
    prefix.numbers += each.values.bytes();
  }
  std::string description = nlohmann::json{{"run", origin.run},        {"start", origin.start},   {"step", origin.step},
                                           {"owner", origin.owner},    {"owners", origin.owners}, {"texts", texts},
                                           {"numbers", std::move(all)}}
                                .dump();
  // Numbers begin where any of their types may, so that blocks of the file hold whole numbers.
  description.append((sizeof(double) - description.size() % sizeof(double)) % sizeof(double), ' ');
  prefix.description = description.size();
  return std::string(reinterpret_cast<const char*>(&prefix), sizeof prefix) + description;
}

CopyDescription describe_copy(const std::string& head) {
  const nlohmann::json json = nlohmann::json::parse(head.substr(sizeof(Prefix)));
  CopyDescription copy{.origin = origin_in(json), .texts = json.at("texts"), .numbers = {}, .places = {}};
  std::uint64_t place = head.size();
  for (const nlohmann::json& entry : json.at("numbers")) {
    copy.places.push_back(place);
    place += copy.numbers.emplace_back(numbers_of(entry)).values.bytes();
  }
  return copy;
}

CopyOrigin origin_of_copy(const std::filesystem::path& path) {
  const RawFile file(path, RawFile::Access::read);
  return of_description(file, [&] { return origin_in(read_description(file, read_prefix(file))); });
}

CopyDescription verify_copy(const std::filesystem::path& path) {
  const RawFile file(path, RawFile::Access::read);
  const Prefix prefix = read_prefix(file);
  std::vector<std::byte> block(std::size_t{4} << 20);
  RunningHash found;
  const std::uint64_t end = sizeof prefix + prefix.description + prefix.numbers;
  for (std::uint64_t at = 0; at < end; at += block.size()) {
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), end - at));
    file.read(at, block.data(), bytes);
    found.add(block.data(), bytes);
  }
  std::uint64_t hash = 0;
  file.read(end, &hash, sizeof hash);
  if (found.value() != hash) refuse(file.name(), "its checksum does not match");
  std::string head(sizeof prefix + prefix.description, '\0');
  file.read(0, head.data(), head.size());
  return of_description(file, [&] { return describe_copy(head); });
}

}  // namespace lockstep
