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
           "{}: is no file that can be read twice (a pipe, say); copy it into one", path);
  return RawFile(path, RawFile::Access::read);
}

void check_output(const std::filesystem::path& output, bool overwrite, const std::vector<std::string>& inputs) {
  std::error_code ignored;  // what else is wrong is found when it is made
  for (const std::string& input : inputs)
    validate(!std::filesystem::equivalent(output, input, ignored), ExitStatus::bad_usage,
             "{}: is {}, which is read (what is made would replace it); choose another name", output.string(), input);
  ReplaceFile::require_replaceable(output);
  validate(overwrite || !std::filesystem::exists(output, ignored), ExitStatus::cannot_create,
           "{}: exists already; choose another name, or add --overwrite", output.string());
  ReplaceFile::remove_leftovers(output);
}

void write_output(const std::filesystem::path& output, const std::function<void(Hdf5File&)>& write) {
  ReplaceFile replacement(output);
  Hdf5File file = Hdf5File::create(replacement.temporary(), replacement.name());
  write(file);
  file.close();
  replacement.commit();
}

}  // namespace lockstep
