// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <map>
#include <memory>

namespace lockstep {

/// What Graphs(shape) has planned: once for all layers of that shape, and for as long as the process lives, since cuDNN
/// may be gone before static objects are. Null for no examples.
template <class Graphs, class Shape>
std::shared_ptr<const Graphs> graphs_for(const Shape& shape) {
  static auto& planned = *new std::map<Shape, std::shared_ptr<const Graphs>>;
  auto& graphs = planned[shape];
  if (!graphs && shape.n > 0) graphs = std::make_shared<const Graphs>(shape);
  return graphs;
}

}  // namespace lockstep
