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

/// A configuration that can say what its keys are. The typed structs that derive from it stand
/// beside the classes that they configure, and are the only source of keys, defaults, limits and
/// help: reading, checking, the resolved deck, the JSON Schema and the reference page all come
/// from `describe`.
struct Config {
  virtual ~Config() = default;
  virtual void describe(Fields& fields) = 0;

  /// The key that a value stands for where a list entry gives nothing else: `rate` in `- dropout: 0.1`. Empty: there is
  /// none.
  virtual std::string_view short_form() const { return {}; }

  DeckPosition position;  ///< where the deck chose it (of alternatives and list entries)
  std::string path;
};

/// One choice among several kinds of a thing, each with keys of its own.
struct Alternative {
  std::string_view name;
  std::string_view help;
  std::shared_ptr<Config> (*make)();
};

template <class T>
std::shared_ptr<Config> make_config() {
  return std::make_shared<T>();
}

/// An entry of a list such as `model.layers`: `- relu` or `- {linear: {features: 10}, name: fc, from: a}`.
struct ListItem {
  std::string type;
  std::string name;               ///< empty: not given
  std::vector<std::string> from;  ///< empty: not given
  std::shared_ptr<Config> config;
};

enum class Presence { optional, required };

/// How some text must look.
struct TextForm {
  std::string_view pattern;  ///< regular expression (ECMAScript) for all of it; empty: any text
  std::string_view words;    ///< the same for people
  /// What it is used for. Of paths and names nothing expands what shells do: no ~ at their beginning, and no $.
  enum class Use { any, path, folder_name } use = Use::any;
};

/// How many of some keys must be given.
enum class Needs { at_least_one, exactly_one };

/// Limits of a number, ends included unless `above_min`.
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

/// A whole number, or one of some words in its place.
struct NumberOrWord {
  std::optional<std::int64_t> number;
  std::size_t word = 0;  ///< counts in the words, where there is no number
};

/// What another program, or an older deck, calls a key or a word, and what it is here.
struct OtherName {
  std::string_view name;
  std::string_view section;  ///< pattern of the path of the mapping in which it stands; "": at the top, "*": anywhere
  std::string_view instead;  ///< what to write, with the path of a key; empty: nothing is needed
  std::string_view why;      ///< may be empty
};

/// Visits the keys of one mapping. Implementations read a deck, write the resolved deck, the JSON
/// Schema or the reference page. Values passed by reference hold the default on entry.
class Fields {
 public:
  virtual ~Fields() = default;

  virtual void boolean(std::string_view key, bool& value, std::string_view help) = 0;
  virtual void integer(std::string_view key, std::int64_t& value, Range range, std::string_view help,
                       Presence presence = Presence::optional) = 0;
  virtual void integer(std::string_view key, std::optional<std::int64_t>& value, Range range,
                       std::string_view help) = 0;
  /// See the overload for one word below.
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
  /// A list of [text, number].
  virtual void points(std::string_view key, std::vector<std::pair<std::string, double>>& values, const TextForm& form,
                      Range range, std::string_view help) = 0;
  /// A mapping of names that the deck chooses to text, in the deck's order.
  virtual void text_pairs(std::string_view key, std::vector<std::pair<std::string, std::string>>& values,
                          std::string_view help) = 0;
  /// One of several words; `index` counts in `names`. See the enum overload below.
  virtual void choice(std::string_view key, int& index, std::span<const std::string_view> names,
                      std::string_view help) = 0;
  /// Some of several words, each at most once.
  virtual void words(std::string_view key, std::vector<std::string>& values, std::span<const std::string_view> names,
                     std::string_view help) = 0;
  virtual void section(std::string_view key, const std::function<void(Fields&)>& describe, std::string_view help,
                       Presence presence = Presence::optional) = 0;
  /// A section whose absence means something; `present` is false on entry. `short_form`: the key that a value in the
  /// place of the section stands for; empty: there must be a section.
  virtual void optional_section(std::string_view key, bool& present, const std::function<void(Fields&)>& describe,
                                std::string_view help, std::string_view short_form = {}) = 0;
  /// `key` names one of `alternatives`, whose own keys stand beside it. `name` holds the default
  /// (empty: none is chosen unless the deck does), `config` receives what was chosen.
  virtual void one_of(std::string_view key, std::string& name, std::shared_ptr<Config>& config,
                      std::span<const Alternative> alternatives, std::string_view help) = 0;
  virtual void list_of(std::string_view key, std::vector<ListItem>& items, std::span<const Alternative> alternatives,
                       std::string_view help) = 0;

  /// A list of mappings that have the same keys. `resize` makes so many of them; `describe` visits the keys of one.
  virtual void sections(std::string_view key, std::size_t count, const std::function<void(std::size_t)>& resize,
                        const std::function<void(std::size_t, Fields&)>& describe, std::string_view help) = 0;

  /// A mapping of names that the deck chooses to mappings that have the same keys, in the deck's order. `resize` and
  /// `describe` as in `sections`; `short_form`: the key that anything but a mapping stands for.
  virtual void named_sections(std::string_view key, std::vector<std::string>& names,
                              const std::function<void(std::size_t)>& resize,
                              const std::function<void(std::size_t, Fields&)>& describe, std::string_view help,
                              std::string_view short_form) = 0;

  /// A rule of presence between keys of this mapping that are described before. `why`: what is wrong without them.
  virtual void need(Needs needs, std::span<const std::string_view> keys, std::string_view why) = 0;
  /// Any other rule between keys. Only reading enforces it, as a DeckError at `key` of this mapping.
  virtual void check(bool ok, std::string_view key, std::string_view problem) = 0;

  /// Names that users may know from elsewhere, in this mapping and those in it that are described after. Only reading
  /// says what to write in their place, where a deck has them. They outlive the reading.
  virtual void other_names(std::span<const OtherName>) {}

  /// The key that a single value in the place of this mapping is likely to be meant for, which the complaint about it
  /// then names. (That of a `one_of`, where nothing else is said.)
  virtual void meant_by_value(std::string_view) {}

  /// Text that names a file or a folder.
  void path(std::string_view key, std::string& value, std::string_view help, Presence presence = Presence::optional) {
    text(key, value, help, presence, {.use = TextForm::Use::path});
  }

  /// Text that is the name of a folder, made in a place that it does not choose.
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

  /// A whole number, or `word` where there is none.
  void integer_or(std::string_view key, std::optional<std::int64_t>& value, std::string_view word, Range range,
                  std::string_view help) {
    NumberOrWord chosen{value};
    integer_or(key, chosen, std::span(&word, 1), range, help);
    value = chosen.number;
  }
};

/// Fills `config` from a deck. Throws for unknown keys (with the nearest known one), wrong types, values out of range
/// and broken rules: a DeckError, or an Error that has a line for each, where there are several (the first ten).
void read_config(const DeckNode& deck, Config& config);

/// The resolved deck: every key with its value, as YAML that reads back to the same config.
std::string write_config(Config& config);

/// JSON Schema (draft 2020-12) of the decks that `config` reads.
std::string json_schema(Config& config, std::string_view title);

/// The reference page: Markdown tables of keys, types, defaults, limits and meanings.
std::string reference_page(Config& config);

/// The candidate with the smallest edit distance (a letter more, less or changed for its neighbour: 1, another letter:
/// 2; upper and lower case: 0), or empty when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace lockstep
