// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/products/provider.hpp"

#include <miopen/miopen.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.hpp"
#include "core/device.hpp"
#include "ops/products/library_products.hpp"

namespace lockstep {
namespace {

void expect_planned(miopenStatus_t status, const char* doing) {
  if (status != miopenStatusSuccess)
    throw PlanError(fmt::format("MIOpen cannot {}: {}", doing, miopenGetErrorString(status)));
}

miopenHandle_t miopen_handle() {
  static const miopenHandle_t made = [] {  // kept for the life of the process
    miopenHandle_t handle = nullptr;
    expect_planned(miopenCreate(&handle), "use the device");
    return handle;
  }();
  return made;
}

miopenDataType_t miopen_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return miopenFloat;
    case DType::bf16: return miopenBFloat16;
    case DType::f16: return miopenHalf;
    default: throw PlanError("MIOpen is used only for f32, bf16 and f16");
  }
}

int miopen_int(std::int64_t value) {
  if (value > std::numeric_limits<int>::max()) throw PlanError("MIOpen takes sizes of at most 32 bits");
  return static_cast<int>(value);
}

struct MiopenDestroy {
  void operator()(miopenTensorDescriptor_t it) const { static_cast<void>(miopenDestroyTensorDescriptor(it)); }
  void operator()(miopenConvolutionDescriptor_t it) const { static_cast<void>(miopenDestroyConvolutionDescriptor(it)); }
};
using MiopenTensor = std::unique_ptr<miopenTensorDescriptor, MiopenDestroy>;
using MiopenWindows = std::unique_ptr<miopenConvolutionDescriptor, MiopenDestroy>;

/// Describes a channels-last tensor, [n, h, w, c]; MIOpen orders extents as n, c, h, w.
MiopenTensor describe_channels_last(DType dtype, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
  const int extents[] = {miopen_int(n), miopen_int(c), miopen_int(h), miopen_int(w)};
  const int strides[] = {miopen_int(h * w * c), 1, miopen_int(w * c), miopen_int(c)};
  miopenTensorDescriptor_t made = nullptr;
  expect_planned(miopenCreateTensorDescriptor(&made), "describe a tensor");
  MiopenTensor tensor(made);
  expect_planned(miopenSetTensorDescriptor(made, miopen_type(dtype), 4, extents, strides), "describe a tensor");
  return tensor;
}

/// MIOpen pads both sides equally. The convolution is the same if the number of windows stays the same, since windows
/// begin at the top and left padding.
MiopenWindows describe_windows(const ConvolutionShape& s) {
  ConvolutionShape alike = s;
  alike.pad_bottom = s.pad_top, alike.pad_right = s.pad_left;
  if (alike.out_h() != s.out_h() || alike.out_w() != s.out_w())
    throw PlanError("MIOpen needs equal padding on both sides");
  miopenConvolutionDescriptor_t made = nullptr;
  expect_planned(miopenCreateConvolutionDescriptor(&made), "describe a convolution");
  MiopenWindows windows(made);
  const int pads[] = {miopen_int(s.pad_top), miopen_int(s.pad_left)};
  const int strides[] = {miopen_int(s.stride), miopen_int(s.stride)}, dilations[] = {1, 1};
  expect_planned(miopenInitConvolutionNdDescriptor(made, 2, pads, strides, dilations, miopenConvolution),
                 "describe a convolution");
  expect_planned(miopenSetConvolutionGroupCount(made, miopen_int(s.groups)), "describe a convolution");
  expect_planned(miopenSetConvolutionAttribute(made, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, s.choices.deterministic),
                 "describe a convolution");
  return windows;
}

// The tensors of a convolution, or their gradients.
enum MiopenOperand { miopen_x, miopen_weight, miopen_y };

/// MIOpen's functions for one of the three products. Their operands are in the order `theirs`, with the result last;
/// `ours` is the order of ConvolutionProducts.
struct MiopenFunctions {
  decltype(&miopenConvolutionForwardGetSolution) list;
  decltype(&miopenConvolutionForwardCompileSolution) compile;
  decltype(&miopenConvolutionForwardImmediate) run;
  std::array<MiopenOperand, 3> theirs, ours;
};
constexpr MiopenFunctions miopen_forward{miopenConvolutionForwardGetSolution,
                                         miopenConvolutionForwardCompileSolution,
                                         miopenConvolutionForwardImmediate,
                                         {miopen_weight, miopen_x, miopen_y},
                                         {miopen_x, miopen_weight, miopen_y}};
constexpr MiopenFunctions miopen_data_gradient{miopenConvolutionBackwardDataGetSolution,
                                               miopenConvolutionBackwardDataCompileSolution,
                                               miopenConvolutionBackwardDataImmediate,
                                               {miopen_y, miopen_weight, miopen_x},
                                               {miopen_y, miopen_weight, miopen_x}};
