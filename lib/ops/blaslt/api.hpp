// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>

#include "core/device_runtime.hpp"

#ifdef KOKKOS_ENABLE_CUDA
#include <cublasLt.h>
#define LOCKSTEP_BLAS(name) cublas##name
#define LOCKSTEP_BLAS_VALUE(name) CUBLAS##name
#define LOCKSTEP_DATA_TYPE(name) CUDA_R_##name
#else
#include <hipblas/hipblas.h>
#include <hipblaslt/hipblaslt.h>
#define LOCKSTEP_BLAS(name) hipblas##name
#define LOCKSTEP_BLAS_VALUE(name) HIPBLAS##name
#define LOCKSTEP_DATA_TYPE(name) HIP_R_##name
#endif

/// cuBLASLt or hipBLASLt, whose names differ only in their prefix, except for the functions at the end.
namespace lockstep::blaslt {

using Handle = LOCKSTEP_BLAS(LtHandle_t);
using Status = LOCKSTEP_BLAS(Status_t);
using Operation = LOCKSTEP_BLAS(LtMatmulDesc_t);
using Matrix = LOCKSTEP_BLAS(LtMatrixLayout_t);
using Preference = LOCKSTEP_BLAS(LtMatmulPreference_t);
using Attribute = LOCKSTEP_BLAS(LtMatmulDescAttributes_t);
using Epilogue = LOCKSTEP_BLAS(LtEpilogue_t);
using Algorithm = LOCKSTEP_BLAS(LtMatmulHeuristicResult_t);

inline constexpr auto f64 = LOCKSTEP_DATA_TYPE(64F), f32 = LOCKSTEP_DATA_TYPE(32F), bf16 = LOCKSTEP_DATA_TYPE(16BF),
                      f16 = LOCKSTEP_DATA_TYPE(16F);
inline constexpr auto compute_f64 = LOCKSTEP_BLAS_VALUE(_COMPUTE_64F), compute_f32 = LOCKSTEP_BLAS_VALUE(_COMPUTE_32F),
                      compute_tf32 = LOCKSTEP_BLAS_VALUE(_COMPUTE_32F_FAST_TF32);
inline constexpr auto plain = LOCKSTEP_BLAS_VALUE(_OP_N), transposed = LOCKSTEP_BLAS_VALUE(_OP_T);
inline constexpr Epilogue no_epilogue = LOCKSTEP_BLAS_VALUE(LT_EPILOGUE_DEFAULT),
                          relu_epilogue = LOCKSTEP_BLAS_VALUE(LT_EPILOGUE_RELU),
                          bias_epilogue = LOCKSTEP_BLAS_VALUE(LT_EPILOGUE_BIAS),
                          relu_bias_epilogue = LOCKSTEP_BLAS_VALUE(LT_EPILOGUE_RELU_BIAS);
inline constexpr Attribute transpose_a = LOCKSTEP_BLAS_VALUE(LT_MATMUL_DESC_TRANSA),
                           transpose_b = LOCKSTEP_BLAS_VALUE(LT_MATMUL_DESC_TRANSB),
                           epilogue_of = LOCKSTEP_BLAS_VALUE(LT_MATMUL_DESC_EPILOGUE),
                           bias_pointer = LOCKSTEP_BLAS_VALUE(LT_MATMUL_DESC_BIAS_POINTER),
                           bias_type = LOCKSTEP_BLAS_VALUE(LT_MATMUL_DESC_BIAS_DATA_TYPE);
inline constexpr auto max_workspace = LOCKSTEP_BLAS_VALUE(LT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
inline constexpr Status success = LOCKSTEP_BLAS_VALUE(_STATUS_SUCCESS);

inline constexpr auto create = LOCKSTEP_BLAS(LtCreate);
inline constexpr auto create_operation = LOCKSTEP_BLAS(LtMatmulDescCreate);
inline constexpr auto create_matrix = LOCKSTEP_BLAS(LtMatrixLayoutCreate);
inline constexpr auto create_preference = LOCKSTEP_BLAS(LtMatmulPreferenceCreate);
inline constexpr auto set_attribute = LOCKSTEP_BLAS(LtMatmulDescSetAttribute);
inline constexpr auto set_preference = LOCKSTEP_BLAS(LtMatmulPreferenceSetAttribute);
inline constexpr auto choose_algorithms = LOCKSTEP_BLAS(LtMatmulAlgoGetHeuristic);
inline constexpr auto multiply = LOCKSTEP_BLAS(LtMatmul);

struct Destroy {
  void operator()(Operation it) const { static_cast<void>(LOCKSTEP_BLAS(LtMatmulDescDestroy)(it)); }
  void operator()(Matrix it) const { static_cast<void>(LOCKSTEP_BLAS(LtMatrixLayoutDestroy)(it)); }
  void operator()(Preference it) const { static_cast<void>(LOCKSTEP_BLAS(LtMatmulPreferenceDestroy)(it)); }
};

#ifdef KOKKOS_ENABLE_CUDA

inline constexpr auto describe = cublasLtGetStatusString;

inline std::string version() {
  const std::size_t number = cublasLtGetVersion();
  return "cuBLASLt " + std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

/// Adds partial sums in the type of the arithmetic; otherwise cuBLASLt may round them to 16 bits before adding them.
inline Status prefer_exact_sums(Preference to) {
  const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  return set_preference(to, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
}

/// Tells the library the alignment, in bytes, of all columns of the matrices.
inline Status prefer_alignments(Preference to, std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  Status status = set_preference(to, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a);
  if (status == success) status = set_preference(to, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b);
  if (status == success) status = set_preference(to, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c);
  if (status == success) status = set_preference(to, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c);
  return status;
}

#else

inline constexpr auto describe = hipblasStatusToString;

inline std::string version() {
  return "hipBLASLt " + std::to_string(HIPBLASLT_VERSION_MAJOR) + "." + std::to_string(HIPBLASLT_VERSION_MINOR) + "." +
         std::to_string(HIPBLASLT_VERSION_PATCH);
}

/// hipBLASLt gets no such preferences.
inline Status prefer_exact_sums(Preference) { return success; }
inline Status prefer_alignments(Preference, std::uint32_t, std::uint32_t, std::uint32_t) { return success; }

#endif

}  // namespace lockstep::blaslt
