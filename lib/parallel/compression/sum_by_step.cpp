// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/compression/compressed_sum.hpp"

namespace lockstep {
namespace {

template <class T>
class SumByStep final : public Collective {
 public:
  SumByStep(const CompressedNumbers<T>& numbers, std::unique_ptr<Collective> exact,
            std::unique_ptr<Collective> compressed)
      : own_(numbers), exact_(std::move(exact)), compressed_(std::move(compressed)) {}

  void start(std::int64_t first, std::int64_t count) override {
    running_ = own_.step.number > own_.config.from_step ? compressed_.get() : exact_.get();
    running_->start(first, count);
  }
  bool advance() override { return running_->advance(); }

 private:
  CompressedNumbers<T> own_;
  std::unique_ptr<Collective> exact_, compressed_;
  Collective* running_ = nullptr;
};

}  // namespace

template <class T>
std::unique_ptr<Collective> sum_by_step(const CompressedNumbers<T>& numbers, std::unique_ptr<Collective> exact,
                                        std::unique_ptr<Collective> compressed) {
  return std::make_unique<SumByStep<T>>(numbers, std::move(exact), std::move(compressed));
}

template std::unique_ptr<Collective> sum_by_step(const CompressedNumbers<float>&, std::unique_ptr<Collective>,
                                                 std::unique_ptr<Collective>);
template std::unique_ptr<Collective> sum_by_step(const CompressedNumbers<double>&, std::unique_ptr<Collective>,
                                                 std::unique_ptr<Collective>);

}  // namespace lockstep
