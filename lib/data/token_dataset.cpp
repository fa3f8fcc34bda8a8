// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/token_dataset.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "base/heartbeat.hpp"
#include "io/checksum.hpp"

namespace lockstep {
namespace {

/// Tokens looked at together by what goes through all of them.
constexpr std::int64_t chunk = std::int64_t{1} << 20;

/// Calls f(first, tokens) for one chunk after the other.
template <class Read, class F>
void for_each_chunk(std::int64_t count, Read&& read, F&& f) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t first = 0; first < count; first += chunk) {
    tokens.resize(static_cast<std::size_t>(std::min(chunk, count - first)));
    read(first, static_cast<std::int64_t>(tokens.size()), tokens.data());
    f(first, std::as_const(tokens));
    heartbeat().beat();  // large files take their time
  }
}

class TokensInMemory final : public TokenDataset {
 public:
  TokensInMemory(std::string description, std::int64_t sequence_length, std::vector<std::int32_t> tokens)
      : TokenDataset(std::move(description), static_cast<std::int64_t>(tokens.size()), sequence_length),
        tokens_(std::move(tokens)) {}

 private:
  void read_tokens(std::int64_t first, std::int64_t count, std::int64_t* tokens) const override {
    std::copy_n(tokens_.begin() + first, count, tokens);
  }

  std::vector<std::int32_t> tokens_;
};

class TokensInFile final : public TokenDataset {
 public:
  TokensInFile(std::string description, std::int64_t count, std::int64_t sequence_length, Hdf5Rows rows,
               std::shared_ptr<const Hdf5File> file)
      : TokenDataset(std::move(description), count, sequence_length), file_(std::move(file)), rows_(std::move(rows)) {}

 private:
  void read_tokens(std::int64_t first, std::int64_t count, std::int64_t* tokens) const override {
    rows_.read(first, count, tokens);
  }

  std::shared_ptr<const Hdf5File> file_;
  Hdf5Rows rows_;  // of i64
};

/// Integers of any width become i32.
std::vector<std::int32_t> read_all(const Hdf5File& file, const std::string& name, const StoredArray& array) {
  std::vector<std::int32_t> narrow(static_cast<std::size_t>(array.count()));
  {
    std::vector<std::byte> bytes(array.bytes());
    file.read(name, array.type, bytes.data());
    verify_checksum(file, name, bytes.data(), bytes.size(), Checksum::if_present);
  }
  const Hdf5Rows rows = file.rows(name, StoredType::of(DType::i64));
  const auto read = [&](std::int64_t first, std::int64_t count, std::int64_t* to) { rows.read(first, count, to); };
  for_each_chunk(array.count(), read, [&](std::int64_t first, const std::vector<std::int64_t>& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::int64_t position = first + static_cast<std::int64_t>(i);
      validate(
          tokens[i] >= 0 && tokens[i] < std::numeric_limits<std::int32_t>::max(), ExitStatus::bad_data,
          "{}:{}: token {} at position {} is no number of a word (they count from 0 and fit into 32 bits); correct it",
          file.name(), name, tokens[i], position);
      narrow[static_cast<std::size_t>(position)] = static_cast<std::int32_t>(tokens[i]);
    }
  });
  return narrow;
}

}  // namespace

void TokenDataset::read(std::span<const std::int64_t> examples, void* inputs, void* targets) const {
  std::vector<std::int64_t> window(static_cast<std::size_t>(sequence_length_) + 1);
  auto* input = static_cast<std::int32_t*>(inputs);
  auto* target = static_cast<std::int32_t*>(targets);
  const auto narrow = [](std::int64_t token) { return static_cast<std::int32_t>(token); };
  for (const std::int64_t example : examples) {
    read_tokens(example * sequence_length_, sequence_length_ + 1, window.data());
    input = std::transform(window.begin(), window.end() - 1, input, narrow);
    target = std::transform(window.begin() + 1, window.end(), target, narrow);
  }
}

std::optional<TokenDataset::Found> TokenDataset::first_outside(std::int64_t limit) const {
  if (all_below(limit)) return std::nullopt;
  std::optional<Found> found;
  const auto read = [&](std::int64_t first, std::int64_t count, std::int64_t* to) { read_tokens(first, count, to); };
  for_each_chunk(count_, read, [&](std::int64_t first, const std::vector<std::int64_t>& tokens) {
    if (found) return;
    const auto outside = std::find_if(tokens.begin(), tokens.end(),
                                      [&](std::int64_t token) { return token < 0 || token >= limit; });
    if (outside != tokens.end()) found = {first + (outside - tokens.begin()), *outside};
  });
  return found;
}

void TokenDataset::check_classes(std::int64_t classes) const {
  if (const auto found = first_outside(classes))
    throw Error(
        ExitStatus::bad_data,
        fmt::format(
            "{}: token {} at position {} is outside the model's {} outputs (0 to {}); correct the tokens, or give "
            "the model's last layer more features",
            description_, found->token, found->position, classes, classes - 1));
}

void TokenDataset::check_tokens(std::int64_t vocabulary) const {
  if (const auto found = first_outside(vocabulary))
    throw Error(
        ExitStatus::bad_data,
        fmt::format(
            "{}: token {} at position {} is outside the model's vocabulary of {} words (0 to {}); correct the tokens, "
            "or give the model a larger vocabulary",
            description_, found->token, found->position, vocabulary, vocabulary - 1));
}

std::unique_ptr<Dataset> open_token_dataset(std::shared_ptr<const Hdf5File> file, const std::string& split,
                                            std::int64_t sequence_length, std::size_t memory_limit) {
  const std::string name = "/" + split + "/tokens", description = file->name() + ":" + name;
  if (!file->has(name)) return nullptr;
  for (const char* other : {"/inputs", "/targets"})
    validate(!file->has("/" + split + other), ExitStatus::bad_data,
             "{}: stands beside /{}{} (a dataset is either of tokens or of these); remove one of them", description,
             split, other);
  const StoredArray array = file->info(name);
  validate(array.type.kind == StoredType::Kind::integer, ExitStatus::bad_data,
           "{}: holds {} (tokens are integers); store it as one of these types", description, to_string(array.type));
  validate(array.extents.size() == 1, ExitStatus::bad_data,
           "{}: has the shape {} (tokens have one dimension); store them as one long row", description,
           extents_text(array.extents));
  validate(array.count() > sequence_length, ExitStatus::bad_data,
           "{}: has {} tokens (data.sequence_length is {}, and the last token of a window is only predicted); give at "
           "least {}, or a smaller data.sequence_length",
           description, array.count(), sequence_length, sequence_length + 1);
  if (static_cast<std::size_t>(array.count()) > memory_limit / sizeof(std::int32_t)) {
    Hdf5Rows rows = file->rows(name, StoredType::of(DType::i64));
    return std::make_unique<TokensInFile>(description, array.count(), sequence_length, std::move(rows),
                                          std::move(file));
  }
  return std::make_unique<TokensInMemory>(description, sequence_length, read_all(*file, name, array));
}

}  // namespace lockstep