constexpr MiopenFunctions miopen_weight_gradient{miopenConvolutionBackwardWeightsGetSolution,
                                                 miopenConvolutionBackwardWeightsCompileSolution,
                                                 miopenConvolutionBackwardWeightsImmediate,
                                                 {miopen_y, miopen_x, miopen_weight},
                                                 {miopen_x, miopen_y, miopen_weight}};

/// Uses MIOpen's immediate mode: the first solution in MIOpen's list, which is ordered by expected speed, whose
/// workspace is small enough. Nothing is timed here.
class MiopenProduct final : public ConvolutionProduct {
 public:
  MiopenProduct(const ConvolutionShape& s, const MiopenFunctions& functions)
      : functions_(functions),
        windows_(describe_windows(s)),
        operands_{describe_channels_last(s.dtype, s.n, s.h, s.w, s.c),
                  describe_channels_last(s.dtype, s.filters, s.kernel_h, s.kernel_w, s.c / s.groups),
                  describe_channels_last(s.dtype, s.n, s.out_h(), s.out_w(), s.filters)} {
    choose();
  }

  std::size_t workspace_bytes() const override { return solution_.workspace_size; }

  void run(const ExecSpace& space, std::span<void* const> tensors, void* workspace) const override {
    std::array<void*, 3> at;
    for (std::size_t i = 0; i < at.size(); ++i) at[functions_.ours[i]] = tensors[i];
    start(space, at, solution_.workspace_size > 0 ? workspace : nullptr);
  }

 private:
  miopenTensorDescriptor_t their(std::size_t number) const { return operands_[functions_.theirs[number]].get(); }

  /// Does not call MIOpen's function that counts solutions, because it prints an error if there are none.
  void choose() {
    std::array<miopenConvSolution_t, 32> solutions;
    std::size_t count = 0;
    expect_planned(functions_.list(miopen_handle(), their(0), their(1), windows_.get(), their(2), solutions.size(),
                                   &count, solutions.data()),
                   "plan this convolution");
    for (const miopenConvSolution_t& candidate : std::span(solutions).first(std::min(count, solutions.size()))) {
      if (candidate.workspace_size > max_plan_workspace_bytes) continue;
      expect_planned(
          functions_.compile(miopen_handle(), their(0), their(1), windows_.get(), their(2), candidate.solution_id),
          "compile this convolution");
      solution_ = candidate;
      return;
    }
    throw PlanError("MIOpen has no solution for this convolution");
  }

  void start(const ExecSpace& space, const std::array<void*, 3>& at, void* workspace) const {
    const miopenHandle_t handle = miopen_handle();
    // Setting a stream rereads the properties of the device, so it is set only when it changes.
    miopenAcceleratorQueue_t stream = nullptr;
    auto status = miopenGetStream(handle, &stream);
    if (status == miopenStatusSuccess && stream != space.hip_stream())
      status = miopenSetStream(handle, space.hip_stream());
    if (status == miopenStatusSuccess)
      status = functions_.run(handle, their(0), at[functions_.theirs[0]], their(1), at[functions_.theirs[1]],
                              windows_.get(), their(2), at[functions_.theirs[2]], workspace, solution_.workspace_size,
                              solution_.solution_id);
    validate(status == miopenStatusSuccess, ExitStatus::internal, "MIOpen failed to run its plan: {}",
             miopenGetErrorString(status));
  }

  const MiopenFunctions& functions_;
  MiopenWindows windows_;
  std::array<MiopenTensor, 3> operands_;  // indexed by MiopenOperand
  miopenConvSolution_t solution_{};
};

struct MiopenProducts : ConvolutionProducts {
  explicit MiopenProducts(const ConvolutionShape& shape) {
    forward = std::make_unique<MiopenProduct>(shape, miopen_forward);
    data_gradient = std::make_unique<MiopenProduct>(shape, miopen_data_gradient);
    weight_gradient = std::make_unique<MiopenProduct>(shape, miopen_weight_gradient);
    adds_bias = false;
  }
};

class MiopenProvider final : public Provider {
 public:
  std::string_view name() const override { return "miopen"; }
  std::string version() const override {
    std::size_t major = 0, minor = 0, patch = 0;
    static_cast<void>(miopenGetVersion(&major, &minor, &patch));
    return fmt::format("{}.{}.{}", major, minor, patch);
  }
  /// Null if MIOpen declines, and if there is no device, because `check` also plans on login nodes.
  std::unique_ptr<Convolution> convolution(const ConvolutionShape& shape) const override {
    if (device_count() == 0) return nullptr;
    return library_convolution(shape, [](const ConvolutionShape& of) -> std::shared_ptr<const ConvolutionProducts> {
      return plans_for<MiopenProducts>(of);
    });
  }
};

}  // namespace

const Provider* miopen_provider() {
  static const MiopenProvider provider;
  return &provider;
}

}  // namespace lockstep
