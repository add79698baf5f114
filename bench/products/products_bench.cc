// The products of dense layers alone, on the same bytes, by our own loops and by libraries that are loaded by path:
// what any of them is faster at. All take their turn in each round.
//
//   products_bench [--threads=N] [--seconds=S] [--only=TEXT] [--apart=MB] [NAME=LIBRARY.so]...
//
// Each product is done over and over on the same matrices, which are in the caches then as far as they fit. A network
// does not come back to its matrices before the next step: with --apart each call has others, of so many MB in all,
// which come from memory where no cache has that many; there are two at least.
//
// "packed" is ours, too, by weights that were packed before the clock started, as those of a loop are; it has no
// gradient of weights. libraries.h says which libraries are known. Environment variables of the libraries themselves
// still count: MKL wants MKL_THREADING_LAYER=GNU here, and OpenBLAS chooses its kernels by OPENBLAS_CORETYPE where that
// is set.
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/products/contender.h"
#include "bench/products/libraries.h"
#include "engine/base/machine.h"
#include "engine/base/parallel.h"
#include "memory/host_arena.h"
#include "ops/kernels/matmul/blocked.h"
#include "ops/kernels/matmul/panels.h"
#include "ops/kit/isa.h"

namespace snug::core {

void Fail(const std::string& message) {
  std::fprintf(stderr, "products_bench: %s\n", message.c_str());
  std::exit(2);
}

namespace {

// Memory as a network's is: on large pages where the system has them.
using Memory = std::shared_ptr<memory::HostArena>;

Memory Reserve(int64_t bytes) {
  auto arena = memory::HostArena::Create(bytes);
  if (!arena.ok()) Fail(std::string(arena.status().message()));
  return *std::move(arena);
}

// ---- our own ways ----

// All products share one workspace, as the nodes of a step do.
Contender Own(int threads) {
  const auto workspace = std::make_shared<Memory>();
  return {"snug", [threads, workspace](const Product& p) -> Call {
            const GemmCall<float> call{.m = p.m,
                                       .n = p.n,
                                       .k = p.k,
                                       .a = {p.a, p.transpose_a ? 1 : p.k, p.transpose_a ? p.m : 1},
                                       .b = {p.b, p.transpose_b ? 1 : p.n, p.transpose_b ? p.k : 1},
                                       .c = p.c};
            const int64_t bytes = BlockedGemmWorkspaceBytes<float>(threads, p.m, p.n, p.k);
            if (*workspace == nullptr || (*workspace)->size_bytes() < bytes) *workspace = Reserve(bytes);
            return [=] { BlockedGemm(threads, call, Activation::kIdentity, (*workspace)->data()); };
          }};
}

Contender Packed(int threads) {
  return {"packed", [threads](const Product& p) -> Call {
            if (p.transpose_a) return nullptr;
            const PanelsShape shape{.n = p.n, .k = p.k, .transposed = p.transpose_b};
            const Memory memory = Reserve(PanelsBytes(shape));
            auto* const panels = reinterpret_cast<float*>(memory->data());
            PackIntoPanels(threads, shape, p.b, panels);
            return [=, keep = memory] {
              MultiplyByPanels<float>(threads, {.m = p.m, .n = p.n, .k = p.k, .a = p.a, .panels = panels, .c = p.c});
            };
          }};
}

// ---- what is measured ----

struct Layer {
  const char* name;
  int64_t rows, in, out;
};
constexpr Layer kLayers[] = {
    {"gpt_small qkv", 1024, 256, 768},
    {"gpt_small projection", 1024, 256, 256},
    {"gpt_small fc1", 1024, 256, 1024},
    {"gpt_small fc2", 1024, 1024, 256},
    {"gpt_small head", 1024, 256, 5000},
    {"mlp_big fc1", 256, 784, 2048},
    {"mlp_big fc2", 256, 2048, 2048},
    {"ViT qkv", 788, 768, 2304},
    {"ViT projection", 788, 768, 768},
    {"ViT fc1", 788, 768, 3072},
    {"ViT fc2", 788, 3072, 768},
    {"BERT projection", 512, 768, 768},
    {"BERT fc1", 512, 768, 3072},
    {"BERT fc2", 512, 3072, 768},
    {"LSTM round", 32, 256, 1024},
    {"LSTM sequence", 2048, 256, 1024},
    {"GRU round", 32, 256, 768},
    {"wide LSTM round", 64, 1024, 4096},
    {"narrow LSTM round", 32, 128, 512},
    {"mlp fc1", 64, 784, 128},
    {"one image, 14 x 14 up", 196, 256, 1024},
    {"one image, 14 x 14 down", 196, 1024, 256},
    {"one image, 7 x 7 up", 49, 512, 2048},
    {"one image, 7 x 7 down", 49, 2048, 512},
};

// The three products of a layer: y = x W', dx = dy W, dW = dy' x, with W of [out, in].
std::array<Product, 3> ProductsOf(const Layer& layer) {
  const std::string name = layer.name;
  return {{{name + " y", layer.rows, layer.out, layer.in, false, true, nullptr, nullptr, nullptr},
           {name + " dx", layer.rows, layer.in, layer.out, false, false, nullptr, nullptr, nullptr},
           {name + " dW", layer.out, layer.in, layer.rows, true, false, nullptr, nullptr, nullptr}}};
}

// A product on several sets of matrices, of the same numbers.
class Sets {
 public:
  Sets(const Product& product, int64_t bytes_in_all)
      : a_(product.m * product.k), b_(product.n * product.k), c_(product.m * product.n) {
    const int64_t least = bytes_in_all > 0 ? 2 : 1;
    constexpr auto kBytes = static_cast<int64_t>(sizeof(float));
    const int64_t floats = WholeLines(a_) + WholeLines(b_) + WholeLines(c_);
    const int64_t sets = std::max(least, bytes_in_all / (floats * kBytes));
    memory_ = Reserve(sets * floats * kBytes);
    for (int64_t set = 0; set < sets; ++set) {
      float* const a = reinterpret_cast<float*>(memory_->data()) + set * floats;
      float* const b = a + WholeLines(a_);
      for (int64_t i = 0; i < a_; ++i) a[i] = static_cast<float>(i * 7 % 31) / 31 - 0.5F;
      for (int64_t i = 0; i < b_; ++i) b[i] = static_cast<float>(i * 5 % 37) / 37 - 0.5F;
      Product& of_set = products_.emplace_back(product);
      of_set.a = a;
      of_set.b = b;
      of_set.c = b + WholeLines(b_);
    }
  }

