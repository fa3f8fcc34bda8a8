// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cstddef>

// Replacement of libcuda.so.1 on machines without a driver, for cuDNN's planner. The planner compiles kernels and loads
// them, which succeeds here; queries for devices report that there is none.

namespace {
constexpr int success = 0, no_device = 100;  // CUresult
int loaded;
}  // namespace

extern "C" {

int cuLibraryLoadData(void** library, const void*, void*, void*, unsigned, void*, void*, unsigned) {
  *library = &loaded;
  return success;
}
int cuLibraryGetKernel(void** kernel, void*, const char*) {
  *kernel = &loaded;
  return success;
}
int cuLibraryUnload(void*) { return success; }
int cuKernelSetAttribute(int, int, void*, int) { return success; }

#define LOCKSTEP_NO_DEVICE(name) \
  int name() { return no_device; }
LOCKSTEP_NO_DEVICE(cuCtxGetCurrent)
LOCKSTEP_NO_DEVICE(cuCtxGetDevice)
LOCKSTEP_NO_DEVICE(cuCtxGetLimit)
LOCKSTEP_NO_DEVICE(cuCtxPopCurrent)
LOCKSTEP_NO_DEVICE(cuCtxPushCurrent)
LOCKSTEP_NO_DEVICE(cuDeviceGet)
LOCKSTEP_NO_DEVICE(cuDeviceGetAttribute)
LOCKSTEP_NO_DEVICE(cuDeviceGetCount)
LOCKSTEP_NO_DEVICE(cuDevicePrimaryCtxRelease)
LOCKSTEP_NO_DEVICE(cuDevicePrimaryCtxReset)
LOCKSTEP_NO_DEVICE(cuDevicePrimaryCtxRetain)
LOCKSTEP_NO_DEVICE(cuDriverGetVersion)
LOCKSTEP_NO_DEVICE(cuFuncGetAttribute)
LOCKSTEP_NO_DEVICE(cuFuncSetAttribute)
LOCKSTEP_NO_DEVICE(cuGetErrorName)
LOCKSTEP_NO_DEVICE(cuGetErrorString)
LOCKSTEP_NO_DEVICE(cuGetExportTable)
LOCKSTEP_NO_DEVICE(cuInit)
LOCKSTEP_NO_DEVICE(cuKernelGetAttribute)
LOCKSTEP_NO_DEVICE(cuLaunchCooperativeKernel)
LOCKSTEP_NO_DEVICE(cuLaunchKernel)
LOCKSTEP_NO_DEVICE(cuLaunchKernelEx)
LOCKSTEP_NO_DEVICE(cuLibraryLoadFromFile)
LOCKSTEP_NO_DEVICE(cuLinkAddData)
LOCKSTEP_NO_DEVICE(cuLinkAddData_v2)
LOCKSTEP_NO_DEVICE(cuLinkAddFile_v2)
LOCKSTEP_NO_DEVICE(cuLinkComplete)
LOCKSTEP_NO_DEVICE(cuLinkCreate)
LOCKSTEP_NO_DEVICE(cuLinkCreate_v2)
LOCKSTEP_NO_DEVICE(cuLinkDestroy)
LOCKSTEP_NO_DEVICE(cuMemcpyDtoH_v2)
LOCKSTEP_NO_DEVICE(cuModuleGetFunction)
LOCKSTEP_NO_DEVICE(cuModuleGetGlobal_v2)
LOCKSTEP_NO_DEVICE(cuModuleLoadData)
LOCKSTEP_NO_DEVICE(cuModuleLoadDataEx)
LOCKSTEP_NO_DEVICE(cuModuleLoadFatBinary)
LOCKSTEP_NO_DEVICE(cuModuleUnload)
LOCKSTEP_NO_DEVICE(cuOccupancyMaxActiveBlocksPerMultiprocessor)
LOCKSTEP_NO_DEVICE(cuOccupancyMaxPotentialClusterSize)
LOCKSTEP_NO_DEVICE(cuStreamGetCtx)
LOCKSTEP_NO_DEVICE(cuStreamSynchronize)
LOCKSTEP_NO_DEVICE(cuTensorMapEncodeTiled)

}  // extern "C"
