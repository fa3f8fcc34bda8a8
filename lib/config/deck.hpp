// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace lockstep {

/// Beginning of `DeckPosition::file` for values that an override set.
inline constexpr std::string_view command_line = "command line";

/// Position in a deck. Lines and columns count from 1.
struct DeckPosition {
  std::string file;
  int line = 1;
  int column = 1;
};

/// One node of a parsed deck. It keeps its position, so that every later error message can name it.
struct DeckNode {
  enum class Kind { null, scalar, sequence, mapping };
  struct Entry;

  Kind kind = Kind::null;
  std::string text;             ///< value of a scalar
  bool quoted = false;          ///< a quoted scalar is text even if it looks like a number or a boolean
  std::vector<DeckNode> items;  ///< elements of a sequence
  std::vector<Entry> entries;   ///< entries of a mapping, in the deck's order
  DeckPosition position;
  std::string path;  ///< "batch.global"; empty for the root

  const DeckNode* find(std::string_view key) const;
};

struct DeckNode::Entry {
  std::string key;
  DeckPosition position;  ///< position of the key
  DeckNode value;
};

/// An error in a deck, "FILE:LINE:COL: key.path: problem; what to do" (without the position if the configuration was
/// not read from a deck). Exit status 78, unless the error is in what the key refers to, such as a missing file.
class DeckError : public Error {
 public:
  DeckError(const DeckPosition& where, std::string_view path, std::string_view problem,
            ExitStatus status = ExitStatus::bad_deck);

  const DeckPosition& where() const { return where_; }

 private:
  DeckPosition where_;
};

/// An error about a key, thrown by code that does not know the deck: a rule between the deck and the data, for example.
/// Its exit status is that of the resulting DeckError.
class KeyError : public Error {
 public:
  KeyError(const std::string& path, const std::string& problem, ExitStatus status = ExitStatus::bad_deck)
      : Error(status, path + ": " + problem), path_(path), problem_(problem) {}

  const std::string& path() const { return path_; }
  const std::string& problem() const { return problem_; }

 private:
  std::string path_;
  std::string problem_;
};

/// Like `validate`, but throws a KeyError; for code that does not know the deck.
template <class... Args>
void validate_key(bool ok, const std::string& path, fmt::format_string<Args...> message, Args&&... args) {
  if (!ok) throw KeyError(path, fmt::format(message, std::forward<Args>(args)...));
}

/// Throws a KeyError of status missing_file if `file`, the value of `key`, does not exist. `advice`: what to do; by
/// default that of `advice_on_missing`.
void require_file_of(const std::string& key, const std::string& file, std::string_view advice = {});

/// Converts a KeyError to a DeckError at the key's position in the deck, or, if the deck omits the key, at the position
/// of the innermost enclosing section.
DeckError located(const DeckNode& deck, const KeyError& error);

/// Runs `work` and converts its KeyErrors to DeckErrors.
template <class Work>
decltype(auto) with_positions(const DeckNode& deck, Work&& work) {
  try {
    return work();
  } catch (const KeyError& error) {
    throw located(deck, error);
  }
}

/// Parses a deck; `file` only names it in messages. Throws DeckError for invalid UTF-8, broken YAML, tabs used as
/// indentation, repeated keys, and documents beyond the limits on size, depth and aliases (alias bombs).
DeckNode parse_deck(const std::string& text, const std::string& file);

/// Applies "key.path=value" from the command line, creating missing mappings on the way; list entries are named by
/// their index, from 0. Throws Error(bad_usage) if there is no "=" or a key is empty, and DeckError if the one-line
/// YAML value ends in a comment.
void apply_override(DeckNode& deck, const std::string& assignment);

/// Sets the value at a path such as "optimizer.learning_rate", creating missing mappings on the way. Errors about
/// created mappings refer to `where`.
void set_value(DeckNode& deck, const std::string& path, DeckNode value, const DeckPosition& where);

/// Returns a resolved deck (see `write_config`) as JSON.
std::string deck_json(const DeckNode& deck);

/// Returns the text of a deck. Throws DeckError if the file is too large or an HDF5 file, and what `read_text_file`
/// throws.
std::string read_deck_file(const std::string& path);

}  // namespace lockstep
