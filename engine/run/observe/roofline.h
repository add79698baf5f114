// Predicts how long the kernels of a step take on a GPU, and shows how near to its roofline each is.
//
// A kernel's roofline is the time that its operations or its bytes need at least, whichever is longer, at what the
// device does at best. The prediction adds what keeps a kernel from it: the share that kernels of its kind reach, data
// that are read twice, products whose tiles do not fill the device, launches. device_model.cc says where the numbers
// come from, and docs/cuda.md what is left out.
#pragma once

#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/text/json.h"
#include "engine/compile/pipeline.h"
#include "engine/run/observe/device_model.h"

namespace snug::core {

// Says what a kernel makes the device do, and so which of the device's numbers count.
enum class KernelKind : uint8_t {
  kLibraryProduct,      // tiles of a matrix product, on tensor cores unless it is in float32 or float64
  kLibraryConvolution,  // the same, where one factor is gathered from images
  kLibraryAttention,    // two products and more with a softmax between
  kOwnTensorCore,       // attention of our own
  kOwnProduct,          // products of our own, without tensor cores
  kStreaming,           // reads and writes what lies together, 16 bytes at a time
  kScattered,           // reads or writes few bytes at a time, or what lies apart
};
absl::string_view KernelKindName(KernelKind kind);

struct PredictedKernel {  // of one Step
  std::string node, op, kernel, types;
  KernelKind kind = KernelKind::kStreaming;
  double launches = 1;  // Steps that one launch serves have a part of it each
  double flops = 0;
  double bytes = 0;  // read or written at least once each
  double least_seconds = 0;
  double seconds = 0;
  std::string why;  // what keeps it from its roofline most

  double share() const { return seconds > 0 ? least_seconds / seconds : 1; }
};

struct Roofline {
  DeviceModel device;
  std::vector<PredictedKernel> kernels;  // by Step
  double launches = 0;
  double seconds = 0;        // of the step
  double least_seconds = 0;  // of all its kernels, one after the other
  double samples = 0;        // of a step
  double positions = 1;      // of a sample: the tokens of a text
};

// `one_by_one`: every Step is a launch of its own, as while each is timed.
Roofline PredictStep(const Compiled& compiled, const OpRegistry& registry, const DeviceModel& device,
                     bool one_by_one = false);

// Returns kinds of kernels, ops, and every kernel that is below half of its roofline with the reason; nodes that are
// alike are one line. `measured` are the seconds of each Step, or nothing.
std::string RooflineTable(const Roofline& roofline, absl::Span<const double> measured);
// Writes the same as a value, with all kernels in the order in which they run.
void WriteRoofline(const Roofline& roofline, absl::Span<const double> measured, Json& json);

}  // namespace snug::core
