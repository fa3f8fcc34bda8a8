// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// A binary version of https://www.cs.toronto.edu/~kriz/cifar.html. A record holds its labels, one byte each, and then
/// the red, the green and the blue plane of 32×32 bytes each.
struct CifarFormat {
  std::string name;
  std::vector<std::string> train_files;
  std::string test_file;
  std::vector<int> classes;  ///< number of classes of each label; the last label is the target
  std::string archive;
  std::string folder;                     ///< folder in the archive
  std::vector<std::string> python_names;  ///< files of the pickled version in its folder
};

extern const CifarFormat cifar10;   ///< 10 classes
extern const CifarFormat cifar100;  ///< 20 superclasses and 100 classes

/// `lockstep import cifar10` and `import cifar100`: images of 32×32×3, u8.
struct ImportCifarOptions {
  std::string folder;              ///< folder with the format's files, if `files` is empty
  std::vector<std::string> files;  ///< those with the name of the test file are the test split
  std::string output;
  std::int64_t validation = 0;  ///< the last N examples outside the test split are for validation
  bool overwrite = false;
};

/// Reads the files piece by piece. Returns a line that says what was written. Throws missing_file, bad_data,
/// cannot_create, bad_usage.
std::string import_cifar(const CifarFormat& format, const ImportCifarOptions& options);

}  // namespace lockstep
