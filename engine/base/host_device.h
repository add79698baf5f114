// Functions that both the processor and a CUDA device run: SNUG_HOST_DEVICE before them. Nothing where nvcc is not at
// work.
#pragma once

#if defined(__CUDACC__)
#define SNUG_HOST_DEVICE __host__ __device__
#else
#define SNUG_HOST_DEVICE
#endif
