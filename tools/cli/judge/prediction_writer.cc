#include "tools/cli/judge/prediction_writer.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_replace.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "tools/cli/judge/prediction_sink.h"

namespace snug::core::cli {
namespace {

int64_t IntegerAt(const ValueView& view, int64_t i) {
  switch (view.type->dtype) {
    case DType::kInt32:
      return reinterpret_cast<const int32_t*>(view.data)[i];
    case DType::kInt64:
      return reinterpret_cast<const int64_t*>(view.data)[i];
    default:
      return reinterpret_cast<const uint8_t*>(view.data)[i];
  }
}

double RealAt(const ValueView& view, int64_t i) {
  switch (view.type->dtype) {
    case DType::kFloat64:
      return reinterpret_cast<const double*>(view.data)[i];
    case DType::kBFloat16:
      return static_cast<double>(reinterpret_cast<const BFloat16*>(view.data)[i]);
    default:
      return static_cast<double>(reinterpret_cast<const float*>(view.data)[i]);
  }
}

// A field as RFC 4180 has it.
std::string CsvText(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string Indexed(const std::string& name, int64_t i, int64_t n) {
  return CsvText(n > 1 ? absl::StrCat(name, "[", i, "]") : name);
}

// Writes text: the first bytes, then something for each sample, then the last bytes.
class TextWriter : public PredictionWriter {
 public:
  TextWriter(PredictionTable table, std::unique_ptr<PredictionSink> sink)
      : table_(std::move(table)), sink_(std::move(sink)) {}

  absl::Status EndBatch() override { return sink_->Check(); }
  absl::Status Finish() override {
    sink_->Write(End());
    return sink_->Finish();
  }
  std::string place() const override { return sink_->path(); }

 protected:
  virtual std::string End() const { return {}; }

  const PredictionTable table_;
  const std::unique_ptr<PredictionSink> sink_;
};

class CsvWriter final : public TextWriter {
 public:
  CsvWriter(PredictionTable table, std::unique_ptr<PredictionSink> sink)
      : TextWriter(std::move(table), std::move(sink)) {
    std::string head = table_.files ? "sample,file" : "sample";
    for (const PredictionTable::Value& value : table_.values) {
      const int64_t n = value.type.num_elements();
      for (int64_t i = 0; i < n; ++i) absl::StrAppend(&head, ",", Indexed(value.name, i, n));
    }
    for (int64_t i = 0; i < table_.told_rows; ++i) {
      absl::StrAppend(&head, ",", Indexed("class", i, table_.told_rows), ",",
                      Indexed("probability", i, table_.told_rows));
    }
    sink_->Write(head + "\n");
  }

  void Write(const PredictedSample& sample) override {
    std::string line = absl::StrCat(sample.number);
    if (table_.files) absl::StrAppend(&line, ",", CsvText(sample.file));
    for (const ValueView& view : sample.values) {
      for (int64_t i = 0; i < view.type->num_elements(); ++i) {
        if (!IsFloating(view.type->dtype)) {
          absl::StrAppend(&line, ",", IntegerAt(view, i));
        } else {
          // As many digits as tell apart all numbers of the type.
          absl::StrAppendFormat(&line, ",%.*g", view.type->dtype == DType::kFloat64 ? 17 : 9, RealAt(view, i));
        }
      }
    }
    for (const ToldClass& told : sample.told) {
      // What is not there is left empty: a class may well be called "none".
      absl::StrAppend(&line, ",", told.best >= 0 ? CsvText(table_.names.Of(told.best)) : "", ",");
      if (std::isfinite(told.probability)) absl::StrAppendFormat(&line, "%.9g", told.probability);
    }
    sink_->Write(line + "\n");
  }
};

// Writes the numbers of a value as lists within lists, from `axis` on; a scalar as a number. Returns how many it wrote.
int64_t WriteNested(const ValueView& view, int axis, int64_t from, Json& json) {
  const Shape& shape = view.type->shape;
  if (axis == shape.rank()) {
    if (IsFloating(view.type->dtype)) {
      // Of a float the fewest digits that read back as the same float.
      const double value = RealAt(view, from);
      double shortest = value;
      if (view.type->dtype != DType::kFloat64 && std::isfinite(value)) {
        shortest = std::strtod(absl::StrFormat("%.9g", value).c_str(), nullptr);
      }
      json.Number(shortest);
    } else {
      json.Number(IntegerAt(view, from));
    }
    return 1;
  }
  json.Array();
  int64_t written = 0;
  for (int64_t i = 0; i < shape[axis]; ++i) written += WriteNested(view, axis + 1, from + written, json);
  json.End();
  return written;
}

class JsonLinesWriter final : public TextWriter {
 public:
  using TextWriter::TextWriter;

  void Write(const PredictedSample& sample) override {
    Json json;
    json.Object().Key("sample").Number(sample.number);
    if (table_.files) json.Key("file").String(sample.file);
    for (size_t i = 0; i < sample.values.size(); ++i) {
      json.Key(table_.values[i].name);
      WriteNested(sample.values[i], 0, 0, json);
    }
    if (table_.told_rows > 0) {
      const auto list = [&](const char* key, auto&& write) {
        json.Key(key);
        if (table_.told_rows > 1) json.Array();
        for (const ToldClass& told : sample.told) write(told);
        if (table_.told_rows > 1) json.End();
      };
      list("class", [&](const ToldClass& told) {
        if (told.best < 0) {
          json.Null();
        } else if (table_.names.named(told.best)) {
          json.String(table_.names.Of(told.best));
        } else {
          json.Number(told.best);
        }
      });
      list("probability", [&](const ToldClass& told) {
        if (told.best < 0) {
          json.Null();
        } else {
          json.Number(told.probability);
        }
      });
    }
    json.End();
    sink_->Write(json.text() + "\n");
  }
};

// One document, with the numbers of one value as rows.
class DocumentWriter final : public TextWriter {
 public:
  DocumentWriter(PredictionTable table, std::unique_ptr<PredictionSink> sink)
      : TextWriter(std::move(table), std::move(sink)) {
    Json json;
    json.Object().Key("checkpoint").String(table_.checkpoint).Key("fetch").String(table_.values.front().name);
    json.Key("rows").Array();
    sink_->Write(json.text());
  }

  void Write(const PredictedSample& sample) override {
    Json json;
    json.Array();
    for (const double value : LoadNumbers(sample.values.front())) json.Number(value);
    json.End();
    sink_->Write((first_ ? "" : ", ") + json.text());
    first_ = false;
  }

 protected:
  std::string End() const override { return "]}\n"; }

 private:
  bool first_ = true;
};

// The header of an array in C order, in version 1 of the format; its length is a multiple of 64.
std::string NpyHeaderText(const PredictionTable::Value& value, int64_t samples) {
  const char* descr = "<f4";
  switch (value.type.dtype) {
    case DType::kFloat64:
      descr = "<f8";
      break;
    case DType::kInt32:
      descr = "<i4";
      break;
    case DType::kInt64:
      descr = "<i8";
      break;
    case DType::kUint8:
      descr = "|u1";
      break;
    case DType::kFloat32:
    case DType::kBFloat16:  // NumPy has none: it is written as float32
      break;
  }
  std::string shape = absl::StrCat("(", samples, ",");
  for (const int64_t dim : value.type.shape.dims()) absl::StrAppend(&shape, " ", dim, ",");
  std::string text = absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", shape, "), }");
  constexpr size_t kBefore = 10, kMultiple = 64;
  text.resize((kBefore + text.size() + 1 + kMultiple - 1) / kMultiple * kMultiple - kBefore, ' ');
  text.back() = '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header.push_back(static_cast<char>(text.size() & 255));
  header.push_back(static_cast<char>(text.size() >> 8));
  return header + text;
}

class NpyWriter final : public PredictionWriter {
 public:
  NpyWriter(const PredictionTable& table, std::vector<std::unique_ptr<PredictionSink>> sinks)
      : sinks_(std::move(sinks)) {
    for (size_t i = 0; i < sinks_.size(); ++i) sinks_[i]->Write(NpyHeaderText(table.values[i], table.samples));
  }

