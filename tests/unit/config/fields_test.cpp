// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/config/example_config.hpp"

namespace lockstep {
namespace {

using test::Example;
using test::read_example;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// The message for a deck of `lines` and "inner: {needed: 1}"; empty if the deck is valid.
std::string example_complaint(const std::string& lines) {
  try {
    read_example(lines + "\ninner: {needed: 1}\n");
  } catch (const DeckError& error) {
    EXPECT_EQ(error.status(), ExitStatus::bad_deck);
    return error.what();
  }
  return "";
}

TEST(Fields, ReadsEveryKind) {
  const Example config = read_example(R"(
flag: false
count: 10
limit: 99
padding: same
rate: 2.5e-1
means: [-1, 0.5]
sizes: [28, 28, 1]
title: "12"
color: dark_blue
inner: {needed: -5}
extra: {extra: 3}
figure: {type: circle, radius: 4}
parts:
  - square
  - {circle: {radius: 1}, name: c, from: a}
  - {square: {edge: 2}, from: [a, c]}
)");
  EXPECT_FALSE(config.flag);
  EXPECT_EQ(config.count, 10);
  EXPECT_EQ(config.limit, 99);
  EXPECT_FALSE(config.padding.has_value());
  EXPECT_EQ(config.rate, 0.25);
  EXPECT_EQ(config.means, (std::vector<double>{-1, 0.5}));
  EXPECT_EQ(config.sizes, (std::vector<std::int64_t>{28, 28, 1}));
  EXPECT_EQ(config.title, "12");
  EXPECT_EQ(config.color, Example::Color::dark_blue);
  EXPECT_EQ(config.needed, -5);
  EXPECT_TRUE(config.has_extra);
  EXPECT_EQ(config.extra, 3);
  EXPECT_EQ(dynamic_cast<test::Circle&>(*config.shape_config).radius, 4);
  ASSERT_EQ(config.parts.size(), 3u);
  EXPECT_EQ(config.parts[0].type, "square");
  EXPECT_EQ(config.parts[1].name, "c");
  EXPECT_EQ(config.parts[1].from, std::vector<std::string>{"a"});
  EXPECT_EQ(config.parts[2].from, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(config.parts[2].config->position.line, 17);
}

TEST(Fields, Defaults) {
  const Example config = read_example("inner: {needed: 1}\n");
  EXPECT_TRUE(config.flag);
  EXPECT_EQ(config.count, 3);
  EXPECT_FALSE(config.limit.has_value());
  EXPECT_EQ(config.padding, 0);
  EXPECT_EQ(config.color, Example::Color::green);
  EXPECT_FALSE(config.has_extra);
  ASSERT_NE(config.shape_config, nullptr);
  EXPECT_EQ(dynamic_cast<test::Square&>(*config.shape_config).edge, 1);
}

TEST(Fields, UnknownKeysNameTheNearest) {
  EXPECT_THAT(example_complaint("conut: 3"),
              AllOf(StartsWith("deck.yaml:1:1: conut: unknown key"), HasSubstr("did you mean 'count'?")));
  EXPECT_THAT(example_complaint("zzzzzzzz: 3"),
              AllOf(HasSubstr("unknown key"), HasSubstr("known keys: "), HasSubstr("padding")));
  EXPECT_THAT(example_complaint("figure: {type: circle, radius: 1, edge: 2}"),
              StartsWith("deck.yaml:1:35: figure.edge: is an option of type: square, but here it is circle; "))
      << "a key of another choice";
  EXPECT_THAT(example_complaint("figure:\n  egde: 2"),
              AllOf(StartsWith("deck.yaml:2:3: figure.egde"), HasSubstr("'edge'")));
  EXPECT_THAT(example_complaint("parts: [{square: {egde: 2}}]"), HasSubstr("did you mean 'edge'?"));
  EXPECT_THAT(example_complaint("parts: [{square: {}, nmae: x}]"), HasSubstr("did you mean 'name'?"));
  EXPECT_THAT(
      example_complaint("parts: [{square: {}, corners: 4}]"),
      HasSubstr(
          "parts.0.corners: unknown key; only name and from can be given next to square; its options go below it: edge"));
}

TEST(Fields, ValuesInThePlaceOfSections) {
  EXPECT_THAT(example_complaint("extra: true"), HasSubstr("write {} for its defaults, or some of its keys: extra"));
  EXPECT_THAT(example_complaint("extra: extra"), HasSubstr("; write extra: {extra: …}"));
  EXPECT_THAT(example_complaint("extra: 3"), HasSubstr("; write some of its keys: extra"));
}

TEST(Fields, WordsThatEndAsOneThatIsKnown) {
  EXPECT_THAT(example_complaint("color: blue"), HasSubstr("'blue' is unknown; did you mean 'dark_blue'?"));
}

TEST(Fields, WrongTypes) {
  EXPECT_THAT(example_complaint("flag: yes"),
              AllOf(StartsWith("deck.yaml:1:7: flag: 'yes' is given"), HasSubstr("true or false")));
  EXPECT_THAT(example_complaint("count: 3.5"), HasSubstr("a whole number"));
  EXPECT_THAT(example_complaint("count: 3x"), HasSubstr("a whole number"));
  EXPECT_THAT(example_complaint("count: '3x'"), HasSubstr("'3x' is given (a whole number is expected)"));
  const std::pair<const char*, const char*> quoted[] = {
      {"flag: 'true'", "true"}, {"count: '3'", "3"}, {"rate: \"0.05\"", "0.05"}, {"padding: '+2'", "+2"}};
  for (const auto& [deck, value] : quoted)
    EXPECT_THAT(example_complaint(deck),
                HasSubstr(fmt::format(": \"{}\" is text (it is in quotes); remove the quotes", value)));
  EXPECT_THAT(example_complaint("count: [3]"), AllOf(HasSubstr("a list"), HasSubstr("a whole number")));
  EXPECT_THAT(example_complaint("rate: fast"), HasSubstr("a finite number"));
  EXPECT_THAT(example_complaint("rate: .nan"), HasSubstr("a finite number"));
  EXPECT_THAT(example_complaint("rate: inf"), HasSubstr("a finite number"));
  for (const char* signs : {"+-", "++", "-+", "--"}) {
    EXPECT_THAT(example_complaint(fmt::format("rate: {}0.5", signs)), HasSubstr("a finite number"));
    EXPECT_THAT(example_complaint(fmt::format("count: {}5", signs)), HasSubstr("a whole number"));
  }
  EXPECT_EQ(example_complaint("rate: +0.5"), "");
  EXPECT_EQ(example_complaint("count: +5"), "");
  EXPECT_THAT(example_complaint("padding: all"), HasSubstr("a whole number or 'same'"));
  EXPECT_THAT(example_complaint("means: 3"), HasSubstr("a list of numbers"));
  EXPECT_THAT(example_complaint("means: [1, x]"),
              AllOf(StartsWith("deck.yaml:1:12: means.1"), HasSubstr("a finite number")));
  EXPECT_THAT(example_complaint("title: {a: 1}"), HasSubstr("text"));
  EXPECT_THAT(example_complaint("figure: circle"), HasSubstr("a mapping"));
  EXPECT_THAT(example_complaint("parts: square"), HasSubstr("a list"));
  EXPECT_THAT(example_complaint("parts: []"), HasSubstr("the list is empty"));
  EXPECT_THAT(example_complaint("count:"), HasSubstr("has no value"));
}

TEST(Fields, WrongWords) {
  EXPECT_THAT(example_complaint("color: gren"),
              HasSubstr("'gren' is unknown; did you mean 'green'? (known: red, green, dark_blue)"));
  EXPECT_THAT(example_complaint("color: violet_0"),
              HasSubstr("'violet_0' is unknown (known: red, green, dark_blue); use one of these"));
  EXPECT_THAT(example_complaint("figure: {type: cirlce}"), HasSubstr("did you mean 'circle'?"));
  EXPECT_THAT(example_complaint("parts: [circel]"), HasSubstr("did you mean 'circle'?"));
  EXPECT_THAT(example_complaint("parts: [{circle: {radius: 1}, square: {}}]"), HasSubstr("a second type"));
  EXPECT_THAT(example_complaint("parts: [{name: x}]"), HasSubstr("names no type"));
}

TEST(Fields, Ranges) {
  EXPECT_THAT(example_complaint("count: 0"),
              AllOf(StartsWith("deck.yaml:1:8: count: 0 is out of range"), HasSubstr("at least 1 and at most 10")));
  EXPECT_THAT(example_complaint("count: 11"), HasSubstr("out of range"));
  EXPECT_THAT(example_complaint("count: -128"), HasSubstr("out of range"));
  for (const char* beyond_64_bits : {"18446744073709551615", "-99999999999999999999"})
    EXPECT_THAT(example_complaint(std::string("count: ") + beyond_64_bits),
                AllOf(HasSubstr("out of range"), HasSubstr("at least 1 and at most 10")));
  EXPECT_THAT(example_complaint("count: 99999999999999999999x"), HasSubstr("a whole number is expected"));
  EXPECT_THAT(example_complaint("rate: 1"), HasSubstr("less than 1"));
  EXPECT_THAT(example_complaint("rate: -0.1"), HasSubstr("out of range"));
  EXPECT_THAT(example_complaint("sizes: [1, 0]"), StartsWith("deck.yaml:1:12: sizes.1"));
  EXPECT_THAT(example_complaint("figure: {edge: 0}"), HasSubstr("more than 0"));
  EXPECT_EQ(example_complaint("count: 10"), "");
  EXPECT_EQ(example_complaint("rate: 0"), "");
}

TEST(Fields, MissingKeys) {
  EXPECT_THROW(read_example("count: 1\n"), DeckError);
  EXPECT_THROW(read_example("inner: {}\n"), DeckError);
  EXPECT_THAT(example_complaint("figure: {type: circle}"),
              AllOf(HasSubstr("figure.radius: is missing"), HasSubstr("give it")));
  EXPECT_THAT(example_complaint("figure: {type: circle, raduis: 1}"),
              StartsWith("deck.yaml:1:24: figure.raduis: unknown key; did you mean 'radius'?"));
}

TEST(Fields, Contradictions) {
  EXPECT_THAT(example_complaint("count: 4"), StartsWith("deck.yaml:1:8: count: 4 with flag"));
  EXPECT_EQ(example_complaint("count: 4\nflag: false"), "");
}

TEST(Fields, LargeWholeNumbersAreComparedExactly) {
  struct Large : Config {
    std::int64_t seed = 1;
    void describe(Fields& fields) override { fields.integer("seed", seed, {0, 9007199254740992.0}, ""); }
  };
  Large config;
  read_config(parse_deck("seed: 9007199254740992", "deck.yaml"), config);
  EXPECT_EQ(config.seed, 9007199254740992);
  EXPECT_THROW(read_config(parse_deck("seed: 9007199254740993", "deck.yaml"), config), DeckError);
  EXPECT_THROW(read_config(parse_deck("seed: 9223372036854775807", "deck.yaml"), config), DeckError);
}

TEST(Fields, OverridesSayWhereTheyComeFrom) {
  DeckNode deck = parse_deck("inner: {needed: 1}\n", "deck.yaml");
  apply_override(deck, "count=-3");
  Example config;
  try {
    read_config(deck, config);
    FAIL();
  } catch (const DeckError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("command line 'count=-3'"), HasSubstr("count: -3 is out of range")));
  }
}

TEST(Nearest, SmallDistancesOnly) {
  EXPECT_EQ(nearest("sede", {"seed", "steps"}), "seed");
  EXPECT_EQ(nearest("x", {"seed", "steps"}), "");
  EXPECT_EQ(nearest("learning_rat", {"learning_rate", "momentum"}), "learning_rate");
  EXPECT_EQ(nearest(std::string(1000, 'a'), {"seed"}), "");
  EXPECT_EQ(nearest("", {"ab"}), "");
}

TEST(Nearest, WordsThatShareLittleAreNotNear) {
  EXPECT_EQ(nearest("mae", {"cross_entropy", "mse"}), "") << "a letter for another is two changes";
  EXPECT_EQ(nearest("mes", {"cross_entropy", "mse"}), "mse") << "neighbours in each other's place are one";
  EXPECT_EQ(nearest("ms", {"cross_entropy", "mse"}), "mse");
  EXPECT_EQ(nearest("msee", {"cross_entropy", "mse"}), "mse");
  EXPECT_EQ(nearest("adam", {"sgd", "adamw"}), "adamw");
  EXPECT_EQ(nearest("fp7", {"fp32", "bf16", "fp16", "fp64"}), "");
  EXPECT_EQ(nearest("rleu", {"relu", "gelu"}), "relu");
  EXPECT_EQ(nearest("ab", {"c"}), "") << "nothing of a word is left";
}

}  // namespace
}  // namespace lockstep
