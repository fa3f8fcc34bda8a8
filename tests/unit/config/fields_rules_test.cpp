// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "config/fields.hpp"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::SizeIs;
using testing::StartsWith;

struct Disc : Config {
  double radius = 2;
  bool filled = true;
  void describe(Fields& fields) override {
    fields.number("radius", radius, positive, "length", Presence::required);
    fields.boolean("filled", filled, "or a circle");
  }
  std::string_view short_form() const override { return "radius"; }
};
struct Dot : Config {
  void describe(Fields&) override {}
};
constexpr Alternative shapes[] = {{"disc", "Round", make_config<Disc>}, {"dot", "Small", make_config<Dot>}};

/// A config with the kinds of key that Example leaves out: short forms, rules of presence, and lists of texts.
struct Drawing : Config {
  std::vector<ListItem> parts;
  bool has_frame = false, has_grid = false;
  std::int64_t width = 1;
  std::string color, kind;
  std::shared_ptr<Config> shape;
  std::string title, paper, canvas, pen, brush;
  std::vector<std::string> tags;
  std::vector<std::pair<std::string, std::string>> notes;

  void describe(Fields& fields) override {
    static constexpr std::string_view grounds[] = {"paper", "canvas"}, tools[] = {"pen", "brush"},
                                      kind_key[] = {"kind"};
    fields.list_of("parts", parts, shapes, "what it shows");
    fields.optional_section(
        "frame", has_frame,
        [this](Fields& frame) {
          frame.integer("width", width, at_least_one, "of its sides");
          frame.text("color", color, "of its sides", Presence::optional, {"[a-z]+|#[0-9a-f]{6}", "a word, or #rrggbb"});
        },
        "around it", "width");
    fields.optional_section(
        "grid", has_grid,
        [this](Fields& grid) {
          grid.one_of("kind", kind, shape, shapes, "of marks");
          grid.need(Needs::at_least_one, kind_key, "it has no default");
        },
        "after it");
    fields.text("title", title, "what it is called", Presence::optional, {"[A-Z].*", "a name with a capital"});
    fields.text("paper", paper, "this, or a canvas");
    fields.text("canvas", canvas, "this, or paper");
    fields.text("pen", pen, "to draw");
    fields.text("brush", brush, "to paint");
    fields.texts("tags", tags, "to find it by");
    fields.text_pairs("notes", notes, "whatever else there is to say");
    fields.need(Needs::exactly_one, grounds, "there would be nothing to draw on");
    fields.need(Needs::at_least_one, tools, "there would be nothing to draw with");
  }
};

constexpr const char* enough = "\npaper: a4\npen: blue\n";

Drawing read(const std::string& text) {
  Drawing drawing;
  read_config(parse_deck(text, "deck.yaml"), drawing);
  return drawing;
}

std::string drawing_complaint(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::bad_deck);
    return error.what();
  }
  return "";
}

std::vector<std::string> complaints(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream all(drawing_complaint(text));
  for (std::string line; std::getline(all, line);) lines.push_back(line);
  return lines;
}

TEST(ShortForms, OfListEntries) {
  const Drawing drawing = read(
      std::string("parts: [disc: 3, {disc: 0.5, name: small}, {disc: {radius: 4, filled: false}}]") + enough);
  ASSERT_THAT(drawing.parts, SizeIs(3));
  std::vector<double> radii;
  for (const ListItem& part : drawing.parts) radii.push_back(dynamic_cast<const Disc&>(*part.config).radius);
  EXPECT_THAT(radii, ElementsAre(3, 0.5, 4));
  EXPECT_EQ(drawing.parts[1].name, "small");
  EXPECT_FALSE(dynamic_cast<const Disc&>(*drawing.parts[2].config).filled);
}

TEST(ShortForms, OfSections) {
  const Drawing drawing = read(std::string("frame: 7") + enough);
  EXPECT_TRUE(drawing.has_frame);
  EXPECT_EQ(drawing.width, 7);
  EXPECT_FALSE(read(enough).has_frame);
}

TEST(ShortForms, MistakesHaveTheKeysOwnNameAndPlace) {
  EXPECT_THAT(drawing_complaint(std::string("parts:\n  - disc: big") + enough),
              StartsWith("deck.yaml:2:11: parts.0.disc.radius: 'big' is given (a finite number"));
  EXPECT_THAT(drawing_complaint(std::string("parts: [disc: 0]") + enough),
              StartsWith("deck.yaml:1:15: parts.0.disc.radius: 0 is out of range"));
  EXPECT_THAT(drawing_complaint(std::string("frame: wide") + enough),
              StartsWith("deck.yaml:1:8: frame.width: 'wide' is given"));
  EXPECT_THAT(drawing_complaint(std::string("parts: [disc: [3]]") + enough), HasSubstr("a list is given (a mapping"));
}

