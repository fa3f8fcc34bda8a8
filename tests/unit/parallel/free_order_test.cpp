// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/free_order.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

/// A FreeOrder whose events are told as text: "r<worker>:<part>" for a read, "p<worker>" for a gradient that is added
/// ("p<worker>u" if that is an update), "d<worker>" for a dropped one.
class ToldOrder {
 public:
  explicit ToldOrder(const FreeRules& rules) : order_(rules, [this] { return now_; }) {}

  std::string begin(std::int64_t version, std::int64_t sync) {
    order_.begin(version, sync, tell_);
    return std::exchange(told_, "");
  }
  std::string take(int worker, double now = 0) {
    now_ = now;
    order_.take(worker, tell_);
    return std::exchange(told_, "");
  }
  const std::vector<std::int64_t>& counts() const { return order_.staleness_counts(); }
  std::int64_t dropped() const { return order_.dropped(); }
  std::int64_t take_entries() { return std::ssize(order_.take_entries()); }

 private:
  double now_ = 0;
  std::string told_;
  const FreeOrder::Tell tell_ = [this](const StoreEvent& event) {
    using Kind = StoreEvent::Kind;
    if (event.kind == Kind::read) told_ += fmt::format("r{}:{} ", event.worker, event.part);
    else if (event.kind == Kind::push) told_ += fmt::format("p{}{} ", event.worker, event.is_update != 0 ? "u" : "");
    else if (event.kind == Kind::drop) told_ += fmt::format("d{} ", event.worker);
    else told_ += "synchronize ";
  };
  FreeOrder order_;
};

TEST(FreeOrder, IsThatInWhichWorkersComeWithinTheBound) {
  ToldOrder order({.workers = 3, .collect = 2, .parts_of_batch = 2, .bound = 1});
  EXPECT_EQ(order.begin(5, 9), "r0:10 r1:11 r2:12 ");
  EXPECT_EQ(order.take(1), "p1 r1:13 ");
  EXPECT_EQ(order.take(1), "p1u ") << "two ahead of the others";
  EXPECT_EQ(order.take(2), "p2 r2:14 ");
  EXPECT_EQ(order.take(0), "p0u r1:15 r0:16 ") << "worker 1 has waited for it, and comes first";
  EXPECT_EQ(order.take(2), "p2 r2:17 ");
  EXPECT_EQ(order.take(2), "p2u ");
  EXPECT_EQ(order.take(0), "p0 ");
  EXPECT_EQ(order.take(1), "p1u synchronize ");
  EXPECT_EQ(order.counts(), (std::vector<std::int64_t>{3, 5}));
}

/// Without a record, no entries are kept: nobody would take them, and there is one for each gradient.
TEST(FreeOrder, KeepsWhatARecordTakes) {
  for (const bool records : {false, true}) {
    ToldOrder order({.workers = 2, .records = records});
    order.begin(0, 9);
    for (const int worker : {0, 1, 1}) order.take(worker);
    EXPECT_EQ(order.take_entries(), records ? 3 : 0);
    EXPECT_EQ(order.take_entries(), 0);
    EXPECT_EQ(order.counts(), (std::vector<std::int64_t>{2, 1}));
  }
}

TEST(FreeOrder, DropsWhatComesTooLate) {
  ToldOrder order({.workers = 3, .collect = 2, .parts_of_batch = 3, .is_synchronous = true});
  EXPECT_EQ(order.begin(4, 6), "r0:12 r1:13 r2:14 ");
  EXPECT_EQ(order.take(2), "p2 ") << "all parts of the batch are given out";
  EXPECT_EQ(order.take(0), "p0u r2:15 r0:16 ");
  EXPECT_EQ(order.take(1), "d1 r1:17 ");
  EXPECT_EQ(order.take(0), "p0 ");
  EXPECT_EQ(order.take(1), "p1u ") << "the last update: rank 2 is still at its part";
  EXPECT_EQ(order.take(2), "d2 synchronize ");
  EXPECT_EQ(order.counts(), (std::vector<std::int64_t>{4}));
  EXPECT_EQ(order.dropped(), 2);
}

