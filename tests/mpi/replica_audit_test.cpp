// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/replica_audit.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "checkpoint/checkpoint.hpp"
#include "core/random.hpp"
#include "mpi/serial_training.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "run/experiment/experiment.hpp"
#include "run/training/training_run.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

class Audit : public testing::Test {
 protected:
  Audit() {
    model.parameters().initialize(space, 1);
    for (const auto& state : optimizer->states())
      copy(space, model.parameters().values({0, model.parameters().trained_size()}), state.values);
  }

  void flip(const Tensor& tensor, std::int64_t bit) {
    std::vector<std::uint8_t> bytes(tensor.bytes());
    copy_to_host(space, tensor, bytes.data());
    bytes[static_cast<std::size_t>(bit / 8)] ^= static_cast<std::uint8_t>(1u << (bit % 8));
    copy_from_host(space, bytes.data(), tensor);
  }

  /// The message of the audit; empty if all ranks agree.
  std::string complaint(std::int64_t step) {
    try {
      audit.compare(space, step);
    } catch (const SharedError& error) {
      EXPECT_EQ(error.status(), ExitStatus::internal);
      return error.what();
    }
    return "";
  }

  const ExecSpace space;
  const Communicator comm = Communicator::world();
  RunConfig config = test::read_run_config(
      "{data: {synthetic: {kind: random, shape: [6, 5, 2], classes: 7}}, run: {steps: 1},"
      " model: {layers: [{conv2d: {filters: 3, kernel: 3}, name: conv}, {batch_norm: {}, name: norm}, flatten,"
      " {linear: {features: 7}, name: fc}]}, optimizer: {type: adamw}}",
      "unused");
  Model model = make_model(config, open_experiment(config).graph, 1, Purpose::training);
  std::unique_ptr<Optimizer> optimizer = config.optimizer.make(model.parameters());
  ReplicaAudit audit{comm, nullptr, model.parameters(), *optimizer};
};

TEST_F(Audit, SaysNothingWhenAllAgree) { EXPECT_EQ(complaint(0), ""); }

TEST_F(Audit, FindsEveryFlippedBit) {
  if (comm.size() == 1) GTEST_SKIP() << "one rank has nobody to differ from";
  const auto& parameters = model.parameters().parameters();
  const RandomStream random(5, RandomPurpose::dataset, 0);
  for (std::uint64_t trial = 0; trial < 1000; ++trial) {
    const int faulty = static_cast<int>(random.below(static_cast<std::uint64_t>(comm.size()), 4 * trial));
    const Parameter& parameter = parameters[random.below(parameters.size(), 4 * trial + 1)];
    Tensor place = model.parameters().values(parameter);
    std::string name = parameter.name;
    // Trained parameters also have optimizer states, whose bits may flip.
    const std::uint64_t kind = random.below(optimizer->states().size() + 1, 4 * trial + 2);
    if (kind > 0 && parameter.kind == ParameterSpec::Kind::trained) {
      const auto& state = optimizer->states()[kind - 1];
      place.data = state.values.as<float>() + parameter.range.first;
      name += " (" + state.name + ")";
    }
    const auto bit = static_cast<std::int64_t>(random.below(8 * place.bytes(), 4 * trial + 3));
    if (comm.rank() == faulty) flip(place, bit);
    const std::string found = complaint(static_cast<std::int64_t>(trial));
    if (comm.rank() == faulty) flip(place, bit);
    ASSERT_THAT(found, testing::HasSubstr("first in '" + name + "'")) << "trial " << trial;
    // With two ranks, nobody knows which is right; with more, the majority is.
    if (comm.size() > 2) {
      ASSERT_THAT(found, testing::HasSubstr("rank " + std::to_string(faulty) + " on "));
    }
    ASSERT_THAT(found, testing::HasSubstr("step " + std::to_string(trial)));
  }
  EXPECT_EQ(complaint(1000), "");
}