TEST(ShortForms, WhereThereAreNone) {
  EXPECT_THAT(drawing_complaint(std::string("parts: [dot: 3]") + enough),
              HasSubstr("parts.0.dot: '3' is given (a mapping (key: value) is expected); remove the value"));
  EXPECT_THAT(drawing_complaint(std::string("grid: disc") + enough),
              HasSubstr("grid: 'disc' is given (a mapping (key: value) is expected); write grid: {kind: disc}"));
  EXPECT_THAT(drawing_complaint(std::string("parts: [disc]") + enough), HasSubstr("parts.0.disc.radius: is missing"));
  EXPECT_THAT(drawing_complaint(std::string("parts: [{disc: {}}]") + enough),
              HasSubstr("parts.0.disc.radius: is missing"));
}

TEST(ShortForms, AreWrittenOut) {
  Drawing drawing = read(std::string("frame: 7\nparts: [disc: 3]") + enough);
  const std::string resolved = write_config(drawing);
  EXPECT_THAT(resolved, AllOf(HasSubstr("width: 7"), HasSubstr("radius: 3, filled: true")));
  Drawing again = read(resolved);
  EXPECT_EQ(write_config(again), resolved);
}

TEST(ShortForms, AreInSchemaAndReference) {
  Drawing drawing;
  const auto properties = nlohmann::json::parse(json_schema(drawing, "Drawing")).at("properties");
  const auto& frame = properties.at("frame").at("anyOf");
  ASSERT_THAT(frame, SizeIs(2));
  EXPECT_EQ(frame[0].at("type"), "object");
  EXPECT_EQ(frame[1].at("type"), "integer");
  EXPECT_EQ(frame[1].at("minimum"), 1);
  const auto& entries = properties.at("parts").at("items").at("anyOf");
  EXPECT_EQ(entries[0].at("enum"), nlohmann::json::array({"dot"})) << "a disc needs its radius";
  EXPECT_EQ(entries[1].at("properties").at("disc").at("anyOf")[1].at("exclusiveMinimum"), 0);
  EXPECT_FALSE(entries[2].at("properties").at("dot").contains("anyOf"));
  EXPECT_THAT(reference_page(drawing), HasSubstr("`- disc: VALUE` gives its `radius`"));
}

TEST(Needs, ExactlyOne) {
  EXPECT_EQ(drawing_complaint("paper: a4\npen: blue\n"), "");
  EXPECT_EQ(drawing_complaint("canvas: white\npen: blue\n"), "");
  EXPECT_THAT(
      drawing_complaint("pen: blue\n"),
      StartsWith("deck.yaml:1:1: paper: neither paper nor canvas is given (there would be nothing to draw on)"));
  EXPECT_THAT(drawing_complaint("canvas: white\npen: blue\npaper: a4\n"),
              StartsWith("deck.yaml:1:9: canvas: cannot be combined with paper; remove one of them"));
}

TEST(Needs, AtLeastOne) {
  EXPECT_EQ(drawing_complaint("paper: a4\npen: blue\nbrush: fine\n"), "");
  EXPECT_THAT(drawing_complaint("paper: a4\n"),
              HasSubstr("pen: neither pen nor brush is given (there would be nothing to draw with)"));
}

TEST(Needs, AKindThatWouldSayWhichKeysThereAre) {
  EXPECT_THAT(complaints(std::string("grid: {radius: 3, filled: true}") + enough),
              ElementsAre(StartsWith("deck.yaml:1:7: grid.kind: is missing (it has no default)")))
      << "its keys may be right";
  EXPECT_THAT(complaints(std::string("grid: {knid: disc, radius: 3}") + enough),
              ElementsAre(StartsWith("deck.yaml:1:8: grid.knid: unknown key; did you mean 'kind'?")));
  EXPECT_EQ(drawing_complaint(std::string("grid: {kind: disc, radius: 3}") + enough), "");
}

TEST(Needs, AreInTheSchema) {
  Drawing drawing;
  const auto rules = nlohmann::json::parse(json_schema(drawing, "Drawing")).at("allOf");
  const auto required = [](const char* key) { return nlohmann::json{{"required", {key}}}; };
  EXPECT_THAT(rules, SizeIs(2));
  EXPECT_EQ(rules[0], (nlohmann::json{{"oneOf", {required("paper"), required("canvas")}}}));
  EXPECT_EQ(rules[1], (nlohmann::json{{"anyOf", {required("pen"), required("brush")}}}));
}

