#include "engine/run/session/caller_buffers.h"

#include <absl/strings/str_cat.h>

#include <functional>
#include <string>
#include <utility>

#include "engine/base/status.h"

namespace snug::core {
namespace {

bool Overlap(absl::Span<const std::byte> a, absl::Span<const std::byte> b) {
  const std::less<const std::byte*> before;  // unlike <, it is a total order over unrelated arrays
  return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

std::string Quoted(const CallerBuffer& buffer) {
  return absl::StrCat(buffer.input ? "input \"" : "output \"", buffer.name, "\"");
}

}  // namespace

CallerBuffers::CallerBuffers(const Executable& executable, size_t alignment,
                             std::vector<absl::Span<const std::byte>> own)
    : buffers_(executable.caller_buffers),
      alignment_(alignment),
      own_(std::move(own)),
      addresses_(buffers_.size(), nullptr) {}

absl::Span<const std::byte> CallerBuffers::BytesOf(size_t i) const {
  return {addresses_[i], static_cast<size_t>(buffers_[i].type.size_bytes())};
}

absl::StatusOr<size_t> CallerBuffers::Bind(absl::string_view name, const Given& given) {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].name != name) continue;
    SNUG_RETURN_IF_ERROR(CheckFits(buffers_[i], given));
    addresses_[i] = static_cast<std::byte*>(given.data);
    checked_ = false;
    return i;
  }
  std::string known;
  for (const CallerBuffer& buffer : buffers_) absl::StrAppend(&known, known.empty() ? "" : ", ", buffer.name);
  return absl::NotFoundError(absl::StrCat("\"", name, "\" was not compiled to be bound; ",
                                          known.empty() ? "nothing was" : absl::StrCat("these were: ", known)));
}

absl::Status CallerBuffers::CheckFits(const CallerBuffer& buffer, const Given& given) const {
  const auto refuse = [&](auto... why) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(buffer), " ", buffer.type.ToString(), ": ", why...));
  };
  if (given.dtype != buffer.type.dtype || given.elements != buffer.type.num_elements()) {
    return refuse("expected a buffer of ", buffer.type.num_elements(), " ", Name(buffer.type.dtype), ", found ",
                  given.elements, " ", Name(given.dtype));
  }
  if (!buffer.input && !given.writable) return refuse("expected a buffer to write to, found one of const elements");
  if (given.data == nullptr) return refuse("expected a buffer, found a null pointer");
  const auto address = reinterpret_cast<uintptr_t>(given.data);
  if (address % alignment_ != 0) {
    return refuse("expected a buffer that begins at a multiple of ", alignment_, " bytes, found one ",
                  address % alignment_, " bytes behind; aligned new or std::aligned_alloc give such");
  }
  const absl::Span<const std::byte> bytes(static_cast<const std::byte*>(given.data),
                                          static_cast<size_t>(buffer.type.size_bytes()));
  for (const absl::Span<const std::byte> own : own_) {
    if (Overlap(bytes, own)) return refuse("expected a buffer of the caller, found the session's own memory");
  }
  return absl::OkStatus();
}

absl::Status CallerBuffers::CheckReady() {
  if (checked_) return absl::OkStatus();
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (addresses_[i] != nullptr) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(Quoted(buffers_[i]), " ", buffers_[i].type.ToString(),
                     ": it was compiled to be bound, and is not: Bind it before the step"));
  }
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (!buffers_[i].input) SNUG_RETURN_IF_ERROR(CheckApart(i));
  }
  checked_ = true;
  return absl::OkStatus();
}

absl::Status CallerBuffers::CheckApart(size_t written) const {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (i == written || !Overlap(BytesOf(i), BytesOf(written))) continue;
    return absl::FailedPreconditionError(absl::StrCat(Quoted(buffers_[written]), " and ", Quoted(buffers_[i]),
                                                      ": bound to bytes that overlap; a step writes its outputs while "
                                                      "it may still read the rest: bind them apart"));
  }
  return absl::OkStatus();
}

}  // namespace snug::core
