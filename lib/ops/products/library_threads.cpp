// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ops/products/library_threads.hpp"

#include <dlfcn.h>

#include <cstdint>

#include "core/execution.hpp"

namespace lockstep {
namespace {

template <class Integer>
void call_if_there(const char* name, Integer threads) {
  using Function = void (*)(Integer);
  if (auto function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name))) function(threads);
}

}  // namespace

void use_kokkos_threads() {
  if constexpr (!runs_on_device) {
    const int threads = ExecSpace().concurrency();
    call_if_there<int>("omp_set_num_threads", threads);
    call_if_there<int>("openblas_set_num_threads", threads);
    call_if_there<int>("MKL_Set_Num_Threads", threads);
    call_if_there<std::int64_t>("bli_thread_set_num_threads", threads);
  }
}

KokkosThreads::KokkosThreads() {
  if constexpr (!runs_on_device) {
    using Function = int (*)();
    if (auto threads = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"))) before_ = threads();
    if (before_ > 0) call_if_there<int>("omp_set_num_threads", ExecSpace().concurrency());
  }
}

KokkosThreads::~KokkosThreads() {
  if (before_ > 0) call_if_there<int>("omp_set_num_threads", before_);
}

}  // namespace lockstep
