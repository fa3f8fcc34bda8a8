// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace lockstep {

/// An IDX file of bytes (MNIST's own format), plain or gzip. Examples are read one after another.
class IdxFile {
 public:
  /// What a file must hold, and how many dimensions it may have.
  struct Wanted {
    std::uint32_t least_rank, most_rank;
    const char* words;
  };
  /// Reads the header. Throws missing_file or io_error; throws bad_data if the file is damaged, is not what is wanted,
  /// or promises more than a file of its size can hold.
  IdxFile(const std::string& name, const Wanted& wanted);
  IdxFile(IdxFile&&) noexcept;
  ~IdxFile();

  const std::string& name() const { return name_; }
  const std::vector<std::int64_t>& extents() const { return extents_; }
  std::int64_t examples() const { return extents_[0]; }
  std::int64_t bytes_of_example() const { return examples() == 0 ? 0 : promised_ / examples(); }
  /// Reads the next `count` examples. Throws bad_data if the file ends before them or is damaged.
  void read(std::int64_t count, std::uint8_t* to);
  /// Throws bad_data if the file has more than was read.
  void require_end();

 private:
  class Unpacked;
  Error truncated(std::int64_t bytes) const;

  std::string name_;
  std::unique_ptr<Unpacked> file_;
  std::vector<std::int64_t> extents_;
  std::int64_t promised_ = 0, read_ = 0;  ///< bytes of values: in the whole file, and read so far
};

struct LabelledImages {
  IdxFile images;  ///< N×F, N×H×W or N×H×W×C; not empty
  IdxFile labels;  ///< N
};

/// Throws what IdxFile throws, and bad_data if the files do not belong together.
LabelledImages open_labelled_images(const std::string& images_file, const std::string& labels_file);

}  // namespace lockstep
