// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/exchange.hpp"

namespace lockstep {

Exchange::Exchange(std::unique_ptr<Transport> transport)
    : executor_(std::move(transport)),
      schedule_(pairwise_exchange(executor_.rank(), executor_.size())),
      to_(static_cast<std::size_t>(executor_.size())),
      from_(static_cast<std::size_t>(executor_.size())) {}

}  // namespace lockstep