TEST(FreeOrder, GoesOnWithoutAWorkerThatNeverComes) {
  ToldOrder order({.workers = 3, .collect = 2, .parts_of_batch = 3, .is_synchronous = true});
  order.begin(0, 9);
  EXPECT_EQ(order.take(1), "p1 ");
  EXPECT_EQ(order.take(2), "p2u r1:3 r2:4 ");
  EXPECT_EQ(order.take(1), "p1 ") << "what is missing is under way: part 5 would come too late, and be late again";
  EXPECT_EQ(order.take(2), "p2u r1:6 r2:7 ");
  ToldOrder none({.workers = 4, .collect = 3, .parts_of_batch = 4, .is_synchronous = true});
  none.begin(0, 9);
  none.take(1);
  none.take(2);
  EXPECT_EQ(none.take(3), "p3u r1:4 r2:5 r3:6 ");
  none.take(1);
  EXPECT_EQ(none.take(2), "p2 ");
  EXPECT_EQ(none.take(3), "p3u r1:8 r2:9 r3:10 ");
}

TEST(FreeOrder, TakesTheFirstOfTwoInTheOrderOfParts) {
  ToldOrder order({.workers = 4, .collect = 3, .parts_of_batch = 3, .is_synchronous = true, .duplicates = 1});
  EXPECT_EQ(order.begin(0, 3), "r0:0 r1:1 r2:2 r3:0 ") << "nothing is known of who is slow";
  EXPECT_EQ(order.take(3, 1), "p3 ");
  EXPECT_EQ(order.take(2, 2), "") << "before it comes part 1";
  EXPECT_EQ(order.take(0, 4), "d0 r0:1 ") << "part 0 is done, part 1 is not";
  EXPECT_EQ(order.take(1, 8), "p1 p2u r3:3 r1:4 r2:5 ");
  EXPECT_EQ(order.take(0, 9), "d0 r0:4 ") << "rank 1 was the slowest";
  EXPECT_EQ(order.take(0, 14), "");
  EXPECT_EQ(order.take(3, 15), "p3 p0 ");
  EXPECT_EQ(order.take(2, 16), "p2u r3:6 r0:7 r2:8 ");
  EXPECT_EQ(order.take(1, 17), "d1 r1:8 ");
  EXPECT_EQ(order.take(2, 18), "");
  EXPECT_EQ(order.take(1, 19), "d1 r1:6 ") << "the part that it has computed again is done";
  EXPECT_EQ(order.take(3, 20), "p3 ");
  EXPECT_EQ(order.take(0, 21), "p0 p2u ");
  EXPECT_EQ(order.take(1, 22), "d1 synchronize ");
  EXPECT_EQ(order.counts(), (std::vector<std::int64_t>{9}));
  EXPECT_EQ(order.dropped(), 5);
}

TEST(FreeOrder, ComputesPartsOfWorkersThatNeverComeTwice) {
  ToldOrder order({.workers = 5, .collect = 3, .parts_of_batch = 3, .is_synchronous = true, .duplicates = 2});
  EXPECT_EQ(order.begin(0, 9), "r0:0 r1:1 r2:2 r3:0 r4:1 ") << "no part three times";
  EXPECT_EQ(order.take(2, 1), "");
  EXPECT_EQ(order.take(3, 2), "p3 ");
  EXPECT_EQ(order.take(4, 3), "p4 p2u r3:3 r4:4 r2:5 ") << "without workers 0 and 1";
  EXPECT_EQ(order.take(2, 4), "");
  EXPECT_EQ(order.take(3, 5), "p3 ");
  EXPECT_EQ(order.take(4, 6), "p4 p2u r3:6 r4:7 r2:8 ");
}

}  // namespace
}  // namespace lockstep
