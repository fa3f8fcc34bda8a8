// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/collective/algorithm.hpp"
#include "parallel/parallel_memory.hpp"
#include "support/scratch.hpp"

namespace lockstep {
namespace {

using Path = DeviceSums::Path;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* shared = "ranks 0, 1 share one device (node07 0000:3b:00.0)";

ParallelConfig asking_for(const char* all_reduce) {
  ParallelConfig config;
  config.sums.all_reduce = find_algorithm(all_reduce);
  return config;
}
DeviceFacts four_devices() { return {.ranks = 4, .all_have_devices = true, .has_nccl = true}; }

void expect_refusal(const DeviceFacts& facts, const char* why) {
  test::expect_error(ExitStatus::bad_deck, why, [&] { choose_device_sums(asking_for("nccl"), facts); });
}

TEST(DeviceSumsChoice, AutoTakesNcclWhereEachRankHasADevice) {
  const DeviceSums sums = choose_device_sums(asking_for("auto"), four_devices());
  EXPECT_EQ(sums.path, Path::nccl);
  EXPECT_THAT(sums.remark, IsEmpty());
}

TEST(DeviceSumsChoice, AutoSaysWhyItDoesWithoutNccl) {
  DeviceFacts facts = four_devices();
  facts.shared = shared;
  const DeviceSums sums = choose_device_sums(asking_for("auto"), facts);
  EXPECT_EQ(sums.path, Path::on_hosts);
  EXPECT_THAT(sums.remark, HasSubstr("nccl needs a device for each rank"));
}

TEST(DeviceSumsChoice, AutoSaysNothingWhereNcclIsNotToBeHad) {
  DeviceFacts one_rank = four_devices(), hosts = four_devices(), emulated = four_devices(), without = four_devices();
  one_rank.ranks = 1;
  hosts.all_have_devices = false;
  emulated.emulates_network = true;
  without.has_nccl = false;
  for (const DeviceFacts& facts : {one_rank, hosts, emulated, without}) {
    const DeviceSums sums = choose_device_sums(asking_for("auto"), facts);
    EXPECT_EQ(sums.path, Path::on_hosts);
    EXPECT_THAT(sums.remark, IsEmpty());
  }
}

TEST(DeviceSumsChoice, WhatTheDeckSaysGoesFirst) {
  for (const char* name : {"ring", "hierarchical", "tree"})
    EXPECT_EQ(choose_device_sums(asking_for(name), four_devices()).path, Path::on_hosts) << name;
  EXPECT_EQ(choose_device_sums(asking_for("mpi"), four_devices()).path, Path::mpi);
  EXPECT_EQ(choose_device_sums(asking_for("nccl"), four_devices()).path, Path::nccl);
  ParallelConfig measured, deterministic;
  measured.sums.all_reduce_table = "machine.yaml";
  deterministic.deterministic.present = true;
  EXPECT_EQ(choose_device_sums(measured, four_devices()).path, Path::on_hosts);
  EXPECT_EQ(choose_device_sums(deterministic, four_devices()).path, Path::on_hosts);
}

TEST(DeviceSumsChoice, MpiOfHostsIsSummedOnHosts) {
  EXPECT_EQ(choose_device_sums(asking_for("mpi"), {.ranks = 4}).path, Path::on_hosts);
  DeviceFacts emulated = four_devices();
  emulated.emulates_network = true;
  EXPECT_EQ(choose_device_sums(asking_for("mpi"), emulated).path, Path::on_hosts);
}

TEST(DeviceSumsChoice, NcclIsRefusedWhereItCannotBe) {
  DeviceFacts hosts = four_devices(), emulated = four_devices(), without = four_devices(), crowded = four_devices();
  hosts.all_have_devices = false;
  emulated.emulates_network = true;
  without.has_nccl = false;
  crowded.shared = shared;
  expect_refusal(hosts, "parallel.all_reduce: nccl sums between devices, but kernels run on hosts here; choose auto");
  expect_refusal(emulated, "nccl cannot be combined with --emulate-network");
  expect_refusal(without, "parallel.all_reduce: nccl is not in this build");
  expect_refusal(crowded, "nccl needs a device for each rank, but ranks 0, 1 share one device");
}

}  // namespace
}  // namespace lockstep
