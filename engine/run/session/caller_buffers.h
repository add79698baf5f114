// Knows where the caller's buffers are (CompileOptions::bound). They are given before a step, kept until others are
// given, and checked, so that no step writes over bytes that it still reads.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/compile/executable.h"

namespace snug::core {

// Bytes of the caller.
struct Given {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t elements = 0;
  bool writable = true;
};

class CallerBuffers {
 public:
  // The alignment on the CPU.
  static constexpr size_t kAlignment = 64;

  // `alignment` is that of values on the device (Device::alignment): kernels choose what they do by it, so other
  // addresses could give other bits. `own` are the session's arenas, in which no buffer may lie. The Executable must
  // outlive this.
  CallerBuffers(const Executable& executable, size_t alignment, std::vector<absl::Span<const std::byte>> own);

  // The addresses are indexed by the numbers in Slots of Arena::kCaller; null: not bound yet. The array never moves.
  std::byte* const* addresses() const { return addresses_.data(); }

  // Binds a buffer and returns its number. On an error everything stays as it was. Allocates nothing unless it fails.
  absl::StatusOr<size_t> Bind(absl::string_view name, const Given& given);
  // Binds buffer `i` to bytes of the session's own, which nothing else writes.
  void BindOwn(size_t i, std::byte* data) { addresses_[i] = data; }
  // Must be called before a step. Checks that everything is bound, and that what is written overlaps nothing else.
  absl::Status CheckReady();

 private:
  absl::Status CheckFits(const CallerBuffer& buffer, const Given& given) const;
  absl::Status CheckApart(size_t written) const;
  absl::Span<const std::byte> BytesOf(size_t i) const;

  const std::vector<CallerBuffer>& buffers_;
  const size_t alignment_;
  const std::vector<absl::Span<const std::byte>> own_;
  std::vector<std::byte*> addresses_;
  bool checked_ = false;  // whether they were checked since the last one was bound
};

}  // namespace snug::core
