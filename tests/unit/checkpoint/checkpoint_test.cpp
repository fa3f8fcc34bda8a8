// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checkpoint/checkpoint.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <limits>
#include <numeric>

#include "io/hdf5.hpp"
#include "io/output_file.hpp"
#include "support/scratch.hpp"
#include "support/whole_checkpoint.hpp"

namespace lockstep::test {
namespace {

template <class T>
NamedArray array_of(const std::string& name, const Shape& shape) {
  std::vector<T> values(static_cast<std::size_t>(shape.count()));
  std::iota(values.begin(), values.end(), T(1));
  const std::shared_ptr<std::byte[]> data(new std::byte[values.size() * sizeof(T)]);
  std::memcpy(data.get(), values.data(), values.size() * sizeof(T));
  return {name, dtype_of<T>(), shape, data};
}

Checkpoint example() {
  Checkpoint checkpoint;
  checkpoint.arrays.push_back(array_of<float>("/model/conv1/weight", {4, 1, 3, 3}));
  checkpoint.arrays.push_back(array_of<double>("/model/fc/bias", {7}));
  checkpoint.arrays.push_back(array_of<float>("/optimizer/velocity", {43}));
  checkpoint.arrays.push_back(array_of<std::int64_t>("/counters", {}));
  checkpoint.texts = {{"build", "here"}, {"deck", "run: {}\n"}, {"state", "step: 7\n"}};
  return checkpoint;
}

TEST(StateText, NumbersThatAreNoneAreRefused) {
  double value = 0;
  const auto restore = [&](const std::string& number) {
    restore_state(R"({"value": )" + number + "}", [&](StateFields& fields) { fields.real("value", value); });
  };
  restore("\"inf\"");
  EXPECT_EQ(value, std::numeric_limits<double>::infinity());
  for (const char* number : {"\"none\"", "\"1e999\"", "1e999", "[]"}) try {
      restore(number);
      ADD_FAILURE() << number;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::bad_data) << number;
    }
}

void expect_equal(const Checkpoint& a, const Checkpoint& b) {
  EXPECT_EQ(a.texts, b.texts);
  ASSERT_EQ(a.arrays.size(), b.arrays.size());
  for (const auto& array : a.arrays) {
    const auto same = std::find_if(b.arrays.begin(), b.arrays.end(),
                                   [&](const auto& x) { return x.name == array.name; });
    ASSERT_NE(same, b.arrays.end()) << array.name;
    EXPECT_EQ(array.dtype, same->dtype);
    EXPECT_EQ(array.shape, same->shape);
    EXPECT_EQ(std::memcmp(array.data.get(), same->data.get(), array.bytes()), 0);
  }
}

/// Parameters that simulated workers have read are never taken for those of replicas, nor the reverse.
TEST(CheckpointReader, TellReplicasFromSimulatedWorkers) {
  const ScratchFolder folder;
  Parameter parameter{};
  parameter.name = "fc/weight";
  parameter.shape = {3};
  parameter.range = {0, 3};
  using Names = std::vector<std::string>;
  const auto of = [&](bool worker, int count, const std::string& state = "") {
    const ShardedState numbers{.state = state,
                               .layout = std::vector{parameter},
                               .held = {},
                               .values = {},
                               .replica = ShardedState::Replica{1, count},
                               .of_simulated_worker = worker};
    return CheckpointReader(folder / "c.h5").summands_for(numbers, parameter).arrays;
  };
  const auto write = [&](const std::string& owners) {
    std::vector<NamedArray> arrays;
    for (const std::string& name :
         Names{"/model/", owners + "/0/parameters/", owners + "/1/parameters/", "/replicas/0/s/", "/replicas/1/s/"})
      arrays.push_back(array_of<float>(name + parameter.name, {3}));
    write_checkpoint(folder / "c.h5", {.arrays = std::move(arrays)});
  };
  const Names common{"/model/fc/weight"};
  const auto own = [](const std::string& owners) { return Names{owners + "/1/parameters/fc/weight"}; };
  const auto all = [](const std::string& owners) {
    return Names{owners + "/0/parameters/fc/weight", owners + "/1/parameters/fc/weight"};
  };

  write("/workers");
  EXPECT_EQ(of(true, 2), own("/workers"));
  EXPECT_EQ(of(true, 3), all("/workers"));
  EXPECT_EQ(of(false, 2), common);
  EXPECT_EQ(of(false, 2, "s"), Names{"/replicas/1/s/fc/weight"}) << "states are those of any that step by themselves";
  EXPECT_EQ(of(false, 3, "s"), (Names{"/replicas/0/s/fc/weight", "/replicas/1/s/fc/weight"}));
  write("/replicas");
  EXPECT_EQ(of(true, 2), common);
  EXPECT_EQ(of(false, 2), own("/replicas"));
  EXPECT_EQ(of(false, 3), all("/replicas"));
}

TEST(Checkpoint, ReadsWhatItWrote) {
  const ScratchFolder folder;
  write_checkpoint(folder / "c.h5", example());
  expect_equal(example(), read_checkpoint(folder / "c.h5"));
  EXPECT_EQ(folder.names(), std::vector<std::string>{"c.h5"});
  const auto parameters = read_parameters(folder / "c.h5").arrays;
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0].name, "/model/conv1/weight");
}

