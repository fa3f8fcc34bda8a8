// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "config/deck.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string complaint(const std::string& text) {
  try {
    parse_deck(text, "deck.yaml");
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::bad_deck);
    return error.what();
  }
  return "";
}

std::string override_complaint(const std::string& assignment, ExitStatus status) {
  DeckNode deck = parse_deck("run: {seed: 1}\nmodel:\n  layers: [relu, flatten]\n", "deck.yaml");
  try {
    apply_override(deck, assignment);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), status) << assignment;
    return error.what();
  }
  return "";
}

TEST(Deck, KnowsWhereEverythingStands) {
  const DeckNode deck = parse_deck("run:\n  seed: 7\n  name: 'x'\nlist: [a, {b: 1}]\n", "deck.yaml");
  const DeckNode* seed = deck.find("run")->find("seed");
  ASSERT_NE(seed, nullptr);
  EXPECT_EQ(seed->text, "7");
  EXPECT_EQ(seed->path, "run.seed");
  EXPECT_EQ(seed->position.line, 2);
  EXPECT_EQ(seed->position.column, 9);
  EXPECT_EQ(seed->position.file, "deck.yaml");
  EXPECT_FALSE(seed->quoted);
  EXPECT_TRUE(deck.find("run")->find("name")->quoted);
  EXPECT_EQ(deck.find("run")->entries[1].position.line, 3);
  EXPECT_EQ(deck.find("run")->entries[1].position.column, 3);
  EXPECT_EQ(deck.find("list")->items[1].find("b")->path, "list.1.b");
  EXPECT_EQ(deck.find("nothing"), nullptr);
}

TEST(Deck, TabsAreNamed) {
  EXPECT_THAT(complaint("run:\n\tseed: 1\n"), StartsWith("deck.yaml:2:1: a tab is used for indentation"));
  EXPECT_THAT(complaint("run:\n  \tseed: 1\n"), StartsWith("deck.yaml:2:3: a tab"));
  EXPECT_EQ(complaint("run:\n  seed: 1\t# a comment\n\t\n"), "") << "tabs elsewhere harm nobody";
}

TEST(Deck, RepeatedKeys) {
  EXPECT_THAT(complaint("a: 1\nrun:\n  seed: 1\n  name: x\n  seed: 2\n"),
              AllOf(StartsWith("deck.yaml:5:3: run.seed: repeated key"), HasSubstr("line 3, column 3")));
  EXPECT_THAT(complaint("a: 1\na: 2\n"), StartsWith("deck.yaml:2:1: a: repeated key"));
}

