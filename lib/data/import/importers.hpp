// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The importers, one for each format. Each reads files and writes a dataset file (docs/user/data.md).
namespace lockstep {

/// The examples that an importer writes to /validation.
struct HeldOutExamples {
  std::int64_t count = 0;
  bool are_last = false;  ///< the last ones of the file, and not a random choice, which is the same in each import
};

/// `lockstep import idx`: MNIST's own format (http://yann.lecun.com/exdb/mnist), plain or gzip.
struct ImportIdxOptions {
  std::string images;  ///< u8, N×H×W (stored as N×H×W×1), N×H×W×C or N×F
  std::string labels;  ///< u8, N
  std::string output;
  HeldOutExamples validation;
  bool overwrite = false;
};

/// Reads the files piece by piece. Returns a line that says what was written. Throws missing_file, bad_data,
/// cannot_create, bad_usage.
std::string import_idx(const ImportIdxOptions& options);

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
  HeldOutExamples validation;  ///< of those outside the test split
  bool overwrite = false;
};

/// Reads the files piece by piece. Returns a line that says what was written. Throws missing_file, bad_data,
/// cannot_create, bad_usage.
std::string import_cifar(const CifarFormat& format, const ImportCifarOptions& options);

/// `lockstep import npy`: two arrays in NumPy's .npy files.
struct ImportNpyOptions {
  std::string inputs;   ///< u8, f32, or f64, which becomes f32; N×F, N×T×C, N×H×W×C or N×D×H×W×C
  std::string targets;  ///< integers: classes; f32, or f64, which becomes f32: N×K values
  std::string output;
  HeldOutExamples validation;
  bool overwrite = false;
};

/// Reads the files piece by piece. Returns a line that says what was written. Throws missing_file, bad_data,
/// cannot_create, bad_usage.
std::string import_npy(const ImportNpyOptions& options);

/// `lockstep import text`: every character (Unicode code point) of a UTF-8 file becomes a token.
struct ImportTextOptions {
  std::string file;
  std::string output;
  double validation = 0;  ///< fraction of the characters, from the end, for validation; in [0, 1)
  bool overwrite = false;
  std::string vocabulary = {};  ///< an imported text, or a checkpoint, whose vocabulary is taken; empty: the text's own
};

/// Writes /train/tokens, /validation/tokens and /vocabulary, a text whose character t is token t; they are in order of
/// code points, or those of options.vocabulary. Reads the file twice, in pieces, so that a large one takes no more
/// memory than a small one. Returns a line that says what was written.
std::string import_text(const ImportTextOptions& options);

}  // namespace lockstep
