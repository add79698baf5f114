// The products of dense layers alone, on the same bytes, by our own loops and by libraries that are loaded by path:
// what any of them is faster at. All take their turn in each round.
//
//   products_bench [--threads=N] [--seconds=S] [--only=TEXT] [NAME=LIBRARY.so]...
//
// "packed" is ours, too, by weights that were packed before the clock started, as those of a loop are; it has no
// gradient of weights. A library with cblas_sgemm is called by it (OpenBLAS, BLIS, MKL's libmkl_rt.so); one of oneDNN 3
// by its matmul primitive, made before the clock starts, and one of oneDNN 2 by its dnnl_sgemm; one with SGEMM by that
// (PyTorch's libtorch_cpu.so, which has MKL in it). Environment variables of the libraries themselves still count: MKL
// wants MKL_THREADING_LAYER=GNU here, and OpenBLAS chooses its kernels by OPENBLAS_CORETYPE where that is set.
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/machine.h"
#include "engine/base/parallel.h"
#include "ops/kernels/matmul/blocked.h"
#include "ops/kernels/matmul/panels.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace {

// c [m, n] = a [m, k] b [k, n], where a stored operand may be the transpose of what is multiplied.
struct Product {
  std::string name;
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  const float *a, *b;
  float* c;
};

// A way to compute a product; null where it has none for it.
using Call = std::function<void()>;
struct Contender {
  std::string name;
  std::function<Call(const Product&)> prepare;
};

[[noreturn]] void Fail(const std::string& message) {
  std::fprintf(stderr, "products_bench: %s\n", message.c_str());
  std::exit(2);
}

Contender Own(int threads) {
  return {"snug", [threads](const Product& p) -> Call {
            const GemmCall<float> call{.m = p.m,
                                       .n = p.n,
                                       .k = p.k,
                                       .a = {p.a, p.transpose_a ? 1 : p.k, p.transpose_a ? p.m : 1},
                                       .b = {p.b, p.transpose_b ? 1 : p.n, p.transpose_b ? p.k : 1},
                                       .c = p.c};
            const size_t bytes = static_cast<size_t>(BlockedGemmWorkspaceBytes<float>(threads, p.m, p.n, p.k));
            const std::shared_ptr<void> workspace(std::aligned_alloc(64, (bytes + 63) / 64 * 64), std::free);
            return [=] { BlockedGemm(threads, call, Activation::kIdentity, workspace.get()); };
          }};
}

Contender Packed(int threads) {
  return {"packed", [threads](const Product& p) -> Call {
            if (p.transpose_a) return nullptr;
            const PanelsShape shape{.n = p.n, .k = p.k, .transposed = p.transpose_b};
            const auto bytes = static_cast<size_t>(PanelsBytes(shape));
            const std::shared_ptr<float> panels(static_cast<float*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)),
                                                std::free);
            PackIntoPanels(threads, shape, p.b, panels.get());
            return [=] {
              MultiplyByPanels<float>(threads,
                                      {.m = p.m, .n = p.n, .k = p.k, .a = p.a, .panels = panels.get(), .c = p.c});
            };
          }};
}

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

// ---- what is measured ----

struct Layer {
  const char* name;
  int64_t rows, in, out;
};
constexpr Layer kLayers[] = {
    {"gpt_small qkv", 1024, 256, 768},   {"gpt_small projection", 1024, 256, 256},
    {"gpt_small fc1", 1024, 256, 1024},  {"gpt_small fc2", 1024, 1024, 256},
    {"gpt_small head", 1024, 256, 5000}, {"mlp_big fc1", 256, 784, 2048},
    {"mlp_big fc2", 256, 2048, 2048},    {"ViT qkv", 788, 768, 2304},
    {"ViT projection", 788, 768, 768},   {"ViT fc1", 788, 768, 3072},
    {"ViT fc2", 788, 3072, 768},         {"BERT projection", 512, 768, 768},
    {"BERT fc1", 512, 768, 3072},        {"BERT fc2", 512, 3072, 768},
    {"LSTM round", 32, 256, 1024},       {"LSTM sequence", 2048, 256, 1024},
    {"GRU round", 32, 256, 768},         {"wide LSTM round", 64, 1024, 4096},
    {"narrow LSTM round", 32, 128, 512}, {"mlp fc1", 64, 784, 128},
};

struct Buffers {
  std::vector<float> a, b, c, expected;
};

// The three products of a layer: y = x W', dx = dy W, dW = dy' x, with W of [out, in].
std::array<Product, 3> ProductsOf(const Layer& layer, Buffers& buffers) {
  const auto largest =
      static_cast<size_t>(std::max({layer.rows * layer.in, layer.rows * layer.out, layer.in * layer.out}));
  for (std::vector<float>* buffer : {&buffers.a, &buffers.b, &buffers.c}) buffer->assign(largest, 0);
  for (size_t i = 0; i < largest; ++i) {
    buffers.a[i] = static_cast<float>(i * 7 % 31) / 31 - 0.5F;
    buffers.b[i] = static_cast<float>(i * 5 % 37) / 37 - 0.5F;
  }
  const float *a = buffers.a.data(), *b = buffers.b.data();
  float* c = buffers.c.data();
  const std::string name = layer.name;
  return {{{name + " y", layer.rows, layer.out, layer.in, false, true, a, b, c},
           {name + " dx", layer.rows, layer.in, layer.out, false, false, a, b, c},
           {name + " dW", layer.out, layer.in, layer.rows, true, false, a, b, c}}};
}

