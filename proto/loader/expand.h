// Turns the tree of a file into a flat network: layers become messages, blocks and repeats are expanded, and names are
// given their prefixes and resolved.
//
//   block { name: "unit" arg: "width" arg { name: "times" default: 1 } input: "x" layer { ... } output: "relu" }
//   layer { name: "a" input: "image" unit { width: 64 } }     # a use: layers "a.conv", ...; "a" is what it puts out
//   repeat { name: "b" times: 3 index: "i" input: "a" layer { name: "b$i" input: "$input" unit { width: 64 } } }
#pragma once

#include "proto/loader/error_list.h"
#include "proto/loader/syntax.h"
#include "proto/text_loader.h"

namespace snug::core::loader {

void Expand(const Value& file, const LoadOptions& options, LoadedNetwork* loaded, ErrorList* errors);

}  // namespace snug::core::loader