TEST(Checkpoint, EqualStatesAreEqualFiles) {
  const ScratchFolder folder;
  write_checkpoint(folder / "a.h5", example());
  ::sleep(1);
  write_checkpoint(folder / "b.h5", example());
  EXPECT_EQ(read_file(folder / "a.h5"), read_file(folder / "b.h5"));
}

/// A hash covers every byte. (tests/faults flips more bytes, and cuts files at every length.)
TEST(Checkpoint, NoFlippedByteGoesUnnoticed) {
  const ScratchFolder folder;
  write_checkpoint(folder / "c.h5", example());
  const std::string whole = read_file(folder / "c.h5");
  for (std::size_t place = 0; place < whole.size(); place += 3) {
    std::string damaged = whole;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x10);
    write_file(folder / "d.h5", damaged);
    SCOPED_TRACE(place);
    expect_error(ExitStatus::bad_data, "damaged", [&] { read_checkpoint(folder / "d.h5"); });
  }
}

TEST(Checkpoint, FlippedParameterIsNamed) {
  const ScratchFolder folder;
  write_checkpoint(folder / "c.h5", example());
  std::string bytes = read_file(folder / "c.h5");
  const float seven[] = {7, 8, 9};
  const auto place = bytes.find(std::string(reinterpret_cast<const char*>(seven), sizeof seven));
  ASSERT_NE(place, std::string::npos);
  bytes[place] = static_cast<char>(bytes[place] ^ 1);
  write_file(folder / "c.h5", bytes);
  expect_error(ExitStatus::bad_data, "/model/conv1/weight has changed: its checksum does not match",
               [&] { read_checkpoint(folder / "c.h5"); });
}

TEST(Checkpoint, RefusesFilesCutAtAnyLength) {
  const ScratchFolder folder;
  write_checkpoint(folder / "c.h5", example());
  const std::string whole = read_file(folder / "c.h5");
  for (std::size_t length = 0; length < whole.size(); length += 97) {
    write_file(folder / "cut.h5", whole.substr(0, length));
    expect_error(ExitStatus::bad_data, "", [&] { read_checkpoint(folder / "cut.h5"); });
  }
}

TEST(Checkpoint, WeightsFilesNeedNoChecksums) {
  const ScratchFolder folder;
  const float values[] = {1, 2, 3, 4};
  {
    Hdf5File file = Hdf5File::create(folder / "w.h5");
    file.write("/model/fc/weight", StoredType::of(DType::f32), {2, 2}, values);
  }
  EXPECT_EQ(read_parameters(folder / "w.h5").arrays.size(), 1u);
  expect_error(ExitStatus::bad_data, "does not begin with a manifest", [&] { read_checkpoint(folder / "w.h5"); });
  {
    Hdf5File file = Hdf5File::create(folder / "n.h5");
    file.write("/train/inputs", StoredType::of(DType::f32), {2, 2}, values);
  }
  expect_error(ExitStatus::bad_data, "holds no parameters", [&] { read_parameters(folder / "n.h5"); });
  expect_error(ExitStatus::missing_file, "no such file", [&] { read_parameters(folder / "none.h5"); });
}

TEST(Checkpoint, UnwritablePlacesAreNamed) {
  const ScratchFolder folder;
  expect_error(ExitStatus::cannot_create, "No such file or directory",
               [&] { write_checkpoint(folder / "no/c.h5", example()); });
  std::filesystem::create_directory(folder / "c.h5");
  expect_error(ExitStatus::cannot_create, "a folder has that name",
               [&] { write_checkpoint(folder / "c.h5", example()); });
}

