// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/prediction_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "scaling/prediction.hpp"
#include "scaling/prediction_plot.hpp"

namespace lockstep {
namespace {

/// Refuses lists that are no rising numbers of ranks.
void check_ranks(const std::vector<std::int64_t>& ranks) {
  validate(!ranks.empty(), ExitStatus::bad_usage, "--ranks: there is none; give numbers of ranks, as 1,8,64");
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    validate(ranks[i] >= 1, ExitStatus::bad_usage, "--ranks: {} is no number of ranks; give whole numbers from 1 on",
             ranks[i]);
    validate(i == 0 || ranks[i] > ranks[i - 1], ExitStatus::bad_usage,
             "--ranks: {} stands behind {} (rows go by rising ranks); sort them, each once", ranks[i],
             i == 0 ? 0 : ranks[i - 1]);
    validate(ranks[i] <= 10'000'000, ExitStatus::bad_usage, "--ranks: {} are more than 10000000; give fewer", ranks[i]);
  }
}

std::string row(const Prediction& p, const Machine& machine) {
  const auto ms = [](double seconds) { return fmt::format("{:.4g}", 1e3 * seconds); };
  std::string text = fmt::format("| {} | {} | {} | {} | {} | {} | {} | {:.1f} % | {:.1f} % | {} | {} | {:.4g} |",
                                 p.ranks, p.nodes, p.share, ms(p.step()), ms(p.computing), ms(p.stragglers),
                                 ms(p.exposed + p.statistics), 100 * p.strong, 100 * p.weak, bytes_text(p.memory),
                                 duration_text(p.run_seconds), p.node_hours());
  if (machine.node_hour_price) text += fmt::format(" {:.4g} |", p.node_hours() * *machine.node_hour_price);
  text += p.ranks == 1 ? " – |" : fmt::format(" {} ({} ms) |", p.best_all_reduce, ms(p.best_step));
  return text + (p.best_share > 0 ? fmt::format(" {} |\n", p.best_share) : " none fits |\n");
}

std::string head(const Machine& machine) {
  const std::string price = machine.node_hour_price ? " price |" : "", line = machine.node_hour_price ? "--:|" : "";
  return "| ranks | nodes | examples a rank | step, ms | computing | stragglers | exposed sums | strong | weak | "
         "memory a rank | run | node-hours |" +
         price + " best all-reduce | best batch a rank |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|" + line +
         "---|--:|\n";
}

}  // namespace

std::string prediction_report(const RunConfig& config, const PredictionOptions& options) {
  check_ranks(options.ranks);
  const Machine machine = read_machine(options.machine);
  return with_positions(config.source, [&] {
    Workload workload(config);
    Predictor predictor(machine, workload);
    std::string text = fmt::format("{} on {}, batch {}, times of a rank {}\n\n", config.run.name, machine.name,
                                   workload.batch(),
                                   predictor.times().is_measured() ? "as measured with this network"
                                                                   : "by its speed in products and of its memory");
    text += head(machine);
    std::vector<Prediction> predictions;
    for (const std::int64_t ranks : options.ranks) {
      predictions.push_back(predictor.predict(static_cast<int>(ranks)));
      text += row(predictions.back(), machine);
    }
    text +=
        "\nT_P(B): a step of batch B on P ranks. strong = T_1(B) / (P T_P(B)): the same batch on one rank. weak = "
        "T_1(B/P) / T_P(B):\na rank by itself, with the same share. best batch a rank: the least power of two with 90 % "
        "of the examples a second that any reaches.\n";
    for (const Prediction& p : predictions)
      if (machine.memory_gb && p.memory > 1e9 * *machine.memory_gb)
        text += fmt::format(
            "{} rank{}: {} are more than the {} that a rank may take; use smaller micro-batches, "
            "model.activation_checkpointing, or more ranks\n",
            p.ranks, p.ranks == 1 ? "" : "s", bytes_text(p.memory), bytes_text(1e9 * *machine.memory_gb));
    if (!options.plot.empty()) write_prediction_plot(options.plot, machine.name, predictions);
    return text;
  });
}

std::string prediction_line(const RunConfig& config, const std::string& file, int ranks) {
  const Machine machine = read_machine(file);
  return with_positions(config.source, [&] {
    Workload workload(config);
    const Prediction p = Predictor(machine, workload).predict(ranks);
    const RunLength length = workload.length();
    const double epochs = length.count_at(length.steps(), TrainingSpan::Unit::epochs);
    const std::string end = config.run.epochs ? fmt::format("{:.4g} epochs", epochs)
                                              : fmt::format("{} steps", length.steps());
    return fmt::format(
        "expected             {} node{} × {} ranks: {:.3g} ms a step, {:.0f} % efficient, {} to {}, {} a rank\n",
        p.nodes, p.nodes == 1 ? "" : "s", std::min<std::int64_t>(machine.ranks_per_node, ranks), 1e3 * p.step(),
        100 * p.weak, duration_text(p.run_seconds), end, bytes_text(p.memory));
  });
}

}  // namespace lockstep
