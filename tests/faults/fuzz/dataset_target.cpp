// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dataset files: both splits are opened and some examples read, held in memory and from the file.
#include <algorithm>

#include "data/data_config.hpp"
#include "data/hdf5_dataset.hpp"
#include "data/token_dataset.hpp"
#include "hdf5_checksums.hpp"
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
  DataConfig config;
  config.file = folder.file("dataset.h5", bytes);
  for (const bool tokens : {false, true})
    may_refuse([&] {
      if (tokens) config.sequence_length = 3;
      const Datasets data = open_datasets(config, 1);
      read_some(data.train.get());
      read_some(data.validation.get());
    });
  may_refuse([&] {
    const auto opened = std::make_shared<const Hdf5File>(Hdf5File::open(config.file));
    constexpr std::size_t nothing_in_memory = 0;
    read_some(open_hdf5_dataset(opened, "train", nothing_in_memory).get());
    read_some(open_token_dataset(opened, "train", 3, nothing_in_memory).get());
  });
}

void mend(std::vector<std::uint8_t>& bytes) { mend_hdf5_checksums(bytes); }

}  // namespace lockstep::fuzz
