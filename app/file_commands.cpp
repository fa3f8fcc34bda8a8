// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "base/log.hpp"
#include "base/text_file.hpp"
#include "command_parts.hpp"
#include "commands.hpp"
#include "config/deck.hpp"
#include "data/import/importers.hpp"
#include "io/inspect.hpp"
#include "io/output_file.hpp"
#include "ops/products/device_description.hpp"
#include "run/deck/run_config.hpp"
#include "run/monitor/build_info.hpp"
#include "run/reports/reports.hpp"
#include "study/study.hpp"

// Commands of one process that work on files and text, without ranks and without steps of a network.
namespace lockstep {
namespace {

/// Returns a command that makes a text and prints it.
Command printing(std::function<std::string()> make, Start start = Start::nothing) {
  return {start, [make = std::move(make)](const Communicator&) {
            print(make());
            return ExitStatus::done;
          }};
}

/// Replaces what follows the mark in a page by `text` and one end of line.
void replace_generated_part(const std::string& page, const std::string& text) {
  constexpr std::string_view mark = "<!-- generated -->\n";
  const std::string before = read_text_file(page);
  const std::size_t place = before.find(mark);
  validate(place != std::string::npos, ExitStatus::bad_data,
           "{}: has no line <!-- generated --> (the tables follow it); add one, or give another page", page);
  replace_text_file(page, before.substr(0, place + mark.size()) + text.substr(0, text.find_last_not_of('\n') + 2));
}

void declare_held_out(CLI::App& importer, HeldOutExamples& validation) {
  const auto number = saying(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()),
                             "is not a number of examples (only import text takes a fraction); give a whole number, as "
                             "in --validation 5000");
  CLI::Option* chosen = importer.add_option("--validation", validation.count,
                                            "N examples, chosen at random, become the validation split");
  chosen->check(number)->option_text("N");
  importer
      .add_option_function<std::int64_t>(
          "--validation-last", [&validation](std::int64_t count) { validation = {.count = count, .are_last = true}; },
          "the last N examples become the validation split")
      ->check(number)
      ->option_text("N")
      ->excludes(chosen);
}

/// Declares what all importers have.
template <class Options>
void declare_output(CLI::App& importer, Command& chosen, const std::shared_ptr<Options>& options,
                    std::function<std::string(const Options&)> work) {
  importer.add_option("--output", options->output, "HDF5 file to write")->required();
  importer.add_flag("--overwrite", options->overwrite, "replace the output file if it exists");
  importer.callback([&chosen, options, work] { chosen = printing([options, work] { return work(*options) + "\n"; }); });
}

void declare_idx(CLI::App& import, Command& chosen) {
  CLI::App* idx = import.add_subcommand("idx", "Images and labels in IDX files (MNIST and similar), plain or gzipped");
  const auto options = std::make_shared<ImportIdxOptions>();
  idx->add_option("--images", options->images, "IDX file of images")->required();
  idx->add_option("--labels", options->labels, "IDX file of labels")->required();
  declare_held_out(*idx, options->validation);
  declare_output<ImportIdxOptions>(*idx, chosen, options, import_idx);
}

void declare_cifar(CLI::App& import, Command& chosen, const char* name, const CifarFormat& format) {
  CLI::App* cifar = import.add_subcommand(name, fmt::format("Images of {} (binary version)", format.name));
  const auto options = std::make_shared<ImportCifarOptions>();
  CLI::Option_group* source = cifar->add_option_group("The images");
  source->add_option("--folder", options->folder, fmt::format("the folder {} of {}", format.folder, format.archive));
  source
      ->add_option("--files", options->files,
                   fmt::format("some of its files; {} becomes the test split", format.test_file))
      ->option_text("FILE ...");
  source->require_option(1);
  declare_held_out(*cifar, options->validation);
  declare_output<ImportCifarOptions>(*cifar, chosen, options, [&format](const ImportCifarOptions& complete) {
    return import_cifar(format, complete);
  });
}

void declare_npy(CLI::App& import, Command& chosen) {
  CLI::App* npy = import.add_subcommand("npy", "Inputs and targets in NumPy's .npy files");
  const auto options = std::make_shared<ImportNpyOptions>();
  npy->add_option("--inputs", options->inputs, "array N×F, N×H×W×C or N×D×H×W×C of u1, f4 or f8, or N×T×C of f4 or f8")
      ->required();
  npy->add_option("--targets", options->targets,
                  "array of N or N×H×W classes (integers), or of N×K or N×H×W×K values (f4 or f8)")
      ->required();
  declare_held_out(*npy, options->validation);
  declare_output<ImportNpyOptions>(*npy, chosen, options, import_npy);
}

void declare_text(CLI::App& import, Command& chosen) {
  CLI::App* text = import.add_subcommand("text", "Characters of a text file as tokens");
  const auto options = std::make_shared<ImportTextOptions>();
  text->add_option("--file", options->file, "text file (UTF-8)")->required();
  text->add_option("--validation", options->validation, "the fraction at the end that becomes the validation split")
      ->check(
          saying(CLI::Range(0.0, 1.0),
                 "is not a fraction of the text (other importers count examples); give one, as in --validation 0.1"));
  text->add_option("--vocabulary", options->vocabulary,
                   "an imported text, or a checkpoint trained on one: characters get the tokens that they have there")
      ->option_text("FILE");
  declare_output<ImportTextOptions>(*text, chosen, options, import_text);
}

void declare_import(CLI::App& app, Command& chosen) {
  CLI::App* import = app.add_subcommand("import", "Convert other files to an HDF5 dataset");
  import->require_subcommand(1);
  declare_idx(*import, chosen);
  declare_cifar(*import, chosen, "cifar10", cifar10);
  declare_cifar(*import, chosen, "cifar100", cifar100);
  declare_npy(*import, chosen);
  declare_text(*import, chosen);
}

void declare_inspect(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("inspect",
                                         "Print what a dataset or checkpoint contains, and verify its checksums");
  const auto file = std::make_shared<std::string>();
  command->add_option("FILE", *file, "HDF5 file")->required();
  command->callback([&chosen, file] {
    chosen = printing([file] {
      const Inspection inspection = inspect_file(*file);
      if (!inspection.problem.empty()) print(inspection.text);
      validate(inspection.problem.empty(), ExitStatus::bad_data, "{}", inspection.problem);
      return inspection.text;
    });
  });
}

/// Prints the report. A user who may read a study's folder but not write to it gets the text all the same.
void print_study(const std::string& folder) {
  const StudyReport report = study_report(folder);
  print(report.text);
  try {
    write_files(report, folder);
  } catch (const Error& error) {
    warn("{}; some or all of measurements.csv, study.json and the pictures are not those of this report", error.what());
  }
}

void declare_report(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "report",
      "Compare runs: results, speed, scaling relative to the first run of the same work, and how their decks differ");
  const auto options = std::make_shared<ReportOptions>();
  CLI::Option* runs = command->add_option("runs", options->runs, "output folders of the runs")->option_text("RUN ...");
  const auto study = std::make_shared<std::string>();
  CLI::Option* of_study =
      command
          ->add_option("--study", *study,
                       "output folder of a study, instead of runs; for other programs it gets measurements.csv and "
                       "study.json")
          ->option_text("FOLDER")
          ->excludes(runs);
  command
      ->add_option("--sort", options->sort,
                   "sort by KEY, best first: one of " + fmt::format("{}", fmt::join(report_sort_keys(), ", ")))
      ->check(CLI::IsMember(report_sort_keys()))
      ->option_text("KEY")
      ->excludes(of_study);
  command->add_flag("--csv", options->csv, "print the table as CSV, for other programs")->excludes(of_study);
  command->callback([&chosen, options, study] {
    if (options->runs.empty() && study->empty()) throw CLI::RequiredError("RUN ..., or --study FOLDER");
    if (study->empty()) chosen = printing([options] { return scaling_report(*options); });
    else
      chosen = {Start::nothing, [study](const Communicator&) {
                  print_study(*study);
                  return ExitStatus::done;
                }};
  });
}

