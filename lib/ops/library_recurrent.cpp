// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/library_recurrent.hpp"

#include <algorithm>
#include <tuple>

#include "core/memory_plan.hpp"
#include "ops/convert.hpp"
#include "ops/library_plans.hpp"

namespace lockstep {
namespace {

class LibraryRecurrent final : public RecurrentSequence {
 public:
  LibraryRecurrent(const RecurrentShape& shape, std::shared_ptr<const RecurrentProducts> products)
      : shape_(shape), products_(std::move(products)) {}

  std::size_t saved_bytes() const override { return products_->saved_bytes(); }
  std::size_t workspace_bytes() const override { return library_at() + products_->workspace_bytes(); }

  void forward(const ExecSpace& space, const RecurrentTensors& t) override {
    pack(space, t);
    products_->forward(space, packed(t).data, t.x.data, t.y.data, t.saved.data, at(t, library_at()));
  }

  void backward(const ExecSpace& space, const RecurrentTensors& t, const Tensor& dy, const Tensor& dx,
                std::span<const Tensor> gradients, Store store) override {
    void* const scratch = at(t, library_at());
    pack(space, t);
    products_->backward_data(space, packed(t).data, t.y.data, dy.data, dx ? dx.data : at(t, unwanted_dx_at()),
                             t.saved.data, scratch);
    if (!gradients[0]) return;
    const Tensor own{at(t, gradients_at()), shape_.dtype, {products_->weight_count()}};
    fill_zero(space, own);
    products_->backward_weights(space, t.x.data, t.y.data, own.data, t.saved.data, scratch);
    for (const WeightPiece& piece : products_->pieces()) {
      const Tensor from = piece.in_library(own);
      const Tensor to = piece.in_parameter(gradients[piece.parameter]);
      if (store == Store::add) add_converted(space, from, to);
      else convert(space, from, to);
    }
  }

 private:
  // Layout of the workspace: weights in the library's layout, their gradients, a dx for callers that want none, the
  // library's own workspace.
  std::size_t weight_bytes() const {
    return align_up(static_cast<std::size_t>(products_->weight_count()) * size_of(shape_.dtype));
  }
  std::size_t gradients_at() const { return weight_bytes(); }
  std::size_t unwanted_dx_at() const { return 2 * weight_bytes(); }
  std::size_t library_at() const {
    const auto dx = static_cast<std::size_t>(shape_.n * shape_.length * shape_.in) * size_of(shape_.dtype);
    return unwanted_dx_at() + align_up(dx);
  }
  static void* at(const RecurrentTensors& t, std::size_t offset) {
    return static_cast<std::byte*>(t.workspace.data) + offset;
  }
  Tensor packed(const RecurrentTensors& t) const {
    return {t.workspace.data, shape_.dtype, {products_->weight_count()}};
  }
  void pack(const ExecSpace& space, const RecurrentTensors& t) const {
    for (const WeightPiece& piece : products_->pieces())
      copy(space, piece.in_parameter(t.weights[piece.parameter]), piece.in_library(packed(t)));
  }

  RecurrentShape shape_;
  std::shared_ptr<const RecurrentProducts> products_;
};

}  // namespace

std::vector<WeightPiece> merged(std::vector<WeightPiece> pieces) {
  std::ranges::sort(pieces, {}, [](const WeightPiece& piece) { return std::tuple(piece.parameter, piece.first); });
  std::vector<WeightPiece> found;
  for (const WeightPiece& piece : pieces) {
    if (!found.empty()) {
      WeightPiece& last = found.back();
      if (last.parameter == piece.parameter && last.first + last.count == piece.first &&
          last.place + last.count == piece.place) {
        last.count += piece.count;
        continue;
      }
    }
    found.push_back(piece);
  }
  return found;
}

std::unique_ptr<RecurrentSequence> library_recurrent(const RecurrentShape& shape, PlanRecurrent plan) {
  if (!may_begin_anywhere(shape.dtype, {shape.length * shape.in, shape.length * shape.outputs()})) return nullptr;
  try {
    return std::make_unique<LibraryRecurrent>(shape, plan(shape));
  } catch (const PlanError&) {
    return nullptr;
  }
}

}  // namespace lockstep
