// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import/importers.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/import/files.hpp"
#include "io/checksum.hpp"
#include "io/output_file.hpp"
#include "io/raw_file.hpp"

namespace lockstep {
namespace {

/// Bytes of the file, or of its tokens, that are in memory at a time.
constexpr std::size_t piece_bytes = std::size_t{4} << 20;
constexpr std::uint32_t code_points = 0x110000;

/// U+FEFF, a byte-order mark, which some editors put at the beginning of UTF-8 files. It is not part of the text.
constexpr std::uint32_t byte_order_mark = 0xFEFF;

/// Calls use(code point) for each character of a file's text, in order.
template <class Use>
void for_each_character(const RawFile& file, Use use) {
  std::vector<char> piece(piece_bytes);
  std::size_t kept = 0;  // bytes of a character that was cut off at the end of the previous piece
  const std::uint64_t size = file.size();
  for (std::uint64_t done = 0; done < size;) {
    const std::size_t count = std::min<std::uint64_t>(piece.size() - kept, size - done);
    file.read(done, piece.data() + kept, count);
    done += count;
    std::string_view text(piece.data(), kept + count);
    while (!text.empty()) {
      const Utf8Character character = first_character(text);
      if (character.cut_off && done < size) break;
      const std::uint64_t at = done - text.size();
      validate(character.bytes > 0, ExitStatus::bad_data,
               "{}: byte {} is not UTF-8 (0x{:02x}); convert the file to UTF-8", file.name(), at,
               static_cast<std::uint8_t>(text[0]));
      validate(character.code_point != 0, ExitStatus::bad_data,
               "{}: byte {} is 0 (which no text contains); give a text file", file.name(), at);
      if (at > 0 || character.code_point != byte_order_mark) use(character.code_point);
      text.remove_prefix(character.bytes);
    }
    kept = text.size();
    std::memmove(piece.data(), text.data(), kept);
  }
}

/// Number of characters in a file, and the set of them.
struct Contents {
  std::uint64_t characters = 0;
  std::vector<std::uint32_t> distinct;  ///< in rising order

  explicit Contents(const RawFile& file) {
    std::vector<bool> found(code_points);
    for_each_character(file, [&](std::uint32_t point) {
      found[point] = true;
      ++characters;
    });
    for (std::uint32_t point = 0; point < code_points; ++point)
      if (found[point]) distinct.push_back(point);
  }
};

/// Returns the characters that the tokens of `other` stand for, an imported text or a checkpoint. Throws bad_data if
/// the text has characters beyond them.
std::vector<std::uint32_t> vocabulary_of(const std::string& other, const std::string& text, const Contents& contents) {
  open_input(other);
  const Hdf5File file = Hdf5File::open(other);
  validate(
      file.has("/vocabulary"), ExitStatus::bad_data,
      "{}: has no /vocabulary; give a file of `lockstep import text`, or a checkpoint of a network that was trained "
      "on one",
      other);
  std::vector<std::uint32_t> vocabulary = decode_utf8(file.read_text("/vocabulary")).points;
  const std::set<std::uint32_t> known(vocabulary.begin(), vocabulary.end());
  std::vector<std::uint32_t> unknown;
  std::ranges::set_difference(contents.distinct, known, std::back_inserter(unknown));
  validate(
      unknown.empty(), ExitStatus::bad_data,
      "{}: has characters that are not in the vocabulary of {}: '{}'; replace them in the text, or import both texts "
      "as one and train on that",
      text, other, for_message(encode_utf8(unknown), 60));
  return vocabulary;
}

/// Writes tokens one after the other, in pieces.
template <class T>
class TokenRow {
 public:
  TokenRow(Hdf5File& file, const StoredType& type, const Splits& splits) : rows_(file, "tokens", type, {}, splits) {}

  void add(std::uint32_t token) {
    waiting_.push_back(static_cast<T>(token));
    if (waiting_.size() * sizeof(T) >= piece_bytes) write();
  }
  void finish() {
    write();
    rows_.finish();
  }

 private:
  void write() {
    rows_.append(waiting_.data(), static_cast<std::int64_t>(waiting_.size()));
    waiting_.clear();
  }

  SplitRows rows_;
  std::vector<T> waiting_;
};

template <class T>
void write_tokens(Hdf5File& to, const StoredType& type, const RawFile& from, const Contents& contents,
                  const std::vector<std::uint32_t>& vocabulary, const Splits& splits) {
  std::vector<std::uint32_t> token_of(code_points);
  for (std::size_t token = 0; token < vocabulary.size(); ++token)
    token_of[vocabulary[token]] = static_cast<std::uint32_t>(token);
  TokenRow<T> row(to, type, splits);
  std::uint64_t number = 0;
  for_each_character(from, [&](std::uint32_t point) {
    validate(number < contents.characters && vocabulary[token_of[point]] == point, ExitStatus::bad_data,
             "{}: changed while it was being read; import it again", from.name());
    ++number;
    row.add(token_of[point]);
  });
  validate(number == contents.characters, ExitStatus::bad_data, "{}: changed while it was being read; import it again",
           from.name());
  row.finish();
}

}  // namespace

std::string import_text(const ImportTextOptions& options) {
  std::vector<std::string> inputs = {options.file};
  if (!options.vocabulary.empty()) inputs.push_back(options.vocabulary);
  check_output(options.output, options.overwrite, inputs);
  validate(options.validation >= 0 && options.validation < 1, ExitStatus::bad_usage,
           "--validation {}: is not a fraction of the characters (at least 0, below 1); give 0.1, say",
           options.validation);
  const RawFile file = open_input(options.file);
  const Contents contents(file);
  validate(contents.characters > 0, ExitStatus::bad_data, "{}: is empty; give a text", options.file);
  // The number for training is rounded down, so that 0.1 of 1,115,394 characters leaves 1,003,854 to train on (90 %).
  const auto train = static_cast<std::uint64_t>((1 - options.validation) * static_cast<double>(contents.characters) +
                                                1e-6);
  validate(
      train > 0, ExitStatus::bad_usage,
      "--validation {}: leaves nothing to train on (there are {} characters); give a smaller fraction, or a longer text",
      options.validation, contents.characters);
  const std::uint64_t rest = contents.characters - train;
  const Splits splits{.train = static_cast<std::int64_t>(train), .validation = static_cast<std::int64_t>(rest)};
  const std::vector<std::uint32_t> vocabulary = options.vocabulary.empty()
                                                    ? contents.distinct
                                                    : vocabulary_of(options.vocabulary, options.file, contents);
  write_output(options.output, [&](Hdf5File& to) {
    if (vocabulary.size() <= 256)
      write_tokens<std::uint8_t>(to, StoredType::of(DType::u8), file, contents, vocabulary, splits);
    else if (vocabulary.size() <= 65536)
      write_tokens<std::uint16_t>(to, StoredType::u16(), file, contents, vocabulary, splits);
    else write_tokens<std::int32_t>(to, StoredType::of(DType::i32), file, contents, vocabulary, splits);
    write_text_checked(to, "/vocabulary", encode_utf8(vocabulary));
  });
  return fmt::format(
      "{}: {} characters to train on, {} to validate on, {} distinct{}", options.output, train, rest,
      contents.distinct.size(),
      options.vocabulary.empty() ? "" : fmt::format(" of the {} in {}", vocabulary.size(), options.vocabulary));
}

}  // namespace lockstep
