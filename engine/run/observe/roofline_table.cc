// Shows a prediction: as tables of kinds, ops and what is slow, and as a value.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/types/span.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/run/observe/columns.h"
#include "engine/run/observe/roofline.h"

namespace snug::core {
namespace {

// Kernels of one kind, op or shape together.
struct Sum {
  std::string name, op, kernel, types, why;
  KernelKind kind = KernelKind::kStreaming;
  int64_t nodes = 0;
  double launches = 0, flops = 0, bytes = 0, least = 0, predicted = 0, measured = 0;

  void Add(const PredictedKernel& kernel, double seconds) {
    ++nodes;
    launches += kernel.launches;
    flops += kernel.flops;
    bytes += kernel.bytes;
    least += kernel.least_seconds;
    predicted += kernel.seconds;
    measured += seconds;
  }
};

template <class Key>
std::vector<Sum> SumsBy(const Roofline& roofline, absl::Span<const double> measured, const Key& key) {
  std::map<std::string, size_t> places;
  std::vector<Sum> sums;
  for (size_t i = 0; i < roofline.kernels.size(); ++i) {
    const PredictedKernel& kernel = roofline.kernels[i];
    const std::string name = key(kernel);
    const auto [at, is_new] = places.emplace(name, sums.size());
    if (is_new) {
      sums.push_back({.name = name,
                      .op = kernel.op,
                      .kernel = kernel.kernel,
                      .types = kernel.types,
                      .why = kernel.why,
                      .kind = kernel.kind});
    }
    sums[at->second].Add(kernel, measured.empty() ? 0 : measured[i]);
  }
  std::stable_sort(sums.begin(), sums.end(), [](const Sum& a, const Sum& b) { return a.predicted > b.predicted; });
  return sums;
}

std::string MsText(double seconds) { return absl::StrFormat("%.4f", seconds * 1e3); }
std::string Percent(double part, double of) { return of > 0 ? absl::StrFormat("%.0f%%", 100 * part / of) : "-"; }

// Appends nodes, launches, GB, GFLOP, least, predicted, of the roofline, and if there is any, measured.
void AppendNumbers(const Sum& sum, bool measured, std::vector<std::string>* row) {
  row->push_back(absl::StrCat(sum.nodes));
  row->push_back(absl::StrFormat("%.0f", sum.launches));
  row->push_back(absl::StrFormat("%.3f", sum.bytes * 1e-9));
  row->push_back(absl::StrFormat("%.1f", sum.flops * 1e-9));
  row->push_back(MsText(sum.least));
  row->push_back(MsText(sum.predicted));
  row->push_back(Percent(sum.least, sum.predicted));
  if (!measured) return;
  row->push_back(MsText(sum.measured));
  row->push_back(Percent(sum.least, sum.measured));
  row->push_back(absl::StrFormat("%.2f", sum.predicted > 0 ? sum.measured / sum.predicted : 0));
}

std::vector<std::string> Titles(std::vector<std::string> words, bool measured) {
  for (const char* title : {"nodes", "launches", "GB", "GFLOP", "least ms", "predicted ms", "of roofline"}) {
    words.emplace_back(title);
  }
  if (measured) {
    for (const char* title : {"measured ms", "of roofline", "/ predicted"}) words.emplace_back(title);
  }
  return words;
}

constexpr double kLow = 0.5;  // a kernel below this share of its roofline is named

// By the time that counts: what was measured, if anything.
double ShareOf(const Sum& sum, bool measured) {
  const double seconds = measured ? sum.measured : sum.predicted;
  return seconds > 0 ? sum.least / seconds : 1;
}

}  // namespace

absl::string_view KernelKindName(KernelKind kind) {
  switch (kind) {
    case KernelKind::kLibraryProduct:
      return "library, product";
    case KernelKind::kLibraryConvolution:
      return "library, convolution";
    case KernelKind::kLibraryAttention:
      return "library, attention";
    case KernelKind::kOwnTensorCore:
      return "own, tensor cores";
    case KernelKind::kOwnProduct:
      return "own, product";
    case KernelKind::kStreaming:
      return "own, streaming";
    case KernelKind::kScattered:
      return "own, scattered";
  }
  return "";
}

std::string RooflineTable(const Roofline& roofline, absl::Span<const double> measured) {
  const bool has_measured = !measured.empty();
  Columns kinds(Titles({"kind"}, has_measured));
  for (const Sum& sum :
       SumsBy(roofline, measured, [](const PredictedKernel& k) { return std::string(KernelKindName(k.kind)); })) {
    std::vector<std::string> row = {sum.name};
    AppendNumbers(sum, has_measured, &row);
    kinds.Add(std::move(row));
  }
  Columns ops(Titles({"op", "kernel"}, has_measured));
  for (const Sum& sum :
       SumsBy(roofline, measured, [](const PredictedKernel& k) { return absl::StrCat(k.op, "\n", k.kernel); })) {
    std::vector<std::string> row = {sum.op, sum.kernel};
    AppendNumbers(sum, has_measured, &row);
    ops.Add(std::move(row));
  }
  Columns low({"below half of its roofline", "kernel", "mostly because of", "of", "nodes",
               has_measured ? "measured ms" : "predicted ms", "of roofline"});
  for (const Sum& sum : SumsBy(roofline, measured, [](const PredictedKernel& k) {
         return absl::StrCat(k.op, "\n", k.kernel, "\n", k.types, "\n", k.why);
       })) {
    const double share = ShareOf(sum, has_measured);
    if (share >= kLow) continue;
    low.Add({sum.op, sum.kernel, sum.why, sum.types, absl::StrCat(sum.nodes),
             MsText(has_measured ? sum.measured : sum.predicted), Percent(share, 1)});
  }
  const double per_second = roofline.samples / roofline.seconds;
  std::string text = absl::StrFormat(
      "a step on %s, predicted: %.4f ms, %.0f samples/s%s; %.0f launches; its kernels' rooflines %.4f ms\n\n",
      roofline.device.name, roofline.seconds * 1e3, per_second,
      roofline.positions > 1 ? absl::StrFormat(", %.0f tokens/s", per_second * roofline.positions) : "",
      roofline.launches, roofline.least_seconds * 1e3);
  absl::StrAppend(&text, kinds.Text(1), "\n", ops.Text(2));
  if (low.rows() > 0) absl::StrAppend(&text, "\n", low.Text(4));
  return text;
}

void WriteRoofline(const Roofline& roofline, absl::Span<const double> measured, Json& json) {
  json.Object().Key("device").String(roofline.device.name).Key("seconds").Number(roofline.seconds);
  json.Key("samples_per_second").Number(roofline.samples / roofline.seconds);
  json.Key("positions").Number(roofline.positions).Key("launches").Number(roofline.launches);
  json.Key("least_seconds").Number(roofline.least_seconds).Key("kernels").Array();
  for (size_t i = 0; i < roofline.kernels.size(); ++i) {
    const PredictedKernel& kernel = roofline.kernels[i];
    json.Object().Key("node").String(kernel.node).Key("op").String(kernel.op).Key("kernel").String(kernel.kernel);
    json.Key("kind").String(KernelKindName(kernel.kind)).Key("types").String(kernel.types);
    json.Key("launches").Number(kernel.launches).Key("flops").Number(kernel.flops).Key("bytes").Number(kernel.bytes);
    json.Key("least_seconds").Number(kernel.least_seconds).Key("seconds").Number(kernel.seconds);
    if (!measured.empty()) json.Key("measured_seconds").Number(measured[i]);
    json.Key("share").Number(kernel.share()).Key("why").String(kernel.why).End();
  }
  json.End().End();
}

}  // namespace snug::core
