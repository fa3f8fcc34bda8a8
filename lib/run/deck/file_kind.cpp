// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/deck/file_kind.hpp"

#include <fmt/format.h>

namespace lockstep {
namespace {

/// How a kind of file is recognised, and what to tell a user who gave such a file for another, or another for it.
struct KindOfFile {
  FileKind kind;
  std::string_view name;
  std::string_view keys[2];  ///< keys that no other kind has
  std::string_view use;      ///< what to do with such a file; {0}: its path
  std::string_view advice;   ///< what to do where this kind is wanted; empty: the `use` of the given file's kind says
                             ///< enough
};

constexpr KindOfFile kinds_of_files[] = {
    {FileKind::deck,
     "a deck",
     {"data", "model"},
     "start it with `lockstep train {0}`, or name it as `base` in a study",
     ""},
    {FileKind::study, "a study", {"base", "goal"}, "start it with `lockstep study {0}`", ""},
    {FileKind::machine,
     "a machine file",
     {"compute", "network"},
     "give it as --machine {0}, after a deck",
     "`lockstep bench machine --save FILE` makes a machine file"}};

const KindOfFile& entry_of(FileKind kind) { return kinds_of_files[static_cast<std::size_t>(kind)]; }

}  // namespace

void require_kind(const DeckNode& file, FileKind wanted) {
  const auto has_keys = [&](const KindOfFile& kind) { return file.find(kind.keys[0]) && file.find(kind.keys[1]); };
  const KindOfFile& meant = entry_of(wanted);
  if (has_keys(meant)) return;
  for (const KindOfFile& found : kinds_of_files)
    if (has_keys(found))
      throw DeckError(file.position, "",
                      fmt::format("is {}, not {}; {}", found.name, meant.name,
                                  meant.advice.empty() ? fmt::format(fmt::runtime(found.use), file.position.file)
                                                       : std::string(meant.advice)));
}

}  // namespace lockstep
