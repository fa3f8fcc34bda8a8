// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// A binary version of https://www.cs.toronto.edu/~kriz/cifar.html. A record is its labels, of one byte each, and the
/// red, the green and the blue plane of 32×32 bytes.
struct CifarFormat {
  std::string name;
  std::vector<std::string> train_files;
  std::string test_file;
  std::vector<int> classes;  ///< of each label; the last label is the target
  std::string archive;
  std::string folder;                     ///< that the archive holds
  std::vector<std::string> python_names;  ///< what is there of the pickled version
};

extern const CifarFormat cifar10;   ///< ten classes
extern const CifarFormat cifar100;  ///< twenty superclasses, and a hundred classes

/// `lockstep import cifar10` and `import cifar100`: images of 32×32×3, u8.
struct ImportCifarOptions {
  std::string folder;              ///< that has the format's files; or
  std::vector<std::string> files;  ///< these; those with the name of the test file are to test on
  std::string output;
  std::int64_t validation = 0;  ///< of the examples that are not to test on, the last N are for validation
  bool overwrite = false;
};

/// Reads the files piece by piece. Returns a line that says what was written. Throws missing_file, bad_data,
/// cannot_create, bad_usage.
std::string import_cifar(const CifarFormat& format, const ImportCifarOptions& options);

}  // namespace lockstep
