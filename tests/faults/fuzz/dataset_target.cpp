// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens the splits of a dataset file, and reads some examples. The last byte of an input says how, the rest is the
// file.
#include <algorithm>

#include "data/dataset/hdf5_dataset.hpp"
#include "data/dataset/token_dataset.hpp"
#include "data/open_datasets.hpp"
#include "hdf5_files.hpp"
#include "support.hpp"

namespace lockstep::fuzz {
namespace {

void read_some(const Dataset* dataset) {
  if (!dataset) return;
  const std::vector<std::int64_t> examples{dataset->size() - 1, 0, std::min<std::int64_t>(1, dataset->size() - 1)};
  std::vector<std::byte> inputs(examples.size() * dataset->format().input_bytes());
  std::vector<std::byte> targets(examples.size() * dataset->format().target_bytes());
  dataset->read(examples, inputs.data(), targets.data());
  dataset->check_classes(10);
  dataset->check_tokens(10);
}

}  // namespace

void read(Bytes bytes) {
  static const Folder folder;
  static ScratchFile file(folder / "dataset.h5");
  [[maybe_unused]] static const bool once = (keep_hdf5_memory(), true);
  if (bytes.empty()) return;
  const std::string& path = file.holding(bytes.first(bytes.size() - 1));
  const bool of_tokens = bytes.back() & 1, from_file = bytes.back() & 2;
  constexpr std::int64_t sequence_length = 3;
  may_refuse([&] {
    if (from_file) {
      const auto opened = std::make_shared<const Hdf5File>(Hdf5File::open(path));
      constexpr std::size_t nothing_in_memory = 0;
      read_some(of_tokens ? open_token_dataset(opened, "/train", sequence_length, {}, nothing_in_memory).get()
                          : open_hdf5_dataset(opened, ExampleNames::in_group("/train"), {}, nothing_in_memory).get());
    } else {
      DataConfig config;
      config.file = path;
      if (of_tokens) config.sequence_length = sequence_length;
      const Datasets data = open_datasets(config, 1);
      read_some(data.train.get());
      read_some(data.validation.get());
    }
  });
}

void mend(std::span<std::uint8_t> bytes) { mend_hdf5_checksums(bytes); }

}  // namespace lockstep::fuzz