void declare_info(CLI::App& app, Command& chosen) {
  CLI::App* info = app.add_subcommand("info", "Version, compiler, Kokkos, providers, MPI and HDF5 of this program");
  const auto device = std::make_shared<bool>(false);
  info->add_flag("--device", *device, "describe this machine's device instead, for `lockstep check --device`");
  info->callback([&chosen, device] {
    // Listing providers makes them, with Kokkos' threads.
    chosen = printing([device] { return *device ? describe_device() + "\n" : build_info_text(); }, Start::plan);
  });
}

void declare_schema(CLI::App& app, Command& chosen) {
  CLI::App* schema = app.add_subcommand("schema", "JSON Schema of decks, for editors");
  struct Options {
    bool reference = false, combinations = false;
    std::string page;
  };
  const auto options = std::make_shared<Options>();
  CLI::Option* reference = schema->add_flag("--reference", options->reference,
                                            "print the same as the Markdown tables of docs/user/deck_reference.md");
  schema
      ->add_flag("--combinations", options->combinations,
                 "print the tables of docs/user/combinations.md instead: which options go with which")
      ->excludes(reference);
  schema
      ->add_option("--write", options->page,
                   "page whose tables are replaced by these: everything after its line <!-- generated -->")
      ->option_text("FILE");
  schema->callback([&chosen, options] {
    if (!options->page.empty() && !options->reference && !options->combinations)
      throw CLI::RequiredError("--reference or --combinations");
    chosen = printing([options]() -> std::string {
      RunConfig config;
      if (!options->reference && !options->combinations) return json_schema(config, "Lockstep input deck");
      const std::string tables = options->reference ? reference_page(config) : combinations_page(config.options());
      if (options->page.empty()) return tables;
      replace_generated_part(options->page, tables);
      return "";
    });
  });
}

}  // namespace

void declare_file_commands(CLI::App& app, Command& chosen) {
  declare_import(app, chosen);
  declare_inspect(app, chosen);
}

void declare_printers(CLI::App& app, Command& chosen) {
  declare_report(app, chosen);
  declare_info(app, chosen);
  declare_schema(app, chosen);
}

}  // namespace lockstep
