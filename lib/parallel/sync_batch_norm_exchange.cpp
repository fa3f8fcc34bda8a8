// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/sync_batch_norm_exchange.hpp"

#include <cstring>
#include <utility>

#include "base/duration.hpp"
#include "comm/spin_backoff.hpp"

namespace lockstep {
namespace {

// A message has, for each layer, its rows and channels (i64), and then two numbers for each channel: means and m2, or
// the two sums.
struct Header {
  std::int64_t rows, channels;
};

template <class C>
struct Section {
  Header* header;
  C *first, *second;

  explicit Section(std::byte* at) : header(reinterpret_cast<Header*>(at)) {
    first = reinterpret_cast<C*>(at + sizeof(Header));
    second = first + header->channels;
  }
  std::byte* end() const { return reinterpret_cast<std::byte*>(second + header->channels); }
};

template <class C>
std::size_t bytes_of(std::int64_t channels) {
  return sizeof(Header) + 2 * static_cast<std::size_t>(channels) * sizeof(C);
}

/// Merges means and the sums of squares about them, so that nothing cancels (Chan, Golub and LeVeque 1979).
template <class C>
void merge_moments(std::byte* lower, const std::byte* upper, std::size_t bytes) {
  auto* theirs = const_cast<std::byte*>(upper);
  for (std::byte* const end = lower + bytes; lower < end;) {
    const Section<C> a(lower), b(theirs);
    if (b.header->rows > 0) {
      const C before = static_cast<C>(a.header->rows), n = static_cast<C>(b.header->rows), share = n / (before + n);
      for (std::int64_t j = 0; j < a.header->channels; ++j) {
        const C distance = b.first[j] - a.first[j];
        a.first[j] += distance * share;
        a.second[j] += b.second[j] + distance * distance * before * share;
      }
      a.header->rows += b.header->rows;
    }
    lower = a.end();
    theirs = b.end();
  }
}

template <class C>
void add_sums(std::byte* lower, const std::byte* upper, std::size_t bytes) {
  auto* theirs = const_cast<std::byte*>(upper);
  for (std::byte* const end = lower + bytes; lower < end;) {
    const Section<C> a(lower), b(theirs);
    for (std::int64_t j = 0; j < 2 * a.header->channels; ++j) a.first[j] += b.first[j];
    lower = a.end();
    theirs = b.end();
  }
}

}  // namespace

SyncBatchNormExchange::SyncBatchNormExchange(const Topology& group, DType master, std::int64_t most_channels)
    : reduce_(group, static_cast<std::size_t>(most_channels) * (sizeof(Header) + 2 * size_of(master))),
      master_(master) {}

void SyncBatchNormExchange::start_moments(const ExecSpace& space, Layers layers) { start(space, layers, true); }
void SyncBatchNormExchange::start_sums(const ExecSpace& space, Layers layers) { start(space, layers, false); }

void SyncBatchNormExchange::start(const ExecSpace& space, Layers layers, bool moments) {
  layers_.assign(layers.begin(), layers.end());
  moments_ = moments;
  dispatch_master(master_, [&]<class C>(C) {
    std::byte* at = reduce_.data();
    for (const BatchStatistics* layer : layers_) {
      const Tensor& numbers = moments_ ? layer->moments : layer->sums;
      const Header header{layer->rows, numbers.shape[1]};
      std::memcpy(at, &header, sizeof(header));
      const Section<C> section(at);
      copy_to_host(space, numbers, section.first);
      at = section.end();
    }
    const auto bytes = static_cast<std::size_t>(at - reduce_.data());
    const auto combine = moments ? merge_moments<C> : add_sums<C>;
    reduce_.start(bytes, [combine, bytes](std::byte* lower, const std::byte* upper) { combine(lower, upper, bytes); });
  });
}

void SyncBatchNormExchange::finish(const ExecSpace& space) {
  const Timer timer;
  wait_until([&] { return reduce_.advance(); });
  exposed_seconds_ += timer.seconds();
  dispatch_master(master_, [&]<class C>(C) {
    std::byte* at = reduce_.data();
    for (BatchStatistics* layer : layers_) {
      const Section<C> section(at);
      copy_from_host(space, section.first, moments_ ? layer->moments : layer->sums);
      if (moments_) layer->rows = section.header->rows;
      at = section.end();
    }
  });
}

double SyncBatchNormExchange::take_exposed_seconds() { return std::exchange(exposed_seconds_, 0.0); }

}  // namespace lockstep
