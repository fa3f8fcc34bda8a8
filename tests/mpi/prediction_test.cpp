// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint_reader.hpp"
#include "io/hdf5.hpp"
#include "run/experiment/experiment.hpp"
#include "run/inference/predictor.hpp"
#include "support/fixtures.hpp"
#include "support/layer_harness.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t examples = 8;

/// A checkpoint of a golden network as it starts, and a file with its examples.
class GoldenNetwork {
 public:
  explicit GoldenNetwork(std::size_t index) : curve_(Json::parse(test::read_golden("curves.json")).at(index)) {
    const auto golden = Json::parse(test::read_golden("predictions.json")).at(index);
    EXPECT_EQ(golden.at("name"), curve_.at("name"));
    outputs_ = golden.at("outputs").get<std::vector<double>>();
  }

  const std::vector<double>& outputs() const { return outputs_; }
  std::string checkpoint() const { return folder_.path() / "c.h5"; }
  std::string data() const { return folder_.path() / "data.h5"; }
  std::string file(const std::string& name) const { return folder_.path() / name; }

  /// Writes both files. By one rank.
  void write() const {
    const auto extents = curve_.at("input").get<std::vector<std::int64_t>>();
    const Shape shape{std::span(extents)};
    const bool tokens = extents.size() == 1;
    // Micro-batches of three: several blocks, the last of which is smaller.
    DeckNode deck = parse_deck(
        fmt::format("run: {{steps: 1}}\ndata: {{file: gone.h5{}}}\nmodel: {}\nbatch: {{micro: 3}}\n",
                    tokens ? fmt::format(", sequence_length: {}", extents[0]) : "",
                    curve_.at("model").get<std::string>()),
        "deck.yaml");
    if (!tokens) apply_override(deck, fmt::format("model.input=[{}]", fmt::join(extents, ", ")));
    RunConfig config = read_run_config(deck);
    const ExampleFormat format{shape, tokens ? DType::i32 : DType::f32, {}, DType::i32};
    const ExecSpace space;
    Model model = make_model(config, make_graph(config, format), 1, Purpose::training);
    model.parameters().initialize(space, 1);  // for the running values
    test::golden_start(model.parameters(), model.graph());
    const auto optimizer = config.optimizer.make(model.parameters());
    CheckpointTransfer numbers(Communicator::alone(), replicated_states(model.parameters(), *optimizer, true));
    write_checkpoint(
        checkpoint(),
        {.arrays = arrays_of(numbers.states()), .texts = {{"deck", write_config(config)}, {"state", "{}"}}},
        source_of(numbers));
    Hdf5File data_file = Hdf5File::create(data());
    if (tokens) {  // one row of windows, and a token after the last window
      std::vector<std::int32_t> row = test::filling_tokens(500, examples * extents[0], 10);
      row.push_back(0);
      data_file.write("/test/tokens", StoredType::of(DType::i32), {static_cast<std::int64_t>(row.size())}, row.data());
    } else {
      const std::vector<double> filled = test::filling(500, examples * shape.count());
      const std::vector<float> values(filled.begin(), filled.end());
      std::vector<std::int64_t> all{examples};
      all.insert(all.end(), extents.begin(), extents.end());
      data_file.write("/x", StoredType::of(DType::f32), all, values.data());  // a file of inputs alone
    }
    data_file.close();
  }

  std::string bytes(const std::string& name) const {
    std::ifstream in(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::vector<double> numbers(const std::string& name) const {
    std::vector<double> values(outputs_.size());
    Hdf5File::open(file(name)).read("/outputs", StoredType::of(DType::f64), values.data());
    return values;
  }

 private:
  Json curve_;
  std::vector<double> outputs_;
  test::TemporaryFolder folder_;
};

class Prediction : public testing::TestWithParam<std::size_t> {};

TEST_P(Prediction, IsPyTorchsOnAnyNumberOfRanks) {
  const Communicator all = Communicator::world(), alone = all.split(all.rank());
  if (all.size() > 3) GTEST_SKIP() << "more ranks than that have no blocks";
  const GoldenNetwork network(GetParam());
  all.run_collectively([&] {
    if (all.is_root()) network.write();
  });
  predict({.checkpoint = network.checkpoint(), .data = network.data(), .output = network.file("all.h5")}, all);
  if (!all.is_root()) return;
  const std::vector<double> found = network.numbers("all.h5");
  const auto magnitude = [](double a, double b) { return std::abs(a) < std::abs(b); };
  const double largest = std::abs(*std::ranges::max_element(network.outputs(), magnitude));
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i] / largest, network.outputs()[i] / largest, 1e-5) << i;

  for (const char* kind : {".h5"})
    predict(
        {.checkpoint = network.checkpoint(), .data = network.data(), .output = network.file(std::string("one") + kind)},
        alone);
  EXPECT_EQ(network.numbers("one.h5"), found) << "the same bits";
}

INSTANTIATE_TEST_SUITE_P(Golden, Prediction,
                         testing::Range<std::size_t>(0, Json::parse(test::read_golden("curves.json")).size()));

}  // namespace
}  // namespace lockstep
