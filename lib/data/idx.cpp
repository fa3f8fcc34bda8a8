// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/idx.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "io/hdf5.hpp"

namespace lockstep {
namespace {

constexpr std::uint32_t u8_code = 0x08;  // the third byte of the magic number; the fourth is the number of dimensions

/// A file, unpacked on the way if it is a gzip one.
class UnpackedFile {
 public:
  explicit UnpackedFile(const std::string& name) : name_(name), file_(nullptr, gzclose) {
    std::error_code code;
    const auto status = std::filesystem::status(name, code);
    validate(std::filesystem::exists(status), ExitStatus::missing_file, "{}: no such file; check the path", name);
    validate(!std::filesystem::is_directory(status), ExitStatus::bad_data, "{}: is a folder; name the file in it",
             name);
    errno = 0;
    file_.reset(gzopen(name.c_str(), "rb"));
    validate(file_ != nullptr, ExitStatus::io_error,
             "{}: cannot be opened ({}); check its permissions and its file system", name, std::strerror(errno));
  }

  /// Up to `bytes`; fewer at the end of the file. A gzip file that is cut or damaged throws.
  std::size_t read(std::uint8_t* to, std::size_t bytes) {
    const int got = gzread(file_.get(), to, static_cast<unsigned>(bytes));
    int status = Z_OK;
    const char* why = gzerror(file_.get(), &status);
    validate(status != Z_BUF_ERROR, ExitStatus::bad_data,
             "{}: is truncated (the gzip data end too early); copy it again", name_);
    validate(got >= 0 && (status == Z_OK || status == Z_STREAM_END), ExitStatus::bad_data,
             "{}: cannot be unpacked ({}); copy it again", name_, why);
    return static_cast<std::size_t>(got);
  }

  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

std::uint32_t read_number(UnpackedFile& file) {
  std::uint8_t b[4];
  validate(file.read(b, 4) == 4, ExitStatus::bad_data, "{}: is truncated (it ends within its header); copy it again",
           file.name());
  return (std::uint32_t{b[0]} << 24) | (std::uint32_t{b[1]} << 16) | (std::uint32_t{b[2]} << 8) | b[3];
}

/// The values, in growing pieces: a header that promises more than there is must not make us allocate it.
std::vector<std::uint8_t> read_values(UnpackedFile& file, double promised) {
  constexpr std::size_t least_piece = std::size_t{1} << 12, most_piece = std::size_t{64} << 20;
  validate(promised <= 1e12, ExitStatus::bad_data,
           "{}: its header promises {:g} bytes (more than any file has); copy it again", file.name(), promised);
  const auto wanted = static_cast<std::size_t>(promised);
  std::vector<std::uint8_t> values;
  while (values.size() < wanted) {
    const std::size_t begin = values.size();
    const std::size_t size = std::min(std::clamp(begin, least_piece, most_piece), wanted - begin);
    values.resize(begin + size);
    const std::size_t got = file.read(values.data() + begin, size);
    validate(got == size, ExitStatus::bad_data,
             "{}: is truncated ({} bytes of values, its header promises {}); copy it again", file.name(), begin + got,
             wanted);
  }
  std::uint8_t extra = 0;
  validate(file.read(&extra, 1) == 0, ExitStatus::bad_data,
           "{}: has bytes after its values (its header promises {}); copy it again", file.name(), wanted);
  return values;
}

IdxArray read_idx(const std::string& name, std::uint32_t least_rank, std::uint32_t most_rank,
                  const std::string& wanted) {
  UnpackedFile file(name);
  const std::uint32_t magic = read_number(file);
  const std::uint32_t rank = magic & 0xFFu;
  validate((magic >> 8) == u8_code && rank >= least_rank && rank <= most_rank, ExitStatus::bad_data,
           "{}: wrong magic number 0x{:08x} ({} is expected); give {}", name, magic, wanted,
           least_rank == 1 ? "the file of labels" : "the file of images");
  IdxArray array;
  double count = 1;
  for (std::uint32_t d = 0; d < rank; ++d) {
    array.extents.push_back(read_number(file));
    count *= static_cast<double>(array.extents.back());
  }
  array.values = read_values(file, count);
  return array;
}

}  // namespace

LabelledImages read_labelled_images(const std::string& images_file, const std::string& labels_file) {
  LabelledImages read{read_idx(images_file, 2, 4, "0x00000803: u8 images, N×H×W"),
                      read_idx(labels_file, 1, 1, "0x00000801: u8 labels, N")};
  validate(read.images.examples() == read.labels.examples(), ExitStatus::bad_data,
           "{}: has {} labels ({} has {} images); give files that belong together", labels_file, read.labels.examples(),
           images_file, read.images.examples());
  validate(!read.images.values.empty(), ExitStatus::bad_data, "{}: has no images ({}); give a file that has some",
           images_file, extents_text(read.images.extents));
  return read;
}

}  // namespace lockstep
