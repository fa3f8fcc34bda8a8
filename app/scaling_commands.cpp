// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cstdio>
#include <optional>

#include "comm/emulated_network.hpp"
#include "command_parts.hpp"
#include "commands.hpp"
#include "scaling/measure_machine.hpp"
#include "scaling/prediction_report.hpp"

// Commands about machines for which runs are planned.
namespace lockstep {

void declare_predict_scaling(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("predict-scaling",
                                         "Time, efficiency and memory of a run on more ranks of a described machine");
  const auto deck = std::make_shared<DeckArguments>();
  deck->declare(*command);
  const auto options = std::make_shared<PredictionOptions>();
  command
      ->add_option("--machine", options->machine,
                   "what the machine can do, as `lockstep bench machine --save` has measured it, or by hand")
      ->required()
      ->option_text("FILE");
  command
      ->add_option("--ranks", options->ranks,
                   "numbers of ranks, rising (default: 1,8,64,512,4096, as far as a batch has an example for each)")
      ->option_text("N,N,…");
  CLI::Option* plot = command->add_option("--plot", options->plot, "picture to make (SVG)")->option_text("FILE");
  command->add_flag("--overwrite", options->overwrite, "replace the picture when there is one")->needs(plot);
  command->callback([&chosen, deck, options] {
    const auto work = [deck, options](const Communicator& comm) {
      const RunConfig config = deck->read(comm);
      return on_root(comm, [&] { print(comm, prediction_report(config, *options)); });
    };
    chosen = {Start::plan, work};
  });
}

void declare_machine_bench(CLI::App& bench, Command& chosen) {
  CLI::App* command = bench.add_subcommand(
      "machine", "What predict-scaling needs to know of these nodes; with a deck, its steps too");
  const auto deck = std::make_shared<DeckArguments>();
  deck->declare(*command);
  CLI::Option* of_steps = command->get_option("DECK")->required(false);
  const auto options = std::make_shared<MachineBench>();
  CLI::Option* save =
      command->add_option("--save", options->save, "file to make, for predict-scaling --machine")->option_text("FILE");
  command->add_flag("--overwrite", options->overwrite, "replace that file when there is one")->needs(save);
  command
      ->add_option("--batches", options->batches, "examples of a rank, of the deck's steps (default: up to its batch)")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}))
      ->option_text("N,N,…")
      ->needs(of_steps);
  command->add_option("--seconds", options->seconds, "that each of them is measured for")
      ->needs(of_steps)
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  const auto network = declare_network(*command);
  command->callback([&chosen, deck, options, network] {
    const auto work = [deck, options, network](const Communicator& comm) {
      std::optional<RunConfig> config;
      if (!deck->file.empty()) config = deck->read(comm);
      measure_machine(apply_network_option(comm, *network), config, *options, [&](const std::string& line) {
        print(comm, line + "\n");
        std::fflush(stdout);
      });
      return ExitStatus::done;
    };
    chosen = {Start::ranks, work};
  });
}

}  // namespace lockstep
