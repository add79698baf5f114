// What kernels are judged by (bench/kernel_table.py): the rate of multiply-adds on registers, and of copies over
// working sets from the first-level cache to memory, with the instruction set that SNUG_ISA allows, as JSON.
//
//   rates_bench [--threads=N]
#include <absl/strings/numbers.h>
#include <absl/strings/strip.h>

#include <cstdint>
#include <cstdio>

#include "engine/base/machine.h"
#include "engine/base/text/json.h"
#include "ops/kit/isa.h"
#include "ops/machine_rates.h"

int main(int argc, char** argv) {
  using namespace snug::core;
  int threads = AvailableProcessors();
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (!absl::ConsumePrefix(&argument, "--threads=") || !absl::SimpleAtoi(argument, &threads) || threads < 1) {
      std::fprintf(stderr, "usage: rates_bench [--threads=N]\n");
      return 2;
    }
  }
  Json json;
  json.Object().Key("instructions").String(Name(CurrentIsa())).Key("threads").Number(int64_t{threads});
  json.Key("flops_per_second").Number(MultiplyAddFlopsPerSecond(threads)).Key("copies").Array();
  for (int64_t bytes = int64_t{32} << 10; bytes <= kBeyondCaches; bytes *= 4) {
    json.Object().Key("bytes").Number(bytes);
    json.Key("bytes_per_second").Number(CopyBytesPerSecond(threads, bytes)).End();
  }
  json.End().End();
  std::puts(json.text().c_str());
}
