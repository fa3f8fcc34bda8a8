// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "api/session.hpp"
#include "api/network.hpp"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/log.hpp"
#include "data/data_config.hpp"
#include "io/checksum.hpp"
#include "io/manifest.hpp"
#include "mpi/serial_training.hpp"
#include "run/training/training_run.hpp"
#include "support/fixtures.hpp"
#include "support/whole_checkpoint.hpp"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr std::int64_t batch = 36, inputs_each = 5, classes = 3;

/// A small network for vectors and classes.
std::string deck(const std::string& more = "") {
  return "run: {steps: 50}\ndata: {memory: {inputs: [5]}}\nmodel: {layers: [{linear: {features: 16}}, relu, {linear: "
         "{features: 3}}]}\noptimizer: {type: sgd, learning_rate: 0.5, momentum: 0.9}\nbatch: {global: 36}\n" +
         more;
}

/// Examples `first` … of batch number `step`.
struct Examples {
  std::vector<float> inputs;
  std::vector<std::int32_t> targets;

  Examples(std::int64_t step, std::int64_t first, std::int64_t count) {
    for (std::int64_t i = first; i < first + count; ++i) {
      double sum = 0;
      for (std::int64_t k = 0; k < inputs_each; ++k) {
        inputs.push_back(static_cast<float>(
            test::filled(static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(i * inputs_each + k))));
        sum += inputs.back();
      }
      targets.push_back(sum < -0.5 ? 0 : sum < 0.5 ? 1 : 2);
    }
  }
  std::int64_t count() const { return static_cast<std::int64_t>(targets.size()); }
  Array x() const { return {inputs.data(), count()}; }
  Array y() const { return {targets.data(), count()}; }
};

/// A rank's share of a batch.
Examples share(std::int64_t step, const Communicator& comm) {
  const RankShare own = share_of(batch, comm.rank(), comm.size());
  return {step, own.first, own.count};
}

StepResult step(Session& session, const Examples& examples) { return session.step(examples.x(), examples.y()); }

/// All that a checkpoint holds as arrays. By one rank.
std::map<std::string, std::vector<std::byte>> arrays_of(const Checkpoint& checkpoint) {
  std::map<std::string, std::vector<std::byte>> arrays;
  for (const NamedArray& array : checkpoint.arrays)
    arrays[array.name].assign(array.data.get(), array.data.get() + array.bytes());
  return arrays;
}

class SessionTest : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.path() / name; }

  /// What a session says of this deck.
  static std::string complaint(const std::string& text) {
    try {
      const Session session(text, MPI_COMM_WORLD);
    } catch (const SharedError& error) {
      return error.what();
    }
    return "";
  }
  /// `state`: the trainer's, too.
  void expect_same(const std::string& one, const std::string& other, bool state = true) const {
    if (!comm_.is_root()) return;
    const Checkpoint first = test::read_checkpoint(one), second = test::read_checkpoint(other);
    EXPECT_FALSE(first.arrays.empty());
    EXPECT_EQ(arrays_of(first), arrays_of(second));
    if (state) {
      EXPECT_EQ(first.texts.at("state"), second.texts.at("state"));
    }
  }

  test::TemporaryFolder folder_;
  Communicator comm_ = Communicator::world();
};

// A Session that gets the examples of a run, in its batches, ends with the run's parameters, bit for bit.
TEST_F(SessionTest, TrainsAsARunDoes) {
  const std::string rest =
      "model: {layers: [{conv2d: {filters: 6, kernel: 3}}, batch_norm, relu, {max_pool: {kernel: 4}}, flatten, {dropout: "
      "{rate: 0.2}}, {linear: {features: 10}}]}\nbatch: {global: 37, micro: 5}\nparallel: {overlap: none}\n"
      "optimizer: {type: adamw, learning_rate: 0.002}\nschedule: {type: cosine}\n";
  const std::string normalize = "normalize: {mean: [0.1], std: [0.3]}";
  RunConfig config = test::read_run_config(
      "run: {steps: 6}\ndata: {synthetic: {kind: glyphs, train: 222, validation: 9}, "
      "shuffle: false, " +
          normalize + "}\n" + rest,
      file("run"));
  TrainingRun(config, comm_).run();

  const std::unique_ptr<Dataset> data = open_datasets(config.data, 1).train;
  const ExampleFormat& format = data->format();
  ASSERT_EQ(format.input_dtype, DType::u8);
  Session session(fmt::format("run: {{steps: 6}}\ndata: {{memory: {{inputs: [{}], input_type: u8}}, {}}}\n{}",
                              fmt::join(format.input_shape.extents(), ", "), normalize, rest),
                  MPI_COMM_WORLD);
  for (std::int64_t step = 0; step < 6; ++step) {
    const RankShare own = share_of(37, comm_.rank(), comm_.size());
    std::vector<std::int64_t> examples(static_cast<std::size_t>(own.count));
    for (std::size_t i = 0; i < examples.size(); ++i)
      examples[i] = 37 * step + own.first + static_cast<std::int64_t>(i);
    std::vector<std::uint8_t> inputs(examples.size() * format.input_bytes());
    std::vector<std::int32_t> targets(examples.size());
    data->read(examples, inputs.data(), targets.data());
    session.step(Array(inputs.data(), own.count), Array(targets.data(), own.count));
  }
  session.save(file("session.h5"));
  expect_same(file("session.h5"), file("run") + "/checkpoints/step-00000006.h5", false);
}

