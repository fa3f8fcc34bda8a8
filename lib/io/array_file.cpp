// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/array_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <numeric>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/hdf5.hpp"
#include "io/output_file.hpp"

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

constexpr std::string_view npy_magic = "\x93NUMPY";
constexpr char native_order = std::endian::native == std::endian::little ? '<' : '>';
/// Bytes of the magic and the version.
constexpr std::size_t version_end = 8;
/// Limit on header bytes: valid headers need some hundred, and a damaged length must not cause a huge allocation.
constexpr std::size_t longest_header = std::size_t{1} << 16;

template <class... Args>
void require_npy(bool ok, const RawFile& file, fmt::format_string<Args...> problem, Args&&... args) {
  if (!ok) throw Error(ExitStatus::bad_data, file.name() + ": " + fmt::format(problem, std::forward<Args>(args)...));
}

/// Values in a header's dictionary.
struct HeaderValues {
  std::optional<std::string> descr;  ///< "<f4"
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;
};

/// Parses {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }: exactly these three keys, in any order.
class HeaderReader {
 public:
  HeaderReader(const RawFile& file, std::string_view text) : file_(file), text_(text), left_(text) {}

  HeaderValues read() {
    HeaderValues values;
    expect('{');
    while (!take('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !values.descr) values.descr = descr();
      else if (key == "fortran_order" && !values.fortran_order) values.fortran_order = boolean();
      else if (key == "shape" && !values.shape) values.shape = shape();
      else wrong("'descr', 'fortran_order' and 'shape', each once");
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!left_.empty()) wrong("nothing more");
    if (!values.descr || !values.fortran_order || !values.shape)
      wrong("'descr', 'fortran_order' and 'shape', each once");
    return values;
  }

 private:
  [[noreturn]] void wrong(std::string_view expected) const {
    throw Error(ExitStatus::bad_data,
                fmt::format("{}: its header is damaged ({} is expected at byte {} of {}); save the array again, with "
                            "numpy.save",
                            file_.name(), expected, text_.size() - left_.size(), for_message(text_, 200)));
  }
  void skip_space() { left_.remove_prefix(std::min(left_.find_first_not_of(" \n"), left_.size())); }
  bool take(char wanted) {
    skip_space();
    if (!left_.starts_with(wanted)) return false;
    left_.remove_prefix(1);
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) wrong(std::string{'\'', wanted, '\''});
  }
  bool take_word(std::string_view word) {
    skip_space();
    if (!left_.starts_with(word)) return false;
    left_.remove_prefix(word.size());
    return true;
  }

  std::string string() {
    skip_space();
    const char quote = left_.starts_with('"') ? '"' : '\'';
    expect(quote);
    const std::size_t end = left_.find(quote);
    if (end == std::string_view::npos) wrong("the end of a string");
    const std::string text(left_.substr(0, end));
    left_.remove_prefix(end + 1);
    return text;
  }
  std::string descr() {
    skip_space();
    require_npy(!left_.starts_with('['), file_,
                "holds records of several fields (an array of numbers is expected); save each field separately, as "
                "X[\"field\"]");
    return string();
  }
  bool boolean() {
    if (take_word("True")) return true;
    if (!take_word("False")) wrong("True or False");
    return false;
  }
  std::int64_t extent() {
    skip_space();
    std::int64_t value = 0;
    const auto [end, problem] = std::from_chars(left_.data(), left_.data() + left_.size(), value);
    if (problem != std::errc() || value < 0) wrong("a number of elements");
    left_.remove_prefix(static_cast<std::size_t>(end - left_.data()));
    return value;
  }
  /// Parses (), (3,) or (3, 4); in Python, (3) is no tuple.
  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> extents;
    expect('(');
    while (!take(')')) {
      extents.push_back(extent());
      if (take(',')) continue;
      if (extents.size() == 1) wrong("','");
      expect(')');
      break;
    }
    return extents;
  }

  const RawFile& file_;
  std::string_view text_, left_;
};

/// Parses a type such as "<f4": byte order, kind and number of bytes.
StoredType type_of(const std::string& descr, const RawFile& file) {
  const std::string shown = for_message(descr, 40);
  const char order = descr.empty() ? '\0' : descr[0], kind = descr.size() < 2 ? '\0' : descr[1];
  require_npy(kind != 'O', file,
              "holds Python objects (unpickling them could run any code, so they are not read); save an array of "
              "numbers, as X.astype(\"f4\")");
  require_npy(
      kind != 'b', file,
      "holds bool (integers or reals are expected); save inputs as X.astype(\"f4\"), classes as y.astype(\"u1\")");
  std::size_t bytes = 0;
  for (const char digit : {'1', '2', '4', '8'})
    if (descr.size() == 3 && descr[2] == digit) bytes = static_cast<std::size_t>(digit - '0');
  const bool real = kind == 'f' && bytes >= 4, integer = (kind == 'i' || kind == 'u') && bytes > 0;
  require_npy((real || integer) && (order == '<' || order == '>' || (order == '|' && bytes == 1)), file,
              "holds '{}' (integers, f4 or f8 are expected); save it as one of these, as X.astype(\"f4\")", shown);
  require_npy(bytes == 1 || order == native_order, file,
              "holds '{}', whose byte order is not this machine's; save X.astype(\"{}{}\")", shown, native_order,
              descr.substr(1));
  return {real ? StoredType::Kind::real : StoredType::Kind::integer, bytes, kind != 'u'};
}

