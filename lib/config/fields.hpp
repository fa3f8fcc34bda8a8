// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/deck.hpp"

namespace lockstep {

class Fields;

/// A configuration that describes its own keys. The typed structs derived from it stand next to the classes that they
/// configure and are the only source of keys, defaults, limits and help: reading, checking, the resolved deck, the JSON
/// Schema and the reference page are all generated from `describe`.
struct Config {
  virtual ~Config() = default;
  virtual void describe(Fields& fields) = 0;

  /// Key that receives a bare value in a list entry: `rate` in `- dropout: 0.1`. Empty: a bare value is not allowed.
  virtual std::string_view short_form() const { return {}; }

  DeckPosition position;  ///< position of the list entry, or of the key that chose this alternative
  std::string path;
};

/// One of several kinds of a thing, each with keys of its own.
struct Alternative {
  std::string_view name;
  std::string_view help;
  std::shared_ptr<Config> (*make)();
};

template <class T>
std::shared_ptr<Config> make_config() {
  return std::make_shared<T>();
}

/// Entry of a list such as `model.layers`: `- relu` or `- {linear: {features: 10}, name: fc, from: a}`.
struct ListItem {
  std::string type;
  std::string name;               ///< empty: not given
  std::vector<std::string> from;  ///< empty: not given
  std::shared_ptr<Config> config;
};

enum class Presence { optional, required };

/// Required form of a text.
struct TextForm {
  /// Regular expression (POSIX extended and ECMAScript) that matches all of it; empty: any text
  std::string_view pattern;
  std::string_view words;  ///< description of the pattern for people
  /// Purpose of the text. In paths and folder names, a leading ~ and any $ are errors, because decks do not expand
  /// them.
  enum class Use { any, path, folder_name } use = Use::any;
};

/// How many keys of a group must be given.
enum class Needs { at_least_one, exactly_one };

/// Range of a number; both ends are included unless `above_min` or `below_max` is set.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  ///< the value must be greater than min
  bool below_max = false;  ///< the value must be less than max
};
inline constexpr Range any_number{};
inline constexpr Range positive{0, std::numeric_limits<double>::infinity(), true};
inline constexpr Range not_negative{0};
inline constexpr Range at_least_one{1};
inline constexpr Range fraction{0, 1};
inline constexpr Range fraction_below_one{0, 1, false, true};

/// A whole number, or one of several words instead.
struct NumberOrWord {
  std::optional<std::int64_t> number;
  std::size_t word = 0;  ///< index of the word, if there is no number
};

/// A name that another program or an older deck uses for a key or a word, and what to write here.
struct OtherName {
  std::string_view name;
  /// Pattern of the path of the mapping that contains the name; "": at the top, "*": anywhere.
  std::string_view section;
  std::string_view instead;  ///< what to write, with the full path of a key; empty: nothing is needed
  std::string_view why;      ///< may be empty
  bool was_removed = false;  ///< it had a meaning in earlier versions
};

/// Visits the keys of one mapping. Implementations read a deck, or write the resolved deck, the JSON Schema or the
/// reference page. Values passed by reference hold their default on entry.
class Fields {
 public:
  virtual ~Fields() = default;

  virtual void boolean(std::string_view key, bool& value, std::string_view help) = 0;
  virtual void boolean(std::string_view key, std::optional<bool>& value, std::string_view help) = 0;
  virtual void integer(std::string_view key, std::int64_t& value, Range range, std::string_view help,
                       Presence presence = Presence::optional) = 0;
  virtual void integer(std::string_view key, std::optional<std::int64_t>& value, Range range,
                       std::string_view help) = 0;
  /// A whole number or one of `words`; see the overload for one word below.
  virtual void integer_or(std::string_view key, NumberOrWord& value, std::span<const std::string_view> words,
                          Range range, std::string_view help) = 0;
  virtual void number(std::string_view key, double& value, Range range, std::string_view help,
                      Presence presence = Presence::optional) = 0;
  virtual void number(std::string_view key, std::optional<double>& value, Range range, std::string_view help) = 0;
  virtual void numbers(std::string_view key, std::vector<double>& values, Range range, std::string_view help) = 0;
  virtual void integers(std::string_view key, std::vector<std::int64_t>& values, Range range,
                        std::string_view help) = 0;
  virtual void text(std::string_view key, std::string& value, std::string_view help,
                    Presence presence = Presence::optional, const TextForm& form = {}) = 0;
  virtual void texts(std::string_view key, std::vector<std::string>& values, std::string_view help,
                     const TextForm& form = {}) = 0;
  /// A list of [text, number] pairs.
  virtual void points(std::string_view key, std::vector<std::pair<std::string, double>>& values, const TextForm& form,
                      Range range, std::string_view help) = 0;
  /// A mapping from names chosen in the deck to text, in the deck's order.
  virtual void text_pairs(std::string_view key, std::vector<std::pair<std::string, std::string>>& values,
                          std::string_view help) = 0;
  /// One of several words; `index` is its index in `names`. See the enum overload below.
  virtual void choice(std::string_view key, int& index, std::span<const std::string_view> names,
                      std::string_view help) = 0;
  /// A subset of several words, each at most once.
  virtual void words(std::string_view key, std::vector<std::string>& values, std::span<const std::string_view> names,
                     std::string_view help) = 0;
  virtual void section(std::string_view key, const std::function<void(Fields&)>& describe, std::string_view help,
                       Presence presence = Presence::optional) = 0;
  /// A section that may be absent, which differs from being empty; `present` is false on entry. `short_form`: the key
  /// that receives a bare value given instead of the section; empty: a bare value is an error.
  virtual void optional_section(std::string_view key, bool& present, const std::function<void(Fields&)>& describe,
                                std::string_view help, std::string_view short_form = {}) = 0;
  /// `key` chooses one of `alternatives`, whose own keys stand next to it in this mapping. `name` holds the default
  /// (empty: no alternative unless the deck chooses one); `config` receives the chosen configuration.
  virtual void one_of(std::string_view key, std::string& name, std::shared_ptr<Config>& config,
                      std::span<const Alternative> alternatives, std::string_view help) = 0;
  virtual void list_of(std::string_view key, std::vector<ListItem>& items, std::span<const Alternative> alternatives,
                       std::string_view help) = 0;

