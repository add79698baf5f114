// Loads a model file, text (*.pbtxt) or binary (*.pb), into a flat proto::Network, and knows where each part of it was
// written.
//
//   SNUG_ASSIGN_OR_RETURN(LoadedNetwork loaded, LoadNetworkFile("models/resnet50.pbtxt"));
//   for (int i = 0; i < loaded.network.layer_size(); ++i) Use(loaded.network.layer(i), loaded.source_map.LayerLoc(i));
//
// A file with mistakes gives one InvalidArgument whose message has a line `file:line:column: what` for each of the
// first 20, in the order of the file. Blocks, repeats and arguments (docs/model_files.md) are expanded here. The result
// is flat: every layer has a name of its own and exactly one op, and reads only inputs and layers that stand before it.
// The loader does not check the ranges of options: each op checks its own when shapes are inferred.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>

#include "proto/network.pb.h"
#include "proto/source_map.h"

namespace snug::core {

// Bounds against hostile files; the error for a file beyond one names it.
struct LoadOptions {
  int64_t max_file_bytes = int64_t{64} << 20;
  int64_t max_values = 2'000'000;  // in the text: fields, and the entries of lists
  int max_depth = 32;              // messages, lists and parentheses inside each other
  int max_block_depth = 16;        // blocks and repeats inside each other
  int max_layers = 200'000;        // counted after expansion
  int64_t max_expanded_bytes = int64_t{256} << 20;
  int max_name_length = 256;
  bool needs_layers = true;  // whether a file without layers is a mistake
};

struct LoadedNetwork {
  proto::Network network;
  SourceMap source_map;
};

// Chooses the form by the file's name: *.pb is binary, everything else is text. A network without a name is named after
// its file. Fails with NotFound, PermissionDenied or the like when the file cannot be read.
absl::StatusOr<LoadedNetwork> LoadNetworkFile(const std::string& path, const LoadOptions& options = {});
// Loads a file that has nothing but `training { }` and `optimizer { }`.
absl::StatusOr<LoadedNetwork> LoadTrainingFile(const std::string& path);
// `file_name` only appears in messages.
absl::StatusOr<LoadedNetwork> LoadNetworkText(absl::string_view text, absl::string_view file_name,
                                              const LoadOptions& options = {});
absl::StatusOr<LoadedNetwork> LoadNetworkBinary(absl::string_view bytes, absl::string_view file_name,
                                                const LoadOptions& options = {});

}  // namespace snug::core
