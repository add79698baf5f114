#include "interchange/import/naming.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <vector>

#include "interchange/onnx.pb.h"

namespace snug::core::onnx {
namespace {

struct Place {
  std::string module;  // "layer1.0"
  std::string op;      // "Add", "Add_1"
};

// PyTorch's exporter names nodes by the path of modules, each with the names of those around it: /layer1/layer1.0/Add.
Place PlaceOf(const std::string& name) {
  std::vector<std::string> parts = absl::StrSplit(name, '/', absl::SkipEmpty());
  if (parts.empty()) return {};
  Place place;
  place.op = parts.back();
  parts.pop_back();
  std::vector<std::string> path;
  for (const std::string& part : parts) {
    if (!path.empty() && absl::StartsWith(part, absl::StrCat(path.back(), "."))) {
      path.back() = part;
    } else {
      path.push_back(part);
    }
  }
  for (const std::string& part : path) absl::StrAppend(&place.module, place.module.empty() ? "" : ".", part);
  return place;
}

bool IsNumber(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
}

}  // namespace

Naming::Naming(const proto::onnx::GraphProto& graph) {
  for (const proto::onnx::NodeProto& node : graph.node()) {
    if (!absl::StartsWith(node.name(), "/")) continue;
    std::string module = PlaceOf(node.name()).module;
    while (module.find('.') != std::string::npos) {
      module = module.substr(0, module.rfind('.'));
      parents_.insert(module);
    }
  }
}

std::string Naming::OfWeight(const std::string& initializer) {
  const size_t dot = initializer.rfind('.');
  if (dot == std::string::npos || dot == 0 || absl::StrContains(initializer, "::")) return "";
  return initializer.substr(0, dot);
}

std::string Naming::OfNode(const proto::onnx::NodeProto& node) const {
  if (absl::StartsWith(node.name(), "/")) {
    const Place place = PlaceOf(node.name());
    const std::string op = absl::AsciiStrToLower(place.op);
    if (place.module.empty()) return op;
    return parents_.count(place.module) > 0 ? absl::StrCat(place.module, ".", op) : place.module;
  }
  const std::string& output = node.output_size() > 0 ? node.output(0) : node.name();
  if (!output.empty() && !IsNumber(output)) return output;
  return absl::StrCat(absl::AsciiStrToLower(node.op_type()), "_", output);
}

}  // namespace snug::core::onnx
