// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cublasLt.h>

#include <string>

#include "core/execution.hpp"

/// cuBLASLt under names that it shares with hipBLASLt.
namespace lockstep::blaslt {

using Handle = cublasLtHandle_t;
using Status = cublasStatus_t;
using Operation = cublasLtMatmulDesc_t;
using Matrix = cublasLtMatrixLayout_t;
using Preference = cublasLtMatmulPreference_t;
using Attribute = cublasLtMatmulDescAttributes_t;
using PreferenceAttribute = cublasLtMatmulPreferenceAttributes_t;
using Epilogue = cublasLtEpilogue_t;
using Algorithm = cublasLtMatmulHeuristicResult_t;
using DataType = cudaDataType_t;
using ComputeType = cublasComputeType_t;

inline constexpr DataType f64 = CUDA_R_64F, f32 = CUDA_R_32F, bf16 = CUDA_R_16BF, f16 = CUDA_R_16F;
inline constexpr ComputeType compute_f64 = CUBLAS_COMPUTE_64F, compute_f32 = CUBLAS_COMPUTE_32F,
                             compute_tf32 = CUBLAS_COMPUTE_32F_FAST_TF32;
inline constexpr auto plain = CUBLAS_OP_N, transposed = CUBLAS_OP_T;
inline constexpr Epilogue no_epilogue = CUBLASLT_EPILOGUE_DEFAULT, relu_epilogue = CUBLASLT_EPILOGUE_RELU,
                          bias_epilogue = CUBLASLT_EPILOGUE_BIAS, relu_bias_epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
inline constexpr Attribute transpose_a = CUBLASLT_MATMUL_DESC_TRANSA, transpose_b = CUBLASLT_MATMUL_DESC_TRANSB,
                           epilogue_of = CUBLASLT_MATMUL_DESC_EPILOGUE,
                           bias_pointer = CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                           bias_type = CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE;
inline constexpr PreferenceAttribute max_workspace = CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
inline constexpr Status success = CUBLAS_STATUS_SUCCESS;

inline constexpr auto create = cublasLtCreate;
inline constexpr auto create_operation = cublasLtMatmulDescCreate;
inline constexpr auto create_matrix = cublasLtMatrixLayoutCreate;
inline constexpr auto create_preference = cublasLtMatmulPreferenceCreate;
inline constexpr auto set_attribute = cublasLtMatmulDescSetAttribute;
inline constexpr auto set_preference = cublasLtMatmulPreferenceSetAttribute;
inline constexpr auto choose_algorithms = cublasLtMatmulAlgoGetHeuristic;
inline constexpr auto multiply = cublasLtMatmul;
inline constexpr auto describe = cublasLtGetStatusString;

struct Destroy {
  void operator()(Operation it) const { static_cast<void>(cublasLtMatmulDescDestroy(it)); }
  void operator()(Matrix it) const { static_cast<void>(cublasLtMatrixLayoutDestroy(it)); }
  void operator()(Preference it) const { static_cast<void>(cublasLtMatmulPreferenceDestroy(it)); }
};

inline std::string version() {
  const std::size_t number = cublasLtGetVersion();
  return "cuBLASLt " + std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}
inline auto stream_of(const ExecSpace& space) { return space.cuda_stream(); }

/// The bytes of which the addresses of all columns are multiples.
inline Status prefer_alignments(Preference to, std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  Status status = set_preference(to, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a);
  if (status == success) status = set_preference(to, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b);
  if (status == success) status = set_preference(to, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c);
  if (status == success) status = set_preference(to, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c);
  return status;
}

}  // namespace lockstep::blaslt
