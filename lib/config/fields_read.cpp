// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/ranges.h>
#include <algorithm>
#include <set>
#include <utility>

#include "base/duration.hpp"
#include "config/fields.hpp"
#include "config/fields_hints.hpp"
#include "config/reading.hpp"

namespace lockstep {
namespace {

class Reader final : public Fields {
 public:
  Reader(const DeckNode& node, Reading& reading)
      : node_(node), reading_(reading), complaints_(reading.complaints), complaints_before_(complaints_.size()) {}

  void boolean(std::string_view key, bool& value, std::string_view) override {
    with(key, Presence::optional, [&](const DeckNode& node) { value = to_boolean(node); });
  }
  void boolean(std::string_view key, std::optional<bool>& value, std::string_view) override {
    with(key, Presence::optional, [&](const DeckNode& node) { value = to_boolean(node); });
  }
  void integer(std::string_view key, std::int64_t& value, Range range, std::string_view, Presence presence) override {
    with(key, presence, [&](const DeckNode& node) { value = to_integer(node, range); });
  }
  void integer(std::string_view key, std::optional<std::int64_t>& value, Range range, std::string_view) override {
    with(key, Presence::optional, [&](const DeckNode& node) { value = to_integer(node, range); });
  }

  void integer_or(std::string_view key, NumberOrWord& value, std::span<const std::string_view> words, Range range,
                  std::string_view) override {
    with(key, Presence::optional, [&](const DeckNode& node) {
      const auto word = node.kind == DeckNode::Kind::scalar ? std::ranges::find(words, node.text) : words.end();
      if (word != words.end()) value = {std::nullopt, static_cast<std::size_t>(word - words.begin())};
      else value.number = to_integer(node, range, fmt::format("a whole number or '{}'", fmt::join(words, "' or '")));
    });
  }

  void number(std::string_view key, double& value, Range range, std::string_view, Presence presence) override {
    with(key, presence, [&](const DeckNode& node) { value = to_number(node, range); });
  }
  void number(std::string_view key, std::optional<double>& value, Range range, std::string_view) override {
    with(key, Presence::optional, [&](const DeckNode& node) { value = to_number(node, range); });
  }
  void numbers(std::string_view key, std::vector<double>& values, Range range, std::string_view) override {
    list(key, values, "a list of numbers such as [0.5, 0.5]",
         [&](const DeckNode& item) { return to_number(item, range); });
  }
  void integers(std::string_view key, std::vector<std::int64_t>& values, Range range, std::string_view) override {
    list(key, values, "a list of whole numbers such as [28, 28, 1]",
         [&](const DeckNode& item) { return to_integer(item, range); });
  }
  void text(std::string_view key, std::string& value, std::string_view, Presence presence,
            const TextForm& form) override {
    with(key, presence, [&](const DeckNode& node) { value = to_text(node, form); });
  }

  void texts(std::string_view key, std::vector<std::string>& values, std::string_view, const TextForm& form) override {
    list(key, values, "a list of text such as [a, b]", [&](const DeckNode& item) { return to_text(item, form); });
  }

  void points(std::string_view key, std::vector<std::pair<std::string, double>>& values, const TextForm& form,
              Range range, std::string_view) override {
    list(key, values, "a list of pairs such as [[0, 1], [5 epochs, 2]]", [&](const DeckNode& item) {
      if (item.kind != DeckNode::Kind::sequence || item.items.size() != 2)
        wrong_type(item, "a pair such as [5 epochs, 2]");
      return std::pair(to_text(item.items[0], form), to_number(item.items[1], range));
    });
  }

  void text_pairs(std::string_view key, std::vector<std::pair<std::string, std::string>>& values,
                  std::string_view) override {
    with(key, Presence::optional, [&](const DeckNode& node) {
      if (node.kind != DeckNode::Kind::mapping) wrong_type(node, "a mapping such as {a: b}");
      values.clear();
      for (const auto& entry : node.entries) values.emplace_back(entry.key, to_text(entry.value));
    });
  }

  void choice(std::string_view key, int& index, std::span<const std::string_view> names, std::string_view) override {
    with(key, Presence::optional, [&](const DeckNode& node) {
      if (node.kind != DeckNode::Kind::scalar) wrong_type(node, one_of_words(names));
      const auto found = std::find(names.begin(), names.end(), node.text);
      if (found == names.end()) refuse(node, {names.begin(), names.end()});
      index = static_cast<int>(found - names.begin());
    });
  }

