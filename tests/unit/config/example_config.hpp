// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "config/fields.hpp"

namespace lockstep::test {

/// A config with every kind of key.
struct Square : Config {
  double edge = 1;
  void describe(Fields& fields) override { fields.number("edge", edge, positive, "length"); }
};
struct Circle : Config {
  double radius = 2;
  void describe(Fields& fields) override { fields.number("radius", radius, positive, "length", Presence::required); }
};
inline constexpr Alternative shapes[] = {{"square", "Four corners", make_config<Square>},
                                         {"circle", "No corners", make_config<Circle>}};

struct Example : Config {
  enum class Color { red, green, dark_blue };

  bool flag = true;
  std::int64_t count = 3;
  std::optional<std::int64_t> limit;
  std::optional<std::int64_t> padding = 0;
  double rate = 0.1;
  std::vector<double> means;
  std::vector<std::int64_t> sizes{1, 2};
  std::string title;
  Color color = Color::green;
  std::int64_t needed = 0;
  bool has_extra = false;
  double extra = 0.5;
  std::string shape = "square";
  std::shared_ptr<Config> shape_config;
  std::vector<ListItem> parts;

  void describe(Fields& fields) override {
    static constexpr std::string_view colors[] = {"red", "green", "dark_blue"};
    fields.boolean("flag", flag, "a flag");
    fields.integer("count", count, {1, 10}, "how many");
    fields.integer("limit", limit, at_least_one, "the most");
    fields.integer_or("padding", padding, "same", not_negative, "border");
    fields.number("rate", rate, fraction_below_one, "share");
    fields.numbers("means", means, any_number, "means");
    fields.integers("sizes", sizes, at_least_one, "sizes");
    fields.text("title", title, "a title");
    fields.choice("color", color, colors, "a color");
    fields.section(
        "inner",
        [&](Fields& inner) {
          inner.integer("needed", needed, any_number, "has no default", Presence::required);
          inner.check(needed != 13, "needed", "13 is refused (bad luck); take 12");
        },
        "a section", Presence::required);
    fields.optional_section(
        "extra", has_extra, [&](Fields& section) { section.number("extra", extra, any_number, "more"); },
        "may be absent");
    fields.section(
        "figure", [&](Fields& figure) { figure.one_of("type", shape, shape_config, shapes, "what it is"); },
        "a choice");
    fields.list_of("parts", parts, shapes, "several");
    fields.check(count != 4 || !flag, "count", "4 with flag (they exclude each other); change one");
  }
};

inline Example read_example(const std::string& text) {
  Example config;
  read_config(parse_deck(text, "deck.yaml"), config);
  return config;
}

}  // namespace lockstep::test
