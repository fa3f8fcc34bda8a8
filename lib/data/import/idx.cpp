// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import/idx.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <vector>

#include "data/import/files.hpp"
#include "data/import/importers.hpp"
#include "io/hdf5.hpp"
#include "io/output_file.hpp"

namespace lockstep {
namespace {

constexpr std::uint32_t u8_code = 0x08;  // the third byte of the magic number; the fourth is the number of dimensions

/// Bytes that a file of this size may unpack to: deflate makes at most 1032 bytes of one.
double most_unpacked(const std::string& name) {
  std::error_code code;
  const auto bytes = std::filesystem::file_size(name, code);  // unknown for pipes
  return code ? std::numeric_limits<double>::infinity() : 1032.0 * static_cast<double>(bytes);
}

void add_examples(IdxFile& from, SplitRows& to) {
  constexpr std::int64_t bytes_in_piece = std::int64_t{4} << 20;
  const std::int64_t each = from.bytes_of_example();
  const std::int64_t most = std::clamp(bytes_in_piece / each, std::int64_t{1}, from.examples());
  std::vector<std::uint8_t> piece(static_cast<std::size_t>(most * each));
  for (std::int64_t first = 0; first < from.examples(); first += most) {
    const std::int64_t count = std::min(most, from.examples() - first);
    from.read(count, piece.data());
    to.append(piece.data(), count);
  }
  from.require_end();
  to.finish();
}

}  // namespace

/// A plain or gzip file, unpacked as it is read.
class IdxFile::Unpacked {
 public:
  explicit Unpacked(const std::string& name) : name_(name), file_(nullptr, gzclose) {
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

  /// Reads up to `bytes` bytes, fewer at the end of the file. Throws if a gzip file is cut or damaged.
  std::int64_t read(std::uint8_t* to, std::int64_t bytes) {
    constexpr std::int64_t at_once = 1 << 30;
    std::int64_t done = 0;
    for (std::int64_t got = 1; got > 0 && done < bytes; done += got)
      got = read_once(to + done, std::min(bytes - done, at_once));
    return done;
  }
  std::uint32_t read_number() {
    std::uint8_t b[4];
    validate(read(b, 4) == 4, ExitStatus::bad_data, "{}: is truncated (it ends within its header); copy it again",
             name_);
    return (std::uint32_t{b[0]} << 24) | (std::uint32_t{b[1]} << 16) | (std::uint32_t{b[2]} << 8) | b[3];
  }
  /// Reads to the end of the file, and returns how many bytes there were.
  std::int64_t rest() {
    std::array<std::uint8_t, 4096> piece;
    std::int64_t bytes = 0;
    while (const std::int64_t got = read(piece.data(), std::ssize(piece))) bytes += got;
    return bytes;
  }

 private:
  std::int64_t read_once(std::uint8_t* to, std::int64_t bytes) {
    const int got = gzread(file_.get(), to, static_cast<unsigned>(bytes));
    int status = Z_OK;
    const char* why = gzerror(file_.get(), &status);
    validate(status != Z_BUF_ERROR, ExitStatus::bad_data,
             "{}: is truncated (the gzip data end too early); copy it again", name_);
    validate(got >= 0 && (status == Z_OK || status == Z_STREAM_END), ExitStatus::bad_data,
             "{}: cannot be unpacked ({}); copy it again", name_, why);
    return got;
  }

  std::string name_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

IdxFile::IdxFile(const std::string& name, const Wanted& wanted) : name_(name), file_(std::make_unique<Unpacked>(name)) {
  const std::uint32_t magic = file_->read_number();
  const std::uint32_t rank = magic & 0xFFu;
  validate((magic >> 8) == u8_code && rank >= wanted.least_rank && rank <= wanted.most_rank, ExitStatus::bad_data,
           "{}: wrong magic number 0x{:08x} ({} is expected); give {}", name, magic, wanted.words,
           wanted.least_rank == 1 ? "the file of labels" : "the file of images");
  double promised = 1;
  for (std::uint32_t d = 0; d < rank; ++d) {
    extents_.push_back(file_->read_number());
    promised *= static_cast<double>(extents_.back());
  }
  validate(promised <= 1e12, ExitStatus::bad_data,
           "{}: its header promises {:g} bytes (more than any file has); copy it again", name, promised);
  promised_ = static_cast<std::int64_t>(promised);
  if (promised > most_unpacked(name)) throw truncated(file_->rest());
}

IdxFile::IdxFile(IdxFile&&) noexcept = default;
IdxFile::~IdxFile() = default;

Error IdxFile::truncated(std::int64_t bytes) const {
  return {ExitStatus::bad_data,
          fmt::format("{}: is truncated ({} bytes of values, its header promises {}); copy it again", name_, bytes,
                      promised_)};
}

void IdxFile::read(std::int64_t count, std::uint8_t* to) {
  const std::int64_t bytes = count * bytes_of_example();
  const std::int64_t got = file_->read(to, bytes);
  read_ += got;
  if (got < bytes) throw truncated(read_);
}

void IdxFile::require_end() {
  std::uint8_t extra = 0;
  validate(file_->read(&extra, 1) == 0, ExitStatus::bad_data,
           "{}: has bytes after its values (its header promises {}); copy it again", name_, promised_);
}

LabelledImages open_labelled_images(const std::string& images_file, const std::string& labels_file) {
  LabelledImages opened{IdxFile(images_file, {2, 4, "0x00000803: u8 images, N×H×W"}),
                        IdxFile(labels_file, {1, 1, "0x00000801: u8 labels, N"})};
  const IdxFile &images = opened.images, &labels = opened.labels;
  validate(images.examples() == labels.examples(), ExitStatus::bad_data,
           "{}: has {} labels ({} has {} images); give files that belong together", labels_file, labels.examples(),
           images_file, images.examples());
  validate(images.bytes_of_example() > 0, ExitStatus::bad_data, "{}: has no images ({}); give a file that has some",
           images_file, extents_text(images.extents()));
  return opened;
}

std::string import_idx(const ImportIdxOptions& options) {
  check_output(options.output, options.overwrite, {options.images, options.labels});
  LabelledImages all = open_labelled_images(options.images, options.labels);
  const Splits splits = hold_out(all.images.examples(), options.validation);
  std::vector<std::int64_t> image(all.images.extents().begin() + 1, all.images.extents().end());
  if (image.size() == 2) image.push_back(1);
  const StoredType u8 = StoredType::of(DType::u8);
  write_output(options.output, [&](Hdf5File& file) {
    SplitRows inputs(file, "inputs", u8, image, splits), targets(file, "targets", u8, {}, splits);
    add_examples(all.images, inputs);
    add_examples(all.labels, targets);
  });
  warn_of_missing_classes(options.output);
  return options.output + ": " + splits.text();
}

}  // namespace lockstep