/// Refuses other kinds of files, recognized by their first bytes, with advice for each.
void refuse_others(const RawFile& file, std::string_view start) {
  require_npy(
      !start.starts_with("PK"), file,
      "is an archive of arrays (.npz); unpack it, with unzip or numpy.save(\"X.npy\", numpy.load(\"{}\")[NAME])",
      file.name());
  require_npy(!start.starts_with("\x80"), file,
              "is pickled (unpickling could run any code, so it is not read); save the array in it, with numpy.save");
  require_npy(start.starts_with(npy_magic), file,
              "is not a NumPy file (it does not begin with \\x93NUMPY); name a .npy file, written by numpy.save");
}

/// Throws unless the file ends exactly after the last number.
void check_size(const RawFile& file, const NpyArray& npy) {
  const StoredType& type = npy.array.type;
  const std::vector<std::int64_t>& extents = npy.array.extents;
  const std::string what = extents_text(extents) + " " + to_string(type);
  const std::uint64_t size = file.size() - npy.begin;
  std::uint64_t wanted = type.bytes;
  bool fits = wanted <= size;
  for (const std::int64_t extent : extents) {
    require_npy(extent > 0, file, "holds no numbers ({}); save an array that has some", what);
    fits = fits && wanted <= size / static_cast<std::uint64_t>(extent);
    if (fits) wanted *= static_cast<std::uint64_t>(extent);
  }
  require_npy(fits, file, "is truncated (its header promises {}, and {} bytes follow it); copy or save it again", what,
              size);
  require_npy(wanted == size, file, "has bytes after its numbers ({} for {}, which take {}); save one array per file",
              size, what, wanted);
}

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

std::string npy_header(const StoredType& type, const std::vector<std::int64_t>& extents) {
  constexpr std::size_t alignment = 64, before = version_end + 2;  // two bytes hold the length
  const char kind = type.kind == StoredType::Kind::real ? 'f' : type.is_signed ? 'i' : 'u';
  std::string header = fmt::format("{{'descr': '{}{}{}', 'fortran_order': False, 'shape': ({}{}), }}", native_order,
                                   kind, type.bytes, fmt::join(extents, ", "), extents.size() == 1 ? "," : "");
  header.resize((before + header.size() + alignment) / alignment * alignment - before - 1, ' ');
  header += '\n';
  return std::string(npy_magic) + std::string("\x01\x00", 2) + static_cast<char>(header.size() % 256) +
         static_cast<char>(header.size() / 256) + header;
}

NpyArray read_npy_header(const RawFile& file) {
  const std::uint64_t size = file.size();
  std::array<char, version_end + 4> start{};
  file.read(0, start.data(), std::min<std::uint64_t>(start.size(), size));
  refuse_others(file, std::string_view(start.data(), std::min<std::uint64_t>(start.size(), size)));
  const auto byte = [&](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(start[i])}; };
  require_npy(size >= version_end + 4, file, "is truncated (it ends within its header); copy or save it again");
  require_npy(byte(6) >= 1 && byte(6) <= 3 && byte(7) == 0, file,
              "is in version {}.{} of NumPy's format (1.0 to 3.0 are read); save it with numpy.save", byte(6), byte(7));
  const bool long_length = byte(6) > 1;
  const std::uint64_t length = byte(8) + (byte(9) << 8) + (long_length ? (byte(10) << 16) + (byte(11) << 24) : 0);
  NpyArray npy;
  npy.begin = version_end + (long_length ? 4 : 2) + length;
  require_npy(npy.begin <= size, file, "is truncated (it ends within its header); copy or save it again");
  require_npy(length <= longest_header, file, "has a header of {} bytes (at most {} are read); save the array again",
              length, longest_header);
  std::string text(length, '\0');
  file.read(npy.begin - length, text.data(), length);
  const HeaderValues values = HeaderReader(file, text).read();
  npy.array = {type_of(*values.descr, file), *values.shape};
  require_npy(!*values.fortran_order || values.shape->size() < 2, file,
              "is in Fortran order (its first index runs fastest); save numpy.ascontiguousarray(X)");
  check_size(file, npy);
  return npy;
}

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
