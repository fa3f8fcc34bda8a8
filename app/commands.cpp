// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "commands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>

#include "bench/bench.hpp"
#include "comm/emulated_network.hpp"
#include "command_parts.hpp"
#include "run/experiment/provenance.hpp"
#include "run/inference/predictor.hpp"
#include "run/training/surviving_run.hpp"
#include "run/training/training_run.hpp"
#include "scaling/prediction.hpp"

namespace lockstep {
namespace {

void declare_train(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("train", "Train the network of a deck; under mpirun every rank is a replica");
  const auto deck = std::make_shared<DeckArguments>();
  deck->declare(*command);
  const auto network = declare_network(*command);
  command->callback([&chosen, deck, network] {
    take_stop_signals();
    const auto work = [deck, network](const Communicator& comm) {
      const auto over_network = [&](const Communicator& of) { return apply_network_option(of, *network); };
      const Communicator ranks = over_network(comm);
      RunConfig config = deck->read(ranks);
      agreed_deck(ranks, write_config(config));  // which decides on the collective calls from here on
      predict_shards(config, ranks);
      return naming_missing_files(config.source, [&] {
        return config.parallel.survive ? train_surviving(config, comm, over_network) : TrainingRun(config, ranks).run();
      });
    };
    chosen = {Start::ranks, work};
  });
}

void declare_evaluate(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("evaluate",
                                         "Print the loss and metrics of a checkpoint on validation or other examples");
  const auto deck = std::make_shared<DeckArguments>();
  deck->declare(*command);
  const auto file = std::make_shared<std::string>();
  command->add_option("--checkpoint", *file, "checkpoint, or other file with parameters")->required();
  const auto what = std::make_shared<EvaluationData>();
  command->add_option("--data", what->place, "FILE with examples, or FILE:/GROUP, instead of the deck's data");
  command->add_option("--split", what->split, "split of these data: train, validation, test, or another group of FILE")
      ->capture_default_str();
  command->add_option(
      "--confusion-matrix", what->confusion_matrix,
      "file to write (.h5, .npy or .csv): counts of examples by true class (rows) and predicted class (columns)");
  command->add_flag("--overwrite", what->overwrite, "replace that file if it exists");
  command->callback([&chosen, deck, file, what, command] {
    const auto work = [deck, file, what, command](const Communicator& comm) {
      what->place = data_place(comm, *command);
      const Metrics metrics = evaluate_file(deck->read(comm), *file, *what, comm);
      std::string text = fmt::format("loss {:.9g}\n", metrics.loss);
      if (metrics.accuracy) text += fmt::format("accuracy {:.9g}\n", *metrics.accuracy);
      for (const auto& [name, value] : metrics.others) text += fmt::format("{} {:.9g}\n", name, value);
      print(comm, text);
      return ExitStatus::done;
    };
    chosen = {Start::ranks, work};
  });
}

void declare_predict(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "predict", "Compute the outputs of a checkpoint's network for examples, or generate text with a language model");
  struct Options {
    PredictOptions predict;
    GenerateOptions generate;
  };
  const auto options = std::make_shared<Options>();
  auto& [predicting, generating] = *options;
  command->add_option("CHECKPOINT", predicting.checkpoint, "checkpoint of a run")->required();
  CLI::Option* data = command->add_option("--data", predicting.data,
                                          "FILE with examples, FILE:/GROUP, or FILE:/DATASET of inputs alone");
  CLI::Option* output = command->add_option("--output", predicting.output, "file to write: .h5, .npy or .csv");
  CLI::Option* split =
      command->add_option("--split", predicting.split, "group of FILE, if it has several")->capture_default_str();
  data->needs(output);
  output->needs(data);
  CLI::Option* classes = command->add_flag("--classes")
                             ->description("write the most likely class of each example (-1 if an output is NaN)");
  CLI::Option* probabilities = command->add_flag("--probabilities")
                                   ->description(
                                       "write the softmax of the outputs; for binary_cross_entropy, their sigmoids");
  CLI::Option* overwrite = command->add_flag("--overwrite", predicting.overwrite,
                                             "replace the output file if it exists");
  classes->excludes(probabilities);
  CLI::Option* count = command
                           ->add_option("--generate", generating.count, "number of tokens to generate after the prompt")
                           ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000000000}));
  CLI::Option* prompt = command->add_option("--prompt", generating.prompt,
                                            "text to begin with, or tokens if the data had no characters");
  count->needs(prompt);
  count->excludes(data);
  for (CLI::Option* of_data : {split, output, classes, probabilities, overwrite}) of_data->needs(data);
  for (CLI::Option* of_text :
       {prompt,
        command
            ->add_option("--temperature", generating.temperature,
                         "divides the outputs: below 1, likely tokens become more likely (0: always the most likely)")
            ->check(CLI::Range(0.0, 1e6))
            ->capture_default_str(),
        command->add_option("--top-k", generating.top_k, "choose among this many of the most likely tokens (0: all)")
            ->check(saying(CLI::NonNegativeNumber, "is not a number of tokens; give a whole number, at least 0"))
            ->capture_default_str(),
        command->add_option("--seed", generating.seed, "seed of the choice: the same seed gives the same text")
            ->check(saying(CLI::NonNegativeNumber, "is not a seed; give a whole number, at least 0"))
            ->capture_default_str()})
    of_text->needs(count);
  command->callback([&chosen, options, command] {
    const bool generates = command->count("--generate") > 0;
    if (!generates && command->count("--data") == 0) throw CLI::RequiredError("--data FILE, or --generate N");
    if (command->count("--classes") > 0) options->predict.form = PredictOptions::Form::classes;
    if (command->count("--probabilities") > 0) options->predict.form = PredictOptions::Form::probabilities;
    options->generate.checkpoint = options->predict.checkpoint;
    const auto work = [options, generates, command](const Communicator& comm) {
      options->predict.data = data_place(comm, *command);
      if (generates) comm.run_on_root([&] { print(generate(options->generate) + "\n"); });
      else print(comm, predict(options->predict, comm) + "\n");
      return ExitStatus::done;
    };
    chosen = {Start::ranks, work};
  });
}

