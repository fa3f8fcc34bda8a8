// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <optional>

#include "comm/emulated_network.hpp"
#include "command_parts.hpp"
#include "commands.hpp"
#include "scaling/measure/measure_machine.hpp"
#include "scaling/prediction.hpp"

// Commands about machines for which runs are planned.
namespace lockstep {

void declare_predict_scaling(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "predict-scaling", "Predict the time, efficiency and memory of a run on more ranks of a described machine");
  const auto deck = std::make_shared<DeckArguments>();
  deck->declare(*command);
  const auto options = std::make_shared<PredictionOptions>();
  command
      ->add_option("--machine", options->machine,
                   "description of the machine, measured by `lockstep bench machine --save` or written by hand")
      ->required()
      ->option_text("FILE");
  command
      ->add_option("--ranks", options->ranks,
                   "increasing numbers of ranks (default: 1,8,64,512,4096, as far as a batch has an example for each)")
      ->option_text("N,N,…");
  CLI::Option* plot = command->add_option("--plot", options->plot, "picture to write (SVG)")->option_text("FILE");
  command->add_flag("--overwrite", options->overwrite, "replace the picture if it exists")->needs(plot);
  command->callback([&chosen, deck, options] {
    const auto work = [deck, options](const Communicator& comm) {
      const RunConfig config = deck->read(comm);
      comm.run_on_root([&] { print(prediction_report(config, *options)); });
      return ExitStatus::done;
    };
    chosen = {Start::plan, work};
  });
}

void declare_machine_bench(CLI::App& bench, Command& chosen) {
  CLI::App* command = bench.add_subcommand(
      "machine", "Measure what predict-scaling needs to know about these nodes and, with a deck, its steps");
  const auto deck = std::make_shared<DeckArguments>();
  deck->declare(*command);
  CLI::Option* of_steps = command->get_option("DECK")->required(false);
  const auto options = std::make_shared<MachineBench>();
  CLI::Option* save =
      command->add_option("--save", options->save, "file to write, for predict-scaling --machine")->option_text("FILE");
  command->add_flag("--overwrite", options->overwrite, "replace that file if it exists")->needs(save);
  command
      ->add_option("--batches", options->batches,
                   "examples per rank in the measured steps of the deck (default: up to its batch or batch.micro)")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}))
      ->option_text("N,N,…")
      ->needs(of_steps);
  command->add_option("--seconds", options->seconds, "seconds to measure each of them")
      ->needs(of_steps)
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  const auto network = declare_network(*command);
  command->callback([&chosen, deck, options, network] {
    const auto work = [deck, options, network](const Communicator& comm) {
      std::optional<RunConfig> config;
      if (!deck->file.empty()) config = deck->read(comm);
      measure_machine(apply_network_option(comm, *network), config, *options,
                      [&](const std::string& line) { print(comm, line + "\n"); });
      return ExitStatus::done;
    };
    chosen = {Start::ranks, work};
  });
}

}  // namespace lockstep
