// What a network must keep beyond the types of its fields, the same for text and binary files.
#pragma once

#include <absl/strings/string_view.h>

#include <functional>
#include <string>

#include "proto/loader/error_list.h"
#include "proto/source_map.h"

namespace snug {
struct LoadOptions;
namespace proto {
class Input;
class Network;
}  // namespace proto
}  // namespace snug

namespace snug::loader {

// Where the mistake is: the k-th entry of a field of the input ("": the input itself).
using ReportInput = std::function<void(absl::string_view field, int k, std::string message)>;
// The shape and the range of an input; its name is not looked at.
void CheckInput(const proto::Input& input, const ReportInput& report);

// All of a flat network that came without positions: the messages say which layer they mean.
void CheckBinary(const proto::Network& network, const LoadOptions& options, const SourceMap* map, ErrorList* errors);

}  // namespace snug::loader
