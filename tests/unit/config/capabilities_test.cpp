// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "config/capabilities.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

/// Options with one need and one claim each.
std::vector<Option> three_options() {
  return {{.key = "a",
           .is_used = true,
           .needs = {{Capability::whole_norm, "it clips", "use clip_value"}},
           .takes = {{Capability::exact_sums, "it rounds"}}},
          {.key = "a.inside", .is_used = true, .needs = {{Capability::whole_norm, "it clips, too"}}},
          {.key = "b",
           .value = ": fast",
           .is_used = true,
           .needs = {{Capability::exact_sums, "it adds"}},
           .takes = {{Capability::whole_norm, "it does not wait"}}}};
}

std::string refusal(const std::string& deck, const std::vector<Option>& options) {
  try {
    check_options(parse_deck(deck, "deck.yaml"), options);
    return "";
  } catch (const DeckError& error) {
    EXPECT_EQ(error.status(), ExitStatus::bad_deck);
    return error.what();
  }
}

TEST(Capabilities, ConflictsNameBothPlacesAndAWayOut) {
  EXPECT_EQ(refusal("a: {inside: 1}\nb: fast\n", three_options()),
            "deck.yaml:1:4: a: needs the norm of the whole gradient (it clips), but b: fast (line 2, column 4) takes "
            "that away (it does not wait); use clip_value, or leave one out");
}

TEST(Capabilities, OptionsThatTheDeckDoesNotNameHaveNoPlace) {
  EXPECT_THAT(refusal("a: {inside: 1}\n", three_options()), HasSubstr("but b: fast takes that away"));
  std::vector<Option> options = three_options();
  options[2].key = "";
  options[2].value = "a build for devices";
  EXPECT_THAT(refusal("a: {inside: 1}\n", options),
              HasSubstr("but a build for devices takes that away (it does not wait); use clip_value, or leave it out"));
}

TEST(Capabilities, AnotherFileIsNamed) {
  DeckNode deck = parse_deck("a: {inside: 1}\n", "deck.yaml");
  apply_override(deck, "b=fast");
  try {
    check_options(deck, three_options());
    FAIL();
  } catch (const DeckError& error) {
    EXPECT_THAT(error.what(), HasSubstr("b: fast (command line 'b=fast':1:3) takes that away"));
  }
}

TEST(Capabilities, UnusedOptionsExcludeNothing) {
  std::vector<Option> options = three_options();
  EXPECT_THAT(find_conflicts(options), SizeIs(1)) << "that of a.inside is part of that of a";
  options[2].is_used = false;
  EXPECT_THAT(find_conflicts(options), SizeIs(0));
  EXPECT_TRUE(conflict_between(options[0], options[2]).has_value());
  EXPECT_FALSE(conflict_between(options[0], options[0]).has_value());
}

TEST(Capabilities, ValuesThatClaimTheSameAreOneOption) {
  std::vector<Option> options;
  for (const auto& [value, is_used] : {std::pair(": one", false), {": two", false}})
    add_value(options, {.key = "k", .value = value, .is_used = is_used});
  add_value(options, {.key = "k", .value = ": three", .takes = {{Capability::exact_sums, "it rounds"}}});
  ASSERT_THAT(options, SizeIs(2));
  EXPECT_EQ(options[0].label(), "k: one, two");
  add_value(options, {.key = "k", .value = ": four", .is_used = true});
  add_value(options, {.key = "k", .value = ": five"});
  EXPECT_EQ(options[0].label(), "k: four") << "the one that the deck uses";
}

TEST(Capabilities, ThePageListsOptionsAndWhatTheyExclude) {
  const std::string page = combinations_page(three_options());
  EXPECT_THAT(page, HasSubstr("| `a` (it clips)<br>`a.inside` (it clips, too) | `b: fast` (it does not wait) |"));
  EXPECT_THAT(page, HasSubstr("| `b: fast` | `a`, `a.inside` |"));
}

}  // namespace
}  // namespace lockstep
