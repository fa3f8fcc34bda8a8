// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/onednn/call.hpp"

#include "ops/products/library_threads.hpp"

namespace lockstep {
namespace {

dnnl::stream& onednn_stream() {
  static dnnl::stream stream(onednn_engine());
  return stream;
}

dnnl::algorithm eltwise_of(Activation activation) {
  switch (activation) {
    case Activation::relu: return dnnl::algorithm::eltwise_relu;
    case Activation::tanh: return dnnl::algorithm::eltwise_tanh;
    case Activation::sigmoid: return dnnl::algorithm::eltwise_logistic;
    case Activation::gelu: return dnnl::algorithm::eltwise_gelu_erf;
    case Activation::none: break;
  }
  return dnnl::algorithm::undef;
}

}  // namespace

const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine = [] {
    use_kokkos_threads();
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

OnednnCall::OnednnCall(const dnnl::primitive_desc_base& description, const dnnl::primitive& primitive,
                       std::initializer_list<std::pair<int, dnnl::memory::desc>> arguments)
    : primitive_(primitive) {
  // oneDNN's reference loops are a hundred times slower than fp32 between two conversions.
  const std::string way = description.impl_info_str();
  for (const auto& [id, layout] : arguments)
    if (way.starts_with("ref") && layout.get_data_type() != dnnl::memory::data_type::f32)
      throw dnnl::error(dnnl_unimplemented, "oneDNN has only reference loops for this type");
  for (const auto& [id, layout] : arguments) arguments_.emplace(id, dnnl::memory(layout, onednn_engine(), nullptr));
  const dnnl::memory::desc scratchpad = description.scratchpad_desc();
  scratchpad_bytes_ = scratchpad.get_size();
  if (scratchpad_bytes_ > 0)
    arguments_.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(scratchpad, onednn_engine(), nullptr));
}

OnednnCall OnednnCall::reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to, bool add) {
  const dnnl::reorder::primitive_desc description(onednn_engine(), from, onednn_engine(), to,
                                                  add ? onednn_attributes_add() : onednn_attributes());
  return {description, dnnl::reorder(description), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

void OnednnCall::run(void* scratchpad, std::initializer_list<std::pair<int, const void*>> arguments) {
  for (const auto& [id, data] : arguments) arguments_.at(id).set_data_handle(const_cast<void*>(data));
  if (scratchpad_bytes_ > 0) arguments_.at(DNNL_ARG_SCRATCHPAD).set_data_handle(scratchpad);
  try {
    primitive_.execute(onednn_stream(), arguments_);
    onednn_stream().wait();  // only oneDNN's asynchronous builds have to wait here
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
    throw;
  }
}

bool onednn_uses_avx2() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
    case dnnl::cpu_isa::avx:
    case dnnl::cpu_isa::avx2:
    case dnnl::cpu_isa::avx2_vnni:
    case dnnl::cpu_isa::avx2_vnni_2: return true;
    default: return false;
  }
}

dnnl::memory::data_type onednn_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return dnnl::memory::data_type::f32;
    case DType::bf16: return dnnl::memory::data_type::bf16;
    case DType::f16: return dnnl::memory::data_type::f16;
    default: throw dnnl::error(dnnl_unimplemented, "oneDNN does not have this type");
  }
}

dnnl::primitive_attr onednn_attributes(Activation activation) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (activation == Activation::none) return attributes;
  dnnl::post_ops after;
  after.append_eltwise(eltwise_of(activation), 0.0f, 0.0f);
  attributes.set_post_ops(after);
  return attributes;
}

dnnl::primitive_attr onednn_attributes_add() {
  dnnl::primitive_attr attributes = onednn_attributes();
  dnnl::post_ops after;
  after.append_sum(1.0f);
  attributes.set_post_ops(after);
  return attributes;
}

}  // namespace lockstep
