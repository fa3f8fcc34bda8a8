// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace lockstep {

/// Libraries bring threads of their own, as many as the machine has cores, whatever Kokkos was told:
/// with one rank a core, ranks would fight. Tells those that are loaded (OpenMP for oneDNN, OpenBLAS,
/// MKL, BLIS) to use as many as the execution space has. They are looked up by name, since neither
/// oneDNN nor Kokkos Kernels says what it was linked with. OpenMP's number belongs to the calling thread.
void use_kokkos_threads();

/// While it lives, OpenMP has as many threads as the execution space, for the calling thread; then as many as before.
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