TEST_F(SessionTest, LearnsWhateverRankGivesWhichExamples) {
  Session even(deck(), MPI_COMM_WORLD), uneven(deck(), MPI_COMM_WORLD);
  const Examples test(1000, 0, 50);
  const Metrics before = even.evaluate(test.x(), test.y());
  for (std::int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(step(even, share(i, comm_)).examples, batch);
    step(uneven, comm_.is_root() ? Examples(i, 0, batch) : Examples(i, 0, 0));  // rank 0 has all of them
    EXPECT_NEAR(even.numbers().metrics.loss, uneven.numbers().metrics.loss, 1e-4);
    EXPECT_NEAR(even.numbers().gradient_norm, uneven.numbers().gradient_norm, 1e-3);
  }
  EXPECT_EQ(even.steps(), 40);
  const Metrics after = even.evaluate(test.x(), test.y());
  EXPECT_LT(after.loss, before.loss / 2);
  EXPECT_GT(after.accuracy.value(), 0.8);
}

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
  // Parameters that fit, and a state that ends in the middle.
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

/// The last array's last number is changed, and the manifest made anew: so the checks that come first find it sound.
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

TEST_F(SessionTest, OneRanksFaultIsSaidByAllAndChangesNothing) {
  Session session(deck(), MPI_COMM_WORLD);
  step(session, share(0, comm_));
  session.save(file("before.h5"));
  const Examples good = share(1, comm_);
  const bool last = comm_.rank() == comm_.size() - 1;
  const auto expect = [&](const Array& inputs, const Array& targets, const std::string& message) {
    try {
      last ? session.step(inputs, targets) : session.step(good.x(), good.y());
      ADD_FAILURE() << "nothing was thrown instead of: " << message;
    } catch (const SharedError& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  };
  const std::vector<double> doubles(200);
  expect(Array(doubles.data(), good.count()), good.y(), "the inputs are numbers of type f64, and f32 is wanted");
  expect(Array(good.inputs.data(), good.count() - 1), good.y(), "examples and the targets");
  expect(Array(static_cast<const float*>(nullptr), good.count()), good.y(), "no address");
  std::vector<std::int32_t> wrong = good.targets;
  wrong[0] = 3, wrong[1] = -1;
  expect(good.x(), Array(wrong.data(), good.count()),
         fmt::format("2 of the {} classes are not from 0 to 2", good.count()));
  const Kokkos::View<float* [4], Kokkos::LayoutRight, Kokkos::HostSpace> narrow("narrow", good.targets.size());
  expect(narrow, good.y(), "the inputs of an example are 4, and 5 is wanted");
  session.save(file("after.h5"));
  expect_same(file("before.h5"), file("after.h5"));
  step(session, good);
  EXPECT_THROW(session.step(Array(good.inputs.data(), 0), Array(good.targets.data(), 0)), SharedError);
}

TEST_F(SessionTest, ThrowsForALossThatIsNotFiniteAndGoesOn) {
  Session session(
      "run: {steps: 50}\ndata: {memory: {inputs: [5]}}\nmodel: {layers: [{linear: {features: 3}}]}\nbatch: {global: 36}\n"
      "loss_watch: {on_anomaly: stop}\n",
      MPI_COMM_WORLD);
  Examples examples = share(0, comm_);
  step(session, examples);
  session.save(file("before.h5"));
  examples.inputs[0] = std::numeric_limits<float>::quiet_NaN();
  try {
    step(session, examples);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const SharedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the loss is nan"));
  }
  session.save(file("after.h5"));
  expect_same(file("before.h5"), file("after.h5"));
  EXPECT_EQ(session.steps(), 1);
  EXPECT_THROW(session.numbers(), SharedError);
  step(session, share(1, comm_));
  EXPECT_TRUE(std::isfinite(session.numbers().metrics.loss));
}

// Without loss_watch a loss that is not finite is a warning, and the parameters that it leaves are an error.
TEST_F(SessionTest, IsRestoredBehindParametersThatAreNotFinite) {
  Session session(deck(), MPI_COMM_WORLD);
  Examples examples = share(0, comm_);
  step(session, examples);
  session.save(file("good.h5"));
  examples.inputs[0] = std::numeric_limits<float>::quiet_NaN();
  try {  // at once, or in the next step, by which all ranks know of it
    step(session, examples);
    EXPECT_THROW(session.save(file("bad.h5")), SharedError);
    step(session, share(1, comm_));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const SharedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("its batch, which the program gave, was not looked at"));
  }
  session.restore(file("good.h5"));
  step(session, share(1, comm_));
  EXPECT_TRUE(std::isfinite(session.numbers().metrics.loss));
}

