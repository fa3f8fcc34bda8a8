// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/tensor.hpp"
#include "parameters/unshard_plan.hpp"

namespace lockstep {

/// Holds the values that a rank owns if they are not in device memory. Values have the master type, and are
/// addressed by their position among all values that the rank owns (ParameterShard::value_at). All functions throw
/// io_error if they fail.
class OwnedValueStore {
 public:
  virtual ~OwnedValueStore() = default;

  /// Starts copying values to host memory, concurrently with the step. Of values that an optimizer update is working
  /// on, the new ones are copied if the update is done with them. `to` must not be used until has_fetched().
  virtual void start_fetch(std::int64_t first, std::int64_t count, std::byte* to) = 0;
  /// True if all fetches that were started are complete.
  virtual bool has_fetched() = 0;

  // Copy values at once. Must not be called during an update.
  virtual void read(std::int64_t first, std::int64_t count, std::byte* to) const = 0;
  virtual void write(std::int64_t first, std::int64_t count, const std::byte* from) const = 0;
};

/// Parameters that other ranks have updated and that may still be arriving when a forward pass begins. The first
/// layers' parameters, which come last in the buffer, arrive first.
class ParameterArrival {
 public:
  virtual ~ParameterArrival() = default;
  /// True if the parameters from element `first` of the flat buffer to its end have arrived. Does not wait, but
  /// advances the transfer.
  virtual bool have_arrived(const ExecSpace& space, std::int64_t first) = 0;
  /// Waits until the parameters from element `first` of the flat buffer to its end have arrived.
  virtual void await(const ExecSpace& space, std::int64_t first) = 0;
};

/// The trained parameters that a rank owns (ParameterLayout::owned): their values, and their gradients summed over
/// micro-batches and ranks. Each of the two lies in the flat buffer or, if it is divided among ranks, in memory of its
/// own, one range after the other. Values can also be kept in an OwnedValueStore.
class ParameterShard {
 public:
  /// Values and gradients that lie in the flat buffers.
  ParameterShard(const Tensor& values, const Tensor& gradients) : values_(values), gradients_(gradients) {}
  /// Allocates memory for what `division` divides, except for values that are kept elsewhere. `layout` says what is
  /// owned.
  void divide(const ParameterLayout& layout, const ParameterDivision& division);
  /// From now on the values are kept in `store`, which must outlive this object.
  void keep_values_in(OwnedValueStore& store) { store_ = &store; }
  /// Null if the values are in memory.
  OwnedValueStore* store() const { return store_; }

  // Values and gradients of a range, which lies within an owned range. For gradients, it may also be part of the
  // statistics' increments.
  Tensor values(ElementRange range) const { return at(values_, value_at(range.first), range.count); }
  Tensor gradients(ElementRange range) const { return at(gradients_, gradient_at(range.first), range.count); }
  // For kernels: all values and all gradients, and the position in them of an element of the flat buffer. Values that
  // are kept elsewhere have no data.
  const Tensor& values() const { return values_; }
  const Tensor& gradients() const { return gradients_; }
  std::int64_t value_at(std::int64_t element) const { return has_own_values_ ? place(element) : element; }
  std::int64_t gradient_at(std::int64_t element) const { return has_own_gradients_ ? place(element) : element; }

 private:
  static Tensor at(const Tensor& all, std::int64_t first, std::int64_t count);
  std::int64_t place(std::int64_t element) const;

  Tensor values_, gradients_;
  Buffer value_memory_, gradient_memory_;
  bool has_own_values_ = false, has_own_gradients_ = false;  ///< true if the memory holds owned elements only
  OwnedValueStore* store_ = nullptr;
  std::vector<ElementRange> ranges_;
  std::int64_t trained_ = 0;
};

/// Consecutive elements of one parameter, within one block of the flat buffer, which kernels process together.
struct ParameterBlock {
  std::int64_t first = 0;     ///< index of the first element among the values (ParameterShard)
  std::int64_t gradient = 0;  ///< index among the gradients
  std::int64_t state = 0;     ///< index in the optimizer's states
  std::int64_t count = 0;     ///< at most array_block
  std::int64_t number = 0;    ///< number among the blocks of all ranks
  std::int32_t group = 0;
  std::int32_t parameter = 0;  ///< number among the parameters of all ranks
};

/// Memory for parameters. A buffer that is empty is allocated by the ParameterBuffer itself.
struct ParameterMemory {
  Buffer gradients;                ///< UnshardPlan::gradient_count elements
  Buffer values;                   ///< zeroed; UnshardPlan::value_count elements
  Buffer rounded;                  ///< zeroed; as many elements, of 16 bits
  bool updates_statistics = true;  ///< false if another rank does that, in values that both have in common
};

/// What a layer sees of the parameters, in the order of its ParameterSpecs.
struct LayerParameters {
  std::vector<Tensor> values, gradients;  ///< frozen parameters have empty gradients
  std::vector<ElementRange> ranges;
  /// Values without statistics, in the precision that large matrix products read.
  std::vector<Tensor> weights;
  /// All that is trained and not tied to another layer, gaps included; empty if there is nothing.
  ElementRange own;
  /// First element of any of them, tied ones included; the size of the flat buffer if there are none.
  std::int64_t first = 0;
};

/// All parameters in one allocation and all gradients in another. The last layer's parameters come first, in the order
/// in which a backward pass makes gradients final; so a bucket of a reduction is one range, and an optimizer step is
/// one kernel. Trained parameters are followed by the statistics of layers, whose increments lie in the gradient
/// buffer, and then by frozen parameters, which have no gradients. Each parameter begins at a multiple of 64 bytes;
/// gaps are zero. All numbers have the master_dtype. With 16-bit activations there is also a rounded copy, which large
/// matrix products read.
/// If ranks divide the values, or the gradients, layers see them through windows, unit by unit (UnshardPlan); what
/// this rank keeps of them is in owned().
class ParameterBuffer {
 public:
  /// `layers`: one for each node of the graph. `dtype` is that of the activations.
  ParameterBuffer(std::span<const LayerSpecs> layers, DType dtype, const ParameterMemory& memory = {},
                  UnshardPlan windows = {});

