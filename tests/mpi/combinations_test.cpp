// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each two options of a deck either train together or are refused, with the places of both: none hangs, none is silent.
// The options are those of RunConfig::options, so a new one is tested without being named here.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "core/execution.hpp"
#include "run/deck/run_config.hpp"
#include "run/training/training_run.hpp"
#include "support/fixtures.hpp"

namespace lockstep::test {
namespace {

/// A run of five steps of a few parameters, to which options add their assignments.
constexpr const char* five_steps = R"(
run: {steps: 5, seed: 3, log_every: 5, evaluate_every: 0, resume: never, overwrite: true, output_dir: run}
data: {drop_last: true, synthetic: {kind: random, shape: [4, 4, 1], classes: 5, train: 48}}
model: {layers: [flatten, {linear: {features: 9}}, relu, {linear: {features: 5}}]}
optimizer: {type: sgd, learning_rate: 0.01, momentum: 0.9}
batch: {global: 12}
)";

constexpr const char* no_direct_access = "the file system of the test's folder cannot hold offloaded states";
constexpr unsigned most_seconds = 30;  // of a pair
std::string pair_in_progress;          // for the message of the alarm

extern "C" void time_is_up(int) {
  const std::string& text = pair_in_progress;
  static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
  constexpr char rest[] = ": has not come to its end\n";
  static_cast<void>(!::write(STDERR_FILENO, rest, sizeof rest - 1));
  ::_exit(1);
}

/// Returns the deck with the assignments of both examples; none if they give a key different values.
std::optional<DeckNode> deck_of(const Option& a, const Option& b) {
  std::map<std::string, std::string> values;
  for (const Option* option : {&a, &b})
    for (const std::string& assignment : option->example) {
      const auto equals = assignment.find('=');
      const std::string key = assignment.substr(0, equals), value = assignment.substr(equals + 1);
      if (values.emplace(key, value).first->second != value) return std::nullopt;
    }
  DeckNode deck = parse_deck(five_steps, "five steps");
  for (const auto& [key, value] : values) apply_override(deck, key + "=" + value);  // sections before their keys
  return parse_deck(deck_json(deck), "deck");
}

std::set<std::string> keys_in_use(const DeckNode& deck) {
  const RunConfig config = read_run_config(deck);
  std::set<std::string> keys;
  for (const Option& option : config.options())
    if (option.is_used) keys.insert(option.key);
  return keys;
}

class Combinations : public testing::Test {
 protected:
  Combinations() {
    std::filesystem::current_path(folder_.path());
    if (world_.is_root()) std::ofstream("table.yaml") << "ranks: " << world_.size() << "\nnodes: 1\nfastest: [ring]\n";
    world_.barrier();
    enable_log(false);
    std::signal(SIGALRM, time_is_up);
  }
  ~Combinations() override {
    ::alarm(0);
    std::signal(SIGALRM, SIG_DFL);
    enable_log(true);
    std::filesystem::current_path(before_);
  }

  /// Trains the deck. Returns the message with which it is refused, before or after its files have been opened; empty
  /// if it has trained. Collective.
  std::string refusal_of(const DeckNode& deck) const {
    ::alarm(most_seconds);
    try {
      TrainingRun run(read_run_config(deck), world_);
      EXPECT_EQ(run.run(), ExitStatus::done);
      EXPECT_EQ(run.trainer().steps(), 5);
    } catch (const Error& error) {
      if (error.status() == ExitStatus::cannot_create) return no_direct_access;
      if (error.status() != ExitStatus::bad_deck) throw;
      return error.what();
    }
    return "";
  }

