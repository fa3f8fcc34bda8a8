// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/batch/data_loader.hpp"

#include <chrono>
#include <cstring>
#include <thread>

#include "data/dataset/hdf5_dataset.hpp"
#include "support/scratch.hpp"

namespace lockstep::test {
namespace {

using Bytes = std::vector<std::byte>;

MemoryDataset numbered(std::int64_t size) {
  constexpr std::int64_t pixels = 12;
  const auto count = static_cast<std::size_t>(size * pixels);
  const std::shared_ptr<std::byte[]> inputs(new std::byte[count]),
      targets(new std::byte[static_cast<std::size_t>(size) * 4]);
  for (std::size_t i = 0; i < count; ++i) inputs[i] = static_cast<std::byte>(i * 7 % 251);
  for (std::int32_t i = 0; i < size; ++i) std::memcpy(targets.get() + 4 * i, &i, 4);
  return {"numbered", size, {{2, 3, 2}, DType::u8, {}, DType::i32}, inputs, {targets, size - 1}};
}

/// A dataset whose reads take the given time, and fail after `good_reads` of them.
class FaultyDataset final : public Dataset {
 public:
  FaultyDataset(int good_reads, int milliseconds) : good_reads_(good_reads), milliseconds_(milliseconds) {}
  std::int64_t size() const override { return 100; }
  const ExampleFormat& format() const override { return format_; }
  std::string description() const override { return "faulty"; }
  void read(std::span<const std::int64_t>, void*, void*) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds_));
    if (good_reads_-- == 0) throw Error(ExitStatus::bad_data, "faulty: no more");
  }
  void check_classes(std::int64_t, std::int64_t) const override {}

 private:
  ExampleFormat format_{{3}, DType::f32, {}, DType::i32};
  mutable int good_reads_;
  int milliseconds_;
};

TEST(DataLoader, GivesWhatDirectReadsGive) {
  const MemoryDataset dataset = numbered(37);
  const Sampler::Options options{
      .dataset_size = 37, .global_batch = 10, .seed = 2, .epochs = 3, .rank = 1, .partition = {.ranks = 3}};
  for (const int depth : {2, 3, 8}) {
    DataLoader loader(dataset, Sampler(options), 4, {}, 2, depth);
    Sampler direct(options);
    while (auto plan = direct.next()) {
      const HostBatch* batch = loader.next();
      ASSERT_NE(batch, nullptr);
      EXPECT_EQ(batch->plan.examples, plan->examples);
      EXPECT_EQ(batch->plan.after, plan->after);
      Bytes inputs(plan->examples.size() * 12), targets(plan->examples.size() * 4);
      dataset.read(plan->examples, inputs.data(), targets.data());
      EXPECT_EQ(std::memcmp(batch->inputs.data(), inputs.data(), inputs.size()), 0);
      EXPECT_EQ(std::memcmp(batch->targets.data(), targets.data(), targets.size()), 0);
    }
    EXPECT_EQ(loader.next(), nullptr);
    EXPECT_EQ(loader.next(), nullptr);
  }
}

