// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/cudnn/graph.hpp"

#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <cmath>
#include <unordered_map>
#include <vector>

#include "base/error.hpp"
#include "core/device.hpp"
#include "core/execution.hpp"
#include "ops/products/device_description.hpp"

namespace cudnn_frontend {
// cuDNN is linked, and found among the symbols of the program. (If its functions were called by name, the front end
// would also require the driver's library, which need not be present where one builds or plans.)
void* cudnn_dlhandle = dlopen(nullptr, RTLD_NOW);
}  // namespace cudnn_frontend

namespace lockstep {
namespace {

namespace fe = cudnn_frontend;
using Attributes = fe::graph::Tensor_attributes;
using TensorRef = std::shared_ptr<Attributes>;
using Extents = std::vector<std::int64_t>;

void expect_good(fe::error_t status, const char* doing) {
  if (status.is_bad()) throw PlanError(std::string("cuDNN cannot ") + doing + ": " + status.get_message());
}

void expect_success(cudnnStatus_t status, const char* doing) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw PlanError(std::string("cuDNN cannot ") + doing + ": " + fe::detail::get_error_string(status));
}

fe::DataType_t front_end_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return fe::DataType_t::FLOAT;
    case DType::bf16: return fe::DataType_t::BFLOAT16;
    case DType::f16: return fe::DataType_t::HALF;
    default: throw PlanError("cuDNN is used only for f32, bf16 and f16");
  }
}

}  // namespace

struct CudnnDevice::Implementation {
  cudnnHandle_t handle = nullptr;                         // null for a described device
  std::shared_ptr<const fe::DeviceProperties> described;  // null for a device that is present
  int capability = 0;
};

CudnnDevice::CudnnDevice() {
  auto device = std::make_shared<Implementation>();
  const cudnnStatus_t status = fe::detail::create_handle(&device->handle);  // kept for the life of the process
  validate(status == CUDNN_STATUS_SUCCESS || !runs_on_device || device_count() == 0, ExitStatus::internal,
           "cuDNN cannot use the device: {}; check that its version fits the driver, or build without it "
           "(LOCKSTEP_ENABLE_CUDNN=OFF)",
           fe::detail::get_error_string(status));
  expect_success(status, "plan without a device");
  implementation_ = std::move(device);
}

const CudnnDevice& CudnnDevice::current() {
  static const CudnnDevice device = [] {
    const DeviceDescription* described = described_device();
    return described ? CudnnDevice(described->properties, described->capability) : CudnnDevice();
  }();
  return device;
}

CudnnDevice::CudnnDevice(const std::string& properties, int capability) {
  auto described = std::make_shared<fe::DeviceProperties>();
  fe::error_t status = described->deserialize({properties.begin(), properties.end()});
  validate(status.is_good(), ExitStatus::bad_data,
           "cuDNN cannot read this device description: {}; give the output of `lockstep info --device`",
           status.get_message());
  implementation_ = std::make_shared<Implementation>(Implementation{nullptr, std::move(described), capability});
}

cudnnContext* CudnnDevice::handle() const { return implementation_->handle; }

std::string CudnnDevice::properties() const {
  std::shared_ptr<const fe::DeviceProperties> device = implementation_->described;
  if (!device) {
    auto present = std::make_shared<fe::DeviceProperties>();
    expect_good(present->set_handle(implementation_->handle).build(), "describe the device");
    device = std::move(present);
  }
  std::vector<std::uint8_t> text;
  expect_good(device->serialize(text), "describe the device");
  return {text.begin(), text.end()};
}

