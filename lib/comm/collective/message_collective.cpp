// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Message-based collective operations: a schedule combined with a wire format.
#include <fmt/ranges.h>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "comm/collective/algorithm.hpp"
#include "comm/collective/executor.hpp"
#include "core/dtype.hpp"

namespace lockstep {
namespace {

/// T: type of the buffer; W: type of the wire.
template <class T, class W>
class WireFormat final : public Payload {
  static constexpr bool same = std::is_same_v<T, W>;

 public:
  /// Allocates space for the messages of a schedule.
  void prepare(const CommSchedule& schedule) {
    for (const CommRound& step : schedule) {
      if (!same) grow(outgoing_, step.send.count);
      if (!lands_in_place(step.receive)) grow(incoming_, step.receive.count);
    }
  }
  void look_at(T* begin) { begin_ = begin; }

  std::span<const std::byte> outgoing(const CommRound::Part& part) override {
    T* from = begin_ + part.first;
    if constexpr (same) {
      return std::as_bytes(std::span(from, static_cast<std::size_t>(part.count)));
    } else {
      W* to = outgoing_.data();
      for (std::int64_t i = 0; i < part.count; ++i) to[i] = W(from[i]);
      if (part.final)  // this rank must keep the same rounded values that the others get
        for (std::int64_t i = 0; i < part.count; ++i) from[i] = T(to[i]);
      return std::as_bytes(std::span(to, static_cast<std::size_t>(part.count)));
    }
  }

  std::span<std::byte> incoming(const CommRound::Part& part) override {
    const auto count = static_cast<std::size_t>(part.count);
    if (lands_in_place(part)) return std::as_writable_bytes(std::span(begin_ + part.first, count));
    return std::as_writable_bytes(std::span(incoming_).first(count));
  }

  void arrived(const CommRound::Part& part) override {
    T* to = begin_ + part.first;
    const W* from = incoming_.data();
    if (!part.final)
      for (std::int64_t i = 0; i < part.count; ++i) to[i] += T(from[i]);
    else if (!same)
      for (std::int64_t i = 0; i < part.count; ++i) to[i] = T(from[i]);
  }

 private:
  /// Results that need no conversion are received directly into the buffer.
  static bool lands_in_place(const CommRound::Part& part) { return same && part.final; }
  static void grow(std::vector<W>& room, std::int64_t count) {
    if (static_cast<std::int64_t>(room.size()) < count) room.resize(static_cast<std::size_t>(count));
  }

  T* begin_ = nullptr;
  std::vector<W> outgoing_, incoming_;
};

template <class T, class W>
class MessageCollective final : public Collective {
 public:
  MessageCollective(Scheduler scheduler, std::unique_ptr<Transport> transport, void* data)
      : scheduler_(scheduler), executor_(std::move(transport)), data_(static_cast<T*>(data)) {}

  void start(std::int64_t first, std::int64_t count) override {
    const auto [found, is_new] = schedules_.try_emplace(count);
    if (is_new) {
      found->second = scheduler_(executor_.rank(), executor_.size(), count);
      format_.prepare(found->second);
    }
    format_.look_at(data_ + first);
    executor_.start(found->second, format_);
  }
  bool advance() override { return executor_.advance(); }

 private:
  Scheduler scheduler_;
  Executor executor_;
  T* data_;
  WireFormat<T, W> format_;
  std::map<std::int64_t, CommSchedule> schedules_;  // keyed by the number of elements
};

std::unique_ptr<Collective> by_messages(Scheduler Algorithm::*operation, std::string_view name,
                                        const Algorithm& algorithm, std::unique_ptr<Transport> transport,
                                        const ReduceBuffer& buffer, DType wire) {
  validate(algorithm.*operation != nullptr, ExitStatus::bad_deck, "{} has no {} by messages; use one of {}",
           algorithm.name, name,
           fmt::join(algorithm_names([&](const Algorithm& other) { return other.*operation != nullptr; }), ", "));
  const auto make = [&]<class T, class W>(T, W) -> std::unique_ptr<Collective> {
    return std::make_unique<MessageCollective<T, W>>(algorithm.*operation, std::move(transport), buffer.data);
  };
  if (buffer.dtype == DType::f64) return make(double(), double());
  switch (wire) {
    case DType::bf16: return make(float(), bfloat16());
    case DType::f16: return make(float(), half());
    default: return make(float(), float());
  }
}

}  // namespace

std::unique_ptr<Collective> all_reduce(const Algorithm& algorithm, std::unique_ptr<Transport> transport,
                                       const ReduceBuffer& buffer, DType wire) {
  return by_messages(&Algorithm::all_reduce, "all-reduce", algorithm, std::move(transport), buffer, wire);
}

std::unique_ptr<Collective> reduce_scatter(const Algorithm& algorithm, std::unique_ptr<Transport> transport,
                                           const ReduceBuffer& buffer, DType wire) {
  return by_messages(&Algorithm::reduce_scatter, "reduce-scatter", algorithm, std::move(transport), buffer, wire);
}

std::unique_ptr<Collective> all_gather(const Algorithm& algorithm, std::unique_ptr<Transport> transport,
                                       const ReduceBuffer& buffer, DType wire) {
  return by_messages(&Algorithm::all_gather, "all-gather", algorithm, std::move(transport), buffer, wire);
}

}  // namespace lockstep
