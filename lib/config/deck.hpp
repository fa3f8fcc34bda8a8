// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace lockstep {

/// How `file` begins of what an override says.
inline constexpr std::string_view command_line = "command line";

/// Where a deck says something. Lines and columns count from 1.
struct DeckPosition {
  std::string file;
  int line = 1;
  int column = 1;
};

/// One node of a parsed deck. It knows where it stands, so that every later complaint can say so.
struct DeckNode {
  enum class Kind { null, scalar, sequence, mapping };
  struct Entry;

  Kind kind = Kind::null;
  std::string text;             ///< scalar
  bool quoted = false;          ///< a quoted scalar is text, whatever it looks like
  std::vector<DeckNode> items;  ///< sequence
  std::vector<Entry> entries;   ///< mapping, in the deck's order
  DeckPosition position;
  std::string path;        ///< "batch.global"; empty for the deck itself
  bool is_stored = false;  ///< read from what a run has left, which nobody is to mend

  const DeckNode* find(std::string_view key) const;
};

struct DeckNode::Entry {
  std::string key;
  DeckPosition position;  ///< of the key
  DeckNode value;
};

/// A complaint about a deck, "FILE:LINE:COL: key.path: problem; what to do"; exit status 78, unless it is about what a
/// key names. (Without the place where the configuration was not read from a deck.)
class DeckError : public Error {
 public:
  DeckError(const DeckPosition& where, std::string_view path, std::string_view problem,
            ExitStatus status = ExitStatus::bad_deck);

  const DeckPosition& where() const { return where_; }

 private:
  DeckPosition where_;
};

/// A complaint about a key by code that does not know the deck: a rule between the deck and the data, say. Status as of
/// a DeckError.
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

/// `validate` for a key that code without the deck finds wrong.
template <class... Args>
void validate_key(bool ok, const std::string& path, fmt::format_string<Args...> message, Args&&... args) {
  if (!ok) throw KeyError(path, fmt::format(message, std::forward<Args>(args)...));
}

/// Throws KeyError, of status missing_file, where there is not the file that a key names. `advice`: what to do, when
/// not given what advice_on_missing says.
void require_file_of(const std::string& key, const std::string& file, std::string_view advice = {});

/// A KeyError's complaint at the key's place in the deck, or, where the deck leaves the key out, at that of the section
/// that it belongs to.
DeckError located(const DeckNode& deck, const KeyError& error);

/// Runs `work`; its KeyErrors leave as DeckErrors.
template <class Work>
decltype(auto) with_positions(const DeckNode& deck, Work&& work) {
  try {
    return work();
  } catch (const KeyError& error) {
    throw located(deck, error);
  }
}

/// Parses a deck. Throws DeckError for broken YAML, tabs used as indentation, repeated keys, and
/// documents that are larger, deeper or more aliased than any deck (alias bombs).
/// `file` only names the text in messages.
DeckNode parse_deck(const std::string& text, const std::string& file);

/// Applies "key.path=value" from the command line; missing mappings on the way are made, list
/// entries are named by their index from 0. Throws Error(bad_usage) when there is no "=", and DeckError where
/// the value, YAML of one line, ends in a comment.
void apply_override(DeckNode& deck, const std::string& assignment);

/// Puts a value where a path names it, "optimizer.learning_rate"; mappings on the way are made. Complaints about what
/// is made are said of `where`.
void set_value(DeckNode& deck, const std::string& path, DeckNode value, const DeckPosition& where);

/// A resolved deck (see write_config) as JSON.
std::string deck_json(const DeckNode& deck);

/// The text of a deck; throws DeckError for a file that is too large to be one, and what read_text_file throws.
std::string read_deck_file(const std::string& path);

/// The whole text of a file. Throws missing_file, or io_error when it cannot be read.
std::string read_text_file(const std::string& path);

}  // namespace lockstep