double Seconds(const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The median time of each, in turn; infinite where there is none.
std::vector<double> Measure(const std::vector<Call>& calls, double seconds) {
  std::vector<std::vector<double>> times(calls.size());
  double spent = 0;
  for (int round = 0; round < 5 || spent < seconds * static_cast<double>(calls.size()); ++round) {
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls[i] == nullptr) continue;
      calls[i]();  // its own data and code are in the caches then, as far as they fit
      times[i].push_back(Seconds(calls[i]));
      spent += 2 * times[i].back();
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& of_one : times) {
    if (of_one.empty()) {
      medians.push_back(INFINITY);
      continue;
    }
    std::nth_element(of_one.begin(), of_one.begin() + static_cast<std::ptrdiff_t>(of_one.size() / 2), of_one.end());
    medians.push_back(of_one[of_one.size() / 2]);
  }
  return medians;
}

void CheckEqual(const Product& p, const std::string& by, const std::vector<float>& expected) {
  for (size_t i = 0; i < static_cast<size_t>(p.m * p.n); ++i) {
    const float tolerance = 1e-4F * static_cast<float>(p.k);
    if (!(std::abs(p.c[i] - expected[i]) <= tolerance)) {
      Fail(absl::StrFormat("%s: element %d of %s is %g, of ours %g", by, i, p.name, p.c[i], expected[i]));
    }
  }
}

void Run(const std::vector<Contender>& contenders, double seconds, const std::string& only) {
  std::string head = "| product | m x n x k |", line = "| --- | --- |";
  for (const Contender& contender : contenders) {
    absl::StrAppend(&head, " ", contender.name, " |");
    absl::StrAppend(&line, " --- |");
  }
  std::printf("%s best / snug |\n%s --- |\n", head.c_str(), line.c_str());
  Buffers buffers;
  double log_sum = 0, worst = 0;
  int count = 0;
  for (const Layer& layer : kLayers) {
    for (const Product& product : ProductsOf(layer, buffers)) {
      if (product.name.find(only) == std::string::npos) continue;
      std::vector<Call> calls;
      for (const Contender& contender : contenders) {
        calls.push_back(contender.prepare(product));
        if (calls.back() == nullptr) continue;
        std::fill(buffers.c.begin(), buffers.c.end(), NAN);
        calls.back()();
        if (calls.size() == 1) buffers.expected = buffers.c;
        CheckEqual(product, contender.name, buffers.expected);
      }
      const std::vector<double> times = Measure(calls, seconds);
      std::string row = absl::StrFormat("| %s | %d x %d x %d |", product.name, product.m, product.n, product.k);
      const double operations = 2.0 * static_cast<double>(product.m * product.n * product.k);
      for (const double time : times) {
        absl::StrAppend(&row, time < INFINITY ? absl::StrFormat(" %.0f |", operations / time * 1e-9) : " |");
      }
      const double ratio = times[0] / *std::min_element(times.begin(), times.end());
      std::printf("%s %.2f |\n", row.c_str(), ratio);
      std::fflush(stdout);
      log_sum += std::log(ratio);
      worst = std::max(worst, ratio);
      ++count;
    }
  }
  if (count == 0) Fail(absl::StrCat("no product has \"", only, "\" in its name"));
  std::printf("\nGFLOP/s, medians; best / snug: %.2f in the mean of %d products, %.2f at most.\n",
              std::exp(log_sum / count), count, worst);
}

}  // namespace
}  // namespace snug::core

int main(int argc, char** argv) {
  using namespace snug::core;
  int threads = AvailableProcessors();
  double seconds = 0.1;
  std::string only;
  std::vector<absl::string_view> libraries;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (absl::ConsumePrefix(&argument, "--threads=")) {
      if (!absl::SimpleAtoi(argument, &threads) || threads < 1) Fail("--threads wants a positive number");
    } else if (absl::ConsumePrefix(&argument, "--seconds=")) {
      if (!absl::SimpleAtod(argument, &seconds) || seconds <= 0) Fail("--seconds wants a positive number");
    } else if (absl::ConsumePrefix(&argument, "--only=")) {
      only = std::string(argument);
    } else if (argument[0] != '-' && argument.find('=') != absl::string_view::npos) {
      libraries.push_back(argument);
    } else {
      std::fprintf(stderr, "usage: products_bench [--threads=N] [--seconds=S] [--only=TEXT] [NAME=LIBRARY.so]...\n");
      return 2;
    }
  }
  // Libraries read these when they are loaded.
  for (const char* variable : {"OMP_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS"}) {
    setenv(variable, absl::StrCat(threads).c_str(), 1);
  }
  SetThreadsPerOp(threads);
  std::vector<Contender> contenders = {Own(threads), Packed(threads)};
  for (const absl::string_view library : libraries) contenders.push_back(Load(library));
  std::printf("%s, %d threads\n\n", Name(CurrentIsa()), threads);
  Run(contenders, seconds, only);
}