void declare_all_reduce_bench(CLI::App& bench, Command& chosen) {
  CLI::App* command = bench.add_subcommand("allreduce", "Time every all-reduce over the ranks that it is started with");
  const auto options = std::make_shared<AllReduceBench>();
  command->add_option("--bytes", options->bytes, "sizes of the all-reduces")
      ->check(CLI::Range(4.0, 2e9))
      ->capture_default_str();
  CLI::Option* save = command->add_option("--save", options->save,
                                          "file to save the fastest in, for parallel.all_reduce_table");
  command->add_flag("--overwrite", options->overwrite, "replace that file if it exists")->needs(save);
  const auto network = declare_network(*command);
  command->add_option("--rounds", options->rounds, "rounds over all of them, of which medians are reported")
      ->check(saying(CLI::PositiveNumber, "is not a number of rounds; give a whole number, at least 1"))
      ->capture_default_str();
  command->callback([&chosen, options, network] {
    const auto work = [options, network](const Communicator& comm) {
      bench_all_reduce(apply_network_option(comm, *network), *options,
                       [&](const std::string& line) { print(comm, line + "\n"); });
      return ExitStatus::done;
    };
    chosen = {Start::ranks, work};
  });
}

void declare_bench(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "bench", "Measure this machine, and the share of its limits that each provider reaches");
  command->require_subcommand(1);
  // The parser reads an enumerator by its number.
  const std::function<std::string(std::string&)> type_number = [](std::string& word) -> std::string {
    static const std::map<std::string, DType> types{
        {"fp32", DType::f32}, {"fp64", DType::f64}, {"bf16", DType::bf16}, {"fp16", DType::f16}};
    const auto found = types.find(word);
    if (found == types.end()) return fmt::format("'{}' is not one of fp32, fp64, bf16, fp16; give one of these", word);
    word = std::to_string(static_cast<int>(found->second));
    return "";
  };
  struct Options {
    std::vector<DType> types{DType::f32, DType::bf16};
    std::int64_t batch = 128;
  };
  const auto options = std::make_shared<Options>();
  const auto declare = [&](const char* name, const char* help,
                           std::function<void(const Options&, const Print&)> measure) {
    CLI::App* bench = command->add_subcommand(name, help);
    bench->callback([&chosen, options, measure] {
      const auto work = [options, measure](const Communicator& comm) {
        comm.run_on_root([&] { measure(*options, [](const std::string& line) { print(line + "\n"); }); });
        return ExitStatus::done;
      };
      chosen = {Start::ranks, work};
    });
    return bench;
  };
  declare("peak", "Peak rate of multiply-adds of one core, and its memory bandwidth",
          [](const Options&, const Print& print) { bench_peak(print); });
  CLI::App* const products[] = {
      declare("gemm", "Matrix products of the presets",
              [](const Options& o, const Print& print) { bench_inner_products(o.types, o.batch, print); }),
      declare("conv", "Convolutions of the presets",
              [](const Options& o, const Print& print) { bench_convolutions(o.types, o.batch, print); })};
  CLI::App* const kernels = declare("kernels", "Memory-bound kernels, compared with the bandwidth of a copy",
                                    [](const Options& o, const Print& print) { bench_kernels(o.types, print); });
  for (CLI::App* bench : {products[0], products[1], kernels})
    bench
        ->add_option("--types", options->types,
                     "number types to compute in: fp32, fp64, bf16, fp16 (default: fp32 bf16)")
        ->transform(CLI::Validator(type_number, ""))
        ->option_text("TYPE ...");
  for (CLI::App* bench : products)
    bench->add_option("--batch", options->batch, "batch size of the products of the small networks")
        ->check(saying(CLI::PositiveNumber, "is not a number of examples; give a whole number, at least 1"))
        ->capture_default_str();
  declare("optimizers", "Steps of each optimizer, compared with the bandwidth of a copy",
          [](const Options&, const Print& print) { bench_optimizers(print); });
  declare_all_reduce_bench(*command, chosen);
  declare_machine_bench(*command, chosen);
}