  DType dtype() const { return master_; }
  const ParameterLayout& layout() const { return layout_; }
  ParameterLayout& layout() { return layout_; }
  std::int64_t size() const { return layout_.size(); }
  std::int64_t trained_size() const { return layout_.trained_size(); }
  const std::vector<Parameter>& parameters() const { return layout_.parameters(); }
  const UnshardPlan& windows() const { return windows_; }
  const ParameterShard& owned() const { return owned_; }
  /// See ParameterLayout::own.
  void own(std::vector<ElementRange> ranges);
  /// See ParameterShard::keep_values_in.
  void keep_values_in(OwnedValueStore& store) { owned_.keep_values_in(store); }

  // The whole buffers; if values or gradients are divided, their windows.
  Tensor values() const { return all_of(values_); }
  /// The gradients, and the increments of statistics.
  Tensor gradients() const { return all_of(gradients_); }
  // Views as layers see them; if values or gradients are divided, a range must lie within one unit.
  Tensor values(ElementRange range) const { return at(values_, windows_.value_place(range.first), {range.count}); }
  Tensor gradients(ElementRange range) const {
    return at(gradients_, windows_.gradient_place(range.first), {range.count});
  }
  Tensor values(const Parameter& parameter) const { return values(parameter.range).reshaped(parameter.shape); }
  Tensor gradients(const Parameter& parameter) const { return gradients(parameter.range).reshaped(parameter.shape); }
  /// The trained values in 16 bits, which optimizers write. Empty if activations have the master_dtype, or if values
  /// are divided.
  Tensor rounded() const {
    return rounds() && !windows_.division.values ? rounded_.tensor(0, dtype_, {trained_size()}) : Tensor{};
  }

  /// The parameters of a node of the graph. Tied layers see the same memory.
  const LayerParameters& of_layer(std::size_t node) const { return layers_[node]; }

  /// Sets all parameters to their initial values; of divided values, only those that this rank owns.
  void initialize(const ExecSpace& space, std::uint64_t seed);
  /// Updates the rounded copy. Must be called after anything but the optimizer has written values.
  void round(const ExecSpace& space) {
    round(space, windows_.division.values ? layout_.others() : ElementRange{0, size()});
  }
  /// Updates the rounded copy of a range; if values are divided, the range is a unit or lies behind the trained
  /// parameters.
  void round(const ExecSpace& space, ElementRange range);
  /// Calls fill(range, values), which sets the values, for each part of a parameter that this rank keeps. That is
  /// usually the whole parameter; of divided values it is what the rank owns, piece by piece if the values are in an
  /// OwnedValueStore.
  using Fill = std::function<void(ElementRange range, const Tensor& values)>;
  void fill_kept(const ExecSpace& space, const Parameter& parameter, const Fill& fill);
  /// Whether this rank updates the statistics.
  bool updates_statistics() const { return updates_statistics_; }
  /// Adds to the statistics, if this rank updates them, the increments that a backward pass has left, times `scale`
  /// (one over the number of global examples).
  void update_statistics(const ExecSpace& space, double scale, const std::int32_t* left_out = nullptr);

 private:
  bool rounds() const { return dtype_ != master_; }
  void fill_store(const ExecSpace& space, ElementRange part, const Fill& fill);
  /// Gives a node its view of the next of its parameters.
  void add_view(std::size_t node, const Parameter& parameter);
  Tensor at(const Buffer& buffer, std::int64_t first, const Shape& shape) const {
    return buffer.tensor(static_cast<std::size_t>(first) * size_of(master_), master_, shape);
  }
  Tensor all_of(const Buffer& buffer) const {
    return at(buffer, 0, {static_cast<std::int64_t>(buffer.size() / size_of(master_))});
  }

  DType dtype_, master_;
  ParameterLayout layout_;
  bool updates_statistics_;
  UnshardPlan windows_;
  Buffer values_, gradients_, rounded_;  ///< as layers see them
  ParameterShard owned_;
  std::vector<LayerParameters> layers_;  ///< one for each node of the graph
};

}  // namespace lockstep
