// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/executor.hpp"
#include "parallel/compression/compressed_sum.hpp"

namespace lockstep {
namespace {

/// Bytes reserved for a message: those of the largest one.
std::size_t room_of(const CompressConfig& config, const std::vector<CompressedBucket>& buckets,
                    std::size_t element_bytes) {
  const std::size_t most = largest_of(
      buckets, [&](const CompressedBucket& bucket) { return code_bytes(config, bucket, 1, element_bytes); });
  return in_whole_elements(most, element_bytes);
}

template <class T>
class GatheredSum final : public Collective {
 public:
  GatheredSum(const CompressedNumbers<T>& numbers, std::unique_ptr<Code<T>> code, std::unique_ptr<Transport> transport)
      : own_(numbers),
        code_(std::move(code)),
        exchange_(std::move(transport)),
        most_bytes_(room_of(own_.config, own_.buckets, sizeof(T))) {
    messages_.resize(most_bytes_ * static_cast<std::size_t>(exchange_.size()));
  }

  void start(std::int64_t first, std::int64_t) override {
    bucket_ = &own_.bucket_at(first);
    own_.add_errors(bucket_->place);
    std::byte* const sent = message(exchange_.rank());
    code_->encode(*bucket_, sent);
    const std::size_t bytes = code_bytes(own_.config, *bucket_, own_.step.number, sizeof(T));
    for (int rank = 0; rank < exchange_.size(); ++rank) {
      exchange_.to(rank) = {sent, bytes};
      exchange_.from(rank) = {message(rank), bytes};
    }
    exchange_.start();
  }

  bool advance() override {
    if (!bucket_) return true;
    if (!exchange_.advance()) return false;
    std::fill(own_.numbers + bucket_->place.first, own_.numbers + bucket_->place.end(), T(0));
    for (int rank = 0; rank < exchange_.size(); ++rank) code_->add(*bucket_, message(rank));
    bucket_ = nullptr;
    return true;
  }

 private:
  std::byte* message(int rank) { return messages_.data() + most_bytes_ * static_cast<std::size_t>(rank); }

  CompressedNumbers<T> own_;
  std::unique_ptr<Code<T>> code_;
  Exchange exchange_;
  std::size_t most_bytes_;  ///< of a message
  std::vector<std::byte> messages_;
  const CompressedBucket* bucket_ = nullptr;  ///< that is being summed; null: none is
};

}  // namespace

std::size_t gathered_buffer_bytes(const CompressConfig& config, const std::vector<CompressedBucket>& buckets, int ranks,
                                  std::size_t element_bytes) {
  std::size_t bytes = room_of(config, buckets, element_bytes) * static_cast<std::size_t>(ranks);
  if (config.method == CompressConfig::Method::topk)
    bytes += static_cast<std::size_t>(largest_tensor(buckets)) * element_bytes;
  return bytes;
}

template <class T>
std::unique_ptr<Collective> gathered_sum(const CompressedNumbers<T>& numbers, std::unique_ptr<Code<T>> code,
                                         std::unique_ptr<Transport> transport) {
  return std::make_unique<GatheredSum<T>>(numbers, std::move(code), std::move(transport));
}

template std::unique_ptr<Collective> gathered_sum(const CompressedNumbers<float>&, std::unique_ptr<Code<float>>,
                                                  std::unique_ptr<Transport>);
template std::unique_ptr<Collective> gathered_sum(const CompressedNumbers<double>&, std::unique_ptr<Code<double>>,
                                                  std::unique_ptr<Transport>);

}  // namespace lockstep