TEST(Texts, AreReadAndWritten) {
  Drawing drawing = read(std::string("tags: [a, '1', \"x: y\"]\nnotes: {z: last, 'a b': 12, \"k: v\": \"#\"}") +
                         enough);
  const auto is_right = [](const Drawing& read) {
    EXPECT_THAT(read.tags, ElementsAre("a", "1", "x: y"));
    EXPECT_THAT(read.notes, ElementsAre(Pair("z", "last"), Pair("a b", "12"), Pair("k: v", "#")))
        << "in the deck's order";
  };
  is_right(drawing);
  is_right(read(write_config(drawing)));
  Drawing empty = read(enough);
  EXPECT_THAT(write_config(empty), AllOf(Not(HasSubstr("tags")), Not(HasSubstr("notes"))));
}

TEST(Texts, WrongTypes) {
  EXPECT_THAT(drawing_complaint(std::string("tags: a") + enough),
              HasSubstr("tags: 'a' is given (a list of text such as [a, b]"));
  EXPECT_THAT(drawing_complaint(std::string("tags: [a, [b]]") + enough),
              AllOf(StartsWith("deck.yaml:1:11: tags.1: "), HasSubstr("(text is expected)")));
  EXPECT_THAT(drawing_complaint(std::string("tags: ['']") + enough), HasSubstr("tags.0: "));
  EXPECT_THAT(drawing_complaint(std::string("notes: [a]") + enough),
              HasSubstr("notes: a list is given (a mapping such as {a: b}"));
  EXPECT_THAT(drawing_complaint(std::string("notes: {a: {b: c}}") + enough),
              StartsWith("deck.yaml:1:12: notes.a: a mapping is given (text"));
}

