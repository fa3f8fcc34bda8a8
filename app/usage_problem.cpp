// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "config/fields.hpp"
#include "run/deck/other_names.hpp"

namespace lockstep {
namespace {

/// The command that the leading words name, such as "lockstep bench gemm".
struct CalledCommand {
  const CLI::App* app;
  std::string name;
  std::span<char* const> rest;  ///< the words after its name
};

CalledCommand command_of(const CLI::App& app, std::span<char* const> arguments) {
  CalledCommand called{&app, app.get_name(), arguments};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    const auto subs = called.app->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == word; });
    if (subs.empty() && word.starts_with('-')) continue;
    if (subs.empty()) break;
    called = {subs.front(), called.name + " " + subs.front()->get_name(), arguments.subspan(i + 1)};
  }
  return called;
}

/// Advice on launchers' options for the number of ranks; empty for other options.
std::string advice_on_ranks(std::string_view option, std::span<char* const> after) {
  if (option != "-n" && option != "-np" && option != "--np" && option != "--ranks") return "";
  const std::string ranks = after.empty() ? "RANKS" : after[0];
  return fmt::format(" (a launcher starts the ranks); write mpirun -n {0} lockstep …, or scripts/lockstep -n {0} …",
                     ranks);
}

/// Returns the names of all commands: "train, check, …".
std::string names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App* each) { return !each->get_name().empty(); }))
    names.push_back(sub->get_name());
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Reports a word that is no command where one is expected, or an unknown option in front of a command. Empty: there is
/// none.
std::string unknown_command(const CLI::App& app, std::span<char* const> arguments) {
  const CLI::App* command = &app;
  std::string option;  // a problem with an option in front of a command
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    std::vector<std::string> known;
    const CLI::App* next = nullptr;
    const auto has_name = [](const CLI::App* sub) { return !sub->get_name().empty(); };  // groups of options have none
    for (const CLI::App* sub : command->get_subcommands(has_name)) {
      known.push_back(sub->get_name());
      if (sub->get_name() == word) next = sub;
    }
    if (known.empty()) break;
    const std::span<char* const> after = arguments.subspan(i + 1);
    if (word.starts_with('-')) {
      if (option.empty() && !command->get_option_no_throw(std::string(word)))
        option = fmt::format("'{}' is not an option of {}{}", word, command->get_name(), advice_on_ranks(word, after));
      continue;
    }
    const auto is_command = [&](const char* other) { return std::ranges::find(known, other) != known.end(); };
    if (!next && !option.empty() && std::ranges::any_of(after, is_command)) continue;  // the option's value
    if (!next) {
      const std::string near = nearest(word, known);
      return fmt::format("'{}' is not a command of {} ({}){}", word, command->get_name(), fmt::join(known, ", "),
                         near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
    }
    command = next;
  }
  return option;
}

bool is_option(std::string_view word) {
  const bool is_number = word.size() > 1 && (word[1] == '.' || (word[1] >= '0' && word[1] <= '9'));
  return word.size() > 1 && word.starts_with('-') && !is_number;
}

/// Reports a change to the deck that is written as an option, such as --run.epochs=5 or --epochs 5. Empty: it is none.
std::string override_with_dashes(std::string_view option, std::span<char* const> after) {
  const auto equals = option.find('=');
  std::string key(option.substr(0, equals));
  key.erase(0, key.find_first_not_of('-'));
  std::string value = "=VALUE";
  if (equals != std::string_view::npos) value = option.substr(equals);
  else if (!after.empty() && !is_option(after[0])) value = fmt::format("={}", after[0]);
  if (key.find('.') == std::string::npos) {
    std::ranges::replace(key, '-', '_');
    const std::optional<MeantKey> meant = meant_key(key);
    if (!meant) return "";
    if (meant->instead.empty())
      return fmt::format("'{}' is not an option, and is not needed ({}); remove it", option, meant->why);
    if (!meant->is_path())
      return fmt::format(
          "'{}' is not an option; the deck has {}, and its changes are written without --, as in run.epochs=5", option,
          meant->instead);
    key = meant->instead;
  }
  return fmt::format("'{}' is not an option; changes to the deck are written without --: {}{}", option, key, value);
}

/// Reports the first option that the command does not have. Empty: it has them all.
std::string unknown_option(const CalledCommand& called) {
  std::vector<std::string> known;
  for (const CLI::Option* option : called.app->get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  const bool has_deck = called.app->get_option_no_throw("DECK") != nullptr;
  const bool has_overrides = called.app->get_option_no_throw("OVERRIDES") != nullptr;
  for (std::size_t i = 0; i < called.rest.size(); ++i) {
    const std::string_view word = called.rest[i];
    if (!is_option(word)) continue;
    const std::span<char* const> after = called.rest.subspan(i + 1);
    const std::string name(word.substr(0, word.find('=')));
    if (const CLI::Option* option = called.app->get_option_no_throw(name)) {
      if (name == word && option->get_items_expected_max() > 0) ++i;  // skips the option's value
      continue;
    }
    const bool names_path = name.find('.') != std::string::npos;
    if (has_deck || (has_overrides && names_path))
      if (std::string change = override_with_dashes(word, after); !change.empty()) return change;
    const std::string of_launcher = advice_on_ranks(name, after), near = nearest(name, known);
    return fmt::format("'{}' is not an option of {}{}", name, called.name,
                       !of_launcher.empty() ? of_launcher
                       : near.empty()       ? ""
                                            : fmt::format("; did you mean '{}'?", near));
  }
  return "";
}

/// Reports words where nothing more is expected; the parser's own message has them in reverse.
std::string unexpected_words(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(true);
  return fmt::format("'{}' {} not expected here", fmt::join(words, "', '"), words.size() == 1 ? "is" : "are");
}

}  // namespace

std::string usage_problem(const CLI::App& app, std::span<char* const> arguments, const CLI::ParseError& found) {
  const CalledCommand called = command_of(app, arguments);
  std::string problem = unknown_command(app, arguments);
  if (problem.empty()) problem = unknown_option(called);
  if (problem.empty() && dynamic_cast<const CLI::ExtrasError*>(&found)) problem = unexpected_words(app);
  if (problem.empty() && dynamic_cast<const CLI::RequiredError*>(&found) &&
      called.app->get_require_subcommand_min() > 0)
    problem = fmt::format("a command is missing; give one of {}", names_of_commands(*called.app));
  return fmt::format("command line: {}; see {} --help", problem.empty() ? found.what() : problem, called.name);
}

}  // namespace lockstep
