#include "tests/cuda/emulation/generated.h"

#include <absl/strings/str_cat.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "engine/base/status.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/testing/source_path.h"

namespace snug::core::cuda::emulation {
namespace {

// This makes a source use the indices, the barrier and the warps of the program that loads it.
constexpr char kBefore[] = R"(
#define __global__
#define __device__
#define __shared__ static
namespace {
struct Index { unsigned x, y, z; };
const Index* snug_indices[4];
void (*snug_barrier)();
void (*snug_meet)(const void*);
}
extern "C" void SetUp(const void* const (&indices)[4], void (*barrier)(), void (*meet)(const void*)) {
  for (int i = 0; i < 4; ++i) snug_indices[i] = static_cast<const Index*>(indices[i]);
  snug_barrier = barrier;
  snug_meet = meet;
}
#define threadIdx (*snug_indices[0])
#define blockIdx (*snug_indices[1])
#define blockDim (*snug_indices[2])
#define gridDim (*snug_indices[3])
#define __syncthreads() snug_barrier()
#include "tests/cuda/emulation/warp.h"
namespace snug::core::cuda::emulation {
void MeetWarp(const WarpCall& call) { snug_meet(&call); }
}
)";

// Writes two functions for an entry: one runs a thread of it, the other tells how large its argument is.
std::string Runner(const std::string& entry) {
  return absl::StrCat("\nextern \"C\" void Run_", entry, "(const void* argument) { ", entry,
                      "(*static_cast<const snug::core::Arguments*>(argument)); }\n",
                      "extern \"C\" unsigned long SizeFor_", entry, "() { return sizeof(snug::core::Arguments); }\n");
}

// Returns the names of the kernels in a source.
std::vector<std::string> Entries(const std::string& source) {
  static constexpr char kKernel[] = "__global__ void ";
  std::vector<std::string> entries;
  for (size_t at = source.find(kKernel); at != std::string::npos; at = source.find(kKernel, at + 1)) {
    const size_t begin = at + sizeof(kKernel) - 1;
    entries.push_back(source.substr(begin, source.find('(', begin) - begin));
  }
  return entries;
}

// Compiles a source with those options of the emulated kernels that matter: in ISO C++ a product and a sum do not
// become one instruction.
void* Build(const std::string& source) {
  std::string folder = (std::filesystem::temp_directory_path() / "snug_generated_XXXXXX").string();
  SNUG_CHECK_MSG(mkdtemp(folder.data()) != nullptr, folder);
  {
    std::ofstream file(folder + "/kernel.cc");
    file << kBefore << source;
    for (const std::string& entry : Entries(source)) file << Runner(entry);
  }
  const std::string command = absl::StrCat("g++ -std=c++20 -O1 -fno-math-errno -fno-trapping-math -fPIC -shared -w -I",
                                           test::SourcePath(""), " -o ", folder, "/kernel.so ", folder, "/kernel.cc");
  SNUG_CHECK_MSG(std::system(command.c_str()) == 0, source);
  void* const library = dlopen((folder + "/kernel.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  SNUG_CHECK_MSG(library != nullptr, dlerror());
  using SetUp = void (*)(const void* const(&)[4], void (*)(), void (*)(const void*));
  reinterpret_cast<SetUp>(dlsym(library, "SetUp"))(
      {&threadIdx, &blockIdx, &blockDim, &gridDim}, Barrier,
      [](const void* call) { MeetWarp(*static_cast<const WarpCall*>(call)); });
  std::filesystem::remove_all(folder);
  return library;
}

void* LibraryOf(const std::string& source) {
  static auto* const libraries = new std::map<std::string, void*>;
  void*& library = (*libraries)[source];
  if (library == nullptr) library = Build(source);
  return library;
}

}  // namespace

std::function<void()> BindSource(const std::string& source, const std::string& entry, const unsigned (&grid)[3],
                                 unsigned threads, void** arguments) {
  void* const library = LibraryOf(source);
  using Run = void (*)(const void*);
  using Size = unsigned long (*)();
  const auto run = reinterpret_cast<Run>(dlsym(library, absl::StrCat("Run_", entry).c_str()));
  const auto size = reinterpret_cast<Size>(dlsym(library, absl::StrCat("SizeFor_", entry).c_str()));
  SNUG_CHECK_MSG(run != nullptr && size != nullptr, entry);
  std::vector<std::byte> argument(size());
  std::memcpy(argument.data(), arguments[0], argument.size());
  return RunGrid([run, argument] { run(argument.data()); }, grid, threads);
}

}  // namespace snug::core::cuda::emulation