TEST_F(SessionTest, TakesViews) {
  Session session(deck(), MPI_COMM_WORLD), by_pointer(deck(), MPI_COMM_WORLD);
  const Examples examples = share(0, comm_);
  const auto n = static_cast<std::size_t>(examples.count());
  const Kokkos::View<float* [5], Kokkos::LayoutRight, Kokkos::HostSpace> x("x", n);
  const Kokkos::View<std::int32_t*, Kokkos::HostSpace> y("y", n);
  std::memcpy(x.data(), examples.inputs.data(), n * 5 * sizeof(float));
  std::memcpy(y.data(), examples.targets.data(), n * sizeof(std::int32_t));
  session.step(x, y);
  step(by_pointer, examples);
  session.save(file("view.h5"));
  by_pointer.save(file("pointer.h5"));
  expect_same(file("view.h5"), file("pointer.h5"));
  EXPECT_EQ(std::memcmp(x.data(), examples.inputs.data(), n * 5 * sizeof(float)), 0) << "the program's own numbers";

  // On one rank alone: all of them throw.
  const Kokkos::View<float* [5], Kokkos::LayoutLeft, Kokkos::HostSpace> columns("columns", n);
  const Array wrong = comm_.is_root() && n > 1 ? Array(columns) : Array(x);
  EXPECT_THROW(session.step(wrong, y), SharedError);
}

// As the solver and its trainers do, but that both halves train.
TEST_F(SessionTest, TwoHalvesOfTheRanksTrainByThemselves) {
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, comm_.rank() % 2, comm_.rank(), &half);
  {
    int rank = 0, size = 0;
    MPI_Comm_rank(half, &rank);
    MPI_Comm_size(half, &size);
    Session session(deck(fmt::format("parallel: {{overlap: {}}}\n", comm_.rank() % 2 == 0 ? "poll" : "none")), half);
    const RankShare own = share_of(batch, rank, size);
    for (std::int64_t i = 0; i < 5 + comm_.rank() % 2; ++i) step(session, Examples(i, own.first, own.count));
    EXPECT_EQ(session.steps(), 5 + comm_.rank() % 2);
  }
  MPI_Comm_free(&half);
}

TEST_F(SessionTest, DecksSayNothingThatASessionWouldPassOver) {
  EXPECT_THAT(complaint(deck("checkpoint: {every_steps: 3}\n")),
              HasSubstr("checkpoint.every_steps: is 3, which is for runs"));
  EXPECT_THAT(complaint(deck("parallel: {audit_every: 3}\n")), HasSubstr("parallel.audit_every"));
  EXPECT_THAT(complaint("run: {steps: 5, output_dir: here}\ndata: {memory: {inputs: [5]}}\nmodel: {layers: [relu]}\n"),
              HasSubstr("deck:1:29: run.output_dir"));
  EXPECT_THAT(complaint("run: {steps: 5}\ndata: {memory: {inputs: [5]}, shuffle: false}\nmodel: {layers: [relu]}\n"),
              HasSubstr("data.shuffle"));
  EXPECT_THAT(complaint("run: {steps: 5}\ndata: {file: x.h5}\nmodel: {layers: [relu]}\n"), HasSubstr("has no memory"));
  EXPECT_THAT(complaint("run: {steps: 5}\ndata: {memory: {inputs: []}}\nmodel: {layers: [relu]}\n"),
              HasSubstr("must be the shape of one example"));
  EXPECT_THAT(complaint("run: {steps: 5}\ndata: {memory: {inputs: [5], targets: 3}}\nmodel: {layers: [relu]}\n"),
              HasSubstr("its targets are values"));
  EXPECT_THAT(complaint("run: {stepz: 5}\n"), HasSubstr("run.stepz"));
}

TEST_F(SessionTest, IsMadeFromAConfigToo) {
  const RunConfig config = read_run_config(parse_deck(deck(), "deck"));
  Session by_config(config, MPI_COMM_WORLD), by_text(deck(), MPI_COMM_WORLD);
  step(by_config, share(0, comm_));
  step(by_text, share(0, comm_));
  by_config.save(file("config.h5"));
  by_text.save(file("text.h5"));
  expect_same(file("config.h5"), file("text.h5"));
}