  // The product's calls by each contender, one for each set, after a comparison of their results with the first one's;
  // none where a contender has no way for it.
  std::vector<std::vector<Call>> Prepare(const std::vector<Contender>& contenders) const {
    std::vector<float> expected;
    std::vector<std::vector<Call>> all;
    for (const Contender& contender : contenders) {
      std::vector<Call>& calls = all.emplace_back();
      for (const Product& product : products_) {
        Call call = contender.prepare(product);
        if (call == nullptr) break;
        std::fill_n(product.c, c_, NAN);
        call();
        if (expected.empty()) expected.assign(product.c, product.c + c_);
        CheckEqual(product, contender.name, expected);
        calls.push_back(std::move(call));
      }
    }
    return all;
  }

 private:
  static int64_t WholeLines(int64_t floats) { return (floats + 15) / 16 * 16; }

  static void CheckEqual(const Product& p, const std::string& by, const std::vector<float>& expected) {
    for (size_t i = 0; i < expected.size(); ++i) {
      const float tolerance = 1e-4F * static_cast<float>(p.k);
      if (!(std::abs(p.c[i] - expected[i]) <= tolerance)) {
        Fail(absl::StrFormat("%s: element %d of %s is %g, of ours %g", by, i, p.name, p.c[i], expected[i]));
      }
    }
  }

