// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>

#include "checkpoint/checkpoint_reader.hpp"

// Reading and writing of checkpoints whose numbers are all in memory.
namespace lockstep::test {

inline NumberSource numbers_of(const Checkpoint& checkpoint) {
  return [&checkpoint](const NumberSink& sink) {
    for (std::size_t i = 0; i < checkpoint.arrays.size(); ++i)
      sink(i, {checkpoint.arrays[i].data.get(), checkpoint.arrays[i].bytes()});
  };
}

inline void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  lockstep::write_checkpoint(path, checkpoint, numbers_of(checkpoint));
}

inline Checkpoint read_checkpoint(const std::filesystem::path& path) {
  Checkpoint checkpoint = open_checkpoint(path);
  CheckpointReader numbers(path.string());
  constexpr std::int64_t piece = 1000;
  for (NamedArray& array : checkpoint.arrays) {
    const std::shared_ptr<std::byte[]> data(new std::byte[array.bytes()]);
    const std::int64_t count = array.shape.count();
    for (std::int64_t first = 0; first < count; first += piece)
      numbers.read(array.name, first, std::min(piece, count - first), array.dtype,
                   data.get() + static_cast<std::size_t>(first) * size_of(array.dtype));
    array.data = data;
  }
  return checkpoint;
}

}  // namespace lockstep::test
