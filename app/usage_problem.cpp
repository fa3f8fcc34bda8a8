// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "commands.hpp"
#include "config/fields.hpp"

namespace lockstep {
namespace {

/// A word in the place of a command, or an option in front of one, that the program does not have. Empty: it is another
/// mistake.
std::string unknown_command(const CLI::App& app, std::span<char* const> arguments) {
  const CLI::App* command = &app;
  std::string option;  // in front of a command, and none of what that is one of
  for (const std::string_view word : arguments) {
    std::vector<std::string> known;
    const CLI::App* next = nullptr;
    for (const CLI::App* sub : command->get_subcommands([](const CLI::App*) { return true; })) {
      known.push_back(sub->get_name());
      if (sub->get_name() == word) next = sub;
    }
    if (known.empty()) break;
    if (word.starts_with('-')) {
      if (option.empty() && !command->get_option_no_throw(std::string(word)))
        option = fmt::format("'{}' is no option of {}", word, command->get_name());
      continue;
    }
    if (!next) {
      const std::string near = nearest(word, known);
      return fmt::format("'{}' is no command of {} ({}){}", word, command->get_name(), fmt::join(known, ", "),
                         near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
    }
    command = next;
  }
  return option;
}

/// A change to the deck that is written as an option. Empty: there is none.
std::string override_with_dashes(std::span<char* const> arguments) {
  for (const std::string_view word : arguments) {
    const auto equals = word.find('=');
    if (!word.starts_with("--") || word.substr(0, equals).find('.') == std::string_view::npos) continue;
    return fmt::format("'{}' is no option; a change to the deck is written without --: {}{}", word, word.substr(2),
                       equals == std::string_view::npos ? "=VALUE" : "");
  }
  return "";
}

/// "lockstep bench gemm", as far as the words are commands.
std::string command_of(const CLI::App& app, std::span<char* const> arguments) {
  const CLI::App* command = &app;
  std::string name = app.get_name();
  for (const std::string_view word : arguments) {
    const auto subs = command->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == word; });
    if (subs.empty() && word.starts_with('-')) continue;
    if (subs.empty()) break;
    command = subs.front();
    name += " " + command->get_name();
  }
  return name;
}

}  // namespace

std::string usage_problem(const CLI::App& app, std::span<char* const> arguments, const std::string& found) {
  std::string problem = unknown_command(app, arguments);
  if (problem.empty()) problem = override_with_dashes(arguments);
  return fmt::format("command line: {}; see {} --help", problem.empty() ? found : problem, command_of(app, arguments));
}

}  // namespace lockstep
