// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/fields.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

Json describe_section(const std::function<void(Fields&)>& describe);

class SchemaWriter final : public Fields {
 public:
  void boolean(std::string_view key, bool& value, std::string_view help) override {
    add(key, {{"type", "boolean"}, {"default", value}}, help);
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
  void integer_or(std::string_view key, std::optional<std::int64_t>& value, std::string_view word, Range range,
                  std::string_view help) override {
    Json schema = {{"anyOf", {limited("integer", range), {{"const", word}}}}};
    schema["default"] = value ? Json(*value) : Json(word);
    add(key, schema, help);
  }
  void number(std::string_view key, double& value, Range range, std::string_view help, Presence presence) override {
    Json schema = limited("number", range);
    if (presence == Presence::optional) schema["default"] = value;
    add(key, schema, help, presence);
  }
  void numbers(std::string_view key, std::vector<double>& values, Range range, std::string_view help) override {
    add(key, {{"type", "array"}, {"items", limited("number", range)}, {"default", values}}, help);
  }
  void integers(std::string_view key, std::vector<std::int64_t>& values, Range range, std::string_view help) override {
    add(key, {{"type", "array"}, {"items", limited("integer", range)}, {"default", values}}, help);
  }
  void text(std::string_view key, std::string& value, std::string_view help, Presence presence) override {
    Json schema = {{"type", "string"}};
    if (!value.empty()) schema["default"] = value;
    add(key, schema, help, presence);
  }
  void choice(std::string_view key, int& index, std::span<const std::string_view> names,
              std::string_view help) override {
    add(key, {{"enum", names}, {"default", names[static_cast<std::size_t>(index)]}}, help);
  }
  void section(std::string_view key, const std::function<void(Fields&)>& describe, std::string_view help,
               Presence presence) override {
    add(key, describe_section(describe), help, presence);
  }
  void optional_section(std::string_view key, bool&, const std::function<void(Fields&)>& describe,
                        std::string_view help) override {
    add(key, describe_section(describe), help);
  }
  void one_of(std::string_view key, std::string& name, std::shared_ptr<Config>&,
              std::span<const Alternative> alternatives, std::string_view help) override {
    Json selector = {{"enum", Json::array()}};
    if (!name.empty()) selector["default"] = name;
    for (const auto& alternative : alternatives) {
      selector["enum"].push_back(alternative.name);
      // A branch holds when the selector has its name; the default's also when there is none.
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
      const Json options = describe_section([&](Fields& fields) { config->describe(fields); });
      if (!options.contains("required")) names.push_back(alternative.name);
      entries.push_back({{"type", "object"},
                         {"description", alternative.help},
                         {"properties",
                          {{alternative.name, options},
                           {"name", {{"type", "string"}}},
                           {"from", {{"type", {"string", "array"}}, {"items", {{"type", "string"}}}}}}},
                         {"required", {alternative.name}},
                         {"additionalProperties", false}});
    }
    entries.insert(entries.begin(), Json{{"enum", names}});
    add(key, {{"type", "array"}, {"minItems", 1}, {"items", {{"anyOf", entries}}}}, help);
  }
  void check(bool, std::string_view, std::string_view) override {}

  Json result() const {
    Json schema = {{"type", "object"}, {"properties", properties_}};
    if (!required_.empty()) schema["required"] = required_;
    if (branches_.empty()) {
      schema["additionalProperties"] = false;
    } else {
      schema["allOf"] = branches_;
      schema["unevaluatedProperties"] = false;
    }
    return schema;
  }

 private:
  static Json limited(std::string_view type, const Range& range) {
    Json schema = {{"type", type}};
    if (std::isfinite(range.min)) schema[range.above_min ? "exclusiveMinimum" : "minimum"] = range.min;
    if (std::isfinite(range.max)) schema[range.below_max ? "exclusiveMaximum" : "maximum"] = range.max;
    return schema;
  }

  void add(std::string_view key, Json schema, std::string_view help, Presence presence = Presence::optional) {
    schema["description"] = help;
    properties_[std::string(key)] = std::move(schema);
    if (presence == Presence::required) required_.push_back(key);
  }

  Json properties_ = Json::object();
  Json required_ = Json::array();
  Json branches_ = Json::array();
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