  void words(std::string_view key, std::vector<std::string>& values, std::span<const std::string_view> names,
             std::string_view) override {
    with(key, Presence::optional, [&](const DeckNode& node) {
      if (node.kind != DeckNode::Kind::sequence) wrong_type(node, fmt::format("a list such as [{}]", names[0]));
      values.clear();
      for (const DeckNode& item : node.items) {
        if (item.kind != DeckNode::Kind::scalar) wrong_type(item, one_of_words(names));
        if (std::ranges::find(names, item.text) == names.end()) refuse_word(item, {names.begin(), names.end()});
        if (std::ranges::find(values, item.text) != values.end())
          throw DeckError(item.position, item.path, fmt::format("'{}' is given twice; remove one", item.text));
        values.push_back(item.text);
      }
    });
  }

  void section(std::string_view key, const std::function<void(Fields&)>& describe, std::string_view,
               Presence presence) override {
    const DeckNode* node = take(key, presence);
    if (!node && presence == Presence::required) return;
    const DeckNode empty{.position = node_.position, .path = child(key)};
    read(node ? *node : empty, reading_, describe);
  }

  void optional_section(std::string_view key, bool& present, const std::function<void(Fields&)>& describe,
                        std::string_view, std::string_view short_form) override {
    const DeckNode* node = take(key);
    present = node != nullptr;
    if (node) read(*node, reading_, describe, short_form);
  }

  void one_of(std::string_view key, std::string& name, std::shared_ptr<Config>& config,
              std::span<const Alternative> alternatives, std::string_view) override {
    if (meant_by_value_.empty()) meant_by_value_ = key;
    const DeckNode* chosen = nullptr;
    with(key, Presence::optional, [&](const DeckNode& node) {
      knows_its_keys_ = false;
      if (node.kind != DeckNode::Kind::scalar) wrong_type(node, "a name");
      if (!find(alternatives, node.text)) refuse(node, names_of(alternatives));
      knows_its_keys_ = true;
      name = node.text;
      chosen = &node;
    });
    config.reset();
    if (name.empty()) return;
    config = find(alternatives, name)->make();
    config->position = chosen ? chosen->position : node_.position;
    config->path = child(key);
    choices_.push_back({std::string(key), name, alternatives});
    if (knows_its_keys_) config->describe(*this);
  }

  void list_of(std::string_view key, std::vector<ListItem>& items, std::span<const Alternative> alternatives,
               std::string_view) override {
    with(key, Presence::optional, [&](const DeckNode& node) {
      if (node.kind != DeckNode::Kind::sequence) wrong_type(node, "a list (- entry)");
      if (node.items.empty()) throw DeckError(node.position, node.path, "the list is empty; give at least one entry");
      items.clear();
      for (const auto& item : node.items) attempt([&] { items.push_back(read_item(item, alternatives)); });
    });
  }

  void sections(std::string_view key, std::size_t, const std::function<void(std::size_t)>& resize,
                const std::function<void(std::size_t, Fields&)>& describe, std::string_view) override {
    with(key, Presence::optional, [&](const DeckNode& node) {
      if (node.kind != DeckNode::Kind::sequence) wrong_type(node, "a list of mappings such as [{a: 1}, {a: 2}]");
      resize(node.items.size());
      for (std::size_t i = 0; i < node.items.size(); ++i)
        read(node.items[i], reading_, [&](Fields& fields) { describe(i, fields); });
    });
  }

  void named_sections(std::string_view key, std::vector<std::string>& names,
                      const std::function<void(std::size_t)>& resize,
                      const std::function<void(std::size_t, Fields&)>& describe, std::string_view,
                      std::string_view short_form) override {
    with(key, Presence::optional, [&](const DeckNode& node) {
      if (node.kind != DeckNode::Kind::mapping) wrong_type(node, "a mapping such as {a.b: {…}}");
      names.clear();
      resize(node.entries.size());
      for (const DeckNode::Entry& entry : node.entries) {
        const std::size_t i = names.size();
        names.push_back(entry.key);
        const bool is_short = entry.value.kind != DeckNode::Kind::mapping;
        read(is_short ? spelled_out(entry.value, short_form) : entry.value, reading_,
             [&](Fields& fields) { describe(i, fields); });
      }
    });
  }

  void need(Needs needs, std::span<const std::string_view> keys, std::string_view why) override {
    std::vector<std::string> all;
    std::vector<std::string_view> given;
    for (const std::string_view key : keys) {
      all.push_back(child(key));
      if (node_.find(key)) given.push_back(key);
    }
    if (given.empty() && all.size() == 1) lacks_its_kind_ = true;
    if (given.empty()) lacking_.insert(all.begin(), all.end());
    if (given.empty())
      broken_.emplace_back(
          node_.position, all[0],
          all.size() == 1 ? fmt::format("is missing ({}); give it", why)
                          : fmt::format("neither {} is given ({}); give one of them", fmt::join(all, " nor "), why));
    else if (needs == Needs::exactly_one)
      check(given.size() == 1, given.back(),
            fmt::format("cannot be combined with {}; remove one of them{}", given.front(),
                        given.size() > 1 ? replacement(node_, given) : ""));
  }