  const std::filesystem::path before_ = std::filesystem::current_path();
  const Communicator world_ = Communicator::world();
  const TemporaryFolder folder_;
};

/// Whether a message names a key of each set.
bool names_both(const std::string& message, const std::set<std::string>& a, const std::set<std::string>& b) {
  const auto names_one_of = [&](const std::set<std::string>& keys) {
    return std::ranges::any_of(keys, [&](const std::string& key) { return message.find(key) != message.npos; });
  };
  return names_one_of(a) && names_one_of(b);
}

TEST_F(Combinations, TrainOrAreRefusedWithBothPlaces) {
  if (memory_is_separate) GTEST_SKIP() << "some options are for builds that compute in host memory";
  std::vector<Option> options;              // those that train alone
  std::vector<std::set<std::string>> keys;  // that the example of each uses
  const std::set<std::string> of_base = keys_in_use(parse_deck(five_steps, "five steps"));
  for (const Option& option : RunConfig().options()) {
    if (option.example.empty()) continue;
    pair_in_progress = option.label();
    SCOPED_TRACE(option.label());
    const DeckNode deck = *deck_of(option, option);
    const std::string refusal = refusal_of(deck);
    if (refusal == no_direct_access) continue;
    EXPECT_EQ(refusal, "") << "refused alone";
    if (!refusal.empty()) continue;
    std::set<std::string> used = keys_in_use(deck);
    const bool claims = !option.needs.empty() || !option.takes.empty();
    EXPECT_TRUE(!claims || used.contains(option.key)) << "its example does not use it";
    for (const std::string& key : of_base)
      if (key != option.key) used.erase(key);
    used.insert(option.key);
    options.push_back(option);
    keys.push_back(used);
  }
  for (std::size_t i = 0; i < options.size(); ++i)
    for (std::size_t j = i + 1; j < options.size(); ++j) {
      const std::optional<DeckNode> deck = deck_of(options[i], options[j]);
      if (options[i].key == options[j].key || !deck) continue;
      pair_in_progress = options[i].label() + " and " + options[j].label();
      SCOPED_TRACE(pair_in_progress);
      const std::string refusal = refusal_of(*deck);
      const bool excluded = conflict_between(options[i], options[j]) || conflict_between(options[j], options[i]);
      if (refusal.empty()) {
        EXPECT_FALSE(excluded) << "trains, though the table excludes it";
        continue;
      }
      EXPECT_TRUE(refusal.starts_with("deck:1:")) << refusal;
      EXPECT_TRUE(names_both(refusal, keys[i], keys[j])) << refusal;
      EXPECT_TRUE(!excluded || refusal.find("(line 1, column ") != refusal.npos) << refusal;
    }
}

using Json = nlohmann::json;

/// The schemas of a key, in a section or one of its alternatives.
std::vector<Json> schemas_of(const Json& section, const std::string& key) {
  std::vector<Json> found;
  if (const auto keys = section.find("properties"); keys != section.end() && keys->contains(key))
    found.push_back(keys->at(key));
  for (const char* several : {"anyOf", "allOf"})
    if (const auto parts = section.find(several); parts != section.end())
      for (const Json& part : *parts)
        for (const Json& schema : schemas_of(part.value("then", part), key)) found.push_back(schema);
  return found;
}

TEST(TableOfOptions, HasEachKeyOfParallelAndPrecision) {
  RunConfig config;
  const std::vector<Option> options = config.options();
  const Json schema = Json::parse(json_schema(config, ""));
  for (const char* section : {"parallel", "precision"})
    for (const auto& [key, value] : schema.at("properties").at(section).at("properties").items())
      EXPECT_TRUE(std::ranges::any_of(
          options, [&](const Option& option) { return option.key == std::string(section) + "." + key; }))
          << section << "." << key << " is in no entry of RunConfig::options: say what it needs and takes away";
  for (const Option& option : options) {
    std::vector<Json> found{schema};
    std::string rest = option.key;
    while (!rest.empty()) {
      const auto dot = rest.find('.');
      const std::string key = rest.substr(0, dot);
      rest = dot == rest.npos ? "" : rest.substr(dot + 1);
      std::vector<Json> next;
      for (const Json& one : found)
        for (const Json& inner : schemas_of(one, key)) next.push_back(inner);
      found = next;
    }
    EXPECT_FALSE(found.empty()) << option.key << " is no key of decks";
  }
}

}  // namespace
}  // namespace lockstep::test
