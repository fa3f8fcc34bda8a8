// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/import/importers.hpp"

#include "base/text.hpp"
#include "io/hdf5.hpp"
#include "io/inspect.hpp"
#include "support/scratch.hpp"

namespace lockstep::test {
namespace {

ImportTextOptions options_in(const ScratchFolder& folder, const std::string& text, double validation) {
  write_file(folder / "t.txt", text);
  return {folder / "t.txt", folder / "t.h5", validation, false};
}

std::vector<std::int32_t> tokens_of(const std::string& path, const std::string& split) {
  const Hdf5File file = Hdf5File::open(path);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.info(split).count()));
  file.read(split, StoredType::of(DType::i32), tokens.data());
  return tokens;
}

TEST(ImportText, TokensAreCharactersInOrder) {
  const ScratchFolder folder;
  const auto options = options_in(folder, "banana bandana", 0.25);
  EXPECT_EQ(import_text(options), options.output + ": 10 characters to train on, 4 to validate on, 5 distinct");
  EXPECT_EQ(tokens_of(options.output, "/train/tokens"), (std::vector<std::int32_t>{2, 1, 4, 1, 4, 1, 0, 2, 1, 4}));
  EXPECT_EQ(tokens_of(options.output, "/validation/tokens"), (std::vector<std::int32_t>{3, 1, 4, 1}));
  const Hdf5File file = Hdf5File::open(options.output);
  EXPECT_EQ(file.read_text("/vocabulary"), " abdn");
  EXPECT_EQ(to_string(file.info("/train/tokens").type), "u8");
}

TEST(ImportText, CodePointsAreTokens) {
  const ScratchFolder folder;
  const auto options = options_in(folder, "aα€😀a", 0);
  import_text(options);
  EXPECT_EQ(tokens_of(options.output, "/train/tokens"), (std::vector<std::int32_t>{0, 1, 2, 3, 0}));
  const Hdf5File file = Hdf5File::open(options.output);
  EXPECT_EQ(file.read_text("/vocabulary"), "aα€😀");
  EXPECT_FALSE(file.has("/validation/tokens"));
}

TEST(ImportText, LargeVocabulariesGetWiderTokens) {
  const ScratchFolder folder;
  std::vector<std::uint32_t> points;
  for (std::uint32_t point = 0x100; point < 0x300; ++point) points.push_back(point);
  const auto options = options_in(folder, encode_utf8(points), 0);
  import_text(options);
  EXPECT_EQ(to_string(Hdf5File::open(options.output).info("/train/tokens").type), "u16");
  EXPECT_EQ(tokens_of(options.output, "/train/tokens").back(), 511);
}

TEST(ImportText, RefusesWhatIsNoText) {
  const auto import = [](const std::string& text) {
    const ScratchFolder scratch;
    import_text(options_in(scratch, text, 0));
  };
  for (const std::string bad : {"ab\xff", "ab\xe2\x82", "ab\xc3z"})
    expect_error(ExitStatus::bad_data, "t.txt: byte 2 is not UTF-8", [&] { import(bad); });
  expect_error(ExitStatus::bad_data, "byte 1 is 0", [&] { import(std::string("a\0b", 3)); });
  const ScratchFolder folder;
  expect_error(ExitStatus::bad_data, "is empty", [&] { import_text(options_in(folder, "", 0)); });
  auto options = options_in(folder, "abc", 1.0);
  expect_error(ExitStatus::bad_usage, "is not a fraction", [&] { import_text(options); });
  options.validation = 0.9;
  expect_error(ExitStatus::bad_usage, "leaves nothing to train on", [&] { import_text(options); });
  options.file = folder / "none.txt";
  expect_error(ExitStatus::missing_file, "none.txt", [&] { import_text(options); });
  EXPECT_EQ(folder.names(), std::vector<std::string>{"t.txt"});
}

/// Pieces may end anywhere within a character.
TEST(ImportText, ReadsLargeFilesInPieces) {
  const ScratchFolder folder;
  std::string text = "x";
  const std::string line = "aα€😀";
  while (text.size() < (std::size_t{9} << 20)) text += line;
  const auto options = options_in(folder, text, 0.5);
  import_text(options);
  const auto count = 1 + (text.size() - 1) / line.size() * 4;
  std::vector<std::int32_t> tokens = tokens_of(options.output, "/train/tokens");
  const std::vector<std::int32_t> rest = tokens_of(options.output, "/validation/tokens");
  EXPECT_EQ(tokens.size(), count / 2);
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  ASSERT_EQ(tokens.size(), count);
  constexpr std::int32_t expected[] = {0, 2, 3, 4};  // the token of x is 1
  for (std::size_t i = 1; i < count; ++i) ASSERT_EQ(tokens[i], expected[(i - 1) % 4]) << i;
  EXPECT_EQ(inspect_file(options.output).problem, "") << "its checksums hold";
}

