// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "unit/config/example_config.hpp"

namespace lockstep {
namespace {

using test::Example;
using test::read_example;
using testing::HasSubstr;

void expect_reads_back(const std::string& deck) {
  Example first = read_example(deck);
  const std::string resolved = write_config(first);
  Example second = read_example(resolved);
  EXPECT_EQ(write_config(second), resolved) << deck;
}

TEST(ResolvedDeck, ReadsBackToTheSameText) {
  expect_reads_back("inner: {needed: 1}\n");
  expect_reads_back(
      "inner: {needed: -9007199254740993}\nrate: 0.1\nmeans: [0.1307, 1e-300, -0, 123456789.123456789]\n");
  expect_reads_back("inner: {needed: 1}\npadding: same\nlimit: 5\nextra: {}\nfigure: {type: circle, radius: 1}\n");
  expect_reads_back("inner: {needed: 1}\nparts: [square, {circle: {radius: 3}, name: a}, {square: {}, from: [a]}]\n");
  expect_reads_back("inner: {needed: 1}\ncolor: dark_blue\nflag: false\nsizes: [3]\n");
}

TEST(ResolvedDeck, TextsSurvive) {
  for (const std::string text : {"true", "12", "null", "~", "a: b", "# no comment", "it's", "say \\\"x\\\"", "ü × 中",
                                 "\\\\path", "*x", "- a"}) {
    Example first = read_example("inner: {needed: 1}\ntitle: \"" + text + "\"\n");
    Example second = read_example(write_config(first));
    EXPECT_EQ(first.title, second.title);
  }
}

TEST(ResolvedDeck, NumbersSurvive) {
  for (const double value : {0.1, 1.0 / 3, 5e-324, 0.99999999999999989, 0.0}) {
    Example first = read_example(fmt::format("inner: {{needed: 1}}\nrate: {}\n", value));
    EXPECT_EQ(first.rate, value);
    Example second = read_example(write_config(first));
    EXPECT_EQ(second.rate, value);
  }
}

/// In YAML 1.1, 1e-08 is text: a number with an exponent needs a decimal point, and the exponent a sign.
TEST(ResolvedDeck, NumbersAreNumbersInYaml11) {
  const std::pair<const char*, const char*> numbers[] = {
      {"1e-8", "1.0e-08"},  {"2.5E-7", "2.5e-07"}, {"5e-324", "5.0e-324"}, {"1e-300", "1.0e-300"},
      {"0.0001", "0.0001"}, {"0.5", "0.5"},        {"0.00001", "1.0e-05"}, {"0", "0"}};
  for (const auto& [given, written] : numbers) {
    Example config = read_example(
        fmt::format("inner: {{needed: 1}}\nrate: {}\nmeans: [{}, -{}]\n", given, given, given));
    EXPECT_THAT(write_config(config), HasSubstr(fmt::format("rate: {}\n", written)));
    EXPECT_THAT(write_config(config), HasSubstr(fmt::format("means: [{}, -{}]\n", written, written)));
  }
  Example large = read_example("inner: {needed: 1}\nmeans: [1e22, 1.5e300, 100000]\n");
  EXPECT_THAT(write_config(large), HasSubstr("means: [1.0e+22, 1.5e+300, 100000]\n"));
}

TEST(ResolvedDeck, AsJson) {
  Example config = read_example(
      "inner: {needed: -3}\nrate: 1e-8\nmeans: [0.5, 2]\ntitle: \"12\"\npadding: same\nparts: [{circle: {radius: 3}, name: \"true\"}]\n");
  const auto json = nlohmann::json::parse(deck_json(parse_deck(write_config(config), "deck.yaml")));
  EXPECT_EQ(json.at("flag"), true);
  EXPECT_EQ(json.at("inner").at("needed"), -3);
  EXPECT_EQ(json.at("rate"), 1e-8);
  EXPECT_EQ(json.at("means"), nlohmann::json::array({0.5, 2}));
  EXPECT_EQ(json.at("title"), "12");
  EXPECT_EQ(json.at("padding"), "same");
  EXPECT_EQ(json.at("parts")[0], (nlohmann::json{{"circle", {{"radius", 3}}}, {"name", "true"}}));
  // JSON is YAML, and can be read like any deck.
  Example again = read_example(json.dump());
  EXPECT_EQ(write_config(again), write_config(config));
}

TEST(ResolvedDeck, NamesEveryKey) {
  Example config = read_example("inner: {needed: 1}\n");
  const std::string resolved = write_config(config);
  for (const char* key :
       {"flag:", "count:", "padding:", "rate:", "color:", "inner:", "needed:", "figure:", "type:", "edge:"})
    EXPECT_THAT(resolved, HasSubstr(key));
}

TEST(Schema, IsJsonWithEveryKey) {
  Example config;
  const auto schema = nlohmann::json::parse(json_schema(config, "Example"));
  EXPECT_EQ(schema.at("$schema"), "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(schema.at("title"), "Example");
  const auto& properties = schema.at("properties");
  for (const char* key : {"flag", "count", "limit", "padding", "rate", "means", "sizes", "title", "color", "inner",
                          "extra", "figure", "parts"}) {
    ASSERT_TRUE(properties.contains(key)) << key;
    EXPECT_TRUE(properties.at(key).contains("description")) << key;
  }
  EXPECT_EQ(schema.at("required"), nlohmann::json::array({"inner"}));
  EXPECT_EQ(schema.at("additionalProperties"), false);
  EXPECT_EQ(properties.at("count").at("minimum"), 1);
  EXPECT_EQ(properties.at("count").at("maximum"), 10);
  EXPECT_EQ(properties.at("rate").at("exclusiveMaximum"), 1);
  EXPECT_EQ(properties.at("color").at("enum"), nlohmann::json::array({"red", "green", "dark_blue"}));
  EXPECT_EQ(properties.at("color").at("default"), "green");
  EXPECT_EQ(properties.at("padding").at("anyOf")[1].at("const"), "same");
  EXPECT_EQ(properties.at("inner").at("required"), nlohmann::json::array({"needed"}));
  EXPECT_EQ(properties.at("figure").at("allOf").size(), 2u);
  const auto& branch = properties.at("figure").at("allOf")[1];
  EXPECT_EQ(branch.at("if").at("properties").at("type").at("const"), "circle");
  EXPECT_TRUE(branch.at("then").at("properties").contains("radius"));
}

TEST(Reference, HasEveryKey) {
  Example config;
  const std::string page = reference_page(config);
  for (const char* text : {"`flag`",
                           "`count`",
                           "`limit`",
                           "`padding`",
                           "`rate`",
                           "`means`",
                           "`sizes`",
                           "`title`",
                           "`color`",
                           "`inner`",
                           "`needed`",
                           "`extra`",
                           "`type`",
                           "`edge`",
                           "`radius`",
                           "`parts`",
                           "**required**",
                           "red, green or dark_blue",
                           "at least 1 and at most 10",
                           "a flag",
                           "Four corners"})
    EXPECT_THAT(page, HasSubstr(text));
}

}  // namespace
}  // namespace lockstep
