// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace lockstep {

/// Limits the threads of the libraries that are loaded (OpenMP for oneDNN, OpenBLAS, MKL, BLIS) to those of the
/// execution space. By default each uses as many as the machine has cores, so that with one rank per core ranks would
/// compete. The libraries are found by symbol name, since neither oneDNN nor Kokkos Kernels tells what it was linked
/// with. The OpenMP setting applies to the calling thread.
void use_kokkos_threads();

/// While it exists, OpenMP uses as many threads as the execution space in the calling thread; afterwards as many as
/// before.
class KokkosThreads {
 public:
  KokkosThreads();
  KokkosThreads(const KokkosThreads&) = delete;
  KokkosThreads& operator=(const KokkosThreads&) = delete;
  ~KokkosThreads();

 private:
  int before_ = 0;  ///< 0: there is no OpenMP
};

}  // namespace lockstep
