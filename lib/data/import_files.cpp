// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import_files.hpp"

#include "base/error.hpp"
#include "io/replace_file.hpp"

namespace lockstep {

RawFile open_input(const std::string& path) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  validate(!std::filesystem::is_directory(status), ExitStatus::bad_data, "{}: is a folder; name the file in it", path);
  validate(std::filesystem::exists(status), ExitStatus::missing_file,
           "{}: no such file; check the path (relative paths start at the working folder)", path);
  validate(std::filesystem::is_regular_file(status), ExitStatus::bad_data,
           "{}: is not a file that can be read twice (a pipe, say); copy it into one", path);
  return RawFile(path, RawFile::Access::read);
}

void write_output(const std::filesystem::path& output, const std::function<void(Hdf5File&)>& write) {
  ReplaceFile replacement(output);
  Hdf5File file = Hdf5File::create(replacement.temporary(), replacement.name());
  write(file);
  file.close();
  replacement.commit();
}

}  // namespace lockstep