TEST_F(SessionTest, SharesMustBeWhatShardsNeed) {
  Session session(deck(fmt::format("parallel: {{deterministic: {{shards: {}}}}}\n", 2 * comm_.size())), MPI_COMM_WORLD);
  step(session, share(0, comm_));
  if (comm_.size() == 1) return;
  const Examples all(0, 0, batch), none(0, 0, 0);
  const Examples& own = comm_.is_root() ? all : none;
  EXPECT_THROW(step(session, own), SharedError);
  Session without(deck(), MPI_COMM_WORLD);  // starts with the same parameters
  Session with(deck(fmt::format("parallel: {{deterministic: {{shards: {}}}}}\n", 2 * comm_.size())), MPI_COMM_WORLD);
  EXPECT_NEAR(with.evaluate(own.x(), own.y()).loss, without.evaluate(all.x(), all.y()).loss, 1e-6);
}

// More examples than batch.global: in several micro-batches, and as good as a session that was made for them.
TEST_F(SessionTest, TakesLargerBatchesThanItWasMadeFor) {
  for (const std::string& more :
       {std::string(), fmt::format("parallel: {{deterministic: {{shards: {}}}}}\n", 2 * comm_.size())}) {
    SCOPED_TRACE(more);
    Session session(deck(more), MPI_COMM_WORLD);
    constexpr std::int64_t larger = 7 * batch;
    std::string text = deck(more);
    text.replace(text.find("global: 36"), 10, fmt::format("global: {}", larger));
    Session made_for_it(text, MPI_COMM_WORLD);
    const RankShare own = share_of(larger, comm_.rank(), comm_.size());
    for (std::int64_t i = 0; i < 5; ++i) {
      const Examples examples(i, own.first, own.count);
      step(session, examples);
      step(made_for_it, examples);
      EXPECT_NEAR(session.numbers().metrics.loss, made_for_it.numbers().metrics.loss, 1e-5);
      EXPECT_NEAR(session.numbers().gradient_norm, made_for_it.numbers().gradient_norm, 1e-4);
    }
  }
}

TEST_F(SessionTest, NumbersAreThoseOfTheLastStepWhateverIsEvaluated) {
  Session session(deck(), MPI_COMM_WORLD), other(deck(), MPI_COMM_WORLD);
  EXPECT_THROW(session.numbers(), SharedError);
  step(session, share(0, comm_));
  step(other, share(0, comm_));
  const Examples many(5, 0, 4 * batch);
  session.evaluate(many.x(), many.y());
  EXPECT_EQ(session.numbers().metrics.loss, other.numbers().metrics.loss);
  EXPECT_EQ(session.numbers().gradient_norm, other.numbers().gradient_norm);
}

TEST_F(SessionTest, RefusesTokensThatTheNetworkDoesNotKnow) {
  Session session(
      "run: {steps: 5}\ndata: {memory: {inputs: [4], input_type: tokens}}\nmodel: {layers: [{embedding: {vocabulary: 7, "
      "features: 3}}, {linear: {features: 7}}]}\nbatch: {global: 2}\n",
      MPI_COMM_WORLD);
  std::vector<std::int32_t> tokens{0, 6, 3, 2, 1, 1, 5, 4}, next{6, 3, 2, 1, 1, 5, 4, 0};
  session.step(Array(tokens.data(), 2), Array(next.data(), 2));
  session.save(file("tokens.h5"));
  if (comm_.rank() == comm_.size() - 1) tokens[5] = 7;
  EXPECT_THROW(session.step(Array(tokens.data(), 2), Array(next.data(), 2)), SharedError);
  Network network = Network::load(file("tokens.h5"), MPI_COMM_WORLD);
  tokens[5] = -1;
  std::vector<float> y(2 * 4 * 7);
  EXPECT_THROW(network.predict(Array(tokens.data(), 2), OutputArray(y.data(), 2)), Error);
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

TEST_F(SessionTest, SpeaksToTheSinkOfRankZeroAlone) {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  Session first(deck(), MPI_COMM_WORLD);
  first.save(file("first.h5"));
  const Session second(deck() + "", MPI_COMM_WORLD);
  const std::string with_weights = "run: {steps: 5}\ndata: {memory: {inputs: [5]}}\nmodel: {weights: " +
                                   file("first.h5") +
                                   ", layers: [{linear: {features: 16}}, relu, {linear: {features: 3}}]}\n";
  const Session third(with_weights, MPI_COMM_WORLD);
  set_log_sink({});
  ASSERT_EQ(lines.size(), comm_.is_root() ? 1u : 0u);
  if (comm_.is_root()) {
    EXPECT_THAT(lines[0], HasSubstr("4 of 4 parameters taken"));
  }
}

}  // namespace
}  // namespace lockstep
