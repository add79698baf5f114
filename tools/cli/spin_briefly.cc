#include "tools/cli/spin_briefly.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace snug::core::cli {
namespace {

constexpr char kTurns[] = "10000";  // some ten microseconds, longer than it takes to hand over the next op

}  // namespace

void SpinBriefly(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::error_code unknown;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (unknown || setenv("GOMP_SPINCOUNT", kTurns, 0) != 0) return;
  execv(program.c_str(), argv);  // if this fails the program just goes on, slower under load
}

}  // namespace snug::core::cli