TEST(Texts, OfAForm) {
  EXPECT_EQ(read(std::string("title: Two discs") + enough).title, "Two discs");
  EXPECT_THAT(drawing_complaint(std::string("title: two Discs") + enough),
              StartsWith("deck.yaml:1:8: title: 'two Discs' is given (a name with a capital is expected)"));
  EXPECT_EQ(drawing_complaint(std::string("frame: {color: '#00ff7f'}") + enough), "");
  EXPECT_THAT(drawing_complaint(std::string("frame: {color: '#00ff7f0'}") + enough), HasSubstr("a word, or #rrggbb"))
      << "all of the text counts";
  EXPECT_THAT(drawing_complaint("title: A" + std::string(200'000, 'a') + enough),
              HasSubstr("a name with a capital is expected"))
      << "what has a form is short";
  Drawing drawing;
  const auto properties = nlohmann::json::parse(json_schema(drawing, "Drawing")).at("properties");
  EXPECT_EQ(properties.at("title").at("pattern"), "^([A-Z].*)$");
  EXPECT_FALSE(properties.at("paper").contains("pattern"));
}

TEST(SeveralMistakes, AreSaidInTheDecksOrder) {
  EXPECT_THAT(
      complaints(
          "tags: 3\nframe:\n  wdth: 3\n  color: '!'\nparts: [disc: 0, dto, {disc: {filled: no}}]\nzzzzz: 1\npaper: a4\n"),
      ElementsAre(
          StartsWith("deck.yaml:1:7: tags: '3'"), StartsWith("deck.yaml:3:3: frame.wdth: unknown key"),
          StartsWith("deck.yaml:4:10: frame.color: '!'"), StartsWith("deck.yaml:5:15: parts.0.disc.radius: 0 is out"),
          StartsWith("deck.yaml:5:18: parts.1: 'dto' is unknown"),
          StartsWith("deck.yaml:5:39: parts.2.disc.filled: 'no'"), StartsWith("deck.yaml:6:1: zzzzz: unknown key")));
}

TEST(SeveralMistakes, OfKeysComeBeforeThoseBetweenThem) {
  EXPECT_THAT(complaints("papr: a4\npen: blue\n"), ElementsAre(HasSubstr("did you mean 'paper'?")))
      << "it may be the one that is needed";
  EXPECT_THAT(complaints("paper: a4\ncanvas: white\n"),
              ElementsAre(HasSubstr("neither pen nor brush"), HasSubstr("canvas: cannot be combined with paper")))
      << "two broken rules";
  EXPECT_THAT(complaints("parts: [{disc: {filed: true}}]\npaper: a4\ncanvas: white\npen: blue"),
              ElementsAre(HasSubstr("did you mean 'filled'?")))
      << "and not the radius that is missing";
}

TEST(SeveralMistakes, OneAloneKnowsItsPlace) {
  try {
    read(std::string("tags: [a, [b]]") + enough);
    FAIL();
  } catch (const DeckError& error) {
    EXPECT_EQ(error.where().line, 1);
    EXPECT_EQ(error.where().column, 11);
  }
}

TEST(SeveralMistakes, TheFirstTenAreSaid) {
  const auto of = [](int count) {
    std::string deck = "parts:\n";
    for (int i = 0; i < count; ++i) deck += "- disc: 0\n";
    return complaints(deck + enough);
  };
  EXPECT_THAT(of(10), SizeIs(10));
  EXPECT_THAT(of(10).back(), StartsWith("deck.yaml:11:9: parts.9.disc.radius: 0 is out of range"));
  ASSERT_THAT(of(11), SizeIs(11));
  EXPECT_EQ(of(11)[9], of(10)[9]);
  EXPECT_EQ(of(11).back(), "and 1 more");
  EXPECT_EQ(of(1000).back(), "and 990 more");
}

struct Moved : Config {
  double edge = 1;
  void describe(Fields& fields) override {
    static constexpr OtherName names[] = {{"side", "", "edge", ""},
                                          {"sides", "", "--sides on the command line", ""},
                                          {"size", "*", "look.width", "of its lines"},
                                          {"workers", "*", "", "nobody waits"},
                                          {"rouge", "*", "red", ""}};
    static constexpr std::string_view colors[] = {"red", "dark_blue"};
    fields.other_names(names);
    fields.number("edge", edge, positive, "length");
    fields.section(
        "look",
        [this](Fields& section) {
          section.meant_by_value("width");
          section.number("width", width, positive, "of lines");
          section.choice("color", color, colors, "of lines");
          section.one_of("kind", kind, shape, shapes, "of marks");
        },
        "what it looks like");
  }
  double width = 1;
  enum class Color { red, dark_blue } color = Color::red;
  std::string kind = "dot";
  std::shared_ptr<Config> shape = make_config<Dot>();
};

TEST(OtherNames, SayWhatToWrite) {
  const auto message = [](const std::string& text) {
    Moved moved;
    try {
      read_config(parse_deck(text, "d.yaml"), moved);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_EQ(message("side: 2"), "d.yaml:1:1: side: has another name here; write edge");
  EXPECT_EQ(message("{edge: 1, sides: {n: 2}}"),
            "d.yaml:1:11: sides: has another name here; write --sides on the command line");
  EXPECT_THAT(message("sid: 2"), HasSubstr("unknown key; "));
  EXPECT_EQ(message("edge: 2"), "nothing was thrown");
  EXPECT_EQ(message("size: 2"), "d.yaml:1:1: size: has another name here (of its lines); write look.width");
  EXPECT_THAT(message("look: {size: 2}"), HasSubstr("look.size: has another name here (of its lines); write width"));
  EXPECT_THAT(message("look: {workers: 2}"), HasSubstr("look.workers: is not needed here (nobody waits); remove it"));
  EXPECT_THAT(message("look: {side: 2}"), HasSubstr("look.side: unknown key")) << "that name is one of the top";
  EXPECT_EQ(message("width: 2"), "d.yaml:1:1: width: unknown key; did you mean 'look.width'?");
  EXPECT_EQ(message("radius: 2"), "d.yaml:1:1: radius: unknown key; did you mean 'look.radius'?") << "of one kind";
  EXPECT_EQ(message("look: {edge: 2}"),
            "d.yaml:1:8: look.edge: unknown key; did you mean 'edge' at the top level of the deck?");
  EXPECT_THAT(message("look: {color: rouge}"), HasSubstr("did you mean 'red'?"));
  EXPECT_THAT(message("look: {color: Dark_Blue}"), HasSubstr("did you mean 'dark_blue'?"));
  EXPECT_THAT(message("look: {radius: 2}"), HasSubstr("look.radius: is an option of kind: disc, but here it is dot; "));
  EXPECT_EQ(message("look: 3"),
            "d.yaml:1:7: look: '3' is given (a mapping (key: value) is expected); write look: {width: 3}");
  EXPECT_THAT(message("look: [3]"), HasSubstr("a list is given (a mapping (key: value) is expected); write a mapping"));
  Moved moved;
  EXPECT_THAT(write_config(moved), Not(HasSubstr("side")));
}

TEST(MisplacedOptions, SayWhereTheyBelong) {
  EXPECT_THAT(
      drawing_complaint(std::string("parts:\n  - disc:\n    filled: false") + enough),
      StartsWith("deck.yaml:3:5: parts.0.filled: 'filled' is an option of disc; indent it below its type, or write "
                 "{disc: {filled: false}}"));
  EXPECT_THAT(drawing_complaint(std::string("parts: [{type: disc, radius: 2, filled: false, name: a}]") + enough),
              HasSubstr("a type is written as the key of its options; write {disc: {radius: 2, filled: false}}"));
  EXPECT_THAT(drawing_complaint(std::string("parts: [{type: disk}]") + enough), HasSubstr("parts.0.type: unknown key"));
  EXPECT_THAT(drawing_complaint(std::string("parts: [{Disc: 2}]") + enough), HasSubstr("did you mean 'disc'?"));
}

}  // namespace
}  // namespace lockstep