TEST(Deck, BrokenYaml) {
  EXPECT_THAT(complaint("run: {seed: 1\nmodel: x\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(complaint("run: [1, 2\n"), StartsWith("deck.yaml:"));
  EXPECT_THAT(complaint("- a\n- b\n"), HasSubstr("a deck is a mapping"));
  EXPECT_THAT(complaint(""), HasSubstr("a deck is a mapping"));
  EXPECT_THAT(complaint("just text"), HasSubstr("a deck is a mapping"));
  EXPECT_THAT(complaint("a: 1\n---\nb: 2\n"), HasSubstr("a second YAML document"));
  EXPECT_THAT(complaint("{[a, b]: 1}\n"), HasSubstr("a key is not plain text"));
  EXPECT_THAT(complaint("a: 1\n: 2\n"), StartsWith("deck.yaml:2:1: a key is not plain text"));
  for (const char* broken : {"a: {b: 'x}',\n  c: [1, 2\nd: 3\n", "a:\n  # b:1\n  b:1\n  c: 2\n", "a: 'x' y\n",
                             "a: *nothing\n", "a: 1\nrun: steps: 1  # one\n", "run:\n  epochs: 1\n   seed: 2\n"})
    EXPECT_THAT(complaint(broken), HasSubstr("; look here and in the line before for a colon")) << broken;
}

TEST(Deck, ADeckIsText) {
  EXPECT_THAT(complaint(std::string("a: 1\0b", 6)), StartsWith("deck.yaml:1:5: the byte 0x00 is a control character"));
  EXPECT_THAT(complaint("a: 1\nbä\x1b: 2"), StartsWith("deck.yaml:2:3: the byte 0x1b is a control character"));
  EXPECT_EQ(complaint("\xff\xfe"), "deck.yaml:1:1: the byte 0xff is not UTF-8 (a deck is text); save it as UTF-8");
  for (const char* bad :
       {"\xc3", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\x80"})
    EXPECT_THAT(complaint(std::string("a: ü # ") + bad), StartsWith("deck.yaml:1:8: the byte")) << bad;
  EXPECT_EQ(complaint("a: ü€\U0001F600\r\n"), "");
}

TEST(Deck, ADeckHoldsKeys) {
  for (const char* nothing : {"", "# data: later\n"})
    EXPECT_THAT(complaint(nothing), StartsWith("deck.yaml:1:1: has no keys (a deck is a mapping of sections"))
        << nothing;
  for (const char* other : {"train", "- run\n- data\n"})
    EXPECT_THAT(complaint(other), StartsWith("deck.yaml:1:1: is not a mapping (a deck is")) << other;
}

TEST(Deck, MessagesAreOneShortLine) {
  EXPECT_THAT(complaint("\"a\\n\\e[1m\": 1\n\"a\\n\\e[1m\": 1\n"),
              StartsWith("deck.yaml:2:1: a\\x0a\\x1b[1m: repeated key"));
  const std::string key(900, 'k');
  EXPECT_LT(complaint(key + ": 1\n" + key + ": 1\n").size(), 400u);
}

TEST(Deck, NothingIsLeftOutInSilence) {
  // yaml-cpp takes a line that begins with % for a directive.
  EXPECT_THAT(complaint("a: 1\n%batch: {global: 2}\n"), StartsWith("deck.yaml:2:1: a line begins with %"));
  EXPECT_THAT(complaint("a: !!str 1\n"), StartsWith("deck.yaml:1:4: a: has the tag"));
  EXPECT_THAT(complaint("a: !!python/object:x {b: 1}\n"), HasSubstr("has the tag"));
  // yaml-cpp's LoadAll returns documents without end for this text.
  EXPECT_THAT(complaint(",a: 1\nb: 2\n"), HasSubstr("a second YAML document"));
}

TEST(Deck, ThousandsOfKeysTakeNoTime) {
  std::string text;
  for (int i = 0; i < 90000; ++i) text += "k" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(complaint(text), "");
  EXPECT_THAT(complaint(text + "k0: 2\n"), StartsWith("deck.yaml:90001:1: k0: repeated key"));
}

TEST(Deck, TooDeep) {
  EXPECT_THAT(complaint("a: " + std::string(100, '[') + std::string(100, ']') + "\n"),
              StartsWith("deck.yaml:1:68: nested more than 64 levels deep"));
  EXPECT_THAT(complaint("a: " + std::string(501, '[')), HasSubstr("levels deep"));
  // Nesting far deeper than yaml-cpp itself can parse must give a message, not a crash.
  EXPECT_NE(complaint("a: " + std::string(20000, '[') + std::string(20000, ']') + "\n"), "");
  EXPECT_NE(complaint("a: " + std::string(200000, '{')), "");
}

TEST(Deck, AliasBomb) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += (k ? ", " : "") + before;
    bomb += "]\n";
  }
  EXPECT_THAT(complaint(bomb), HasSubstr("an alias counts each time"));
  EXPECT_THAT(complaint("a: &a [1, *a]\n"), StartsWith("deck.yaml:1:11: a.1: an alias of a value that contains it"));
  EXPECT_THAT(complaint("a: &a {b: *a}\n"), HasSubstr("an alias of a value that contains it"));
}

TEST(Deck, AliasesMayBeUsed) {
  const DeckNode deck = parse_deck("a: &x {k: 1}\nb: *x\n", "deck.yaml");
  EXPECT_EQ(deck.find("b")->find("k")->text, "1");
  EXPECT_EQ(deck.find("b")->find("k")->path, "b.k");
}

TEST(Deck, TooLarge) { EXPECT_THAT(complaint("a: " + std::string(5 << 20, 'x')), HasSubstr("larger than 1 MiB")); }

TEST(Override, ReplacesAndMakes) {
  DeckNode deck = parse_deck("run: {seed: 1}\nmodel:\n  layers: [relu, {linear: {features: 3}}]\n", "deck.yaml");
  apply_override(deck, "run.seed=3");
  apply_override(deck, "batch.global=512");
  apply_override(deck, "model.layers.1.linear.features=5");
  apply_override(deck, "data={synthetic: {kind: glyphs}}");
  apply_override(deck, "run.name='a=b'");
  EXPECT_EQ(deck.find("run")->find("seed")->text, "3");
  EXPECT_EQ(deck.find("batch")->find("global")->text, "512");
  EXPECT_EQ(deck.find("model")->find("layers")->items[1].find("linear")->find("features")->text, "5");
  EXPECT_EQ(deck.find("data")->find("synthetic")->find("kind")->path, "data.synthetic.kind");
  EXPECT_EQ(deck.find("run")->find("name")->text, "a=b");
  EXPECT_TRUE(deck.find("run")->find("name")->quoted);
  EXPECT_THAT(deck.find("run")->find("seed")->position.file, HasSubstr("run.seed=3"));
}

/// A shell removes the quotation marks of run.name='exp #3', so that # would begin a comment.
TEST(Override, LosesNoTextToComments) {
  for (const auto& [assignment, where] : {std::pair("run.name=exp #3", ":1:14: run.name: '#3' is a comment"),
                                          {"run.name=#3", ":1:10: run.name"},
                                          {"run.name='a #b' # c", ":1:17: run.name: '# c'"},
                                          {"model.layers=[relu] # all", ":1:21: model.layers"},
                                          {"run.name=\"a\"#b", ":1:13: run.name"}})
    EXPECT_THAT(override_complaint(assignment, ExitStatus::bad_deck), HasSubstr(where));
  DeckNode deck = parse_deck("{}\n", "deck.yaml");
  for (const auto& [assignment, text] : {std::pair("run.name='exp #3'", "exp #3"),
                                         {"run.name=\"it's #1, # 2\"", "it's #1, # 2"},
                                         {"run.name=exp#3", "exp#3"},
                                         {"run.name='a''#b'", "a'#b"},
                                         {"run.name='a' # lines\n # may have them", "a"}}) {
    apply_override(deck, assignment);
    EXPECT_EQ(deck.find("run")->find("name")->text, text);
  }
}

TEST(Override, Mistakes) {
  EXPECT_THAT(override_complaint("run.seed", ExitStatus::bad_usage), HasSubstr("write key.path=value"));
  EXPECT_THAT(override_complaint("=3", ExitStatus::bad_usage), HasSubstr("write key.path=value"));
  EXPECT_THAT(override_complaint("model.layers.2=relu", ExitStatus::bad_deck),
              HasSubstr("no such list entry (the list has 2"));
  EXPECT_THAT(override_complaint("model.layers.-1=relu", ExitStatus::bad_deck), HasSubstr("no such list entry"));
  EXPECT_THAT(override_complaint("model.layers[0].units=3", ExitStatus::bad_deck),
              HasSubstr("model.layers[0].units: list entries are given after a dot, counted from 0; write "
                        "model.layers.0.units"));
  EXPECT_THAT(override_complaint("run.seed.x=1", ExitStatus::bad_deck),
              HasSubstr("'run.seed' is a value, not a mapping ('1' has no keys); replace the whole value: run.seed=…"));
  EXPECT_THAT(override_complaint("run.seed={a: 1, a: 2}", ExitStatus::bad_deck), HasSubstr("repeated key"));
  EXPECT_THAT(override_complaint("run.seed=[1", ExitStatus::bad_deck), HasSubstr("not valid YAML"));
  EXPECT_THAT(override_complaint("run..seed=1", ExitStatus::bad_usage), HasSubstr("write key.path=value"));
  EXPECT_THAT(override_complaint("run.=1", ExitStatus::bad_usage), HasSubstr("write key.path=value"));
}

TEST(RequireFileOf, SaysWhichKeyNamesIt) {
  const DeckNode deck = parse_deck("data:\n  file: /nonexistent/x.h5\n", "deck.yaml");
  try {
    with_positions(deck, [] { require_file_of("data.file", "/nonexistent/x.h5"); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::missing_file);
    EXPECT_THAT(error.what(), StartsWith("deck.yaml:2:9: data.file: /nonexistent/x.h5: no such file; check the path"));
  }
  require_file_of("data.file", "/");
}

}  // namespace
}  // namespace lockstep
