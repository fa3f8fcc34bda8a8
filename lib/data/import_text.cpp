// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import_text.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/utf8.hpp"
#include "data/import_output.hpp"
#include "io/checksum.hpp"
#include "io/raw_file.hpp"

namespace lockstep {
namespace {

/// Size of the piece of the file, or of its tokens, that is in memory at a time.
constexpr std::size_t piece_bytes = std::size_t{4} << 20;
constexpr std::uint32_t code_points = 0x110000;

/// U+FEFF, which some editors put at the beginning of UTF-8 files (a byte-order mark) and which is no part of the text.
constexpr std::uint32_t byte_order_mark = 0xFEFF;

/// Calls use(code point) for each character of a file's text, in their order.
template <class Use>
void for_each_character(const RawFile& file, Use use) {
  std::vector<char> piece(piece_bytes);
  std::size_t kept = 0;  // bytes of a character that the piece before has cut off
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
               "{}: byte {} is no UTF-8 (0x{:02x}); convert the file to UTF-8", file.name(), at,
               static_cast<std::uint8_t>(text[0]));
      validate(character.code_point != 0, ExitStatus::bad_data, "{}: byte {} is 0 (no text has that); give a text file",
               file.name(), at);
      if (at > 0 || character.code_point != byte_order_mark) use(character.code_point);
      text.remove_prefix(character.bytes);
    }
    kept = text.size();
    std::memmove(piece.data(), text.data(), kept);
  }
}

/// The characters of a file, by how many there are and by which.
struct Contents {
  std::uint64_t characters = 0;
  std::vector<std::uint32_t> vocabulary;  ///< rising

  explicit Contents(const RawFile& file) {
    std::vector<bool> found(code_points);
    for_each_character(file, [&](std::uint32_t point) {
      found[point] = true;
      ++characters;
    });
    for (std::uint32_t point = 0; point < code_points; ++point)
      if (found[point]) vocabulary.push_back(point);
  }
};

/// One long row of numbers in a file, written as they come.
template <class T>
class TokenRow {
 public:
  TokenRow(Hdf5File& file, std::string name, const StoredType& type, std::uint64_t count)
      : file_(file), name_(std::move(name)), rows_(file.create_rows(name_, type, {static_cast<std::int64_t>(count)})) {}

  void add(std::uint32_t token) {
    waiting_.push_back(static_cast<T>(token));
    if (waiting_.size() * sizeof(T) >= piece_bytes) write();
  }
  void finish() {
    write();
    file_.write_attribute(name_, checksum_attribute, checksum_text(hash_.value()));
  }

 private:
  void write() {
    const auto count = static_cast<std::int64_t>(waiting_.size());
    if (count > 0) rows_.write(written_, count, waiting_.data());
    hash_.add(waiting_.data(), waiting_.size() * sizeof(T));
    written_ += count;
    waiting_.clear();
  }

  Hdf5File& file_;
  std::string name_;
  Hdf5Rows rows_;
  RunningHash hash_;
  std::vector<T> waiting_;
  std::int64_t written_ = 0;
};

template <class T>
void write_tokens(Hdf5File& to, const StoredType& type, const RawFile& from, const Contents& contents,
                  std::uint64_t train) {
  std::vector<std::uint32_t> token_of(code_points);
  for (std::size_t token = 0; token < contents.vocabulary.size(); ++token)
    token_of[contents.vocabulary[token]] = static_cast<std::uint32_t>(token);
  const std::uint64_t rest = contents.characters - train;
  TokenRow<T> row(to, "/train/tokens", type, train);
  std::optional<TokenRow<T>> validation;
  if (rest > 0) validation.emplace(to, "/validation/tokens", type, rest);
  std::uint64_t number = 0;
  for_each_character(from, [&](std::uint32_t point) {
    validate(number < contents.characters && contents.vocabulary[token_of[point]] == point, ExitStatus::bad_data,
             "{}: it has changed while it was read; import it again", from.name());
    (number++ < train ? row : *validation).add(token_of[point]);
  });
  validate(number == contents.characters, ExitStatus::bad_data, "{}: it has changed while it was read; import it again",
           from.name());
  row.finish();
  if (validation) validation->finish();
}

}  // namespace

std::string import_text(const ImportTextOptions& options) {
  check_output(options.output, options.overwrite, {options.file});
  validate(options.validation >= 0 && options.validation < 1, ExitStatus::bad_usage,
           "--validation {}: is no fraction of the characters (at least 0, below 1); give 0.1, say",
           options.validation);
  std::error_code code;
  validate(!std::filesystem::is_directory(options.file, code), ExitStatus::bad_data,
           "{}: is a folder; name the file in it", options.file);
  validate(std::filesystem::exists(options.file, code), ExitStatus::missing_file,
           "{}: no such file; check the path (relative paths start at the working folder)", options.file);
  validate(std::filesystem::is_regular_file(options.file, code), ExitStatus::bad_data,
           "{}: is no file that can be read twice; copy it into one", options.file);
  const RawFile file(options.file, RawFile::Access::read);
  const Contents contents(file);
  validate(contents.characters > 0, ExitStatus::bad_data, "{}: is empty; give a text", options.file);
  // The remainder is rounded down, so that 0.1 of 1,115,394 characters leaves 1,003,854 to train on (90 %).
  const auto train = static_cast<std::uint64_t>((1 - options.validation) * static_cast<double>(contents.characters) +
                                                1e-6);
  validate(train > 0, ExitStatus::bad_usage, "--validation {}: leaves nothing to train on (there are {} characters)",
           options.validation, contents.characters);
  write_output(options.output, [&](Hdf5File& to) {
    const std::size_t words = contents.vocabulary.size();
    if (words <= 256) write_tokens<std::uint8_t>(to, StoredType::of(DType::u8), file, contents, train);
    else if (words <= 65536) write_tokens<std::uint16_t>(to, StoredType::u16(), file, contents, train);
    else write_tokens<std::int32_t>(to, StoredType::of(DType::i32), file, contents, train);
    write_text_checked(to, "/vocabulary", encode_utf8(contents.vocabulary));
  });
  return fmt::format("{}: {} characters to train on, {} to validate on, {} distinct", options.output, train,
                     contents.characters - train, contents.vocabulary.size());
}

}  // namespace lockstep
