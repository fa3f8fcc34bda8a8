// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/dataset/token_dataset.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/heartbeat.hpp"
#include "data/dataset/stored_examples.hpp"
#include "io/checksum.hpp"

namespace lockstep {
namespace {

/// Tokens that a scan through all tokens reads at a time.
constexpr std::int64_t chunk = std::int64_t{1} << 20;

/// Description of a row of tokens in a file.
struct About {
  std::string description;
  std::int64_t count = 0, sequence_length = 0;
  std::string vocabulary;
};

class TokensInMemory final : public TokenDataset {
 public:
  TokensInMemory(const About& about, std::int64_t largest, SharedReading::Bytes tokens)
      : TokenDataset(about.description, about.count, about.sequence_length, largest, about.vocabulary),
        tokens_(std::move(tokens)) {}

 private:
  void read_tokens(std::int64_t first, std::int64_t count, std::int32_t* tokens) const override {
    std::memcpy(tokens, tokens_.get() + static_cast<std::size_t>(first) * sizeof *tokens,
                static_cast<std::size_t>(count) * sizeof *tokens);
  }

  SharedReading::Bytes tokens_;  ///< i32
};

class TokensInFile final : public TokenDataset {
 public:
  /// `unpacked`: bytes that are read for one window.
  TokensInFile(const About& about, std::int64_t largest, std::size_t unpacked, Hdf5Rows rows,
               std::shared_ptr<const Hdf5File> file)
      : TokenDataset(about.description, about.count, about.sequence_length, largest, about.vocabulary),
        unpacked_(unpacked),
        file_(std::move(file)),
        rows_(std::move(rows)) {}

  std::size_t unpacked_bytes() const override { return unpacked_; }

 private:
  void read_tokens(std::int64_t first, std::int64_t count, std::int32_t* tokens) const override {
    rows_.read(first, count, tokens);
  }