  void check(bool ok, std::string_view key, std::string_view problem) override {
    if (ok || lacking_.contains(child(key))) return;
    for (const auto& entry : node_.entries)
      if (entry.key == key)
        return static_cast<void>(broken_.emplace_back(entry.value.position, entry.value.path, problem));
    broken_.emplace_back(node_.position, child(key), problem);
  }

  void other_names(std::span<const OtherName> names) override { reading_.other_names = names; }

  void meant_by_value(std::string_view key) override { meant_by_value_ = key; }

  /// Collects the errors of the whole mapping: unknown keys, then missing keys, then broken rules. Missing keys are
  /// reported only if nothing else is wrong here, and broken rules only if no key is missing either: the first kind
  /// found is the likelier mistake.
  void finish() const {
    if (knows_its_keys_)
      for (const auto& entry : node_.entries)
        if (const std::string problem = known_.count(entry.key) ? "" : problem_of_unknown(entry.key); !problem.empty())
          complaints_.emplace_back(entry.position, entry.value.path, problem);
    for (const Complaints* next : {&missing_, &broken_})
      if (complaints_.size() == complaints_before_) complaints_.insert(complaints_.end(), next->begin(), next->end());
  }

  static void read(const DeckNode& node, Reading& reading, const std::function<void(Fields&)>& describe,
                   std::string_view short_form = {}) {
    if (node.kind == DeckNode::Kind::scalar && !short_form.empty())
      return read(spelled_out(node, short_form), reading, describe);
    if (node.kind != DeckNode::Kind::mapping && node.kind != DeckNode::Kind::null)
      return reading.complaints.push_back(no_mapping(node, reading.deck, describe));
    Reader reader(node, reading);
    describe(reader);
    reader.finish();
  }

 private:
  std::string child(std::string_view key) const {
    return node_.path.empty() ? std::string(key) : fmt::format("{}.{}", node_.path, key);
  }

  /// Returns the error about a value that stands where a mapping is expected. The mapping's description tells which key
  /// the value was probably meant for.
  static DeckError no_mapping(const DeckNode& node, Config& deck, const std::function<void(Fields&)>& describe) {
    constexpr std::string_view wanted = "a mapping (key: value)";
    constexpr std::size_t longest = 100;  // bytes of a value that the advice may repeat
    if (node.kind != DeckNode::Kind::scalar || node.text.size() > longest) return of_wrong_type(node, wanted);
    const DeckNode empty{.position = node.position, .path = node.path};
    Reading unread{deck};
    Reader reader(empty, unread);
    describe(reader);
    const std::string keys = fmt::format("some of its keys: {}", fmt::join(reader.known_, ", "));
    if (node.text == "true" && reader.missing_.empty() && reader.broken_.empty() && !reader.known_.empty())
      return of_wrong_type(node, wanted, "write {} for its defaults, or " + keys);
    const auto can_be_value_of = [&](const std::string& key) {
      const DeckNode mapping = spelled_out(node, key);
      Reading trial{deck};
      Reader trial_reader(mapping, trial);
      describe(trial_reader);
      return trial.complaints.empty();
    };
    if (std::string key = reader.meant_by_value_; !key.empty()) {
      if (!number_of(node.text) && !can_be_value_of(key) && std::ranges::count_if(reader.known_, can_be_value_of) == 1)
        key = *std::ranges::find_if(reader.known_, can_be_value_of);
      if (can_be_value_of(key)) return of_wrong_type(node, wanted, spelled_out_as(node, key));
    }
    if (reader.known_.contains(node.text)) {
      const DeckNode some{.kind = DeckNode::Kind::scalar, .text = "…", .position = node.position, .path = node.path};
      return of_wrong_type(node, wanted, spelled_out_as(some, node.text));
    }
    return of_wrong_type(node, wanted,
                         reader.known_.empty() ? "remove the value (there are no keys here)" : "write " + keys);
  }

