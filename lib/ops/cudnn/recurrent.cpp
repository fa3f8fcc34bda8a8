// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.hpp"
#include "ops/cudnn/graph.hpp"
#include "ops/products/library_products.hpp"

// lstm and gru use cuDNN's older API, because there are no graphs for them.

namespace lockstep {
namespace {

void expect_planned(cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw PlanError(std::string("cuDNN cannot plan this recurrent layer: ") + cudnnGetErrorString(status));
}

void expect_started(cudnnStatus_t status) {
  validate(status == CUDNN_STATUS_SUCCESS, ExitStatus::internal, "cuDNN failed to run its plan: {}",
           cudnnGetErrorString(status));
}

/// A descriptor that is destroyed with this object.
template <class Handle, cudnnStatus_t (*create)(Handle*), cudnnStatus_t (*destroy)(Handle)>
class Described {
 public:
  Described() { expect_planned(create(&handle_)); }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;
  ~Described() { static_cast<void>(destroy(handle_)); }
  operator Handle() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using TensorDescriptor = Described<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using DropoutDescriptor =
    Described<cudnnDropoutDescriptor_t, cudnnCreateDropoutDescriptor, cudnnDestroyDropoutDescriptor>;
using LayerDescriptor = Described<cudnnRNNDescriptor_t, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor>;
using SequencesDescriptor =
    Described<cudnnRNNDataDescriptor_t, cudnnCreateRNNDataDescriptor, cudnnDestroyRNNDataDescriptor>;

cudnnDataType_t cudnn_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDNN_DATA_FLOAT;
    case DType::bf16: return CUDNN_DATA_BFLOAT16;
    case DType::f16: return CUDNN_DATA_HALF;
    default: throw PlanError("cuDNN is used only for f32, bf16 and f16");
  }
}

int narrowed(std::int64_t number) {
  if (number > std::numeric_limits<int>::max()) throw PlanError("cuDNN takes sizes of at most 32 bits");
  return static_cast<int>(number);
}

class CudnnRecurrent final : public RecurrentProducts {
 public:
  explicit CudnnRecurrent(const RecurrentShape& shape) : handle_(CudnnDevice::current().handle()) {
    if (handle_ == nullptr) throw PlanError("cuDNN plans recurrent layers only on a device that is present");
    describe(shape);
    std::size_t bytes = 0;
    expect_planned(cudnnGetRNNWeightSpaceSize(handle_, layer_, &bytes));
    weight_bytes_ = bytes;
    element_ = size_of(shape.dtype);
    std::size_t training = 0, inference = 0, none = 0;
    expect_planned(cudnnGetRNNTempSpaceSizes(handle_, layer_, CUDNN_FWD_MODE_TRAINING, x_, &training, &saved_bytes_));
    expect_planned(cudnnGetRNNTempSpaceSizes(handle_, layer_, CUDNN_FWD_MODE_INFERENCE, x_, &inference, &none));
    workspace_bytes_ = std::max(training, inference);
    pieces_ = merged(find_pieces(shape));
  }

  std::span<const WeightPiece> pieces() const override { return pieces_; }
  std::int64_t weight_count() const override { return static_cast<std::int64_t>(weight_bytes_ / element_); }
  std::size_t saved_bytes() const override { return saved_bytes_; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }

  // The initial states are null, which means zeros. The device array of sequence lengths is null, too: cuDNN then uses
  // the descriptors' lengths.

  void forward(const ExecSpace& space, const void* weights, const void* x, void* y, void* saved,
               void* workspace) const override {
    order_after(space);
    expect_started(cudnnRNNForward(handle_, layer_, saved ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, nullptr,
                                   x_, x, y_, y, state_, nullptr, nullptr, state_, nullptr, nullptr, weight_bytes_,
                                   weights, workspace_bytes_, workspace, saved ? saved_bytes_ : 0, saved));
  }
  void backward_data(const ExecSpace& space, const void* weights, const void* y, const void* dy, void* dx, void* saved,
                     void* workspace) const override {
    order_after(space);
    expect_started(cudnnRNNBackwardData_v8(handle_, layer_, nullptr, y_, y, dy, x_, dx, state_, nullptr, nullptr,
                                           nullptr, state_, nullptr, nullptr, nullptr, weight_bytes_, weights,
                                           workspace_bytes_, workspace, saved_bytes_, saved));
  }
  void backward_weights(const ExecSpace& space, const void* x, const void* y, void* dweights, void* saved,
                        void* workspace) const override {
    order_after(space);
    expect_started(cudnnRNNBackwardWeights_v8(handle_, layer_, CUDNN_WGRAD_MODE_ADD, nullptr, x_, x, state_, nullptr,
                                              y_, y, weight_bytes_, dweights, workspace_bytes_, workspace, saved_bytes_,
                                              saved));
  }

