// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <hipblas/hipblas.h>
#include <hipblaslt/hipblaslt.h>

#include <string>

#include "core/execution.hpp"

/// hipBLASLt under names that it shares with cuBLASLt.
namespace lockstep::blaslt {

using Handle = hipblasLtHandle_t;
using Status = hipblasStatus_t;
using Operation = hipblasLtMatmulDesc_t;
using Matrix = hipblasLtMatrixLayout_t;
using Preference = hipblasLtMatmulPreference_t;
using Attribute = hipblasLtMatmulDescAttributes_t;
using PreferenceAttribute = hipblasLtMatmulPreferenceAttributes_t;
using Epilogue = hipblasLtEpilogue_t;
using Algorithm = hipblasLtMatmulHeuristicResult_t;
using DataType = hipDataType;
using ComputeType = hipblasComputeType_t;

inline constexpr DataType f64 = HIP_R_64F, f32 = HIP_R_32F, bf16 = HIP_R_16BF, f16 = HIP_R_16F;
inline constexpr ComputeType compute_f64 = HIPBLAS_COMPUTE_64F, compute_f32 = HIPBLAS_COMPUTE_32F,
                             compute_tf32 = HIPBLAS_COMPUTE_32F_FAST_TF32;
inline constexpr auto plain = HIPBLAS_OP_N, transposed = HIPBLAS_OP_T;
inline constexpr Epilogue no_epilogue = HIPBLASLT_EPILOGUE_DEFAULT, relu_epilogue = HIPBLASLT_EPILOGUE_RELU,
                          bias_epilogue = HIPBLASLT_EPILOGUE_BIAS, relu_bias_epilogue = HIPBLASLT_EPILOGUE_RELU_BIAS;
inline constexpr Attribute transpose_a = HIPBLASLT_MATMUL_DESC_TRANSA, transpose_b = HIPBLASLT_MATMUL_DESC_TRANSB,
                           epilogue_of = HIPBLASLT_MATMUL_DESC_EPILOGUE,
                           bias_pointer = HIPBLASLT_MATMUL_DESC_BIAS_POINTER,
                           bias_type = HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE;
inline constexpr PreferenceAttribute max_workspace = HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
inline constexpr Status success = HIPBLAS_STATUS_SUCCESS;

inline constexpr auto create = hipblasLtCreate;
inline constexpr auto create_operation = hipblasLtMatmulDescCreate;
inline constexpr auto create_matrix = hipblasLtMatrixLayoutCreate;
inline constexpr auto create_preference = hipblasLtMatmulPreferenceCreate;
inline constexpr auto set_attribute = hipblasLtMatmulDescSetAttribute;
inline constexpr auto set_preference = hipblasLtMatmulPreferenceSetAttribute;
inline constexpr auto choose_algorithms = hipblasLtMatmulAlgoGetHeuristic;
inline constexpr auto multiply = hipblasLtMatmul;
inline constexpr auto describe = hipblasStatusToString;

struct Destroy {
  void operator()(Operation it) const { static_cast<void>(hipblasLtMatmulDescDestroy(it)); }
  void operator()(Matrix it) const { static_cast<void>(hipblasLtMatrixLayoutDestroy(it)); }
  void operator()(Preference it) const { static_cast<void>(hipblasLtMatmulPreferenceDestroy(it)); }
};

inline std::string version() {
  return "hipBLASLt " + std::to_string(HIPBLASLT_VERSION_MAJOR) + "." + std::to_string(HIPBLASLT_VERSION_MINOR) + "." +
         std::to_string(HIPBLASLT_VERSION_PATCH);
}
inline auto stream_of(const ExecSpace& space) { return space.hip_stream(); }

/// It asks nobody: its kernels take any alignment.
inline Status prefer_alignments(Preference, std::uint32_t, std::uint32_t, std::uint32_t) { return success; }

}  // namespace lockstep::blaslt
