// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "io/checksum.hpp"
#include "mpi/sessions.hpp"

namespace lockstep {
namespace {

using namespace test::sessions;
using testing::HasSubstr;

TEST_F(SessionTest, GoesOnFromACheckpointBitForBit) {
  Session whole(deck(), MPI_COMM_WORLD);
  for (std::int64_t i = 0; i < 9; ++i) {
    if (i == 5) whole.save(file("middle.h5"));
    step(whole, share(i, comm_));
  }
  whole.save(file("whole.h5"));
  Session second(deck("precision: {compute: fp32}\n"), MPI_COMM_WORLD);
  step(second, share(77, comm_));
  second.restore(file("middle.h5"));
  EXPECT_EQ(second.steps(), 5);
  for (std::int64_t i = 5; i < 9; ++i) step(second, share(i, comm_));
  second.save(file("second.h5"));
  expect_same(file("whole.h5"), file("second.h5"));
}

TEST_F(SessionTest, RefusesCheckpointsThatDoNotFitAndStaysAsItWas) {
  Session session(deck(), MPI_COMM_WORLD);
  step(session, share(0, comm_));
  session.save(file("before.h5"));
  Session larger(
      "run: {steps: 5}\ndata: {memory: {inputs: [5]}}\nmodel: {layers: [{linear: {features: 4}}]}\nbatch: {global: 36}\n",
      MPI_COMM_WORLD);
  larger.save(file("larger.h5"));
  EXPECT_THROW(session.restore(file("larger.h5")), SharedError);
  EXPECT_THROW(session.restore(file("none.h5")), SharedError);
  EXPECT_THROW(session.save(file("no/such/folder.h5")), SharedError);
  // A checkpoint with parameters that fit, and an incomplete state.
  comm_.run_collectively([&] {
    if (!comm_.is_root()) return;
    Checkpoint broken = test::read_checkpoint(file("before.h5"));
    broken.texts["state"] = R"({"step": 7})";
    test::write_checkpoint(file("broken.h5"), broken);
  });
  EXPECT_THROW(session.restore(file("broken.h5")), SharedError);
  EXPECT_EQ(session.steps(), 1);
  session.save(file("after.h5"));
  expect_same(file("before.h5"), file("after.h5"));
}

/// Changes the last number of the last array, and renews the manifest, so that the first checks find the file sound.
void spoil_numbers(const std::string& path) {
  std::vector<std::string> names;
  std::vector<FilePart> parts;
  const Checkpoint checkpoint = open_checkpoint(path);
  RawFile file(path, RawFile::Access::change);
  {
    const Hdf5File structure = Hdf5File::open(path);
    for (const NamedArray& each : checkpoint.arrays) {
      names.push_back(each.name);
      const std::uint64_t place = *structure.place(each.name, StoredType::of(each.dtype));
      std::vector<char> bytes(each.bytes());
      file.read(place, bytes.data(), bytes.size());
      if (each.name == checkpoint.arrays.back().name) {
        bytes.back() = static_cast<char>(bytes.back() ^ 1);
        file.write(place, bytes.data(), bytes.size());
      }
      RunningHash hash;
      hash.add(bytes.data(), bytes.size());
      parts.push_back({place, bytes.size(), hash.value(), each.name});
    }
  }
  write_manifest(file, manifest_block(names), std::move(parts));
}

TEST_F(SessionTest, ARestoreThatBreaksOffRefusesTheRestUntilOneSucceeds) {
  Session session(deck(), MPI_COMM_WORLD);
  step(session, share(0, comm_));
  session.save(file("good.h5"));
  session.save(file("spoilt.h5"));
  comm_.run_collectively([&] {
    if (comm_.is_root()) spoil_numbers(file("spoilt.h5"));
  });
  EXPECT_THROW(session.restore(file("spoilt.h5")), SharedError);
  const auto refused = [](const auto& call) {
    try {
      call();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const SharedError& error) {
      EXPECT_THAT(error.what(), HasSubstr("restore a checkpoint first"));
    }
  };
  const Examples examples = share(1, comm_);
  refused([&] { step(session, examples); });
  refused([&] { session.evaluate(examples.x(), examples.y()); });
  refused([&] { session.save(file("after.h5")); });
  EXPECT_THROW(session.numbers(), SharedError);
  session.restore(file("good.h5"));
  session.save(file("again.h5"));
  expect_same(file("good.h5"), file("again.h5"));
  step(session, examples);
}

// Without loss_watch, a loss that is not finite is a warning, and parameters that are not finite are an error.
TEST_F(SessionTest, IsRestoredBehindParametersThatAreNotFinite) {
  Session session(deck(), MPI_COMM_WORLD);
  Examples examples = share(0, comm_);
  step(session, examples);
  session.save(file("good.h5"));
  examples.inputs[0] = std::numeric_limits<float>::quiet_NaN();
  try {  // thrown at once, or in the next step, by when all ranks know of it
    step(session, examples);
    EXPECT_THROW(session.save(file("bad.h5")), SharedError);
    step(session, share(1, comm_));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const SharedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("its batch, which the program supplied, was not checked"));
  }
  session.restore(file("good.h5"));
  step(session, share(1, comm_));
  EXPECT_TRUE(std::isfinite(session.numbers().metrics.loss));
}

TEST_F(SessionTest, WarnsOfAnotherNetworkThanTheCheckpoints) {
  Session session(deck(), MPI_COMM_WORLD);
  session.save(file("relu.h5"));
  std::string text = deck();
  text.replace(text.find("relu"), 4, "gelu");
  Session gelu(text, MPI_COMM_WORLD);
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  session.restore(file("relu.h5"));
  EXPECT_TRUE(lines.empty());
  gelu.restore(file("relu.h5"));
  set_log_sink({});
  EXPECT_EQ(lines.empty(), !comm_.is_root());
}

}  // namespace
}  // namespace lockstep
