// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/array_file.hpp"

#include <fmt/format.h>

#include <numeric>

#include "base/error.hpp"
#include "io/hdf5.hpp"
#include "io/npy.hpp"
#include "io/output_file.hpp"
#include "io/raw_file.hpp"

namespace lockstep {

class ArrayFile::Format {
 public:
  Format(const std::filesystem::path& path, DType dtype, const std::vector<std::int64_t>& extents)
      : dtype_(dtype),
        columns_(std::accumulate(extents.begin() + 1, extents.end(), std::int64_t{1}, std::multiplies<>())),
        replacement_(path) {}
  virtual ~Format() = default;
  virtual void append(const void* numbers, std::int64_t rows) = 0;
  virtual void close() = 0;

  void commit() {
    close();
    replacement_.commit();
  }

 protected:
  const ReplaceFile& file() const { return replacement_; }

  DType dtype_;
  std::int64_t columns_;

 private:
  ReplaceFile replacement_;
};

namespace {

class Hdf5Array final : public ArrayFile::Format {
 public:
  Hdf5Array(const std::filesystem::path& path, const std::string& name, DType dtype,
            const std::vector<std::int64_t>& extents)
      : Format(path, dtype, extents),
        hdf5_(Hdf5File::create(file().temporary(), file().name())),
        rows_(std::make_unique<Hdf5Rows>(hdf5_.create_rows("/" + name, StoredType::of(dtype), extents))) {}

  void append(const void* numbers, std::int64_t rows) override {
    rows_->write(written_, rows, numbers);
    written_ += rows;
  }
  void close() override {
    rows_.reset();
    hdf5_.close();
  }

 private:
  Hdf5File hdf5_;
  std::unique_ptr<Hdf5Rows> rows_;
  std::int64_t written_ = 0;
};

/// Writes bytes one after the other.
class PlainArray : public ArrayFile::Format {
 public:
  using Format::Format;
  void close() override { raw_.close(); }

 protected:
  void put(const void* bytes, std::size_t count) {
    raw_.write(end_, bytes, count);
    end_ += count;
  }

 private:
  RawFile raw_ = file().open();
  std::uint64_t end_ = 0;
};

class NumpyArray final : public PlainArray {
 public:
  NumpyArray(const std::filesystem::path& path, DType dtype, const std::vector<std::int64_t>& extents)
      : PlainArray(path, dtype, extents) {
    const std::string header = npy_header(StoredType::of(dtype), extents);
    put(header.data(), header.size());
  }

  void append(const void* numbers, std::int64_t rows) override {
    put(numbers, static_cast<std::size_t>(rows * columns_) * size_of(dtype_));
  }
};

class CsvArray final : public PlainArray {
 public:
  CsvArray(const std::filesystem::path& path, const std::string& name, DType dtype,
           const std::vector<std::int64_t>& extents)
      : PlainArray(path, dtype, extents) {
    std::string names;
    for (std::int64_t i = 0; i < columns_; ++i)
      names += (i > 0 ? "," : "") + (extents.size() == 1 ? name : fmt::format("{}_{}", name, i));
    names += '\n';
    put(names.data(), names.size());
  }

  void append(const void* numbers, std::int64_t rows) override {
    std::string text;
    for (std::int64_t i = 0; i < rows * columns_; ++i) {
      if (dtype_ == DType::i32)
        fmt::format_to(std::back_inserter(text), "{}", static_cast<const std::int32_t*>(numbers)[i]);
      else if (dtype_ == DType::f32)
        fmt::format_to(std::back_inserter(text), "{:.9g}", static_cast<const float*>(numbers)[i]);
      else fmt::format_to(std::back_inserter(text), "{:.17g}", static_cast<const double*>(numbers)[i]);
      text += (i + 1) % columns_ == 0 ? '\n' : ',';
    }
    put(text.data(), text.size());
  }
};

}  // namespace

ArrayFile::ArrayFile(const std::filesystem::path& path, const std::string& name, DType dtype,
                     const std::vector<std::int64_t>& extents) {
  require_kind(path);
  const std::string kind = path.extension().string();
  if (kind == ".h5") format_ = std::make_unique<Hdf5Array>(path, name, dtype, extents);
  else if (kind == ".npy") format_ = std::make_unique<NumpyArray>(path, dtype, extents);
  else format_ = std::make_unique<CsvArray>(path, name, dtype, extents);
}

ArrayFile::~ArrayFile() = default;

void ArrayFile::require_kind(const std::filesystem::path& path) {
  const std::string kind = path.extension().string();
  validate(kind == ".h5" || kind == ".npy" || kind == ".csv", ExitStatus::bad_usage,
           "{}: its name does not say which kind of file to write; end it with .h5, .npy or .csv", path.string());
}

void ArrayFile::append(const void* numbers, std::int64_t rows) { format_->append(numbers, rows); }

void ArrayFile::commit() { format_->commit(); }

}  // namespace lockstep