 private:
  /// Uses the standard algorithm. cuDNN's guide lists none of its functions for recurrent layers among those that may
  /// give different bits in different runs.
  void describe(const RecurrentShape& s) {
    const bool both = s.directions == 2;
    const cudnnDataType_t type = cudnn_type(s.dtype);
    const cudnnMathType_t math = s.dtype != DType::f32 ? CUDNN_TENSOR_OP_MATH
                                 : s.choices.tf32      ? CUDNN_DEFAULT_MATH
                                                       : CUDNN_FMA_MATH;
    expect_planned(cudnnSetRNNDescriptor_v8(
        layer_, CUDNN_RNN_ALGO_STANDARD, s.cell == RecurrentCell::lstm ? CUDNN_LSTM : CUDNN_GRU, CUDNN_RNN_DOUBLE_BIAS,
        both ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, type, CUDNN_DATA_FLOAT, math,
        narrowed(s.in), narrowed(s.units), narrowed(s.units), 1, dropout_, CUDNN_RNN_PADDED_IO_ENABLED));
    const std::vector<int> lengths(static_cast<std::size_t>(s.n), narrowed(s.length));
    const auto set = [&](const SequencesDescriptor& sequences, std::int64_t features) {
      expect_planned(cudnnSetRNNDataDescriptor(sequences, type, CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED,
                                               narrowed(s.length), narrowed(s.n), narrowed(features), lengths.data(),
                                               nullptr));
    };
    set(x_, s.in);
    set(y_, s.outputs());
    const std::array extents{narrowed(s.directions), narrowed(s.n), narrowed(s.units)};
    const std::array strides{narrowed(s.n * s.units), narrowed(s.units), 1};
    expect_planned(cudnnSetTensorNdDescriptor(state_, type, 3, extents.data(), strides.data()));
  }

  /// Finds the pieces of all gates. For gate k of a direction, the matrix for x has number k, and that for h has k + g;
  /// the order of gates equals ours.
  std::vector<WeightPiece> find_pieces(const RecurrentShape& s) const {
    // cuDNN returns addresses, for which memory must exist.
    const Buffer space("lockstep::cudnn::weights", weight_bytes_);
    const TensorDescriptor matrix, bias;
    std::vector<WeightPiece> found;
    for (std::int64_t direction = 0; direction < s.directions; ++direction)
      for (std::int64_t k = 0; k < 2 * gates_of(s.cell); ++k) {
        void *matrix_at = nullptr, *bias_at = nullptr;
        expect_planned(cudnnGetRNNWeightParams(handle_, layer_, static_cast<std::int32_t>(direction), weight_bytes_,
                                               space.data(), static_cast<std::int32_t>(k), matrix, &matrix_at, bias,
                                               &bias_at));
        const bool hidden = k >= gates_of(s.cell);
        const std::int64_t gate = hidden ? k - gates_of(s.cell) : k;
        const auto parameter = static_cast<std::size_t>(direction) * recurrent_parameters + (hidden ? 1 : 0);
        const auto add = [&](std::size_t of, std::int64_t count, const void* place) {
          const auto offset = static_cast<const std::byte*>(place) - space.data();
          if (place == nullptr || offset % static_cast<std::ptrdiff_t>(element_) != 0)
            throw PlanError("cuDNN's weights of this layer lack one of our parameters");
          found.push_back({of, gate * count, count, offset / static_cast<std::ptrdiff_t>(element_)});
        };
        add(parameter, s.units * (hidden ? s.units : s.in), matrix_at);
        add(parameter + 2, s.units, bias_at);
      }
    return found;
  }

  void order_after(const ExecSpace& space) const { expect_started(cudnnSetStream(handle_, space.cuda_stream())); }

  cudnnHandle_t handle_;
  DropoutDescriptor dropout_;  // with its initial values: no dropout
  LayerDescriptor layer_;
  SequencesDescriptor x_, y_;
  TensorDescriptor state_;
  std::size_t weight_bytes_ = 0, element_ = 1, saved_bytes_ = 0, workspace_bytes_ = 0;
  std::vector<WeightPiece> pieces_;
};

}  // namespace

std::unique_ptr<RecurrentSequence> plan_cudnn_recurrent(const RecurrentShape& shape) {
  return library_recurrent(shape, [](const RecurrentShape& of) -> std::shared_ptr<const RecurrentProducts> {
    return plans_for<CudnnRecurrent>(of);
  });
}

}  // namespace lockstep
