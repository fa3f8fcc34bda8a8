// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import_output.hpp"

#include "base/error.hpp"
#include "io/replace_file.hpp"

namespace lockstep {

void check_output(const std::filesystem::path& output, bool overwrite, const std::vector<std::string>& inputs) {
  std::error_code ignored;  // what else is wrong is found when it is made
  for (const std::string& input : inputs)
    validate(!std::filesystem::equivalent(output, input, ignored), ExitStatus::bad_usage,
             "{}: is {}, which is read (what is made would replace it); choose another name", output.string(), input);
  validate(overwrite || !std::filesystem::exists(output, ignored), ExitStatus::cannot_create,
           "{}: exists already; choose another name, or add --overwrite", output.string());
}

void write_output(const std::filesystem::path& output, const std::function<void(Hdf5File&)>& write) {
  ReplaceFile replacement(output);
  Hdf5File file = Hdf5File::create(replacement.temporary());
  write(file);
  file.close();
  replacement.commit();
}

}  // namespace lockstep
