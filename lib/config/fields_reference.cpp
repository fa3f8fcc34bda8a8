// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "config/fields.hpp"

#include <fmt/ranges.h>

namespace lockstep {
namespace {

/// Writes one table for a mapping, followed by the tables of its nested mappings.
class ReferenceWriter final : public Fields {
 public:
  ReferenceWriter(std::string title, std::string intro, int level)
      : title_(std::move(title)), intro_(std::move(intro)), level_(level) {}

  void boolean(std::string_view key, bool& value, std::string_view help) override {
    row(key, "true or false", value ? "true" : "false", help);
  }
  void boolean(std::string_view key, std::optional<bool>&, std::string_view help) override {
    row(key, "true or false", "–", help);
  }
  void integer(std::string_view key, std::int64_t& value, Range range, std::string_view help,
               Presence presence) override {
    row(key, limited("whole number", range), presence == Presence::required ? "**required**" : std::to_string(value),
        help);
  }
  void integer(std::string_view key, std::optional<std::int64_t>&, Range range, std::string_view help) override {
    row(key, limited("whole number", range), "–", help);
  }
  void integer_or(std::string_view key, NumberOrWord& value, std::span<const std::string_view> words, Range range,
                  std::string_view help) override {
    row(key, fmt::format("{} or `{}`", limited("whole number", range), fmt::join(words, "` or `")),
        value.number ? std::to_string(*value.number) : std::string(words[value.word]), help);
  }
  void number(std::string_view key, double& value, Range range, std::string_view help, Presence presence) override {
    row(key, limited("number", range), presence == Presence::required ? "**required**" : fmt::format("{}", value),
        help);
  }
  void number(std::string_view key, std::optional<double>&, Range range, std::string_view help) override {
    row(key, limited("number", range), "–", help);
  }
  void numbers(std::string_view key, std::vector<double>& values, Range range, std::string_view help) override {
    row(key, "list of numbers, each " + range_text(range), fmt::format("[{}]", fmt::join(values, ", ")), help);
  }
  void integers(std::string_view key, std::vector<std::int64_t>& values, Range range, std::string_view help) override {
    row(key, "list of whole numbers, each " + range_text(range), fmt::format("[{}]", fmt::join(values, ", ")), help);
  }
  void text(std::string_view key, std::string& value, std::string_view help, Presence presence,
            const TextForm& form) override {
    row(key, form.words.empty() ? "text" : std::string(form.words),
        presence == Presence::required ? "**required**"
        : value.empty()                ? "–"
                                       : value,
        help);
  }
  void texts(std::string_view key, std::vector<std::string>&, std::string_view help, const TextForm& form) override {
    row(key, form.words.empty() ? "list of text" : fmt::format("list, each {}", form.words), "–", help);
  }
  void points(std::string_view key, std::vector<std::pair<std::string, double>>&, const TextForm& form, Range range,
              std::string_view help) override {
    row(key, fmt::format("list of pairs: {}; {}", form.words, limited("number", range)), "–", help);
  }
  void text_pairs(std::string_view key, std::vector<std::pair<std::string, std::string>>&,
                  std::string_view help) override {
    row(key, "mapping of text to text", "–", help);
  }
  void choice(std::string_view key, int& index, std::span<const std::string_view> names,
              std::string_view help) override {
    row(key, one_of_words(names), std::string(names[static_cast<std::size_t>(index)]), help);
  }
  void words(std::string_view key, std::vector<std::string>& values, std::span<const std::string_view> names,
             std::string_view help) override {
    row(key, fmt::format("list of {}", one_of_words(names)), fmt::format("[{}]", fmt::join(values, ", ")), help);
  }
  void section(std::string_view key, const std::function<void(Fields&)>& describe, std::string_view help,
               Presence presence) override {
    row(key, "mapping, see below", presence == Presence::required ? "**required**" : "see below", help);
    nest(fmt::format("{}{}", prefix(), key), help, describe);
  }
  void optional_section(std::string_view key, bool&, const std::function<void(Fields&)>& describe,
                        std::string_view help, std::string_view short_form) override {
    row(key,
        short_form.empty() ? "mapping, see below" : fmt::format("mapping, see below, or its `{}` alone", short_form),
        "–", help);
    nest(fmt::format("{}{}", prefix(), key), help, describe);
  }
  void one_of(std::string_view key, std::string& name, std::shared_ptr<Config>&,
              std::span<const Alternative> alternatives, std::string_view help) override {
    std::vector<std::string_view> names;
    for (const auto& alternative : alternatives) names.push_back(alternative.name);
    row(key, one_of_words(names), name.empty() ? "–" : name, help);
    for (const auto& alternative : alternatives) {
      const auto config = alternative.make();
      nest(fmt::format("{}{}: {}", prefix(), key, alternative.name), alternative.help,
           [&](Fields& fields) { config->describe(fields); });
    }
  }
  void list_of(std::string_view key, std::vector<ListItem>&, std::span<const Alternative> alternatives,
               std::string_view help) override {
    row(key, "list, see below", "–", help);
    for (const auto& alternative : alternatives) {
      const auto config = alternative.make();
      const std::string_view key_alone = config->short_form();
      const std::string alone = key_alone.empty()
                                    ? ""
                                    : fmt::format("; `- {}: VALUE` gives its `{}`", alternative.name, key_alone);
      nest(fmt::format("{}{}: {}", prefix(), key, alternative.name), fmt::format("{}{}", alternative.help, alone),
           [&](Fields& fields) { config->describe(fields); });
    }
  }
  void sections(std::string_view key, std::size_t count, const std::function<void(std::size_t)>& resize,
                const std::function<void(std::size_t, Fields&)>& describe, std::string_view help) override {
    row(key, "list of mappings, see below", "–", help);
    resize(1);
    nest(fmt::format("{}{}", prefix(), key), help, [&](Fields& fields) { describe(0, fields); });
    resize(count);
  }
  void named_sections(std::string_view key, std::vector<std::string>& names,
                      const std::function<void(std::size_t)>& resize,
                      const std::function<void(std::size_t, Fields&)>& describe, std::string_view help,
                      std::string_view short_form) override {
    row(key, fmt::format("mapping of keys to mappings, see below, or to their `{}` alone", short_form), "–", help);
    resize(1);
    nest(fmt::format("{}{}", prefix(), key), help, [&](Fields& fields) { describe(0, fields); });
    resize(names.size());
  }
  void need(Needs, std::span<const std::string_view>, std::string_view) override {}
  void check(bool, std::string_view, std::string_view) override {}

