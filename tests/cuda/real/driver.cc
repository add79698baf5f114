// A libcuda.so.1 for machines without one, so that the real cuDNN can prepare its engines there for a device that is
// only described: it compiles kernels, and "loads" them. Nothing can be run; whatever else is asked fails.
// NOLINTBEGIN(readability-identifier-naming): the names are the driver's
namespace {
constexpr int kUnknown = 999;
char g_loaded;  // stands for what was loaded
}  // namespace

extern "C" {

__attribute__((visibility("default"))) int cuLibraryLoadData(void** library) {
  *library = &g_loaded;
  return 0;
}
__attribute__((visibility("default"))) int cuLibraryGetKernel(void** kernel) {
  *kernel = &g_loaded;
  return 0;
}
__attribute__((visibility("default"))) int cuKernelGetFunction(void** function) {
  *function = &g_loaded;
  return 0;
}
__attribute__((visibility("default"))) int cuLibraryUnload() { return 0; }
__attribute__((visibility("default"))) int cuKernelSetAttribute() { return 0; }

#define SNUG_REFUSES(function) \
  __attribute__((visibility("default"))) int function() { return kUnknown; }
// cuDNN looks these up before it calls any of them.
SNUG_REFUSES(cuCtxGetCurrent)
SNUG_REFUSES(cuCtxGetDevice)
SNUG_REFUSES(cuCtxGetLimit)
SNUG_REFUSES(cuCtxPopCurrent)
SNUG_REFUSES(cuCtxPushCurrent)
SNUG_REFUSES(cuDeviceGet)
SNUG_REFUSES(cuDeviceGetAttribute)
SNUG_REFUSES(cuDeviceGetCount)
SNUG_REFUSES(cuDevicePrimaryCtxRelease)
SNUG_REFUSES(cuDevicePrimaryCtxReset)
SNUG_REFUSES(cuDevicePrimaryCtxRetain)
SNUG_REFUSES(cuDriverGetVersion)
SNUG_REFUSES(cuFuncGetAttribute)
SNUG_REFUSES(cuFuncSetAttribute)
SNUG_REFUSES(cuGetErrorName)
SNUG_REFUSES(cuGetErrorString)
SNUG_REFUSES(cuInit)
SNUG_REFUSES(cuKernelGetAttribute)
SNUG_REFUSES(cuLaunchCooperativeKernel)
SNUG_REFUSES(cuLaunchKernel)
SNUG_REFUSES(cuLaunchKernelEx)
SNUG_REFUSES(cuLibraryLoadFromFile)
SNUG_REFUSES(cuLinkAddData)
SNUG_REFUSES(cuLinkAddData_v2)
SNUG_REFUSES(cuLinkAddFile_v2)
SNUG_REFUSES(cuLinkComplete)
SNUG_REFUSES(cuLinkCreate)
SNUG_REFUSES(cuLinkCreate_v2)
SNUG_REFUSES(cuLinkDestroy)
SNUG_REFUSES(cuMemcpyDtoH_v2)
SNUG_REFUSES(cuModuleGetFunction)
SNUG_REFUSES(cuModuleGetGlobal_v2)
SNUG_REFUSES(cuModuleLoadData)
SNUG_REFUSES(cuModuleLoadDataEx)
SNUG_REFUSES(cuModuleLoadFatBinary)
SNUG_REFUSES(cuModuleUnload)
SNUG_REFUSES(cuOccupancyMaxActiveBlocksPerMultiprocessor)
SNUG_REFUSES(cuOccupancyMaxPotentialClusterSize)
SNUG_REFUSES(cuStreamGetCtx)
SNUG_REFUSES(cuStreamGetGreenCtx)
SNUG_REFUSES(cuStreamSynchronize)
SNUG_REFUSES(cuTensorMapEncodeTiled)
#undef SNUG_REFUSES

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
