// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import_idx.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "data/import_output.hpp"
#include "io/checksum.hpp"

namespace lockstep {
namespace {

constexpr std::uint32_t u8_code = 0x08;  // the third byte of the magic number; the fourth is the number of dimensions

struct IdxArray {
  std::vector<std::int64_t> extents;
  std::vector<std::uint8_t> values;
  std::int64_t examples() const { return extents[0]; }
};

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
    validate(file_ != nullptr, ExitStatus::io_error, "{}: cannot be opened ({})", name, std::strerror(errno));
    gzbuffer(file_.get(), 1 << 18);
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

/// The values, in pieces: a header that promises more than there is must not make us allocate it.
std::vector<std::uint8_t> read_values(UnpackedFile& file, double promised) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  validate(promised <= 1e12, ExitStatus::bad_data,
           "{}: its header promises {:g} bytes (more than any file has); copy it again", file.name(), promised);
  const auto wanted = static_cast<std::size_t>(promised);
  std::vector<std::uint8_t> values;
  while (values.size() < wanted) {
    const std::size_t begin = values.size(), size = std::min(piece, wanted - begin);
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

void write_split(Hdf5File& file, const std::string& group, const IdxArray& images, const IdxArray& labels,
                 std::int64_t first, std::int64_t count) {
  const StoredType u8 = StoredType::of(DType::u8);
  std::vector<std::int64_t> extents = images.extents;
  extents[0] = count;
  if (extents.size() == 3) extents.push_back(1);
  const std::size_t image_bytes = images.values.size() / static_cast<std::size_t>(images.examples());
  write_checked(file, group + "/inputs", u8, extents,
                images.values.data() + static_cast<std::size_t>(first) * image_bytes);
  write_checked(file, group + "/targets", u8, {count}, labels.values.data() + first);
}

}  // namespace

std::string import_idx(const ImportIdxOptions& options) {
  check_output(options.output, options.overwrite);
  const IdxArray images = read_idx(options.images, 2, 4, "0x00000803: u8 images, N×H×W");
  const IdxArray labels = read_idx(options.labels, 1, 1, "0x00000801: u8 labels, N");
  const std::int64_t examples = images.examples();
  validate(examples == labels.examples(), ExitStatus::bad_data,
           "{}: has {} labels ({} has {} images); give files that belong together", options.labels, labels.examples(),
           options.images, examples);
  validate(!images.values.empty(), ExitStatus::bad_data, "{}: has no images ({}); give a file that has some",
           options.images, extents_text(images.extents));
  validate(options.validation >= 0 && options.validation < examples, ExitStatus::bad_usage,
           "--validation {}: leaves nothing to train on (there are {} examples); give 0 to {}", options.validation,
           examples, examples - 1);

  const std::int64_t train = examples - options.validation;
  write_output(options.output, [&](Hdf5File& file) {
    write_split(file, "/train", images, labels, 0, train);
    if (options.validation > 0) write_split(file, "/validation", images, labels, train, options.validation);
  });
  return fmt::format("{}: {} examples to train on, {} to validate on", options.output, train, options.validation);
}

}  // namespace lockstep
