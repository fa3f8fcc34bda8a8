// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "command_parts.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "data/dataset/dataset.hpp"
#include "run/deck/file_kind.hpp"
#include "run/resilience/signals.hpp"

namespace lockstep {

void DeckArguments::declare(CLI::App& command) {
  command.add_option("DECK", file, "input deck (YAML)")->required();
  command.add_option("OVERRIDES", overrides, "changes to the deck: key.path=value");
}

RunConfig DeckArguments::read(const Communicator& comm) const {
  std::string text;
  comm.run_on_root([&] { text = read_deck_file(file); });
  comm.broadcast(text);
  RunConfig config;
  comm.run_collectively([&] {
    DeckNode deck = parse_deck(text, file);
    require_kind(deck, FileKind::deck);
    for (const auto& assignment : overrides) apply_override(deck, assignment);
    config = naming_missing_files(deck, [&] { return read_run_config(deck); });
  });
  return config;
}

void take_stop_signals() {
  StopRequest::take_signals();
  ::signal(SIGPIPE, SIG_IGN);
}

std::function<std::string(const std::string&)> saying(const CLI::Validator& check, const std::string& problem) {
  return [check, problem](const std::string& given) {
    return check(given).empty() ? std::string() : fmt::format("'{}' {}", given, problem);
  };
}

void print(const std::string& text) {
  const bool done = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  const int error = errno;
  validate(done || error == EPIPE, ExitStatus::io_error, "standard output: cannot be written ({}); check where it goes",
           std::strerror(error));
}

void print(const Communicator& comm, const std::string& text) {
  if (comm.is_root()) print(text);
}

std::string data_place(const Communicator& comm, const CLI::App& command) {
  if (command.count("--data") == 0) return "";
  const std::string data = command["--data"]->as<std::string>();
  if (command.count("--split") == 0) return data;
  const std::string split = command["--split"]->as<std::string>(), group = DataPlace::of(data).group;
  comm.run_on_root([&] {
    validate(group.empty() || group == "/" + split, ExitStatus::bad_usage,
             "--split {}: --data {} already names another group; leave out one of them", split, data);
  });
  return group.empty() ? data + ":/" + split : data;
}

std::shared_ptr<std::string> declare_network(CLI::App& command) {
  const auto text = std::make_shared<std::string>();
  command.add_option("--emulate-network", *text,
                     "for measurements: messages between nodes take the time that another network needs, as in "
                     "latency_us=50,bandwidth_gbps=1,ranks_per_node=1 (10^9 bytes per second; 0: no limit)");
  return text;
}

}  // namespace lockstep
