// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/inspect.hpp"

#include <fmt/ranges.h>
#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/checksum.hpp"
#include "io/hdf5.hpp"

namespace lockstep {
namespace {

std::string kind_of(const std::vector<std::string>& datasets) {
  const auto holds = [&](std::string_view prefix) {
    return std::any_of(datasets.begin(), datasets.end(), [&](const auto& name) { return name.starts_with(prefix); });
  };
  if (holds("/state") && holds("/model/")) return "checkpoint";
  if (holds("/model/")) return "parameters";
  if (holds("/train/tokens")) return "dataset of tokens";
  if (holds("/train/")) return "dataset";
  return "HDF5 file";
}

std::string indented(const std::string& text, std::size_t max_lines) {
  std::string lines;
  std::size_t begin = 0;
  for (std::size_t n = 0; begin < text.size(); ++n) {
    if (n == max_lines) return lines + "    …\n";
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines += fmt::format("    {}\n", text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

Inspection inspect_file(const std::filesystem::path& path) {
  constexpr std::size_t shown_lines = 12;
  require_readable_file(path);
  const bool has_manifest = verify_manifest(path) == ManifestState::holds;
  const Hdf5File file = Hdf5File::open(path);
  const auto datasets = file.datasets();
  std::size_t width = 0;
  for (const auto& name : datasets) width = std::max(width, name.size());

  Inspection inspection;
  std::string texts;
  std::vector<std::string> broken;
  for (const auto& name : datasets) {
    const StoredArray array = file.shape_of(name);
    const bool is_text = array.type.kind == StoredType::Kind::text;
    std::string checksum = "no checksum";
    try {
      const ChecksumState state = check_dataset(file, name);
      if (state == ChecksumState::holds) checksum = "checksum ok";
      if (state == ChecksumState::broken) checksum = "checksum BAD";
    } catch (const Error&) {
      checksum = "UNREADABLE";
    }
    if (checksum == "checksum BAD" || checksum == "UNREADABLE") broken.push_back(name);
    inspection.text += fmt::format("  {:<{}}  {:<4}  {:<16}  {:>10}  {}\n", name, width, to_string(array.type),
                                   is_text ? "" : extents_text(array.extents),
                                   bytes_text(static_cast<double>(array.bytes())), checksum);
    // Texts without a checksum may be unreadable.
    if (is_text && checksum != "UNREADABLE" && checksum != "no checksum")
      texts += fmt::format("  {}:\n{}", name, indented(file.read_text(name), shown_lines));
  }
  inspection.text = fmt::format("{}: {}, {} datasets, {}{}\n", path.string(), kind_of(datasets), datasets.size(),
                                bytes_text(static_cast<double>(std::filesystem::file_size(path))),
                                has_manifest ? ", manifest ok" : "") +
                    inspection.text + texts;
  if (!broken.empty())
    inspection.problem = fmt::format("{}: {} of {} datasets are damaged ({}); make or copy the file again",
                                     path.string(), broken.size(), datasets.size(), fmt::join(broken, ", "));
  return inspection;
}

}  // namespace lockstep
