// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "config/fields.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

Json describe_section(const std::function<void(Fields&)>& describe);

class SchemaWriter final : public Fields {
 public:
  void boolean(std::string_view key, bool& value, std::string_view help) override {
    add(key, {{"type", "boolean"}, {"default", value}}, help);
  }
  void boolean(std::string_view key, std::optional<bool>&, std::string_view help) override {
    add(key, {{"type", "boolean"}}, help);
  }
  void integer(std::string_view key, std::int64_t& value, Range range, std::string_view help,
               Presence presence) override {
    Json schema = limited("integer", range);
    if (presence == Presence::optional) schema["default"] = value;
    add(key, schema, help, presence);
  }
  void integer(std::string_view key, std::optional<std::int64_t>&, Range range, std::string_view help) override {
    add(key, limited("integer", range), help);
  }
  void integer_or(std::string_view key, NumberOrWord& value, std::span<const std::string_view> words, Range range,
                  std::string_view help) override {
    Json schema = {{"anyOf", Json::array({limited("integer", range)})}};
    for (const std::string_view word : words) schema["anyOf"].push_back({{"const", word}});
    schema["default"] = value.number ? Json(*value.number) : Json(words[value.word]);
    add(key, schema, help);
  }
  void number(std::string_view key, double& value, Range range, std::string_view help, Presence presence) override {
    Json schema = limited("number", range);
    if (presence == Presence::optional) schema["default"] = value;
    add(key, schema, help, presence);
  }
  void number(std::string_view key, std::optional<double>&, Range range, std::string_view help) override {
    add(key, limited("number", range), help);
  }
  void numbers(std::string_view key, std::vector<double>& values, Range range, std::string_view help) override {
    add(key, {{"type", "array"}, {"items", limited("number", range)}, {"default", values}}, help);
  }
  void integers(std::string_view key, std::vector<std::int64_t>& values, Range range, std::string_view help) override {
    add(key, {{"type", "array"}, {"items", limited("integer", range)}, {"default", values}}, help);
  }
  void text(std::string_view key, std::string& value, std::string_view help, Presence presence,
            const TextForm& form) override {
    Json schema = text_schema(form);
    if (!value.empty()) schema["default"] = value;
    add(key, schema, help, presence);
  }
  void texts(std::string_view key, std::vector<std::string>&, std::string_view help, const TextForm& form) override {
    add(key, {{"type", "array"}, {"items", text_schema(form)}}, help);
  }
  void points(std::string_view key, std::vector<std::pair<std::string, double>>&, const TextForm& form, Range range,
              std::string_view help) override {
    const Json pair = {{"type", "array"},
                       {"prefixItems", {text_schema(form), limited("number", range)}},
                       {"minItems", 2},
                       {"maxItems", 2}};
    add(key, {{"type", "array"}, {"items", pair}}, help);
  }
  void text_pairs(std::string_view key, std::vector<std::pair<std::string, std::string>>&,
                  std::string_view help) override {
    add(key, {{"type", "object"}, {"additionalProperties", text_schema()}}, help);
  }
  void choice(std::string_view key, int& index, std::span<const std::string_view> names,
              std::string_view help) override {
    add(key, {{"enum", names}, {"default", names[static_cast<std::size_t>(index)]}}, help);
  }
  void words(std::string_view key, std::vector<std::string>& values, std::span<const std::string_view> names,
             std::string_view help) override {
    add(key, {{"type", "array"}, {"items", {{"enum", names}}}, {"uniqueItems", true}, {"default", values}}, help);
  }
  void section(std::string_view key, const std::function<void(Fields&)>& describe, std::string_view help,
               Presence presence) override {
    add(key, describe_section(describe), help, presence);
  }
  void optional_section(std::string_view key, bool&, const std::function<void(Fields&)>& describe,
                        std::string_view help, std::string_view short_form) override {
    add(key, with_short_form(describe_section(describe), short_form), help);
  }
  void one_of(std::string_view key, std::string& name, std::shared_ptr<Config>&,
              std::span<const Alternative> alternatives, std::string_view help) override {
    Json selector = {{"enum", Json::array()}};
    if (!name.empty()) selector["default"] = name;
    for (const auto& alternative : alternatives) {
      selector["enum"].push_back(alternative.name);
      // A branch applies if the selector has its name; the default's branch also if there is no selector.
      Json condition = {{"properties", {{key, {{"const", alternative.name}}}}}};
      if (alternative.name != name) condition["required"] = {key};
      const auto config = alternative.make();
      Json own = describe_section([&](Fields& fields) { config->describe(fields); });
      own.erase("additionalProperties");
      own.erase("type");
      branches_.push_back({{"if", condition}, {"then", own}});
    }
    add(key, selector, help);
  }
  void list_of(std::string_view key, std::vector<ListItem>&, std::span<const Alternative> alternatives,
               std::string_view help) override {
    Json names = Json::array();
    Json entries = Json::array();
    for (const auto& alternative : alternatives) {
      const auto config = alternative.make();
      Json options = describe_section([&](Fields& fields) { config->describe(fields); });
      if (!options.contains("required")) {
        names.push_back(alternative.name);
        options["type"] = {"object", "null"};
      }
      options = with_short_form(options, config->short_form());
      entries.push_back(
          {{"type", "object"},
           {"description", alternative.help},
           {"properties",
            {{alternative.name, options},
             {"name", text_schema()},
             {"from", {{"anyOf", {text_schema(), {{"type", "array"}, {"items", text_schema()}, {"minItems", 1}}}}}}}},
           {"required", {alternative.name}},
           {"additionalProperties", false}});
    }
    entries.insert(entries.begin(), Json{{"enum", names}});
    add(key, {{"type", "array"}, {"minItems", 1}, {"items", {{"anyOf", entries}}}}, help);
  }
  void sections(std::string_view key, std::size_t count, const std::function<void(std::size_t)>& resize,
                const std::function<void(std::size_t, Fields&)>& describe, std::string_view help) override {
    resize(1);
    add(key, {{"type", "array"}, {"items", describe_section([&](Fields& fields) { describe(0, fields); })}}, help);
    resize(count);
  }
  void named_sections(std::string_view key, std::vector<std::string>& names,
                      const std::function<void(std::size_t)>& resize,
                      const std::function<void(std::size_t, Fields&)>& describe, std::string_view help,
                      std::string_view short_form) override {
    resize(1);
    const Json section = describe_section([&](Fields& fields) { describe(0, fields); });
    add(key, {{"type", "object"}, {"additionalProperties", with_short_form(section, short_form)}}, help);
    resize(names.size());
  }
  void need(Needs needs, std::span<const std::string_view> keys, std::string_view) override {
    Json choices = Json::array();
    for (const std::string_view key : keys) choices.push_back({{"required", {key}}});
    rules_.push_back({{needs == Needs::exactly_one ? "oneOf" : "anyOf", choices}});
  }
  void check(bool, std::string_view, std::string_view) override {}