  std::string page() const {
    std::string text;
    if (!title_.empty())
      text += fmt::format("{} {}\n\n{}\n\n", std::string(static_cast<std::size_t>(level_), '#'), title_,
                          sentence(intro_));
    if (!rows_.empty()) text += "| key | value | default | meaning |\n|---|---|---|---|\n" + rows_ + "\n";
    return text + nested_;
  }

 private:
  std::string prefix() const {
    const auto colon = title_.find(": ");
    if (title_.empty()) return "";
    return (colon == std::string::npos ? title_ : title_.substr(0, title_.rfind('.', colon))) + ".";
  }
  static std::string sentence(std::string_view help) {
    std::string text(help);
    if (!text.empty() && text.back() != '.') text += '.';
    return text;
  }
  static std::string limited(std::string_view type, const Range& range) {
    const std::string limits = range_text(range);
    return limits == "any" ? std::string(type) : fmt::format("{}, {}", type, limits);
  }
  void row(std::string_view key, std::string_view type, std::string_view value, std::string_view help) {
    rows_ += fmt::format("| `{}` | {} | {} | {} |\n", key, type, value, help);
  }
  void nest(const std::string& title, std::string_view intro, const std::function<void(Fields&)>& describe) {
    ReferenceWriter writer(title, std::string(intro), level_ < 3 ? level_ + 1 : 3);
    describe(writer);
    nested_ += writer.page();
  }

  std::string title_;
  std::string intro_;
  int level_;
  std::string rows_;
  std::string nested_;
};

}  // namespace

std::string reference_page(Config& config) {
  ReferenceWriter writer("", "", 1);
  config.describe(writer);
  return writer.page();
}

}  // namespace lockstep