  void Write(const PredictedSample& sample) override {
    for (size_t i = 0; i < sinks_.size(); ++i) {
      const ValueView& view = sample.values[i];
      if (view.type->dtype != DType::kBFloat16) {
        sinks_[i]->Write({reinterpret_cast<const char*>(view.data), static_cast<size_t>(view.type->size_bytes())});
        continue;
      }
      for (int64_t e = 0; e < view.type->num_elements(); ++e) {
        const auto number = static_cast<float>(RealAt(view, e));
        sinks_[i]->Write({reinterpret_cast<const char*>(&number), sizeof(number)});
      }
    }
  }

  absl::Status EndBatch() override {
    for (const auto& sink : sinks_) SNUG_RETURN_IF_ERROR(sink->Check());
    return absl::OkStatus();
  }
  absl::Status Finish() override {
    for (const auto& sink : sinks_) SNUG_RETURN_IF_ERROR(sink->Finish());
    return absl::OkStatus();
  }
  std::string place() const override {
    std::string places;
    for (const auto& sink : sinks_) absl::StrAppend(&places, places.empty() ? "" : ", ", sink->path());
    return places;
  }

 private:
  std::vector<std::unique_ptr<PredictionSink>> sinks_;  // one for each value
};

// The file of one of several values: "out.npy" becomes "out.NAME.npy".
std::string NpyPathFor(const std::string& output, const std::string& name) {
  const std::string file = absl::StrReplaceAll(name, {{"/", "_"}});
  constexpr size_t kEnding = 4;
  if (!absl::EndsWith(output, ".npy")) return absl::StrCat(output, ".", file, ".npy");
  return absl::StrCat(output.substr(0, output.size() - kEnding), ".", file, ".npy");
}

absl::StatusOr<std::unique_ptr<PredictionWriter>> MakeNpyWriter(const PredictionTable& table,
                                                                const std::string& output) {
  const bool several = table.values.size() > 1;
  if (several && output.empty()) {
    return absl::InvalidArgumentError(
        "--format=npy: expected --output=FILE.npy, as each value has a file of its own, FILE.NAME.npy");
  }
  if (output.empty() && isatty(STDOUT_FILENO) != 0) {
    return absl::InvalidArgumentError("--format=npy: expected --output=FILE.npy, as a terminal shows no bytes");
  }
  std::vector<std::unique_ptr<PredictionSink>> sinks;
  for (const PredictionTable::Value& value : table.values) {
    const std::string path = several ? NpyPathFor(output, value.name) : output;
    for (const auto& other : sinks) {
      if (other->path() != path) continue;
      return absl::InvalidArgumentError(absl::StrCat("--fetch: two values would be written to ", path));
    }
    SNUG_ASSIGN_OR_RETURN(std::unique_ptr<PredictionSink> sink, PredictionSink::Open(path, table.read));
    sinks.push_back(std::move(sink));
  }
  return std::make_unique<NpyWriter>(table, std::move(sinks));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PredictionWriter>> MakePredictionWriter(PredictionFormat format, PredictionTable table,
                                                                       const std::string& output) {
  if (format == PredictionFormat::kNpy) return MakeNpyWriter(table, output);
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<PredictionSink> sink, PredictionSink::Open(output, table.read));
  std::unique_ptr<PredictionWriter> writer;
  if (format == PredictionFormat::kCsv) writer = std::make_unique<CsvWriter>(std::move(table), std::move(sink));
  if (format == PredictionFormat::kJsonLines) {
    writer = std::make_unique<JsonLinesWriter>(std::move(table), std::move(sink));
  }
  if (format == PredictionFormat::kDocument) {
    writer = std::make_unique<DocumentWriter>(std::move(table), std::move(sink));
  }
  return writer;
}

}  // namespace snug::core::cli