TEST(ImportText, AByteOrderMarkIsNoToken) {
  const ScratchFolder folder;
  const auto options = options_in(folder, "\uFEFFab\uFEFFa", 0);
  EXPECT_EQ(import_text(options), options.output + ": 4 characters to train on, 0 to validate on, 3 distinct");
  EXPECT_EQ(tokens_of(options.output, "/train/tokens"), (std::vector<std::int32_t>{0, 1, 2, 0}))
      << "the second is text";
  const ScratchFolder other;
  expect_error(ExitStatus::bad_data, "is empty", [&] { import_text(options_in(other, "\uFEFF", 0)); });
}

TEST(ImportText, TakesTheVocabularyOfAnotherText) {
  const ScratchFolder folder, elsewhere;
  const auto first = options_in(folder, "banana bandana", 0);
  import_text(first);
  auto options = options_in(elsewhere, "bad nab", 0);
  options.vocabulary = first.output;
  EXPECT_EQ(import_text(options),
            options.output + ": 7 characters to train on, 0 to validate on, 5 distinct of the 5 in " + first.output);
  EXPECT_EQ(tokens_of(options.output, "/train/tokens"), (std::vector<std::int32_t>{2, 1, 3, 0, 4, 1, 2}));
  options.overwrite = true;
  write_file(options.file, "nab");
  import_text(options);
  EXPECT_EQ(tokens_of(options.output, "/train/tokens"), (std::vector<std::int32_t>{4, 1, 2}));
  EXPECT_EQ(Hdf5File::open(options.output).read_text("/vocabulary"), " abdn");
}

TEST(ImportText, RefusesAVocabularyThatDoesNotFit) {
  const ScratchFolder folder, elsewhere;
  const auto first = options_in(folder, "banana", 0);
  import_text(first);
  auto options = options_in(elsewhere, "a band €", 0);
  options.vocabulary = first.output;
  expect_error(ExitStatus::bad_data,
               "characters that are not in the vocabulary of " + first.output + ": ' d€'; replace",
               [&] { import_text(options); });
  options.vocabulary = folder / "none.h5";
  expect_error(ExitStatus::missing_file, "none.h5", [&] { import_text(options); });
  {
    Hdf5File::create(folder / "other.h5");
  }
  options.vocabulary = folder / "other.h5";
  expect_error(ExitStatus::bad_data, "has no /vocabulary", [&] { import_text(options); });
  options.vocabulary = first.output;
  options.output = first.output;
  options.overwrite = true;
  expect_error(ExitStatus::bad_usage, "which is an input", [&] { import_text(options); });
  EXPECT_EQ(elsewhere.names(), std::vector<std::string>{"t.txt"});
}

TEST(ImportText, KeepsExistingFiles) {
  const ScratchFolder folder;
  auto options = options_in(folder, "abc", 0);
  write_file(options.output, "mine");
  expect_error(ExitStatus::cannot_create, "exists already", [&] { import_text(options); });
  EXPECT_EQ(read_file(options.output), "mine");
  options.overwrite = true;
  import_text(options);
  EXPECT_EQ(tokens_of(options.output, "/train/tokens").size(), 3u);
}

TEST(ImportText, DoesNotReplaceWhatItReads) {
  const ScratchFolder folder;
  auto options = options_in(folder, "abc", 0);
  std::filesystem::create_symlink(options.file, folder / "other.txt");
  for (const bool overwrite : {false, true})
    for (const std::string name : {"t.txt", "./t.txt", "other.txt"}) {
      options.output = folder / name;
      options.overwrite = overwrite;
      expect_error(ExitStatus::bad_usage, "which is an input", [&] { import_text(options); });
    }
  EXPECT_EQ(read_file(options.file), "abc");
}

TEST(ImportShakespeare, HasTheNumbersOfItsReadMe) {
  ImportTextOptions options;
  options.file = real_data("text/tinyshakespeare.txt");
  if (options.file.empty()) GTEST_SKIP() << "no tinyshakespeare.txt in ../shared/data or LOCKSTEP_DATA_DIR";
  const ScratchFolder folder;
  options.output = folder / "text.h5";
  options.validation = 0.1;
  EXPECT_EQ(import_text(options),
            options.output + ": 1003854 characters to train on, 111540 to validate on, 65 distinct");
}

}  // namespace
}  // namespace lockstep::test
