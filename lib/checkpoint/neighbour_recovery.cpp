// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checkpoint/neighbour_copies.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "checkpoint/checkpoint_reader.hpp"
#include "checkpoint/checkpoint_transfer.hpp"
#include "checkpoint/copy_file.hpp"
#include "io/raw_file.hpp"

namespace lockstep {
namespace {

/// A copy of an owner's part, in a file on the machine of rank `by`.
struct Find {
  CopyOrigin origin;
  int by = 0;
  std::string file;

  nlohmann::json json() const { return {origin.run, origin.start, origin.step, origin.owner, origin.owners, by, file}; }
  static Find of(const nlohmann::json& json) {
    return {.origin = {.run = json[0], .start = json[1], .step = json[2], .owner = json[3], .owners = json[4]},
            .by = json[5],
            .file = json[6]};
  }
  friend bool operator==(const Find&, const Find&) = default;
};

std::string text_of(const std::vector<Find>& finds) {
  nlohmann::json json = nlohmann::json::array();
  for (const Find& find : finds) json.push_back(find.json());
  return json.dump();
}

std::vector<Find> finds_of(const std::string& text) {
  std::vector<Find> finds;
  for (const nlohmann::json& json : nlohmann::json::parse(text)) finds.push_back(Find::of(json));
  return finds;
}

/// Looks for files on this node; the node's ranks divide them.
std::vector<Find> look(const Topology& ranks, const MemoryFolder& folder, std::string& problems) {
  std::vector<Find> finds;
  int number = 0;
  for (const std::filesystem::path& file : folder.files()) {
    if (number++ % ranks.node.size() != ranks.node.rank()) continue;
    try {
      finds.push_back({origin_of_copy(file), ranks.all.rank(), file.string()});
    } catch (const Error& error) {
      problems += fmt::format("{}; it is skipped\n", error.what());
    }
  }
  return finds;
}

/// Returns the finds of the newest step for which each owner's part is found, once each, all of one start of the run;
/// empty if there is none.
std::vector<Find> newest_whole(const std::vector<Find>& finds, const std::string& run, std::int64_t step) {
  using Set = std::tuple<std::int64_t, std::string, int>;
  std::map<Set, std::map<int, Find>> sets;
  for (const Find& find : finds) {
    const CopyOrigin& of = find.origin;
    if (of.run == run && of.step > step) sets[{of.step, of.start, of.owners}].emplace(of.owner, find);
  }
  for (auto& [of, parts] : std::views::reverse(sets)) {
    if (std::ssize(parts) != std::get<int>(of)) continue;
    std::vector<Find> whole;
    for (auto& [owner, find] : parts) whole.push_back(find);
    return whole;
  }
  return {};
}

/// This rank's share of the chosen parts, and those of it that are damaged.
struct Loaded {
  std::vector<CopyDescription> copies;
  std::vector<std::string> files;  ///< of the copies
  std::vector<Find> damaged;
};

Loaded load(const std::vector<Find>& chosen, int rank, std::string& problems) {
  Loaded loaded;
  for (const Find& find : chosen) {
    if (find.by != rank) continue;
    try {
      loaded.copies.push_back(verify_copy(find.file));
      loaded.files.push_back(find.file);
      validate(loaded.copies.back().origin == find.origin, ExitStatus::bad_data, "{}: was replaced meanwhile",
               find.file);
    } catch (const Error& error) {
      problems += fmt::format("{}; another copy is used, or an older one\n", error.what());
      loaded.damaged.push_back(find);
    }
  }
  return loaded;
}

/// Returns the numbers of all of this rank's copies as what it holds. `all` says what numbers there are; `memory` keeps
/// them.
std::vector<ShardedState> sharded_states(const std::vector<ShardedState>& all, const Loaded& loaded,
                                         std::vector<OwnedTensor>& memory) {
  struct Piece {
    ElementRange range;
    std::size_t copy;
    std::uint64_t place;  ///< in the file of its copy
  };
  std::vector<ShardedState> held;
  std::vector<std::byte> bytes;
  for (std::size_t of = 0; of < all.size(); ++of) {
    const std::size_t element = size_of(all[of].values.dtype);
    std::vector<Piece> pieces;
    std::int64_t count = 0;
    for (std::size_t copy = 0; copy < loaded.copies.size(); ++copy) {
      std::uint64_t place = loaded.copies[copy].places[of];
      for (const ElementRange& range : loaded.copies[copy].numbers[of].held) {
        pieces.push_back({range, copy, place});
        place += static_cast<std::size_t>(range.count) * element;
        count += range.count;
      }
    }
    std::ranges::sort(pieces, {}, [](const Piece& piece) { return piece.range.first; });
    ShardedState& numbers = held.emplace_back(all[of]);
    numbers.held.clear();
    numbers.values = memory.emplace_back("lockstep::recovered", all[of].values.dtype, Shape{count}).get();
    auto* to = static_cast<std::byte*>(numbers.values.data);
    for (const Piece& piece : pieces) {
      const Tensor there{to, numbers.values.dtype, {piece.range.count}};
      bytes.resize(there.bytes());
      RawFile(loaded.files[piece.copy], RawFile::Access::read).read(piece.place, bytes.data(), bytes.size());
      copy_from_host(ExecSpace(), bytes.data(), there);
      numbers.held.push_back(piece.range);
      to += there.bytes();
    }
  }
  return held;
}

/// Rank 0 warns of what any rank has found. Collective.
void report(const Communicator& ranks, const std::string& problems) {
  for (const std::string& text : ranks.gather_to_root(problems))
    for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
      warn("{}", text.substr(begin, end - begin));
}

}  // namespace

std::optional<std::int64_t> recover_from_neighbours(const Topology& ranks, const MemoryFolder& folder,
                                                    const std::string& run, std::int64_t step,
                                                    const std::filesystem::path& checkpoints,
                                                    const CheckpointEvents& events) {
  const Communicator& all = ranks.all;
  std::vector<Find> finds, chosen;
  std::string problems;
  const std::vector<Find> here = look(ranks, folder, problems);
  report(all, problems);
  for (const std::string& text : all.gather_to_root(text_of(here)))
    std::ranges::move(finds_of(text), std::back_inserter(finds));
  std::ranges::sort(finds, {}, &Find::file);
  Loaded loaded;
  for (bool sound = false; !sound;) {
    std::string text = text_of(newest_whole(finds, run, step));
    all.broadcast(text);
    chosen = finds_of(text);
    if (chosen.empty()) return std::nullopt;
    problems.clear();
    loaded = load(chosen, all.rank(), problems);
    report(all, problems);
    sound = all.every_rank(loaded.damaged.empty());
    for (const std::string& damaged : all.gather_to_root(text_of(loaded.damaged)))
      for (const Find& find : finds_of(damaged)) std::erase(finds, find);
  }
  // The copy of the first owner says what numbers there are, and has the texts.
  std::string first;
  if (chosen[0].by == all.rank()) first = copy_head(chosen[0].origin, loaded.copies[0].texts, loaded.copies[0].numbers);
  all.broadcast(first, chosen[0].by);
  const CopyDescription description = describe_copy(first);
  std::vector<OwnedTensor> memory;
  std::vector<ShardedState> held;
  all.run_collectively([&] { held = sharded_states(description.numbers, loaded, memory); });
  CheckpointTransfer transfer(all, std::move(held));
  all.run_collectively([&] {
    if (!all.is_root()) return transfer.serve();
    const CheckpointTransfer::Turn turn(transfer);
    std::filesystem::create_directories(checkpoints);
    write_checkpoint(checkpoints / checkpoint_name(chosen[0].origin.step),
                     {.arrays = arrays_of(transfer.numbers()), .texts = description.texts}, source_of(transfer),
                     events);
  });
  return chosen[0].origin.step;
}

}  // namespace lockstep