  /// Returns an empty text if the key may become known once this mapping names its kind.
  std::string problem_of_unknown(const std::string& key) const {
    const std::vector<std::string> known(known_.begin(), known_.end());
    if (std::string other = other_key(reading_.other_names, node_.path, key); !other.empty()) return other;
    if (const auto colon = key.find(':'); colon != std::string::npos && known_.count(key.substr(0, colon)))
      return fmt::format("has no space after its colon; write {}: {}", key.substr(0, colon), key.substr(colon + 1));
    if (lacks_its_kind_ && nearest(key, known).empty()) return "";
    // The searches below are slow, so they are done only for errors that will be reported.
    if (complaints_.size() < complaints_before_ + most_complaints) {
      for (const Choice& choice : choices_)
        if (std::string other = key_of_other_alternatives(key, choice.key, choice.chosen, choice.of); !other.empty())
          return other;
      if (node_.path.find('.') == std::string::npos && nearest(key, known).empty())
        if (std::string other = key_of_other_sections(key, node_.path, reading_.deck); !other.empty()) return other;
    }
    return fmt::format("unknown key; {}", suggestion(key, known));
  }

  [[noreturn]] void refuse(const DeckNode& node, const std::vector<std::string>& words) const {
    refuse_word(node, words, other_word(reading_.other_names, node.path, node.text, words));
  }

  template <class Work>
  void attempt(Work work) {
    try {
      work();
    } catch (const DeckError& error) {
      complaints_.push_back(error);
    }
  }

  const DeckNode* take(std::string_view key, Presence presence = Presence::optional) {
    known_.insert(std::string(key));
    const DeckNode* node = node_.find(key);
    if (node && node->kind != DeckNode::Kind::null) return node;
    if (node)
      complaints_.emplace_back(node->position, node->path, "has no value; give one, or remove the key for its default");
    else if (presence == Presence::required)
      missing_.emplace_back(node_.position, child(key), "is missing (it has no default); give it");
    return nullptr;
  }

  /// Calls `read` with the key's value, if there is one.
  template <class Read>
  void with(std::string_view key, Presence presence, Read read) {
    if (const DeckNode* node = take(key, presence)) attempt([&] { read(*node); });
  }

  template <class T, class Read>
  void list(std::string_view key, std::vector<T>& values, std::string_view wanted, Read read) {
    with(key, Presence::optional, [&](const DeckNode& node) {
      if (node.kind != DeckNode::Kind::sequence) wrong_type(node, wanted);
      values.clear();
      for (const auto& item : node.items) values.push_back(read(item));
    });
  }

  ListItem read_item(const DeckNode& node, std::span<const Alternative> alternatives) {
    ListItem item;
    const DeckNode* options = nullptr;
    if (node.kind == DeckNode::Kind::scalar) {
      if (!find(alternatives, node.text)) refuse(node, names_of(alternatives));
      item.type = node.text;
    } else if (node.kind == DeckNode::Kind::mapping) {
      for (const auto& entry : node.entries) {
        if (entry.key == "name") {
          if (entry.value.kind != DeckNode::Kind::scalar) wrong_type(entry.value, "a name");
          item.name = entry.value.text;
        } else if (entry.key == "from") {
          item.from = read_names(entry.value);
        } else if (find(alternatives, entry.key)) {
          if (options)
            throw DeckError(
                entry.position, entry.value.path,
                fmt::format("a second type in one entry (it is already '{}'); begin a new '- ' entry", item.type));
          item.type = entry.key;
          options = &entry.value;
        } else {
          throw DeckError(entry.position, entry.value.path,
                          problem_of_item(node, entry, alternatives, reading_.other_names));
        }
      }
      if (!options) throw DeckError(node.position, node.path, "the entry names no type; write - type or - {type: {…}}");
    } else {
      wrong_type(node, "a type, or a mapping {type: {…}}");
    }
    item.config = find(alternatives, item.type)->make();
    item.config->position = node.position;
    item.config->path = node.path;
    const DeckNode empty{.position = node.position, .path = node.path + "." + item.type};
    read(
        options ? *options : empty, reading_, [&](Fields& fields) { item.config->describe(fields); },
        item.config->short_form());
    return item;
  }

  /// A choice made by `one_of`.
  struct Choice {
    std::string key, chosen;
    std::span<const Alternative> of;
  };

  const DeckNode& node_;
  Reading& reading_;
  Complaints& complaints_;
  std::size_t complaints_before_;
  Complaints missing_, broken_;  ///< missing keys; broken rules
  std::set<std::string> known_;
  std::vector<Choice> choices_;
  std::string meant_by_value_;
  std::set<std::string> lacking_;  ///< keys of `need` groups of which none is given
  bool lacks_its_kind_ = false;    ///< a required key that determines the other keys is missing
  bool knows_its_keys_ = true;  ///< false if a `one_of` chose no valid alternative, so this mapping's keys are unknown
};

}  // namespace

void read_config(const DeckNode& deck, Config& config) {
  Reading reading{config};
  Reader::read(deck, reading, [&](Fields& fields) { config.describe(fields); });
  throw_complaints(reading.complaints);
}

}  // namespace lockstep