std::string cudnn_version() {
  const std::size_t version = cudnnGetVersion();  // called by name, so that linkers keep the library
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

struct CudnnGraph::Implementation {
  fe::graph::Graph graph;
  cudnnHandle_t handle = nullptr;
  std::size_t workspace_bytes = 0;
};

CudnnGraph::CudnnGraph(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
CudnnGraph::~CudnnGraph() = default;
std::size_t CudnnGraph::workspace_bytes() const { return implementation_->workspace_bytes; }

std::string CudnnGraph::engine() const {
  std::string name;
  expect_good(implementation_->graph.get_plan_name(name), "name a plan");
  return name;
}

void CudnnGraph::run(cudaStream_t stream, std::span<void* const> tensors, void* workspace) const {
  Implementation& it = *implementation_;
  std::unordered_map<std::int64_t, void*> pointers;
  for (std::size_t i = 0; i < tensors.size(); ++i) pointers[static_cast<std::int64_t>(i) + 1] = tensors[i];
  const cudnnStatus_t ordered = fe::detail::set_stream(it.handle, stream);
  validate(ordered == CUDNN_STATUS_SUCCESS, ExitStatus::internal, "cuDNN cannot use the stream of the step: {}",
           fe::detail::get_error_string(ordered));
  fe::error_t status = it.graph.execute(it.handle, pointers, workspace);
  validate(status.is_good(), ExitStatus::internal, "cuDNN failed to run a planned operation: {}", status.get_message());
}

namespace {

/// Collects operations and plans them. Tensors are numbered in the order of the calls of `input` and `output`.
class Planner {
 public:
  Planner(const CudnnDevice& device, DType dtype, const LibraryChoices& choices)
      : device_(*device), type_(front_end_type(dtype)), made_(std::make_unique<CudnnGraph::Implementation>()) {
    fe::graph::Graph& graph = made_->graph;
    graph.set_io_data_type(type_)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (device_.described) graph.set_device_properties(device_.described).set_sm_version(device_.capability);
    if (dtype == DType::f32 && !choices.tf32)
      declined_ = {fe::NumericalNote_t::TENSOR_CORE, fe::NumericalNote_t::DOWN_CONVERT_INPUTS};
    if (choices.deterministic) declined_.push_back(fe::NumericalNote_t::NONDETERMINISTIC);
  }

  fe::graph::Graph& graph() { return made_->graph; }

  TensorRef input(const Extents& extents, const Extents& strides) { return input(extents, strides, type_); }
  TensorRef input(const Extents& extents, const Extents& strides, fe::DataType_t type) {
    return graph().tensor(Attributes().set_dim(extents).set_stride(strides).set_data_type(type).set_uid(next_++));
  }
  void output(const TensorRef& tensor, const Extents& extents, const Extents& strides) {
    output(tensor, extents, strides, type_);
  }
  void output(const TensorRef& tensor, const Extents& extents, const Extents& strides, fe::DataType_t type) {
    tensor->set_output(true).set_dim(extents).set_stride(strides).set_data_type(type).set_uid(next_++);
  }

  std::unique_ptr<CudnnGraph> plan() {
    fe::graph::Graph& graph = made_->graph;
    expect_good(graph.validate(), "build this graph");
    expect_good(device_.handle ? graph.build_operation_graph(device_.handle) : graph.build_operation_graph(),
                "build this graph");
    expect_good(graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}), "plan this graph");
    // Only existing plans can be deselected, so this must come after their creation.
    graph.deselect_numeric_notes(declined_).deselect_workspace_greater_than(max_plan_workspace_bytes);
    expect_good(graph.check_support(), "run this graph");
    expect_good(graph.build_plans(), "run this graph");
    std::int64_t bytes = 0;
    expect_good(graph.get_workspace_size(bytes), "report its workspace size");
    made_->workspace_bytes = static_cast<std::size_t>(bytes);
    made_->handle = device_.handle;
    return std::make_unique<CudnnGraph>(std::move(made_));
  }

 private:
  const CudnnDevice::Implementation& device_;
  fe::DataType_t type_;
  std::vector<fe::NumericalNote_t> declined_;
  std::unique_ptr<CudnnGraph::Implementation> made_;
  std::int64_t next_ = 1;  // number of the next tensor
};

/// Extents and strides in cuDNN's order (n, c, h, w) for channels-last tensors, including weights. With other layouts,
/// cuDNN 9.19 plans convolutions on a few channels whose results are wrong.
struct Layouts {
  Extents x, x_strides, y, y_strides, weight, weight_strides, bias, bias_strides;

  explicit Layouts(const ConvolutionShape& s) {
    const std::int64_t depth = s.c / s.groups, taps = s.kernel_h * s.kernel_w;
    x = {s.n, s.c, s.h, s.w};
    x_strides = {s.h * s.w * s.c, 1, s.w * s.c, s.c};
    y = {s.n, s.filters, s.out_h(), s.out_w()};
    y_strides = {s.out_h() * s.out_w() * s.filters, 1, s.out_w() * s.filters, s.filters};
    weight = {s.filters, depth, s.kernel_h, s.kernel_w};
    weight_strides = {depth * taps, 1, s.kernel_w * depth, depth};
    bias = {1, s.filters, 1, 1};
    bias_strides = {s.filters, 1, s.filters, s.filters};
  }
};

template <class OfConvolution>
OfConvolution windows(const ConvolutionShape& s) {
  return OfConvolution()
      .set_pre_padding({s.pad_top, s.pad_left})
      .set_post_padding({s.pad_bottom, s.pad_right})
      .set_stride({s.stride, s.stride})
      .set_dilation({1, 1});
}

/// Describes tensors as [n, heads, T, head_size] whose memory is [n, T, width, head by head], with rows of `row`
/// elements.
struct Heads {
  Extents extents, moments, moment_strides;
  const AttentionShape& shape;

  explicit Heads(const AttentionShape& s)
      : extents{s.n, s.heads, s.length, s.head_size},
        moments{s.n, s.heads, s.length, 1},
        moment_strides{s.heads * s.length, s.length, 1, 1},
        shape(s) {}
  float scale() const { return static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_size))); }
  Extents strides(std::int64_t row) const { return {shape.length * row, shape.head_size, row, 1}; }
};

}  // namespace

