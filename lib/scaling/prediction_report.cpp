// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/prediction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "io/output_file.hpp"
#include "run/monitor/chart.hpp"

namespace lockstep {
namespace {

/// Draws the time of a step over ranks, and perfect scaling, into an SVG file. Throws Error(cannot_create).
void write_prediction_plot(const std::string& file, const std::string& machine,
                           std::span<const Prediction> predictions) {
  Chart chart(machine, "ranks", "milliseconds per step");
  const auto points = [&](const std::function<double(const Prediction&)>& seconds) {
    std::vector<Chart::Point> all;
    for (const Prediction& point : predictions) all.push_back({static_cast<double>(point.ranks), 1e3 * seconds(point)});
    return all;
  };
  chart.add_points("step", points([](const Prediction& p) { return p.step(); }));
  chart.add_line("computing", points([](const Prediction& p) { return p.computing; }), Chart::Stroke::dashed);
  chart.add_line("perfect strong scaling", points([](const Prediction& p) { return p.strong * p.step(); }),
                 Chart::Stroke::dotted);
  replace_text_file(file, chart.svg());
}

/// The most ranks that a step is predicted for, as the replay goes through each rank's messages.
constexpr int most_ranks = 65'536;

/// Parses a list of numbers of ranks; none for an empty list. Throws unless the numbers rise.
std::vector<int> ranks_of(const std::string& list) {
  std::vector<int> ranks;
  if (list.empty()) return ranks;
  for (std::size_t begin = 0, end = 0; begin <= list.size(); begin = end + 1) {
    end = std::min(list.find(',', begin), list.size());
    const std::string word = list.substr(begin, end - begin);
    int number = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    validate(error == std::errc() && rest == word.data() + word.size() && number >= 1 && number <= most_ranks,
             ExitStatus::bad_usage,
             "--ranks: '{}' is not a number of ranks; give whole numbers from 1 to {}, as 1,8,64",
             for_message(word, 40), most_ranks);
    validate(ranks.empty() || number > ranks.back(), ExitStatus::bad_usage,
             "--ranks: {} follows {} (the numbers must rise); sort them, each once", number,
             ranks.empty() ? 0 : ranks.back());
    ranks.push_back(number);
  }
  return ranks;
}

/// Numbers of ranks if none are given: those for which a batch has an example for each rank.
std::vector<int> usual_ranks(std::int64_t batch) {
  std::vector<int> ranks{1, 8, 64, 512, 4096};
  std::erase_if(ranks, [batch](int number) { return number > batch; });
  return ranks;
}

std::string row(const Prediction& p, const Machine& machine) {
  const auto ms = [](double seconds) { return milliseconds_text(seconds, 4); };
  std::string text = fmt::format("| {} | {} | {} | {} | {} | {} | {} | {:.1f} % | {:.1f} % | {} | {} | {:.4g} |",
                                 p.ranks, p.nodes, p.share, ms(p.step()), ms(p.computing), ms(p.stragglers),
                                 ms(p.exposed + p.statistics), 100 * p.strong, 100 * p.weak, bytes_text(p.memory),
                                 duration_text(p.run_seconds), p.node_hours());
  if (machine.node_hour_price) text += fmt::format(" {:.4g} |", p.node_hours() * *machine.node_hour_price);
  text += p.ranks == 1 ? " – |" : fmt::format(" {} ({} ms) |", p.best_all_reduce, ms(p.best_step));
  return text + (p.best_share > 0 ? fmt::format(" {} |\n", p.best_share) : " none fits |\n");
}

std::string source_of(const ComputeTimes& times) {
  if (!times.is_measured()) return "estimated from the machine's speed of products and memory";
  const std::optional<std::int64_t> only = times.only_batch();
  if (!only) return "measured with this network";
  return fmt::format(
      "measured with this network in batches of {} only (for others, passes are assumed to grow with the examples and "
      "the rest of a step to stay the same; measure more with bench machine --batches)",
      *only);
}

std::string head(const Machine& machine) {
  const std::string price = machine.node_hour_price ? " price |" : "", line = machine.node_hour_price ? "--:|" : "";
  return "| ranks | nodes | examples per rank | step, ms | computing | stragglers | exposed sums | strong | weak | "
         "memory per rank | run | node-hours |" +
         price + " best all-reduce | best batch per rank |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|" + line +
         "---|--:|\n";
}

}  // namespace

std::string prediction_report(const RunConfig& config, const PredictionOptions& options) {
  if (!options.plot.empty())
    check_output(options.plot, options.overwrite, {options.machine, config.source.position.file});
  const std::vector<int> given = ranks_of(options.ranks);
  const Machine machine = read_machine(options.machine);
  return with_positions(config.source, [&] {
    Workload workload(config);
    Predictor predictor(machine, workload);
    std::string text = fmt::format("{} on {}, batch {}, compute times {}\n\n", config.run.name, machine.name,
                                   workload.batch(), source_of(predictor.times()));
    text += head(machine);
    std::vector<Prediction> predictions;
    for (const int ranks : given.empty() ? usual_ranks(workload.batch()) : given) {
      predictions.push_back(predictor.predict(ranks));
      text += row(predictions.back(), machine);
    }
    text +=
        "\nT_P(B): time of a step with batch B on P ranks. strong = T_1(B) / (P T_P(B)): relative to the same batch on "
        "one rank.\nweak = T_1(B/P) / T_P(B): relative to one rank with the same share. best batch per rank: the "
        "smallest power of two\nthat reaches 90 % of the most examples per second of any batch.\n";
    for (const Prediction& p : predictions)
      if (machine.memory_gb && p.memory > 1e9 * *machine.memory_gb)
        text += fmt::format(
            "{}: {} is more than the {} that a rank may use; use smaller micro-batches, "
            "model.activation_checkpointing, or more ranks\n",
            counted(p.ranks, "rank"), bytes_text(p.memory), bytes_text(1e9 * *machine.memory_gb));
    if (std::ranges::any_of(predictions, [](const Prediction& p) { return !p.states; }))
      text += fmt::format(
          "steps are predicted without the traffic of parallel.offload: {} has neither disk_gbps nor host_copy_gbps\n",
          options.machine);
    for (const Prediction& p : predictions)
      if (p.states.value_or(0) > 0)
        text += fmt::format("{}: {} ms of a step are traffic of parallel.offload that nothing hides\n",
                            counted(p.ranks, "rank"), milliseconds_text(*p.states, 4));
    for (const Prediction& p : predictions)
      if (!p.choice.empty()) text += fmt::format("{}: parallel.shard: {}\n", counted(p.ranks, "rank"), p.choice);
    if (const std::string limits = end_of_run_text(config, workload.train_examples()); !limits.empty())
      text += fmt::format("a run is {} steps{}\n", workload.length().steps(), limits);
    if (!options.plot.empty()) write_prediction_plot(options.plot, machine.name, predictions);
    return text;
  });
}

std::string prediction_line(const RunConfig& config, const std::string& file, RankCount count) {
  Machine machine = read_machine(file);
  const int ranks = count.all;
  if (count.nodes > 0) machine.ranks_per_node = ranks / count.nodes;
  const auto not_predicted_as = [](const std::string& why) {
    return fmt::format("expected             not predicted: {}\n", why);
  };
  if (const auto not_this = not_predicted(config.parallel)) return not_predicted_as(not_this->why);
  if (ranks > most_ranks)
    return not_predicted_as(fmt::format("{} ranks are more than the {} that can be predicted", ranks, most_ranks));
  try {
    Workload workload(config);
    const Prediction p = Predictor(machine, workload).predict(ranks);
    const RunLength length = workload.length();
    const double epochs = length.count_at(length.steps(), TrainingSpan::Unit::epochs);
    const std::string limits = end_of_run_text(config, workload.train_examples());
    const std::string end = config.run.epochs && limits.empty() ? fmt::format("{:.4g} epochs", epochs)
                                                                : fmt::format("{} steps{}", length.steps(), limits);
    return fmt::format(
        "expected             {} × {} ranks: {} ms per step{}, {:.0f} % efficient, {} for {}, {} per rank{}{}\n",
        counted(p.nodes, "node"), std::min<std::int64_t>(machine.ranks_per_node, ranks), milliseconds_text(p.step(), 3),
        config.batch.ramp.empty() ? "" : fmt::format(" of {} examples", workload.batch()), 100 * p.weak,
        duration_text(p.run_seconds), end, bytes_text(p.memory),
        machine.memory_gb && p.memory > 1e9 * *machine.memory_gb
            ? fmt::format(", which is more than the {} that a rank may use", bytes_text(1e9 * *machine.memory_gb))
            : "",
        p.states ? "" : "; without parallel.offload: the machine's file has neither disk_gbps nor host_copy_gbps");
  } catch (const KeyError& error) {  // a run may be possible that cannot be predicted
    return not_predicted_as(error.what());
  }
}

}  // namespace lockstep