  int64_t a_, b_, c_;  // floats
  Memory memory_;
  std::vector<Product> products_;
};

double Seconds(const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> times) {
  if (times.empty()) return INFINITY;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// The median time of each contender, in turn; infinite where it has no calls. No two calls that follow each other are
// on the same matrices where there are several.
std::vector<double> Measure(const std::vector<std::vector<Call>>& contenders, double seconds) {
  std::vector<std::vector<double>> times(contenders.size());
  double spent = 0;
  size_t turn = 0;
  for (int round = 0; round < 5 || spent < seconds * static_cast<double>(contenders.size()); ++round) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      const std::vector<Call>& calls = contenders[i];
      if (calls.empty()) continue;
      const Call& call = calls[turn++ % calls.size()];
      // Its own data and code are in the caches then, as far as they fit.
      if (calls.size() == 1) spent += Seconds(call);
      times[i].push_back(Seconds(call));
      spent += times[i].back();
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& of_one : times) medians.push_back(Median(std::move(of_one)));
  return medians;
}

struct Flags {
  int threads = AvailableProcessors();
  double seconds = 0.1;
  int64_t apart_bytes = 0;
  std::string only;
  std::vector<absl::string_view> libraries;
};

void Run(const std::vector<Contender>& contenders, const Flags& flags) {
  std::string head = "| product | m x n x k |", line = "| --- | --- |";
  for (const Contender& contender : contenders) {
    absl::StrAppend(&head, " ", contender.name, " |");
    absl::StrAppend(&line, " --- |");
  }
  std::printf("%s best / snug |\n%s --- |\n", head.c_str(), line.c_str());
  double log_rates = 0, log_ratios = 0, worst = 0;
  int count = 0;
  for (const Layer& layer : kLayers) {
    for (const Product& product : ProductsOf(layer)) {
      if (!absl::StrContains(product.name, flags.only)) continue;
      const Sets sets(product, flags.apart_bytes);
      const std::vector<double> times = Measure(sets.Prepare(contenders), flags.seconds);
      std::string row = absl::StrFormat("| %s | %d x %d x %d |", product.name, product.m, product.n, product.k);
      const double operations = 2e-9 * static_cast<double>(product.m * product.n * product.k);
      for (const double time : times) {
        absl::StrAppend(&row, time < INFINITY ? absl::StrFormat(" %.0f |", operations / time) : " |");
      }
      const double ratio = times[0] / *std::min_element(times.begin(), times.end());
      std::printf("%s %.2f |\n", row.c_str(), ratio);
      std::fflush(stdout);
      log_rates += std::log(operations / times[0]);
      log_ratios += std::log(ratio);
      worst = std::max(worst, ratio);
      ++count;
    }
  }
  if (count == 0) Fail(absl::StrCat("no product has \"", flags.only, "\" in its name"));
  std::printf(
      "\nGFLOP/s, medians; in the mean of %d products snug has %.1f; best / snug: %.2f in the mean, %.2f at most.\n",
      count, std::exp(log_rates / count), std::exp(log_ratios / count), worst);
}

Flags ParseFlags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (absl::ConsumePrefix(&argument, "--threads=")) {
      if (!absl::SimpleAtoi(argument, &flags.threads) || flags.threads < 1) Fail("--threads wants a positive number");
    } else if (absl::ConsumePrefix(&argument, "--seconds=")) {
      if (!absl::SimpleAtod(argument, &flags.seconds) || !(flags.seconds > 0 && flags.seconds < 3600)) {
        Fail("--seconds wants a positive number below 3600");
      }
    } else if (absl::ConsumePrefix(&argument, "--apart=")) {
      int64_t megabytes = 0;
      if (!absl::SimpleAtoi(argument, &megabytes) || megabytes < 1 || megabytes > 100000) {
        Fail(absl::StrCat("--apart wants 1 to 100000 MB, found ", argument));
      }
      flags.apart_bytes = megabytes * 1000000;
    } else if (absl::ConsumePrefix(&argument, "--only=")) {
      flags.only = std::string(argument);
    } else if (!absl::StartsWith(argument, "-") && absl::StrContains(argument, '=')) {
      flags.libraries.push_back(argument);
    } else {
      Fail("usage: products_bench [--threads=N] [--seconds=S] [--only=TEXT] [--apart=MB] [NAME=LIBRARY.so]...");
    }
  }
  return flags;
}

}  // namespace
}  // namespace snug::core

int main(int argc, char** argv) {
  using namespace snug::core;
  const Flags flags = ParseFlags(argc, argv);
  // Libraries read these when they are loaded.
  for (const char* variable : {"OMP_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS"}) {
    setenv(variable, absl::StrCat(flags.threads).c_str(), 1);
  }
  SetThreadsPerOp(flags.threads);
  std::vector<Contender> contenders = {Own(flags.threads), Packed(flags.threads)};
  for (const absl::string_view library : flags.libraries) contenders.push_back(Load(library));
  std::printf("%s, %d threads\n\n", Name(CurrentIsa()), flags.threads);
  Run(contenders, flags);
}
