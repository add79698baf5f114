// Products by libraries that are loaded by path.
#pragma once

#include <absl/strings/string_view.h>

#include "bench/products/contender.h"

namespace snug::core {

// Loads what NAME=LIBRARY.so says. A library with cblas_sgemm is called by it (OpenBLAS, BLIS, MKL's libmkl_rt.so); one
// of oneDNN 3 by its matmul primitive, made before the clock starts, and one of oneDNN 2 by its dnnl_sgemm; one with
// SGEMM by that (PyTorch's libtorch_cpu.so, which has MKL in it). What is no such library ends the program.
Contender Load(absl::string_view argument);

}  // namespace snug::core