  /// A list of mappings with the same keys. `resize` sets the number of mappings; `describe` visits the keys of one.
  virtual void sections(std::string_view key, std::size_t count, const std::function<void(std::size_t)>& resize,
                        const std::function<void(std::size_t, Fields&)>& describe, std::string_view help) = 0;

  /// A mapping from names chosen in the deck to mappings with the same keys, in the deck's order. `resize` and
  /// `describe` are as in `sections`. `short_form`: the key that receives a value that is not a mapping.
  virtual void named_sections(std::string_view key, std::vector<std::string>& names,
                              const std::function<void(std::size_t)>& resize,
                              const std::function<void(std::size_t, Fields&)>& describe, std::string_view help,
                              std::string_view short_form) = 0;

  /// Requires the presence of keys that were described before in this mapping. `why`: reason for the error message.
  virtual void need(Needs needs, std::span<const std::string_view> keys, std::string_view why) = 0;
  /// Checks any other rule between keys. Only reading enforces it, with a DeckError at `key` of this mapping.
  virtual void check(bool ok, std::string_view key, std::string_view problem) = 0;

  /// Names known from other programs, valid for this mapping and mappings described later within it. Only reading uses
  /// them: if a deck contains one, the error says what to write instead. The span must outlive the reading.
  virtual void other_names(std::span<const OtherName>) {}

  /// Names the key that a bare value in place of this mapping was probably meant for, for the error message. By default
  /// the key of the first `one_of`.
  virtual void meant_by_value(std::string_view) {}

  /// Text that is the path of a file or a folder.
  void path(std::string_view key, std::string& value, std::string_view help, Presence presence = Presence::optional) {
    text(key, value, help, presence, {.use = TextForm::Use::path});
  }

  /// Text that is the name of a folder without a path; the folder's parent is fixed elsewhere.
  void folder_name(std::string_view key, std::string& value, std::string_view help) {
    text(key, value, help, Presence::optional, {.use = TextForm::Use::folder_name});
  }

  template <class T>
  void sections(std::string_view key, std::vector<T>& items, std::string_view help) {
    sections(
        key, items.size(), [&](std::size_t count) { items.resize(count); },
        [&](std::size_t i, Fields& fields) { items[i].describe(fields); }, help);
  }

  template <class Enum>
  requires std::is_enum_v<Enum>
  void choice(std::string_view key, Enum& value, std::span<const std::string_view> names, std::string_view help) {
    int index = static_cast<int>(value);
    choice(key, index, names, help);
    value = static_cast<Enum>(index);
  }

  /// A whole number, or `word` for none.
  void integer_or(std::string_view key, std::optional<std::int64_t>& value, std::string_view word, Range range,
                  std::string_view help) {
    NumberOrWord chosen{value};
    integer_or(key, chosen, std::span(&word, 1), range, help);
    value = chosen.number;
  }
};

/// Fills `config` from a deck. Errors are unknown keys (with the nearest known one), wrong types, values out of range
/// and broken rules. Throws a DeckError for a single one, or an Error with one line for each of the first ten.
void read_config(const DeckNode& deck, Config& config);

/// Writes the resolved deck: every key with its value, as YAML that reads back to the same configuration.
std::string write_config(Config& config);

/// Returns the JSON Schema (draft 2020-12) of the decks that `config` reads.
std::string json_schema(Config& config, std::string_view title);

/// Returns the paths of the keys called `name`: a section of the deck, and keys of sections, of which some may only be
/// valid with some alternatives. Keys further inside are left out.
std::vector<std::string> paths_of_key(Config& config, std::string_view name);

/// Returns the reference page: Markdown tables of keys, types, defaults, limits and meanings.
std::string reference_page(Config& config);

/// Returns the candidate with the smallest edit distance, or an empty text if none is near. Inserting or deleting a
/// letter or swapping two neighbours costs 1, replacing a letter 2; case is ignored.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// Wording of ranges and choices, used in messages and in the reference page.

/// "at least 1 and at most 10", "at least 1", "more than 0", "any".
std::string range_text(const Range& range);

/// "a, b or c".
std::string one_of_words(std::span<const std::string_view> words);

}  // namespace lockstep