  Json result() const {
    Json schema = {{"type", "object"}, {"properties", properties_}};
    if (!required_.empty()) schema["required"] = required_;
    Json all = branches_;
    for (const Json& rule : rules_) all.push_back(rule);
    if (!all.empty()) schema["allOf"] = all;
    schema[branches_.empty() ? "additionalProperties" : "unevaluatedProperties"] = false;
    return schema;
  }

 private:
  static Json limited(std::string_view type, const Range& range) {
    Json schema = {{"type", type}};
    if (std::isfinite(range.min)) schema[range.above_min ? "exclusiveMinimum" : "minimum"] = range.min;
    if (std::isfinite(range.max)) schema[range.below_max ? "exclusiveMaximum" : "maximum"] = range.max;
    return schema;
  }

  /// Text may be unquoted in a deck, where it can look like a number or a boolean.
  static Json text_schema(const TextForm& form = {}) {
    Json schema = {{"type", {"string", "number", "boolean"}}, {"minLength", 1}};
    if (!form.pattern.empty()) schema["pattern"] = fmt::format("^({})$", form.pattern);
    if (form.use == TextForm::Use::path) schema["pattern"] = "^[^~$][^$]*$";
    if (form.use == TextForm::Use::folder_name)
      schema["pattern"] = R"(^(?!\.\.?$)[^-~$/\x00-\x1f\x7f][^$/\x00-\x1f\x7f]*$)";
    return schema;
  }
  static Json with_short_form(const Json& section, std::string_view key) {
    if (key.empty()) return section;
    return {{"anyOf", {section, section.at("properties").at(std::string(key))}}};
  }

  void add(std::string_view key, Json schema, std::string_view help, Presence presence = Presence::optional) {
    schema["description"] = help;
    properties_[std::string(key)] = std::move(schema);
    if (presence == Presence::required) required_.push_back(key);
  }

  Json properties_ = Json::object();
  Json required_ = Json::array();
  Json branches_ = Json::array();
  Json rules_ = Json::array();
};

Json describe_section(const std::function<void(Fields&)>& describe) {
  SchemaWriter writer;
  describe(writer);
  return writer.result();
}

}  // namespace

std::string json_schema(Config& config, std::string_view title) {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title}};
  schema.update(describe_section([&](Fields& fields) { config.describe(fields); }));
  return schema.dump(2) + "\n";
}

}  // namespace lockstep