/// Removes leading zeros of whole numbers, which have no meaning in decks either: the parser would read an octal
/// number.
void read_as_decimal(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](const CLI::Option* each) {
         return each->get_type_name().starts_with("INT") || each->get_type_name().starts_with("UINT");
       }))
    option->transform([](std::string text) {
      const bool is_whole = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
      return is_whole ? text.substr(std::min(text.find_first_not_of('0'), text.size() - 1)) : text;
    });
  for (CLI::App* command : app.get_subcommands({})) read_as_decimal(*command);
}

/// Refuses NaN and infinity, which checks of ranges accept.
void refuse_what_is_not_finite(CLI::App& app) {
  for (CLI::Option* option :
       app.get_options([](const CLI::Option* each) { return each->get_type_name().starts_with("FLOAT"); }))
    option->check([](const std::string& text) {
      const bool is_finite = std::isfinite(std::strtod(text.c_str(), nullptr));
      return is_finite ? std::string() : fmt::format("'{}' is not a finite number; give one", text);
    });
  for (CLI::App* command : app.get_subcommands({})) refuse_what_is_not_finite(*command);
}

/// Refuses empty values, which a shell makes of unset variables. An empty prompt is judged where it is read.
void refuse_what_is_empty(CLI::App& app) {
  for (CLI::Option* option : app.get_options(
           [](const CLI::Option* each) { return each->get_items_expected_max() > 0 && !each->check_lname("prompt"); }))
    option->check([](const std::string& text) {
      return text.empty() ? std::string("its value is empty (an unset shell variable?); give one") : std::string();
    });
  for (CLI::App* command : app.get_subcommands({})) refuse_what_is_empty(*command);
}

}  // namespace

void declare_commands(CLI::App& app, Command& chosen) {
  declare_train(app, chosen);
  declare_check(app, chosen);
  declare_evaluate(app, chosen);
  declare_predict(app, chosen);
  declare_study(app, chosen);
  declare_predict_scaling(app, chosen);
  declare_file_commands(app, chosen);
  declare_bench(app, chosen);
  declare_printers(app, chosen);
  read_as_decimal(app);
  refuse_what_is_not_finite(app);
  refuse_what_is_empty(app);
}

}  // namespace lockstep
