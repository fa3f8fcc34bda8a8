// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <yaml-cpp/yaml.h>

#include "config/fields.hpp"

namespace lockstep {
namespace {

/// Returns the shortest text that reads back to the same number and is also a number in YAML 1.1, where 1e-08 is text.
std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  if (const std::size_t exponent = text.find('e'); exponent != std::string::npos && text.find('.') == std::string::npos)
    text.insert(exponent, ".0");
  return text;
}

class Writer final : public Fields {
 public:
  explicit Writer(YAML::Emitter& out) : out_(out) {}

  void boolean(std::string_view key, bool& value, std::string_view) override { pair(key, value ? "true" : "false"); }
  void boolean(std::string_view key, std::optional<bool>& value, std::string_view) override {
    if (value) pair(key, *value ? "true" : "false");
  }
  void integer(std::string_view key, std::int64_t& value, Range, std::string_view, Presence) override {
    pair(key, std::to_string(value));
  }
  void integer(std::string_view key, std::optional<std::int64_t>& value, Range, std::string_view) override {
    if (value) pair(key, std::to_string(*value));
  }
  void integer_or(std::string_view key, NumberOrWord& value, std::span<const std::string_view> words, Range,
                  std::string_view) override {
    pair(key, value.number ? std::to_string(*value.number) : std::string(words[value.word]));
  }
  void number(std::string_view key, double& value, Range, std::string_view, Presence) override {
    pair(key, number_text(value));
  }
  void number(std::string_view key, std::optional<double>& value, Range, std::string_view) override {
    if (value) pair(key, number_text(*value));
  }
  void numbers(std::string_view key, std::vector<double>& values, Range, std::string_view) override {
    list(key, values, [](double value) { return number_text(value); });
  }
  void integers(std::string_view key, std::vector<std::int64_t>& values, Range, std::string_view) override {
    list(key, values, [](std::int64_t value) { return std::to_string(value); });
  }
  void text(std::string_view key, std::string& value, std::string_view, Presence, const TextForm&) override {
    if (!value.empty()) quoted_pair(key, value);
  }
  void texts(std::string_view key, std::vector<std::string>& values, std::string_view, const TextForm&) override {
    if (!values.empty()) quoted_list(key, values);
  }
  void points(std::string_view key, std::vector<std::pair<std::string, double>>& values, const TextForm&, Range,
              std::string_view) override {
    if (values.empty()) return;
    out_ << YAML::Key << std::string(key) << YAML::Value << YAML::Flow << YAML::BeginSeq;
    for (const auto& [text, number] : values)
      out_ << YAML::Flow << YAML::BeginSeq << YAML::DoubleQuoted << text << number_text(number) << YAML::EndSeq;
    out_ << YAML::EndSeq;
  }
  void text_pairs(std::string_view key, std::vector<std::pair<std::string, std::string>>& values,
                  std::string_view) override {
    if (values.empty()) return;
    out_ << YAML::Key << std::string(key) << YAML::Value;
    mapping([&] {
      for (const auto& [name, value] : values)
        out_ << YAML::Key << YAML::DoubleQuoted << name << YAML::Value << YAML::DoubleQuoted << value;
    });
  }
  void choice(std::string_view key, int& index, std::span<const std::string_view> names, std::string_view) override {
    pair(key, names[static_cast<std::size_t>(index)]);
  }
  void words(std::string_view key, std::vector<std::string>& values, std::span<const std::string_view>,
             std::string_view) override {
    if (!values.empty()) list(key, values, [](const std::string& value) { return value; });
  }
  void section(std::string_view key, const std::function<void(Fields&)>& describe, std::string_view,
               Presence) override {
    out_ << YAML::Key << std::string(key) << YAML::Value;
    mapping([&] { describe(*this); });
  }
  void optional_section(std::string_view key, bool& present, const std::function<void(Fields&)>& describe,
                        std::string_view help, std::string_view) override {
    if (present) section(key, describe, help, Presence::optional);
  }
  void one_of(std::string_view key, std::string& name, std::shared_ptr<Config>& config, std::span<const Alternative>,
              std::string_view) override {
    if (name.empty()) return;
    pair(key, name);
    config->describe(*this);
  }
  void list_of(std::string_view key, std::vector<ListItem>& items, std::span<const Alternative>,
               std::string_view) override {
    if (items.empty()) return;
    out_ << YAML::Key << std::string(key) << YAML::Value << YAML::BeginSeq;
    for (auto& item : items) {
      out_ << YAML::Flow << YAML::BeginMap << YAML::Key << item.type << YAML::Value;
      mapping([&] { item.config->describe(*this); });
      if (!item.name.empty()) quoted_pair("name", item.name);
      if (!item.from.empty()) quoted_list("from", item.from);
      out_ << YAML::EndMap;
    }
    out_ << YAML::EndSeq;
  }
  void sections(std::string_view key, std::size_t count, const std::function<void(std::size_t)>&,
                const std::function<void(std::size_t, Fields&)>& describe, std::string_view) override {
    if (count == 0) return;
    out_ << YAML::Key << std::string(key) << YAML::Value << YAML::BeginSeq;
    for (std::size_t i = 0; i < count; ++i) mapping([&] { describe(i, *this); });
    out_ << YAML::EndSeq;
  }
  void named_sections(std::string_view key, std::vector<std::string>& names, const std::function<void(std::size_t)>&,
                      const std::function<void(std::size_t, Fields&)>& describe, std::string_view,
                      std::string_view) override {
    if (names.empty()) return;
    out_ << YAML::Key << std::string(key) << YAML::Value;
    mapping([&] {
      for (std::size_t i = 0; i < names.size(); ++i) {
        out_ << YAML::Key << YAML::DoubleQuoted << names[i] << YAML::Value;
        mapping([&] { describe(i, *this); });
      }
    });
  }
  void need(Needs, std::span<const std::string_view>, std::string_view) override {}
  void check(bool, std::string_view, std::string_view) override {}

 private:
  // Texts from the user are quoted, because they may look like values of another type.
  void quoted_pair(std::string_view key, const std::string& value) {
    out_ << YAML::Key << std::string(key) << YAML::Value << YAML::DoubleQuoted << value;
  }
  void quoted_list(std::string_view key, const std::vector<std::string>& values) {
    out_ << YAML::Key << std::string(key) << YAML::Value << YAML::Flow << YAML::BeginSeq;
    for (const auto& value : values) out_ << YAML::DoubleQuoted << value;
    out_ << YAML::EndSeq;
  }

  void pair(std::string_view key, std::string_view value) {
    out_ << YAML::Key << std::string(key) << YAML::Value << std::string(value);
  }

  template <class T, class ToText>
  void list(std::string_view key, const std::vector<T>& values, ToText to_text) {
    out_ << YAML::Key << std::string(key) << YAML::Value << YAML::Flow << YAML::BeginSeq;
    for (const auto& value : values) out_ << to_text(value);
    out_ << YAML::EndSeq;
  }

  template <class Body>
  void mapping(Body body) {
    out_ << YAML::BeginMap;
    body();
    out_ << YAML::EndMap;
  }

  YAML::Emitter& out_;
};

}  // namespace

std::string write_config(Config& config) {
  YAML::Emitter out;
  Writer writer(out);
  out << YAML::BeginMap;
  config.describe(writer);
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace lockstep