/// Simulates a full disk by a limit on the size of files.
TEST(Checkpoint, FullDiskKeepsTheOldFile) {
  const ScratchFolder folder;
  write_checkpoint(folder / "c.h5", example());
  const std::string before = read_file(folder / "c.h5");
  Checkpoint large = example();
  large.arrays.push_back(array_of<float>("/model/large/weight", {1 << 20}));

  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 16, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  expect_error(ExitStatus::io_error, "cannot be written", [&] { write_checkpoint(folder / "c.h5", large); });
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);

  EXPECT_EQ(folder.names(), std::vector<std::string>{"c.h5"});
  EXPECT_EQ(read_file(folder / "c.h5"), before);
  write_checkpoint(folder / "c.h5", large);
  expect_equal(large, read_checkpoint(folder / "c.h5"));
}

TEST(Checkpoint, ListsAndPrunes) {
  const ScratchFolder folder;
  EXPECT_EQ(checkpoint_name(1234), "step-00001234.h5");
  EXPECT_TRUE(list_checkpoints(folder / "none").empty());
  for (const char* name : {"step-00000010.h5", "step-00000009.h5", "step-123456789.h5", "other.h5", "step-x.h5",
                           "step-00000011.h5.tmp-a.b-c-17", "step-00000011.h5.tmp-17x", "notes.tmp-a-3"})
    write_file(folder / name, "x");
  const auto found = list_checkpoints(folder.path());
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found.back().filename(), "step-123456789.h5");
  EXPECT_EQ(found.front().filename(), "step-00000009.h5");
  prune_checkpoints(folder.path(), 0);
  EXPECT_EQ(list_checkpoints(folder.path()).size(), 3u);
  prune_checkpoints(folder.path(), 2);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"notes.tmp-a-3", "other.h5", "step-00000010.h5",
                                                      "step-00000011.h5.tmp-17x", "step-123456789.h5", "step-x.h5"}));
  prune_checkpoints(folder / "none", 2);
}

TEST(Checkpoint, LatestIsALink) {
  const ScratchFolder folder;
  for (const std::int64_t step : {3, 12}) {
    write_checkpoint(folder / checkpoint_name(step), example());
    point_link(folder.path(), latest_name, checkpoint_name(step));
    EXPECT_EQ(std::filesystem::read_symlink(folder / "latest"), checkpoint_name(step));
    expect_equal(example(), read_checkpoint(folder / "latest"));
  }
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"latest", "step-00000003.h5", "step-00000012.h5"}));
}

TEST(ReplaceFile, LeavesNothingWithoutCommit) {
  const ScratchFolder folder;
  write_file(folder / "a", "old");
  {
    ReplaceFile replacement(folder / "a");
    write_file(replacement.temporary().string(), "new");
    EXPECT_EQ(read_file(folder / "a"), "old");
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
  ReplaceFile replacement(folder / "a");
  write_file(replacement.temporary().string(), "new");
  replacement.commit();
  EXPECT_EQ(read_file(folder / "a"), "new");
}

TEST(ReplaceFile, ReplacesWhatALinkLeadsTo) {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder / "there");
  for (const char* target : {"there/old", "there/new"}) {  // an existing target, and one that does not exist yet
    if (target == std::string("there/old")) write_file(folder / target, "old");
    std::filesystem::remove(folder / "link");
    std::filesystem::create_symlink("link2", folder / "link");
    std::filesystem::remove(folder / "link2");
    std::filesystem::create_symlink(target, folder / "link2");
    replace_text_file(folder / "link", "new");
    EXPECT_EQ(read_file(folder / target), "new");
    EXPECT_EQ(std::filesystem::read_symlink(folder / "link"), "link2");
    EXPECT_EQ(std::filesystem::read_symlink(folder / "link2"), target);
  }
  std::filesystem::create_symlink("round", folder / "round");
  expect_error(ExitStatus::cannot_create, "too many symbolic links",
               [&] { replace_text_file(folder / "round", "new"); });
}

TEST(ReplaceFile, RemovesWhatDeadProcessesHaveLeft) {
  const ScratchFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const ReplaceFile unfinished(folder / "a");
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const std::string left = folder.names().at(0);
  const ReplaceFile living(folder / "a"), other(folder / "b");
  for (const char* name : {"a.tmp-elsewhere-4711", "a.tmp-mine", "aa.tmp-x-1"}) write_file(folder / name, "");
  std::vector<std::string> kept = folder.names();
  std::erase(kept, left);
  ReplaceFile::remove_leftovers(folder / "a");
  EXPECT_EQ(folder.names(), kept);
}

TEST(ReplaceFile, LeavesWhatIsNoFile) {
  const ScratchFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", folder / "link");
  for (const char* name : {"pipe", "link"})
    expect_error(ExitStatus::cannot_create, "is not a file", [&] { replace_text_file(folder / name, "new"); });
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"link", "pipe"}));
}

}  // namespace
}  // namespace lockstep::test
