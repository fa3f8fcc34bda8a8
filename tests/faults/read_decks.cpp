// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Does what `lockstep check` does, for thousands of decks in one process: reads the name of a deck from each line of
// standard input, and answers with a line of JSON: status, message, resolved deck, processor seconds, and the increase
// of the peak memory in megabytes.
#include <sys/resource.h>

#include <Kokkos_Core.hpp>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "run/reports/reports.hpp"

namespace {

using namespace lockstep;

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024e-6;
}

nlohmann::json answer(const std::string& file) {
  const double start = processor_seconds(), before = peak_megabytes();
  nlohmann::json result;
  try {
    const DeckNode deck = parse_deck(read_deck_file(file), file);
    RunConfig config = naming_missing_files(deck, [&] { return read_run_config(deck); });
    const PlanReport plan = naming_missing_files(deck, [&] { return plan_report(config, {1, 1}, PlannedRun::here); });
    if (plan.refusal) throw *plan.refusal;
    result = {{"status", 0}, {"message", ""}, {"resolved", write_config(config)}};
  } catch (const Error& error) {
    result = {{"status", static_cast<int>(error.status())}, {"message", error.what()}};
  } catch (const std::exception& error) {
    result = {{"status", static_cast<int>(ExitStatus::internal)}, {"message", error.what()}};
  }
  result["seconds"] = processor_seconds() - start;
  result["more_mb"] = peak_megabytes() - before;
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  for (std::string file; std::getline(std::cin, file);)
    // Messages quote decks, which need not be valid UTF-8.
    std::cout << answer(file).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) << std::endl;
}