/// New shares hold from the same batch on on all ranks, however many batches each rank's thread has made by then.
TEST(DataLoader, SharesTheSameBatchesInAnotherWayFromOneBatchOn) {
  constexpr int ranks = 3, batches = 40, asked = 9;
  const MemoryDataset dataset = numbered(37);
  std::vector<std::vector<std::int64_t>> found(batches), parts(batches);
  for (int rank = 0; rank < ranks; ++rank) {
    DataLoader loader(dataset,
                      Sampler({.dataset_size = 37,
                               .global_batch = 10,
                               .seed = 2,
                               .rank = rank,
                               .partition = {.ranks = ranks, .micro = 10, .share_limit = 2}}),
                      8, {}, 2, 4);
    for (int i = 0; i < batches; ++i) {
      if (i == asked) loader.set_shares({2, 1, 7});
      if (i == asked + 1) loader.set_shares({4, 4, 2});
      // Only here has the loader's thread time to run far ahead.
      if (rank == 1 && i == asked - 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const HostBatch* batch = loader.next();
      found[i].insert(found[i].end(), batch->plan.examples.begin(), batch->plan.examples.end());
      if (rank == 0) parts[i] = batch->plan.rank_shares;
      EXPECT_EQ(batch->plan.rank_shares, parts[i]) << "batch " << i;
    }
  }
  EXPECT_TRUE(parts[asked + 3].empty());
  EXPECT_EQ(parts[asked + 4], (std::vector<std::int64_t>{2, 1, 7}));
  EXPECT_EQ(parts[asked + 5], (std::vector<std::int64_t>{4, 4, 2}));
  Sampler whole({.dataset_size = 37, .global_batch = 10, .seed = 2, .partition = {.micro = 10}});
  for (int i = 0; i < batches; ++i) EXPECT_EQ(found[i], whole.next()->examples) << "batch " << i;
}

TEST(DataLoader, LentBatchStaysUntilTheNextCall) {
  const MemoryDataset dataset = numbered(100);
  DataLoader loader(dataset, Sampler({.dataset_size = 100, .global_batch = 1, .shuffle = false, .epochs = 1}), 1, {}, 0,
                    2);
  for (std::int64_t i = 0; i < 100; ++i) {
    const HostBatch* batch = loader.next();
    if (i % 25 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the thread could overwrite it
    EXPECT_EQ(batch->plan.examples[0], i);
    std::int32_t target = -1;
    std::memcpy(&target, batch->targets.data(), 4);
    EXPECT_EQ(target, i);
  }
}

/// Copies to devices may run far behind: a slot keeps its numbers until they are copied.
TEST(DataLoader, SlotsAreFilledAgainOnceTheyAreCopied) {
  constexpr std::int32_t batches = 100;
  const MemoryDataset dataset = numbered(batches);
  const ExecSpace space, copies = space_beside(space);
  const OwnedTensor targets("targets", DType::i32, {batches});
  DataLoader loader(dataset, Sampler({.dataset_size = batches, .global_batch = 1, .shuffle = false, .epochs = 1}), 1,
                    {}, 0, 3);
  for (std::int32_t i = 0; i < batches; ++i) {
    const HostBatch* batch = loader.next();
    start_copy_from_host(copies, batch->targets.data(), {targets.get().as<std::int32_t>() + i, DType::i32, {1}});
    batch->copied.emplace(copies);
  }
  copies.fence();
  std::vector<std::int32_t> arrived(batches);
  copy_to_host(space, targets.get(), arrived.data());
  for (std::int32_t i = 0; i < batches; ++i) EXPECT_EQ(arrived[static_cast<std::size_t>(i)], i);
}

TEST(DataLoader, RanksWithoutExamplesGetEmptyBatches) {
  const MemoryDataset dataset = numbered(5);
  DataLoader loader(dataset,
                    Sampler({.dataset_size = 5, .global_batch = 2, .epochs = 1, .rank = 3, .partition = {.ranks = 4}}),
                    1, {}, 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(loader.next()->size(), 0);
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(DataLoader, CarriesExceptionsOver) {
  const FaultyDataset dataset(2, 0);
  DataLoader loader(dataset, Sampler({.dataset_size = 100, .global_batch = 4}), 4, {}, 0);
  EXPECT_NE(loader.next(), nullptr);
  EXPECT_NE(loader.next(), nullptr);
  expect_error(ExitStatus::bad_data, "faulty: no more", [&] { loader.next(); });
  expect_error(ExitStatus::bad_data, "faulty: no more", [&] { loader.next(); });
}

TEST(DataLoader, StopsAtAnyTime) {
  for (int taken = 0; taken < 6; ++taken)
    for (const int milliseconds : {0, 2}) {
      const FaultyDataset dataset(4, milliseconds);
      DataLoader loader(dataset, Sampler({.dataset_size = 100, .global_batch = 4}), 4, {}, 0);
      for (int i = 0; i < std::min(taken, 4); ++i) EXPECT_NE(loader.next(), nullptr);
    }
  const MemoryDataset dataset = numbered(10);
  for (int i = 0; i < 200; ++i) DataLoader(dataset, Sampler({.dataset_size = 10, .global_batch = 2}), 2, {}, 0);
}

TEST(DataLoader, ShareLargerThanTheRoomIsAnError) {
  const MemoryDataset dataset = numbered(10);
  DataLoader loader(dataset, Sampler({.dataset_size = 10, .global_batch = 4}), 3, {}, 0);
  expect_error(ExitStatus::internal, "room for 3", [&] { loader.next(); });
}

}  // namespace
}  // namespace lockstep::test
