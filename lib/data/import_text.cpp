// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import_text.hpp"

#include <algorithm>
#include <filesystem>

#include "base/deck.hpp"
#include "base/error.hpp"
#include "data/import_output.hpp"
#include "io/checksum.hpp"

namespace lockstep {
namespace {

/// Bytes of the character that begins with `lead`; 0: no character begins so.
std::size_t length_from(std::uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

template <class T>
void write_tokens_as(Hdf5File& file, const std::string& name, const StoredType& type,
                     const std::vector<std::uint32_t>& tokens, std::size_t first, std::size_t count) {
  const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(first);
  std::vector<T> narrow(count);
  std::transform(begin, begin + static_cast<std::ptrdiff_t>(count), narrow.begin(),
                 [](std::uint32_t token) { return static_cast<T>(token); });
  write_checked(file, name, type, {static_cast<std::int64_t>(count)}, narrow.data());
}

void write_tokens(Hdf5File& file, const std::string& name, std::size_t vocabulary,
                  const std::vector<std::uint32_t>& tokens, std::size_t first, std::size_t count) {
  if (vocabulary <= 256) write_tokens_as<std::uint8_t>(file, name, StoredType::of(DType::u8), tokens, first, count);
  else if (vocabulary <= 65536) write_tokens_as<std::uint16_t>(file, name, StoredType::u16(), tokens, first, count);
  else write_tokens_as<std::int32_t>(file, name, StoredType::of(DType::i32), tokens, first, count);
}

}  // namespace

std::vector<std::uint32_t> decode_utf8(std::string_view text, const std::string& name) {
  std::vector<std::uint32_t> points;
  points.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) { return static_cast<std::uint8_t>(text[k]); };
    const std::size_t length = length_from(byte(i));
    bool ok = length > 0 && i + length <= text.size();
    std::uint32_t point = length == 1 ? byte(i) : byte(i) & (0x7Fu >> length);
    for (std::size_t k = i + 1; ok && k < i + length; ++k) {
      ok = (byte(k) & 0xC0u) == 0x80u;
      point = (point << 6) | (byte(k) & 0x3Fu);
    }
    // Forms that are longer than needed, halves of pairs, and what is beyond Unicode.
    ok = ok && !(length == 3 && point < 0x800) && !(length == 4 && (point < 0x10000 || point > 0x10FFFF)) &&
         !(point >= 0xD800 && point < 0xE000);
    validate(ok, ExitStatus::bad_data, "{}: byte {} is no UTF-8 (0x{:02x}); convert the file to UTF-8", name, i,
             byte(i));
    validate(point != 0, ExitStatus::bad_data, "{}: byte {} is 0 (no text has that); give a text file", name, i);
    points.push_back(point);
    i += length;
  }
  return points;
}

std::string encode_utf8(const std::vector<std::uint32_t>& code_points) {
  std::string text;
  const auto put = [&](std::uint32_t byte) { text.push_back(static_cast<char>(static_cast<std::uint8_t>(byte))); };
  for (const std::uint32_t point : code_points) {
    const int continuations = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    constexpr std::uint32_t leads[] = {0x00, 0xC0, 0xE0, 0xF0};
    put(leads[continuations] | (point >> (6 * continuations)));
    for (int k = continuations - 1; k >= 0; --k) put(0x80u | ((point >> (6 * k)) & 0x3Fu));
  }
  return text;
}

std::string import_text(const ImportTextOptions& options) {
  check_output(options.output, options.overwrite);
  validate(options.validation >= 0 && options.validation < 1, ExitStatus::bad_usage,
           "--validation {}: is no fraction of the characters (at least 0, below 1); give 0.1, say",
           options.validation);
  std::error_code code;
  validate(!std::filesystem::is_directory(options.file, code), ExitStatus::bad_data,
           "{}: is a folder; name the file in it", options.file);
  validate(std::filesystem::file_size(options.file, code) > 0, ExitStatus::bad_data, "{}: is empty; give a text",
           options.file);
  std::vector<std::uint32_t> tokens = decode_utf8(read_text_file(options.file), options.file);

  std::vector<std::uint32_t> vocabulary = tokens;
  std::sort(vocabulary.begin(), vocabulary.end());
  vocabulary.erase(std::unique(vocabulary.begin(), vocabulary.end()), vocabulary.end());
  for (auto& token : tokens)
    token = static_cast<std::uint32_t>(std::lower_bound(vocabulary.begin(), vocabulary.end(), token) -
                                       vocabulary.begin());

  // The remainder is rounded down, so that 0.1 of 1,115,394 characters leaves 1,003,854 to train on (90 %).
  const auto train = static_cast<std::size_t>((1 - options.validation) * static_cast<double>(tokens.size()) + 1e-6);
  validate(train > 0, ExitStatus::bad_usage, "--validation {}: leaves nothing to train on (there are {} characters)",
           options.validation, tokens.size());
  const std::size_t rest = tokens.size() - train;
  write_output(options.output, [&](Hdf5File& file) {
    write_tokens(file, "/train/tokens", vocabulary.size(), tokens, 0, train);
    if (rest > 0) write_tokens(file, "/validation/tokens", vocabulary.size(), tokens, train, rest);
    write_text_checked(file, "/vocabulary", encode_utf8(vocabulary));
  });
  return fmt::format("{}: {} characters to train on, {} to validate on, {} distinct", options.output, train, rest,
                     vocabulary.size());
}

}  // namespace lockstep
