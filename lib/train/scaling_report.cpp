// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/scaling_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

/// What the report needs of a run's summary.json.
struct Run {
  std::string name;
  int ranks = 1, threads = 1;
  std::int64_t examples_per_step = 0;
  double examples_per_s = 0, step_ms = 0;
  std::vector<RankSpread> spreads;

  double per_rank() const { return examples_per_s / ranks; }
};

Run read_run(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "summary.json";
  std::ifstream in(file);
  validate(in.good(), ExitStatus::missing_file,
           "{}: cannot be read; name the output folder of a run that has come to its end", file.string());
  try {
    const Json json = Json::parse(in);
    Run run{.name = folder.string(),
            .ranks = json.at("ranks"),
            .threads = json.at("threads"),
            .examples_per_step = json.at("examples_per_step"),
            .examples_per_s = json.at("examples_per_s"),
            .step_ms = json.at("step_ms").at("median")};
    for (const auto& [phase, spread] : json.at("ranks_ms").items())
      run.spreads.push_back({phase, spread.at("min"), spread.at("mean"), spread.at("max"), spread.at("slowest_rank")});
    return run;
  } catch (const Json::exception& error) {
    throw Error(ExitStatus::bad_data, fmt::format("{}: is no summary of a run ({}); name the output folder of a run",
                                                  file.string(), error.what()));
  }
}

/// Of the first run's speed a rank, how much a rank still has: with the same batch (strong scaling), or with the same
/// share of it (weak scaling).
std::string efficiency(const Run& run, const Run& base) {
  const double percent = 100 * run.per_rank() / base.per_rank();
  if (run.examples_per_step == base.examples_per_step) return fmt::format("{:.1f} % strong", percent);
  if (run.examples_per_step * base.ranks == base.examples_per_step * run.ranks)
    return fmt::format("{:.1f} % weak", percent);
  return "–";
}

}  // namespace

RankSpread spread_over_ranks(const Communicator& comm, std::string_view phase, double milliseconds) {
  std::vector<std::int64_t> nanoseconds = comm.gather(std::llround(1e6 * milliseconds));
  const auto [least, most] = std::ranges::minmax_element(nanoseconds);
  const double sum = std::accumulate(nanoseconds.begin(), nanoseconds.end(), 0.0);
  return {.phase = std::string(phase),
          .min = 1e-6 * static_cast<double>(*least),
          .mean = 1e-6 * sum / comm.size(),
          .max = 1e-6 * static_cast<double>(*most),
          .slowest = static_cast<int>(most - nanoseconds.begin())};
}

std::string spread_text(const std::vector<RankSpread>& spreads) {
  std::string text = "| ms a step | least | mean | most | slowest rank |\n|---|--:|--:|--:|--:|\n";
  for (const RankSpread& spread : spreads)
    text += fmt::format("| {} | {:.3f} | {:.3f} | {:.3f} | {} |\n", spread.phase, spread.min, spread.mean, spread.max,
                        spread.slowest);
  return text;
}

std::string scaling_report(const std::vector<std::filesystem::path>& folders) {
  std::vector<Run> runs;
  for (const auto& folder : folders) runs.push_back(read_run(folder));
  std::string text =
      "| run | ranks × threads | batch | examples/s | step, ms | efficiency |\n|---|--:|--:|--:|--:|--:|\n";
  for (const Run& run : runs)
    text += fmt::format("| {} | {} × {} | {} | {:.1f} | {:.3f} | {} |\n", run.name, run.ranks, run.threads,
                        run.examples_per_step, run.examples_per_s, run.step_ms, efficiency(run, runs.front()));
  for (const Run& run : runs) text += fmt::format("\n{}\n\n{}", run.name, spread_text(run.spreads));
  return text;
}

}  // namespace lockstep
