// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/element_range.hpp"
#include "core/tensor.hpp"
#include "parameters/initializer.hpp"

namespace lockstep {

/// A parameter that a layer asks for. Its memory belongs to the ParameterBuffer.
struct ParameterSpec {
  /// `trained`: updated by the optimizer. `statistic`: a running value that the layer maintains itself; after a
  /// backward pass its gradient slot holds the sum over examples of the increments to be added to it. `frozen`: a
  /// parameter or statistic that never changes.
  enum class Kind { trained, statistic, frozen };

  std::string name;  ///< "weight"
  Shape shape;       ///< the shape in weight files
  Initializer initializer;
  Kind kind = Kind::trained;
  /// Name of an earlier embedding layer that owns the parameter of this name and shape; empty: the parameter is the
  /// layer's own.
  std::string tied_to = {};
};

/// The parameters that one layer of the network asks for.
struct LayerSpecs {
  std::string name;
  std::vector<ParameterSpec> parameters;
  bool frozen = false;  ///< true if the parameters, statistics included, never change
};

struct Parameter {
  std::string name;  ///< "conv1/weight"
  Shape shape;
  ElementRange range;
  std::size_t node;  ///< index in the graph
  Initializer initializer;
  ParameterSpec::Kind kind;
  std::uint64_t number;  ///< counted from the network's input; separates random streams
};

/// Parameters and their positions in a flat buffer, in ascending order. Copies share the same storage.
class SharedLayout {
 public:
  SharedLayout() : SharedLayout(std::vector<Parameter>()) {}
  SharedLayout(std::vector<Parameter> parameters)
      : parameters_(std::make_shared<const std::vector<Parameter>>(std::move(parameters))) {}

  operator const std::vector<Parameter>&() const { return *parameters_; }
  auto begin() const { return parameters_->begin(); }
  auto end() const { return parameters_->end(); }
  std::size_t size() const { return parameters_->size(); }
  const Parameter& operator[](std::size_t i) const { return (*parameters_)[i]; }
  /// The end of the last parameter in the flat buffer, in elements.
  std::int64_t elements() const { return parameters_->empty() ? 0 : parameters_->back().range.end(); }

 private:
  std::shared_ptr<const std::vector<Parameter>> parameters_;
};

/// Full name of a layer's parameter, or of the parameter that it is tied to.
std::string parameter_name(const LayerSpecs& layer, const ParameterSpec& spec);

/// Returns the parameters that are trained, for which optimizers keep states.
std::vector<Parameter> trained_parameters(const std::vector<Parameter>& parameters);

/// Distance in elements from the beginning of a parameter of `count` elements to the beginning of the next.
std::int64_t padded_count(std::int64_t count, DType master);

/// The positions of a network's parameters in the flat buffers, and the parts that this rank updates. Trained
/// parameters come first, from the last layer to the first; then the statistics of layers, then frozen parameters. Each
/// parameter begins at a multiple of 64 bytes; the first trained parameter of a large layer begins at a block
/// (array_block).
class ParameterLayout {
 public:
  /// `layers`: one for each node of the graph. `dtype` is that of the activations.
  ParameterLayout(std::span<const LayerSpecs> layers, DType dtype);

  DType master() const { return master_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // Sizes in elements, gaps included.
  std::int64_t trained_size() const { return trained_size_; }
  std::int64_t summed_size() const { return summed_size_; }  ///< trained parameters and statistics
  std::int64_t size() const { return size_; }
  ElementRange statistics() const { return {trained_size_, summed_size_ - trained_size_}; }
  /// Statistics and frozen parameters.
  ElementRange others() const { return {trained_size_, size_ - trained_size_}; }
  /// Divides the trained parameters, between layers, into consecutive ranges of at most this many megabytes; a range
  /// may exceed that if it holds a large layer and the small ones next to it. Each range begins at a block.
  std::vector<ElementRange> units(double megabytes) const;

  /// The ranges that this rank's optimizer updates, in ascending order; initially all that is trained.
  const std::vector<ElementRange>& owned() const { return owned_; }
  std::int64_t owned_count() const;
  /// The trained parameters that lie entirely in owned().
  std::vector<Parameter> owned_parameters() const;
  /// Sets what this rank owns if ranks divide the trained parameters; one rank may own all of them. Must be called
  /// before the optimizer is made.
  void own(std::vector<ElementRange> ranges) {
    owned_ = std::move(ranges);
    is_divided_ = true;
  }
  bool is_divided() const { return is_divided_; }

 private:
  DType master_;
  std::vector<Parameter> parameters_;
  std::int64_t trained_size_ = 0, summed_size_ = 0, size_ = 0;
  std::vector<ElementRange> owned_;
  bool is_divided_ = false;
};

}  // namespace lockstep
