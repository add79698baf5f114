#include "tools/cli/judge/report.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/base/text/printable.h"
#include "engine/run/session/value_view.h"
#include "tools/cli/judge/judgement_text.h"

namespace snug::core::cli {
namespace {

constexpr int64_t kMostPixels = 160;   // of a picture's side; larger ones are drawn smaller
constexpr size_t kMostNumbers = 24;    // of a field that is no picture
constexpr size_t kMostCorners = 2000;  // of the ROC curve

// How a field is a picture: [channels, height, width] of one or three channels, or [height, width].
struct PictureShape {
  int64_t channels = 1, height = 0, width = 0;
};

std::optional<PictureShape> PictureOf(const DataField& field) {
  constexpr int64_t kLeast = 4;  // fewer rows or columns are a table
  const Shape& shape = field.type.shape;
  if (!IsFloating(field.type.dtype) || shape.rank() < 2 || shape.rank() > 3) return std::nullopt;
  PictureShape picture{shape.rank() == 3 ? shape[0] : 1, shape[shape.rank() - 2], shape[shape.rank() - 1]};
  if (picture.channels != 1 && picture.channels != 3) return std::nullopt;
  if (picture.height < kLeast || picture.width < kLeast) return std::nullopt;
  return picture;
}

// Writes the pixels as bytes, row by row, each with its channels. Numbers beyond [0, 1] are drawn from their least to
// their greatest.
void WritePicture(const PictureShape& shape, const std::vector<double>& numbers, Json& json) {
  double low = 0, high = 1;
  for (const double number : numbers) {
    if (!std::isfinite(number)) continue;
    low = std::min(low, number);
    high = std::max(high, number);
  }
  // Each pixel is the mean of a square of so many.
  const int64_t square = (std::max(shape.height, shape.width) + kMostPixels - 1) / kMostPixels;
  const int64_t height = (shape.height + square - 1) / square, width = (shape.width + square - 1) / square;
  std::string bytes;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < shape.channels; ++c) {
        double sum = 0;
        int64_t n = 0;
        for (int64_t j = y * square; j < std::min((y + 1) * square, shape.height); ++j) {
          for (int64_t i = x * square; i < std::min((x + 1) * square, shape.width); ++i, ++n) {
            sum += numbers[static_cast<size_t>((c * shape.height + j) * shape.width + i)];
          }
        }
        const double value = (sum / static_cast<double>(n) - low) / (high - low) * 255;
        bytes.push_back(static_cast<char>(static_cast<uint8_t>(std::isfinite(value) ? std::lround(value) : 0)));
      }
    }
  }
  std::string encoded;
  absl::Base64Escape(bytes, &encoded);
  json.Object().Key("channels").Number(shape.channels).Key("height").Number(height).Key("width").Number(width);
  json.Key("low").Number(low).Key("high").Number(high).Key("pixels").String(encoded).End();
}

// The first field that is a picture, or the first numbers of every field.
absl::Status WriteContent(const Dataset& dataset, int64_t sample, Json& json) {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::byte*> places;
  for (const DataField& field : dataset.fields()) bytes.emplace_back(static_cast<size_t>(field.type.size_bytes()));
  for (std::vector<std::byte>& field : bytes) places.push_back(field.data());
  SNUG_RETURN_IF_ERROR(dataset.Read(sample, places));
  for (size_t f = 0; f < bytes.size(); ++f) {
    const DataField& field = dataset.fields()[f];
    const std::optional<PictureShape> shape = PictureOf(field);
    if (!shape.has_value()) continue;
    WritePicture(*shape, LoadNumbers({&field.type, places[f]}), json.Key("picture"));
    return absl::OkStatus();
  }
  json.Key("numbers").Object();
  for (size_t f = 0; f < bytes.size(); ++f) {
    const DataField& field = dataset.fields()[f];
    const std::vector<double> numbers = LoadNumbers({&field.type, places[f]});
    json.Key(Printable(field.name)).Object().Key("count").Number(static_cast<int64_t>(numbers.size()));
    json.Key("first").Array();
    for (size_t i = 0; i < std::min(numbers.size(), kMostNumbers); ++i) json.Number(numbers[i]);
    json.End().End();
  }
  json.End();
  return absl::OkStatus();
}

absl::Status WriteWorst(const Judgement& judgement, const ClassNames& names, const Dataset& dataset, Json& json) {
  json.Key("worst").Array();
  for (const Judgement::Sample& sample : judgement.worst) {
    json.Object().Key("sample").Number(sample.index).Key("name").String(Printable(dataset.NameOf(sample.index)));
    json.Key("cross_entropy").Number(sample.cross_entropy);
    json.Key("label").String(names.Of(sample.label)).Key("label_probability").Number(sample.label_probability);
    json.Key("predicted").String(names.Of(sample.predicted));
    json.Key("predicted_probability").Number(sample.predicted_probability);
    json.Key("right").Bool(sample.label == sample.predicted);
    SNUG_RETURN_IF_ERROR(WriteContent(dataset, sample.index, json));
    json.End();
  }
  json.End();
  return absl::OkStatus();
}

// A curve of many corners is thinned, its ends stay.
void WriteRocCurve(const std::vector<RocPoint>& curve, Json& json) {
  json.Key("curve").Array();
  const size_t step = curve.size() / kMostCorners + 1;
  for (size_t i = 0; i < curve.size(); ++i) {
    if (i % step != 0 && i + 1 != curve.size()) continue;
    json.Array().Number(curve[i].false_positives).Number(curve[i].true_positives).Number(curve[i].threshold).End();
  }
  json.End();
}

}  // namespace

absl::StatusOr<std::string> ReportDocument(const ReportFacts& facts, const Judgement& judgement,
                                           const ClassNames& names, const Dataset& dataset) {
  Json json;
  json.Object().Key("network").String(Printable(facts.network)).Key("checkpoint").String(Printable(facts.checkpoint));
  json.Key("part").String(facts.part).Key("samples").Number(facts.report.samples);
  json.Key("rows_per_sample").Number(judgement.rows_per_sample).Key("seconds").Number(facts.report.seconds);
  json.Key("metrics").Object();
  for (const auto& [name, value] : facts.report.metrics) json.Key(name).Number(value);
  if (facts.perplexity > 0) json.Key("perplexity").Number(facts.perplexity);
  json.End().Key("binary").Bool(judgement.binary);
  WriteJudgement(judgement, names, json.Key("classes"));
  WriteRocCurve(judgement.curve, json);
  SNUG_RETURN_IF_ERROR(WriteWorst(judgement, names, dataset, json));
  json.End();
  return json.text();
}

}  // namespace snug::core::cli
