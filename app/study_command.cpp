// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "command_parts.hpp"
#include "commands.hpp"
#include "run/deck/file_kind.hpp"
#include "study/study.hpp"

namespace lockstep {

void declare_study(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "study", "Train many trials of a deck, one after another on each group of ranks, and compare them");
  const auto file = std::make_shared<std::string>();
  command->add_option("STUDY", *file, "study file (YAML)")->required();
  const auto overrides = std::make_shared<std::vector<std::string>>();
  command->add_option("OVERRIDES", *overrides, "changes to the study: key.path=value");
  command->callback([&chosen, file, overrides] {
    take_stop_signals();
    const auto work = [file, overrides](const Communicator& comm) {
      std::string text, base;
      StudyConfig study;
      comm.run_on_root([&] { text = read_deck_file(*file); });
      comm.broadcast(text);
      comm.run_collectively([&] {
        DeckNode node = parse_deck(text, *file);
        require_kind(node, FileKind::study);
        for (const auto& assignment : *overrides) apply_override(node, assignment);
        study = read_study_config(std::move(node));
        if (!comm.is_root()) return;
        study.require_files();
        base = read_deck_file(study.base_file());
      });
      comm.broadcast(base);
      return run_study(study, base, comm);
    };
    chosen = {Start::ranks, work};
  });
}

}  // namespace lockstep
