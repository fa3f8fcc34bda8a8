// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/search_space.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "core/random.hpp"

namespace lockstep {
namespace {

constexpr TextForm number_form{.pattern = R"([-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?)",
                               .words = "a number"};

double number_in(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

struct Ends {
  double low, high;
};

Ends ends_of(const std::vector<std::string>& range) { return {number_in(range.front()), number_in(range.back())}; }

double between(const Ends& ends, double place) { return ends.low + (ends.high - ends.low) * place; }

double log_between(const Ends& ends, double place) {
  return std::exp(between({std::log(ends.low), std::log(ends.high)}, place));
}

/// A range: its lower and its upper end.
void describe_range(Fields& fields, std::string_view key, std::vector<std::string>& range, std::string_view help) {
  fields.texts(key, range, help, number_form);
  if (range.empty()) return;
  const auto [low, high] = ends_of(range);
  fields.check(range.size() == 2, key, "is not a range; give its two ends, as [0.001, 1]");
  fields.check(low <= high, key,
               fmt::format("begins at {} and ends at {} (in reverse order); give the lower end first", low, high));
  fields.check(range.size() != 2 || low != high, key,
               fmt::format("has one point, {} (there is nothing to search); give two different ends, or put the value "
                           "into the base deck",
                           low));
}

constexpr std::int64_t left_out = 100;

std::int64_t prime_after(std::int64_t number) {
  for (std::int64_t n = number + 1;; ++n) {
    bool divides = false;
    for (std::int64_t d = 2; d * d <= n && !divides; ++d) divides = n % d == 0;
    if (!divides) return n;
  }
}

}  // namespace

void Dimension::describe(Fields& fields) {
  describe_range(fields, "linear", linear_, "range to search evenly");
  describe_range(fields, "log", log_, "range to search evenly in its logarithm");
  describe_range(fields, "reverse_log", reverse_log_,
                 "range to search evenly in the logarithm of 1 − x; for a momentum, as [0, 0.99]");
  describe_range(fields, "integer", integer_, "range of whole numbers to search, ends included");
  fields.texts("discrete", discrete_, "values to choose from");
  fields.boolean(
      "of_budget", of_budget_,
      "whether the value is a share of the trial's budget, and written to its deck in steps, as for schedule.decay");
  fields.check(discrete_.empty() || !of_budget_, "of_budget",
               "cannot be combined with discrete, whose values go into decks unchanged; remove it, or give a range");
  static constexpr std::string_view scales[] = {"linear", "log", "reverse_log", "integer", "discrete"};
  fields.need(Needs::exactly_one, scales, "the key would have no values");
  fields.check(log_.empty() || ends_of(log_).low > 0, "log",
               "begins at 0 or below, which has no logarithm; begin above 0");
  fields.check(reverse_log_.empty() || ends_of(reverse_log_).high < 1, "reverse_log",
               "ends at 1 or above, where 1 − x has no logarithm; end below 1");
  const auto is_whole = [](const std::string& end) {
    const double value = number_in(end);
    return value == std::floor(value);
  };
  fields.check(std::ranges::all_of(integer_, is_whole), "integer",
               "has an end that is not a whole number; give whole numbers");
  fields.check(discrete_.size() != 1, "discrete",
               "has one point (there is nothing to search); give several values, or put it into the base deck");
}

double Dimension::number_at(double place) const {
  if (!linear_.empty()) return between(ends_of(linear_), place);
  if (!log_.empty()) return log_between(ends_of(log_), place);
  if (!reverse_log_.empty()) {
    const auto [low, high] = ends_of(reverse_log_);
    return 1 - log_between({1 - low, 1 - high}, place);
  }
  const auto [low, high] = ends_of(integer_);
  return std::min(high, low + std::floor((high - low + 1) * place));
}

std::string Dimension::value_at(double place, std::int64_t budget) const {
  if (!discrete_.empty()) {
    const auto count = static_cast<double>(discrete_.size());
    return discrete_[static_cast<std::size_t>(std::min(count - 1, std::floor(count * place)))];
  }
  const double value = number_at(place);
  if (of_budget_)
    return fmt::format("{} steps", std::max<std::int64_t>(1, std::llround(value * static_cast<double>(budget))));
  if (!integer_.empty()) return fmt::format("{}", static_cast<std::int64_t>(value));
  return fmt::format("{:.6g}", value);
}

bool Dimension::is_at_border(double place) const {
  constexpr double next_to = 0.05;
  return discrete_.empty() && (place < next_to || place >= 1 - next_to);
}

void SearchSpace::describe(Fields& fields, std::string_view key) {
  fields.named_sections(
      key, keys, [this](std::size_t count) { dimensions.resize(count); },
      [this](std::size_t i, Fields& section) { dimensions[i].describe(section); },
      "Keys of the deck that are searched over, each with its scale; a list alone gives its `discrete`", "discrete");
}

double radical_inverse(std::int64_t index, std::span<const int> digits) {
  const auto base = static_cast<std::int64_t>(digits.size());
  double value = 0, place = 1;
  for (; index > 0; index /= base) {
    place /= static_cast<double>(base);
    value += place * digits[static_cast<std::size_t>(index % base)];
  }
  return value;
}

HaltonSequence::HaltonSequence(std::size_t dimensions, std::uint64_t seed, std::uint64_t stream) {
  std::int64_t prime = 1;
  for (std::size_t axis = 0; axis < dimensions; ++axis) {
    prime = prime_after(prime);
    const RandomStream random(seed, RandomPurpose::search, (stream << 16) + axis);
    std::vector<int> digits(static_cast<std::size_t>(prime));
    std::iota(digits.begin(), digits.end(), 0);
    for (std::size_t i = digits.size() - 1; i > 1; --i)  // the digit 0 stays
      std::swap(digits[i], digits[1 + random.below(i, i)]);
    axes_.push_back({std::move(digits), random.uniform(0)});
  }
}

std::vector<double> HaltonSequence::point(std::int64_t i) const {
  std::vector<double> place;
  for (const Axis& axis : axes_) {
    const double shifted = radical_inverse(left_out + i, axis.digits) + axis.shift;
    place.push_back(shifted >= 1 ? shifted - 1 : shifted);
  }
  return place;
}

}  // namespace lockstep
