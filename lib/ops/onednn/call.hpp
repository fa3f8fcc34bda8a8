// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <dnnl.hpp>

#include <initializer_list>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "core/tensor.hpp"
#include "ops/activation.hpp"
#include "ops/products/products.hpp"

namespace lockstep {

/// The CPU engine. It is made on first use, which also sets oneDNN's number of threads to that of Kokkos.
const dnnl::engine& onednn_engine();

/// A primitive whose arguments are described once; a call only sets their addresses. The scratchpad is an argument like
/// the others (see `onednn_attributes`), so that calls allocate nothing.
class OnednnCall {
 public:
  OnednnCall() = default;
  OnednnCall(const dnnl::primitive_desc_base& description, const dnnl::primitive& primitive,
             std::initializer_list<std::pair<int, dnnl::memory::desc>> arguments);

  /// Conversion between two layouts; `add` adds to the present values.
  static OnednnCall reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to, bool add = false);

  explicit operator bool() const { return static_cast<bool>(primitive_); }
  /// The memory layout of an argument.
  dnnl::memory::desc layout(int argument) const { return arguments_.at(argument).get_desc(); }
  std::size_t scratchpad_bytes() const { return scratchpad_bytes_; }
  void run(void* scratchpad, std::initializer_list<std::pair<int, const void*>> arguments);

 private:
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
  std::size_t scratchpad_bytes_ = 0;
};

/// Returns the description that `make` makes, at the first implementation whose name begins with `wanted`; at oneDNN's
/// own choice if there is none, or if `wanted` is empty. oneDNN has several implementations of most products, and does
/// not always list the fastest first. (`make` is called anew because descriptions are handles: a copy would advance
/// together with the original.)
template <class Make>
auto preferring(std::string_view wanted, Make make) {
  auto candidate = make();
  if (wanted.empty()) return candidate;
  do {
    const std::string name = candidate.impl_info_str();
    if (name.starts_with(wanted)) return candidate;
    if (name.starts_with("ref")) break;
  } while (candidate.next_impl());
  return make();
}

/// True if oneDNN uses AVX2 at most. Its weight gradients then reach only 50 to 75 % of the peak, and below 45 % for
/// some products of long columns; products over plain copies (ops/products/gemm.hpp) are faster.
bool onednn_uses_avx2();

/// Returns plan(), or null if oneDNN refuses to plan it.
template <class Plan>
auto unless_refused(Plan plan) -> decltype(plan()) {
  try {
    return plan();
  } catch (const dnnl::error& refusal) {
    if (refusal.status == dnnl_unimplemented || refusal.status == dnnl_invalid_arguments) return nullptr;
    if (refusal.status == dnnl_out_of_memory) throw std::bad_alloc();
    throw Error(ExitStatus::internal, fmt::format("oneDNN cannot plan a product ({})", refusal.what()));
  }
}

/// oneDNN's name of a floating-point type; throws dnnl::error(unimplemented) for types that oneDNN lacks (f64).
dnnl::memory::data_type onednn_type(DType dtype);

/// Attributes for a caller-provided scratchpad and an activation of the result.
dnnl::primitive_attr onednn_attributes(Activation activation = Activation::none);
/// Attributes for a caller-provided scratchpad and a result that is added to the present values.
dnnl::primitive_attr onednn_attributes_add();

/// A weight in the layouts that products prefer, repacked after it has changed. The layouts of the forward and the
/// backward pass, and of several batch sizes, take turns in one buffer. Each is thus made once per pass: once per step,
/// or more often if micro-batches (batch.micro) or recomputed blocks make the passes alternate.
class PackedWeight {
 public:
  PackedWeight() = default;
  PackedWeight(const PackedWeight&) = delete;
  PackedWeight& operator=(const PackedWeight&) = delete;

  /// Registers a product whose wanted layout differs from the given one; returns the argument for `get`. Called at plan
  /// time.
  std::size_t prepare(const dnnl::memory::desc& given, const dnnl::memory::desc& wanted) {
    if (given == wanted) return as_given;
    for (std::size_t i = 0; i < packings_.size(); ++i)
      if (packings_[i].given == given && packings_[i].wanted == wanted) return i;
    const Packing& made = packings_.emplace_back(given, wanted, OnednnCall::reorder(given, wanted));
    if (wanted.get_size() > packed_.size()) packed_ = Buffer("lockstep::packed_weight", wanted.get_size());
    if (made.reorder.scratchpad_bytes() > scratchpad_.size())
      scratchpad_ = Buffer("lockstep::packed_weight_scratchpad", made.reorder.scratchpad_bytes());
    holds_ = as_given;
    return packings_.size() - 1;
  }

  void set(const void* weight) {
    given_ = weight;
    holds_ = as_given;
  }
  const void* get(std::size_t packing) {
    if (packing == as_given) return given_;
    if (holds_ != packing) {
      packings_[packing].reorder.run(scratchpad_.data(), {{DNNL_ARG_FROM, given_}, {DNNL_ARG_TO, packed_.data()}});
      holds_ = packing;
    }
    return packed_.data();
  }

 private:
  static constexpr auto as_given = static_cast<std::size_t>(-1);
  struct Packing {
    dnnl::memory::desc given, wanted;
    OnednnCall reorder;
  };

  std::vector<Packing> packings_;
  Buffer packed_, scratchpad_;
  const void* given_ = nullptr;
  std::size_t holds_ = as_given;  // the packing whose layout packed_ has; as_given: none
};

// Products by oneDNN. These functions throw dnnl::error if oneDNN refuses the shape; onednn_convolution returns null if
// oneDNN would compute it wrongly.
std::unique_ptr<InnerProduct> onednn_inner_product(const InnerProductShape& shape);
std::unique_ptr<Convolution> onednn_convolution(const ConvolutionShape& shape);

}  // namespace lockstep