/// Even ranks own one part of the model, odd ranks the other, as in groups that shard it.
TEST_F(Audit, FindsFlippedBitsOfWhatRanksOwn) {
  if (comm.size() < 3) GTEST_SKIP() << "all ranks own something else";
  const Communicator same = comm.split(comm.rank() % 2);
  ParameterBuffer& parameters = model.parameters();
  const Parameter &first = parameters.parameters()[0], &second = parameters.parameters()[1];
  const bool even = comm.rank() % 2 == 0;
  const ElementRange own = even ? ElementRange{0, second.range.first}
                                : ElementRange{second.range.first, parameters.trained_size() - second.range.first};
  parameters.own({own});
  const std::unique_ptr<Optimizer> divided = config.optimizer.make(parameters);
  for (const auto& state : divided->states()) fill_zero(space, state.values);
  ReplicaAudit of_parts(comm, &same, parameters, *divided);
  EXPECT_TRUE(of_parts.compares_anything());
  EXPECT_NO_THROW(of_parts.compare(space, 1));
  const int faulty = comm.size() - 1;
  const Tensor& numbers = divided->states()[1].values;
  if (comm.rank() == faulty) flip(numbers, 3);
  const std::string name = (faulty % 2 == 0 ? first : second).name + " (" + divided->states()[1].name + ")";
  try {
    of_parts.compare(space, 2);
    ADD_FAILURE() << "nothing was found";
  } catch (const SharedError& error) {  // thrown on all ranks
    EXPECT_THAT(error.what(), testing::HasSubstr("first in '" + name + "'"));
    EXPECT_THAT(error.what(), testing::HasSubstr(fmt::format("rank {} on ", faulty)));
  }
  // Without ranks that own the same part, states are not compared.
  EXPECT_NO_THROW(ReplicaAudit(comm, nullptr, parameters, *divided).compare(space, 3));
}

/// Flips a bit of one rank's parameters in the middle of a run, before its sixth update.
struct Fault {
  static constexpr int step = 6;
  static inline TrainingRun* run = nullptr;
  static inline int updates = 0;
  static inline bool is_here = false;

  static void strike(const char* region) {
    if (region != phase_names[static_cast<std::size_t>(RunPhase::optimizer)] || ++updates != step || !is_here) return;
    const ParameterBuffer& parameters = run->trainer().model().parameters();
    auto* word = static_cast<std::uint32_t*>(
        (parameters.windows().division.values ? parameters.owned().values() : parameters.values()).data);
    Kokkos::parallel_for(1, KOKKOS_LAMBDA(int) { *word ^= 1u << 20; });
    Kokkos::fence();
  }
};

/// The message of the run that meets the fault. Collective.
std::string fault_found(const Communicator& comm, const std::string& parallel) {
  const test::TemporaryFolder folder;
  std::string name = (folder.path() / "run").string();
  comm.broadcast(name);
  const RunConfig config = test::read_run_config(
      "{data: {synthetic: {kind: random, shape: [6], classes: 7, train: 64}}, run: {steps: 20},"
      " parallel: {audit_every: 4" +
          parallel +
          "}, checkpoint: {every_steps: 2},"
          " model: {layers: [{linear: {features: 7}}]}, optimizer: {type: sgd}}",
      name);
  std::optional<TrainingRun> run(std::in_place, config, comm);
  Fault::run = &*run;
  Fault::updates = 0;
  Fault::is_here = comm.rank() == comm.size() - 1;
  Kokkos::Tools::Experimental::set_push_region_callback(Fault::strike);
  std::string found;
  try {
    run->run();
  } catch (const SharedError& error) {
    found = error.what();
    EXPECT_EQ(error.status(), ExitStatus::internal);
  }
  Kokkos::Tools::Experimental::set_push_region_callback(nullptr);
  run.reset();  // waits for the checkpoint that is being written
  // The checkpoint of step 6 is due two steps before the next audit: replicas are also compared before it is written.
  EXPECT_THAT(found, testing::HasSubstr("step 6: replicas differ"));
  if (comm.is_root()) {
    const auto checkpoints = std::filesystem::path(name) / "checkpoints";
    EXPECT_TRUE(std::filesystem::exists(checkpoints / checkpoint_name(4)));
    EXPECT_FALSE(std::filesystem::exists(checkpoints / checkpoint_name(6)));
  }
  comm.barrier();
  return found;
}

TEST(AuditOfARun, StopsItAndKeepsTheLastGoodCheckpoint) {
  const Communicator comm = Communicator::world();
  if (comm.size() == 1) GTEST_SKIP() << "one rank has nobody to differ from";
  EXPECT_THAT(fault_found(comm, ", all_reduce: mpi"), testing::HasSubstr("or the MPI library's all-reduce"));
}

TEST(AuditOfARun, ComparesGroupsThatDivideTheModel) {
  const Communicator comm = Communicator::world();
  if (comm.size() != 4) GTEST_SKIP() << "for two groups of two ranks";
  EXPECT_THAT(fault_found(comm, ", shard: parameters, shard_group: 2, share_parameters: false"),
              testing::Not(testing::HasSubstr("MPI library")));
}

}  // namespace
}  // namespace lockstep
