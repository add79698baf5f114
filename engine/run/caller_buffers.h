// Where the caller's buffers are (CompileOptions::bound): given before a step, kept until given anew, and checked, so
// that no step writes over what it still reads.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/compile/executable.h"

namespace snug {

// Bytes of the caller.
struct Given {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t elements = 0;
  bool writable = true;
};

class CallerBuffers {
 public:
  // On the CPU.
  static constexpr size_t kAlignment = 64;

  // `alignment`: kernels find every value where values begin on their device (Device::alignment), and choose what they
  // do by that: other addresses, other bits. `own`: the session's arenas, which no buffer may lie in. The Executable
  // must outlive it.
  CallerBuffers(const Executable& executable, size_t alignment, std::vector<absl::Span<const std::byte>> own);

  // By number, as Slots of Arena::kCaller have it; null: not bound yet. The array stays where it is.
  std::byte* const* addresses() const { return addresses_.data(); }

  // The number of what was bound. On an error everything stays as it was. Allocates nothing unless it fails.
  absl::StatusOr<size_t> Bind(absl::string_view name, const Given& given);
  // Before a step: everything is bound, and what is written lies apart from all the rest.
  absl::Status CheckReady();

 private:
  absl::Status CheckFits(const CallerBuffer& buffer, const Given& given) const;
  absl::Status CheckApart(size_t written) const;
  absl::Span<const std::byte> BytesOf(size_t i) const;

  const std::vector<CallerBuffer>& buffers_;
  const size_t alignment_;
  const std::vector<absl::Span<const std::byte>> own_;
  std::vector<std::byte*> addresses_;
  bool checked_ = false;  // since the last one was bound
};

}  // namespace snug