  std::size_t unpacked_;
  std::shared_ptr<const Hdf5File> file_;
  Hdf5Rows rows_;  // read as i32, since all tokens are known to fit
};

void require_token(const std::string& where, std::int64_t position, std::int64_t token) {
  validate(token >= 0 && token < std::numeric_limits<std::int32_t>::max(), ExitStatus::bad_data,
           "{}: token {} at position {} is not a valid token (tokens count from 0 and fit in 32 bits); correct it",
           where, token, position);
}

/// Loads integers of any width as i32. The memory has the largest of them after the tokens.
SharedReading::Bytes load_tokens(const Hdf5File& file, const std::string& name, const StoredArray& array,
                                 const SharedReading& reading) {
  const auto count = static_cast<std::size_t>(array.count());
  const std::string where = file.name() + ":" + name;
  return reading.load(count * sizeof(std::int32_t) + sizeof(std::int64_t), [&](std::byte* to) {
    std::int64_t largest = 0;
    read_in_pieces(file, name, array, [&](std::int64_t first, std::int64_t rows, const std::byte* values) {
      for_each_integer(array.type, rows, values, [&](std::int64_t i, std::int64_t token) {
        require_token(where, first + i, token);
        const auto narrow = static_cast<std::int32_t>(token);
        std::memcpy(to + static_cast<std::size_t>(first + i) * sizeof narrow, &narrow, sizeof narrow);
        largest = std::max(largest, token);
      });
    });
    std::memcpy(to + count * sizeof(std::int32_t), &largest, sizeof largest);
  });
}

/// Text whose characters the tokens stand for; empty if there is none. Other programs store lists of words under that
/// name.
std::string vocabulary_in(const Hdf5File& file) {
  const std::string name = "/vocabulary";
  if (!file.has(name)) return "";
  const StoredArray array = file.info(name);
  return array.type.kind == StoredType::Kind::text && array.extents.empty() ? file.read_text(name) : "";
}

/// Largest of the tokens that stay in the file. Each rank scans its part of them. Collective.
std::int64_t largest_token(const Hdf5File& file, const std::string& name, const StoredArray& array,
                           const SharedReading& reading) {
  const std::string where = file.name() + ":" + name;
  std::int64_t largest = 0;
  reading.run_collectively([&] {
    const Hdf5Rows rows = file.rows(name, array.type);
    const SharedReading::Part part = reading.part_of(array.count());
    std::vector<std::byte> values(static_cast<std::size_t>(chunk) * array.type.bytes);
    for (std::int64_t first = part.first; first < part.end; first += chunk) {
      const std::int64_t count = std::min(chunk, part.end - first);
      rows.read(first, count, values.data());
      for_each_integer(array.type, count, values.data(), [&](std::int64_t i, std::int64_t token) {
        require_token(where, first + i, token);
        largest = std::max(largest, token);
      });
      heartbeat().beat();  // large files take long
    }
  });
  return reading.all_reduce_max(largest);
}

}  // namespace

void TokenDataset::read(std::span<const std::int64_t> examples, void* inputs, void* targets) const {
  auto* input = static_cast<std::int32_t*>(inputs);
  auto* target = static_cast<std::int32_t*>(targets);
  std::vector<std::int32_t> window(static_cast<std::size_t>(sequence_length_) + 1);
  for (const std::int64_t example : examples) {
    read_tokens(example * sequence_length_, sequence_length_ + 1, window.data());
    input = std::copy(window.begin(), window.end() - 1, input);
    target = std::copy(window.begin() + 1, window.end(), target);
  }
}

/// Finds the first token that is not below `limit`; one is known to be there.
TokenDataset::Found TokenDataset::first_not_below(std::int64_t limit) const {
  std::vector<std::int32_t> tokens;
  for (std::int64_t first = 0; first < count_; first += chunk) {
    tokens.resize(static_cast<std::size_t>(std::min(chunk, count_ - first)));
    read_tokens(first, static_cast<std::int64_t>(tokens.size()), tokens.data());
    const auto found = std::ranges::find_if(tokens, [&](std::int32_t token) { return token >= limit; });
    if (found != tokens.end()) return {first + (found - tokens.begin()), *found};
    heartbeat().beat();  // large files take long
  }
  return {0, largest_};
}

void TokenDataset::require_below(std::int64_t limit, std::string_view what, std::string_view remedy) const {
  if (largest_ < limit) return;
  const Found found = first_not_below(limit);
  throw Error(ExitStatus::bad_data,
              fmt::format("{}: token {} at position {} is outside the model's {} (0 to {}); correct the tokens, or {}",
                          description_, found.token, found.position, what, limit - 1, remedy));
}

/// Ignored tokens count as well: they are read as inputs, and must be known.
void TokenDataset::check_classes(std::int64_t classes, std::int64_t /*ignored*/) const {
  require_below(classes, fmt::format("{} outputs", classes), "give the model's last layer more features");
}

void TokenDataset::check_tokens(std::int64_t vocabulary) const {
  require_below(vocabulary, fmt::format("vocabulary of {} words", vocabulary), "give the model a larger vocabulary");
}

std::unique_ptr<Dataset> open_token_dataset(std::shared_ptr<const Hdf5File> file, const std::string& group,
                                            std::int64_t sequence_length, const SharedReading& reading,
                                            std::size_t memory_limit) {
  const std::string name = group + "/tokens", description = file->name() + ":" + name;
  About about{.description = description, .sequence_length = sequence_length, .vocabulary = {}};
  std::optional<StoredArray> found;
  reading.run_collectively([&] {
    if (!file->has(name)) return;
    for (const char* other : {"/inputs", "/targets"})
      validate(!file->has(group + other), ExitStatus::bad_data,
               "{}: cannot be combined with {}{} (a dataset has either tokens or inputs and targets); remove one of "
               "them",
               description, group, other);
    const StoredArray array = file->info(name);
    validate(array.type.kind == StoredType::Kind::integer, ExitStatus::bad_data,
             "{}: holds {} (tokens are integers); store it as integers", description, to_string(array.type));
    validate(array.extents.size() == 1, ExitStatus::bad_data,
             "{}: has the shape {} (tokens have one dimension); store them as one long row", description,
             extents_text(array.extents));
    validate(
        array.count() > sequence_length, ExitStatus::bad_data,
        "{}: has {} tokens (data.sequence_length is {}, and the last token of a window is only predicted); give at "
        "least {}, or a smaller data.sequence_length",
        description, array.count(), sequence_length, sequence_length + 1);
    found = array;
    about.vocabulary = vocabulary_in(*file);
  });
  reading.agree(description,
                found ? fmt::format("{} tokens {}", found->count(), to_string(found->type)) : "no examples");
  if (!found) return nullptr;
  const std::int64_t count = about.count = found->count();
  if (static_cast<std::size_t>(count) > memory_limit / sizeof(std::int32_t)) {
    warn_of_chunks(*found, sequence_length, description);
    const std::int64_t largest = largest_token(*file, name, *found, reading);
    Hdf5Rows rows = file->rows(name, StoredType::of(DType::i32));
    return std::make_unique<TokensInFile>(about, largest, found->unpacked_bytes(sequence_length), std::move(rows),
                                          std::move(file));
  }
  SharedReading::Bytes tokens = load_tokens(*file, name, *found, reading);
  std::int64_t largest = 0;
  std::memcpy(&largest, tokens.get() + static_cast<std::size_t>(count) * sizeof(std::int32_t), sizeof largest);
  return std::make_unique<TokensInMemory>(about, largest, std::move(tokens));
}

}  // namespace lockstep