std::unique_ptr<CudnnGraph> cudnn_convolution(const CudnnDevice& device, const ConvolutionShape& shape) {
  const Layouts at(shape);
  Planner planner(device, shape.dtype, shape.choices);
  fe::graph::Graph& graph = planner.graph();
  const TensorRef x = planner.input(at.x, at.x_strides), weight = planner.input(at.weight, at.weight_strides);
  TensorRef y = graph.conv_fprop(x, weight, windows<fe::graph::Conv_fprop_attributes>(shape));
  if (shape.bias) {
    const TensorRef bias = planner.input(at.bias, at.bias_strides, fe::DataType_t::FLOAT);
    y = graph.pointwise(y, bias, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  }
  if (shape.activation == Activation::relu)
    y = graph.pointwise(y, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
  planner.output(y, at.y, at.y_strides);
  return planner.plan();
}

CudnnForward cudnn_forward(const CudnnDevice& device, const ConvolutionShape& shape) {
  ConvolutionShape alone = shape;
  alone.bias = false, alone.activation = Activation::none;
  if (shape.activation == Activation::none || shape.activation == Activation::relu) {
    try {
      return {cudnn_convolution(device, shape), true};
    } catch (const PlanError&) {
      if (alone == shape) throw;
    }
  }
  return {cudnn_convolution(device, alone), false};
}

std::unique_ptr<CudnnGraph> cudnn_data_gradient(const CudnnDevice& device, const ConvolutionShape& shape) {
  const Layouts at(shape);
  Planner planner(device, shape.dtype, shape.choices);
  const TensorRef dy = planner.input(at.y, at.y_strides), weight = planner.input(at.weight, at.weight_strides);
  const TensorRef dx = planner.graph().conv_dgrad(dy, weight, windows<fe::graph::Conv_dgrad_attributes>(shape));
  planner.output(dx, at.x, at.x_strides);
  return planner.plan();
}

std::unique_ptr<CudnnGraph> cudnn_weight_gradient(const CudnnDevice& device, const ConvolutionShape& shape) {
  const Layouts at(shape);
  Planner planner(device, shape.dtype, shape.choices);
  const TensorRef x = planner.input(at.x, at.x_strides), dy = planner.input(at.y, at.y_strides);
  const TensorRef dweight = planner.graph().conv_wgrad(dy, x, windows<fe::graph::Conv_wgrad_attributes>(shape));
  planner.output(dweight, at.weight, at.weight_strides);
  return planner.plan();
}

std::unique_ptr<CudnnGraph> cudnn_attention(const CudnnDevice& device, const AttentionShape& shape) {
  const Heads at(shape);
  Planner planner(device, shape.dtype, shape.choices);
  const Extents packed = at.strides(3 * shape.width());
  const TensorRef q = planner.input(at.extents, packed), k = planner.input(at.extents, packed),
                  v = planner.input(at.extents, packed);
  auto [y, logsumexp] = planner.graph().sdpa(q, k, v,
                                             fe::graph::SDPA_attributes()
                                                 .set_name("attention")
                                                 .set_causal_mask(shape.causal)
                                                 .set_generate_stats(true)
                                                 .set_attn_scale(at.scale()));
  planner.output(y, at.extents, at.strides(shape.width()));
  planner.output(logsumexp, at.moments, at.moment_strides, fe::DataType_t::FLOAT);
  return planner.plan();
}

std::unique_ptr<CudnnGraph> cudnn_attention_gradient(const CudnnDevice& device, const AttentionShape& shape) {
  const Heads at(shape);
  Planner planner(device, shape.dtype, shape.choices);
  const Extents packed = at.strides(3 * shape.width()), plain = at.strides(shape.width());
  const TensorRef q = planner.input(at.extents, packed), k = planner.input(at.extents, packed),
                  v = planner.input(at.extents, packed), y = planner.input(at.extents, plain),
                  logsumexp = planner.input(at.moments, at.moment_strides, fe::DataType_t::FLOAT),
                  dy = planner.input(at.extents, plain);
  auto [dq, dk, dv] = planner.graph().sdpa_backward(q, k, v, y, dy, logsumexp,
                                                    fe::graph::SDPA_backward_attributes()
                                                        .set_name("attention_gradient")
                                                        .set_causal_mask(shape.causal)
                                                        .set_attn_scale(at.scale())
                                                        .set_deterministic_algorithm(shape.choices.deterministic));
  for (const TensorRef& gradient : {dq, dk, dv}) planner.output(gradient, at.extents, packed);
  return planner.plan();
}

}  // namespace lockstep
