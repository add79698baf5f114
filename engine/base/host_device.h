// SNUG_HOST_DEVICE marks functions that both the processor and a CUDA device run. It is empty unless nvcc compiles.
#pragma once

#if defined(__CUDACC__)
#define SNUG_HOST_DEVICE __host__ __device__
#else
#define SNUG_HOST_DEVICE
#endif
