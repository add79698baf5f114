#include "bench/products/libraries.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <dlfcn.h>

#include <array>
#include <memory>
#include <string>
#include <utility>

namespace snug::core {
namespace {

// ---- libraries with cblas_sgemm ----

using CblasSgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                            const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);

Contender Cblas(const std::string& name, CblasSgemm sgemm) {
  constexpr int kRowMajor = 101, kAsIs = 111, kTransposed = 112;
  return {name, [sgemm](const Product& p) -> Call {
            return [sgemm, p] {
              const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
              sgemm(kRowMajor, p.transpose_a ? kTransposed : kAsIs, p.transpose_b ? kTransposed : kAsIs, m, n, k, 1,
                    p.a, p.transpose_a ? m : k, p.b, p.transpose_b ? k : n, 0, p.c, n);
            };
          }};
}

// ---- MKL as it is within PyTorch's libtorch_cpu.so: by Fortran's interface, whose matrices are column-major ----

using FortranSgemm = void (*)(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
                              const int* k, const float* alpha, const float* a, const int* lda, const float* b,
                              const int* ldb, const float* beta, float* c, const int* ldc);

Contender Fortran(const std::string& name, FortranSgemm sgemm) {
  return {name, [sgemm](const Product& p) -> Call {
            return [sgemm, p] {  // the transpose of c is that of b times that of a
              const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
              const float one = 1, zero = 0;
              sgemm(p.transpose_b ? "T" : "N", p.transpose_a ? "T" : "N", &n, &m, &k, &one, p.b,
                    p.transpose_b ? &k : &n, p.a, p.transpose_a ? &m : &k, &zero, p.c, &n);
            };
          }};
}

// ---- oneDNN 2, whose sgemm is row-major and has the letters of Fortran's ----

using DnnlSgemm = int (*)(char transpose_a, char transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
                          const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);

Contender OneDnn2(const std::string& name, DnnlSgemm sgemm) {
  return {name, [sgemm](const Product& p) -> Call {
            return [sgemm, p] {
              const int status = sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n, p.k, 1, p.a,
                                       p.transpose_a ? p.m : p.k, p.b, p.transpose_b ? p.k : p.n, 0, p.c, p.n);
              if (status != 0) Fail(absl::StrCat("dnnl_sgemm ends with status ", status));
            };
          }};
}

// ---- oneDNN 3, by the functions of its C interface, whose types are all pointers ----

struct OneDnn3 {
  struct Argument {
    int id;
    void* memory;
  };
  int (*engine_create)(void** engine, int kind, size_t index);
  int (*stream_create)(void** stream, void* engine, unsigned flags);
  int (*desc_create)(void** desc, int ndims, const int64_t* dims, int type, const int64_t* strides);
  int (*matmul_create)(void** pd, void* engine, void* src, void* weights, void* bias, void* dst, void* attributes);
  int (*primitive_create)(void** primitive, void* pd);
  int (*memory_create)(void** memory, void* desc, void* engine, void* bytes);
  int (*execute)(void* primitive, void* stream, int count, const Argument* arguments);
  int (*wait)(void* stream);
  void* engine = nullptr;
  void* stream = nullptr;
};

void Check(int status, const char* what) {
  if (status != 0) Fail(absl::StrCat("oneDNN: ", what, " ends with status ", status));
}

template <class Fn>
void Find(void* library, const char* symbol, Fn& function) {
  function = reinterpret_cast<Fn>(dlsym(library, symbol));
  if (function == nullptr) Fail(absl::StrCat("the library has no ", symbol, "; is it of oneDNN 3?"));
}

Contender OneDnn(const std::string& name, void* library) {
  auto dnn = std::make_shared<OneDnn3>();
  Find(library, "dnnl_engine_create", dnn->engine_create);
  Find(library, "dnnl_stream_create", dnn->stream_create);
  Find(library, "dnnl_memory_desc_create_with_strides", dnn->desc_create);
  Find(library, "dnnl_matmul_primitive_desc_create", dnn->matmul_create);
  Find(library, "dnnl_primitive_create", dnn->primitive_create);
  Find(library, "dnnl_memory_create", dnn->memory_create);
  Find(library, "dnnl_primitive_execute", dnn->execute);
  Find(library, "dnnl_stream_wait", dnn->wait);
  constexpr int kCpu = 1, kInOrder = 1;
  Check(dnn->engine_create(&dnn->engine, kCpu, 0), "dnnl_engine_create");
  Check(dnn->stream_create(&dnn->stream, dnn->engine, kInOrder), "dnnl_stream_create");
  return {
      name, [dnn](const Product& p) -> Call {
        constexpr int kFloat32 = 3, kSource = 1, kWeights = 33, kResult = 17;
        const auto describe = [&](int64_t rows, int64_t columns, bool transposed) {
          const std::array<int64_t, 2> dims = {rows, columns};
          const std::array<int64_t, 2> strides = {transposed ? 1 : columns, transposed ? rows : 1};
          void* desc = nullptr;
          Check(dnn->desc_create(&desc, 2, dims.data(), kFloat32, strides.data()), "dnnl_memory_desc");
          return desc;
        };
        void* a = describe(p.m, p.k, p.transpose_a);
        void* b = describe(p.k, p.n, p.transpose_b);
        void* c = describe(p.m, p.n, false);
        void *pd = nullptr, *primitive = nullptr;
        Check(dnn->matmul_create(&pd, dnn->engine, a, b, nullptr, c, nullptr), "dnnl_matmul_primitive_desc");
        Check(dnn->primitive_create(&primitive, pd), "dnnl_primitive_create");
        std::array<OneDnn3::Argument, 3> arguments = {{{kSource, nullptr}, {kWeights, nullptr}, {kResult, nullptr}}};
        const auto bind = [&](size_t i, void* desc, const void* bytes) {
          Check(dnn->memory_create(&arguments[i].memory, desc, dnn->engine, const_cast<void*>(bytes)),
                "dnnl_memory_create");
        };
        bind(0, a, p.a);
        bind(1, b, p.b);
        bind(2, c, p.c);
        return [=] {
          Check(dnn->execute(primitive, dnn->stream, 3, arguments.data()), "dnnl_primitive_execute");
          Check(dnn->wait(dnn->stream), "dnnl_stream_wait");
        };
      }};
}

}  // namespace

Contender Load(absl::string_view argument) {
  const std::pair<std::string, std::string> name_and_path = absl::StrSplit(argument, absl::MaxSplits('=', 1));
  const auto& [name, path] = name_and_path;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library == nullptr) Fail(absl::StrCat("expected NAME=LIBRARY.so; found ", argument, ": ", dlerror()));
  if (void* sgemm = dlsym(library, "cblas_sgemm")) return Cblas(name, reinterpret_cast<CblasSgemm>(sgemm));
  if (void* sgemm = dlsym(library, "SGEMM")) return Fortran(name, reinterpret_cast<FortranSgemm>(sgemm));
  void* sgemm = dlsym(library, "dnnl_sgemm");
  if (sgemm != nullptr && dlsym(library, "dnnl_matmul_primitive_desc_create") == nullptr) {
    return OneDnn2(name, reinterpret_cast<DnnlSgemm>(sgemm));
  }
  return OneDnn(name, library);
}

}  // namespace snug::core
