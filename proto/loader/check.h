// Checks what the types of fields cannot say about a network. Text and binary files have the same rules.
#pragma once

#include <absl/strings/string_view.h>

#include <functional>
#include <string>

#include "proto/loader/error_list.h"
#include "proto/source_map.h"

namespace snug::proto {
class Input;
class Network;
}  // namespace snug::proto

namespace snug::core {
struct LoadOptions;
}

namespace snug::core::loader {

// Reports a mistake in the k-th entry of a field of the input; "" stands for the input itself.
using ReportInput = std::function<void(absl::string_view field, int k, std::string message)>;
// Checks the shape and the range of an input, but not its name.
void CheckInput(const proto::Input& input, const ReportInput& report);

// Checks all of a flat network that has no positions, so the messages say which layer they mean.
void CheckBinary(const proto::Network& network, const LoadOptions& options, const SourceMap* map, ErrorList* errors);

// Checks the names in sub-networks that are written as such, and that every body that is asked for exists.
void CheckSubnetworks(const proto::Network& network, const SourceMap& map, const LoadOptions& options,
                      ErrorList* errors);

}  // namespace snug::core::loader
