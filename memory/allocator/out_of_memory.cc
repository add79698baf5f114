#include "memory/allocator/out_of_memory.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

namespace snug::core::memory {
namespace {

std::string Quoted(const std::string& name) { return name.empty() ? "(no name)" : absl::StrCat("\"", name, "\""); }

std::string WhatWouldFit(const OutOfMemory& facts) {
  std::vector<std::string> ways;
  if (facts.fits_bytes > 0) ways.push_back(absl::StrCat("a request of at most ", facts.fits_bytes, " bytes"));
  if (facts.limit_that_fits > 0) {
    ways.push_back(absl::StrCat("this one, with a memory limit of at least ", facts.limit_that_fits, " bytes"));
  }
  return ways.empty() ? "nothing more" : absl::StrJoin(ways, ", or ");
}

}  // namespace

absl::Status ToStatus(const OutOfMemory& facts, const OutOfMemoryAdvice& advice) {
  std::string text =
      absl::StrCat("out of memory on ", ToString(facts.place), ": asked for ", facts.asked_bytes, " bytes",
                   facts.asked_by.empty() ? "" : absl::StrCat(" for ", Quoted(facts.asked_by)), "\n  ", facts.cause);
  absl::StrAppend(&text, "\n  in use: ", facts.used_bytes, " bytes in ", facts.live_blocks, " blocks");
  if (facts.held_bytes > 0) absl::StrAppend(&text, "; of these the user holds ", facts.held_bytes);
  if (facts.waiting_bytes > 0) absl::StrAppend(&text, "; freed, waiting for a stream: ", facts.waiting_bytes);
  absl::StrAppend(&text, "\n  reserved: ", facts.reserved_bytes, " bytes; of these free: ", facts.free_bytes,
                  ", the largest piece ", facts.largest_free_bytes);
  if (facts.device_free_bytes >= 0)
    absl::StrAppend(&text, "\n  free on the device: ", facts.device_free_bytes, " bytes");
  if (facts.limit_bytes > 0) absl::StrAppend(&text, "\n  memory limit: ", facts.limit_bytes, " bytes");
  if (!facts.largest.empty()) {
    absl::StrAppend(&text, "\n  largest in use: ",
                    absl::StrJoin(facts.largest, ", ", [](std::string* out, const OutOfMemory::Holder& holder) {
                      absl::StrAppend(out, Quoted(holder.name), " ", holder.bytes);
                      if (!holder.held_as.empty()) absl::StrAppend(out, " (", holder.held_as, ": held by the user)");
                    }));
  }
  absl::StrAppend(&text, "\n  would fit: ", WhatWouldFit(facts));
  // There are enough free bytes, but not in one piece.
  if (facts.free_bytes >= facts.asked_bytes) {
    absl::StrAppend(&text, "\n  the free bytes together would hold it: they are in pieces between blocks in use");
  }
  if (advice) {
    const std::string more = advice(facts);
    if (!more.empty()) absl::StrAppend(&text, "\n  ", more);
  }
  return absl::ResourceExhaustedError(text);
}

}  // namespace snug::core::memory
