#include "tools/cli/judge/judgement_text.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace snug::core::cli {
namespace {

constexpr size_t kMostInTable = 20, kMostInMatrix = 12, kMostConfusions = 10;
constexpr size_t kNameWidth = 20, kCellWidth = 9;
// In JSON, the matrix is written out where it has no more rows than this. All its counts are there in any case.
constexpr int64_t kMostInDocument = 100;

// Pads text to a width in characters, or cuts it.
std::string FitWidth(const std::string& text, size_t width, bool right) {
  const auto starts = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  const auto characters = static_cast<size_t>(std::count_if(text.begin(), text.end(), starts));
  if (characters <= width) {
    const std::string blanks(width - characters, ' ');
    return right ? blanks + text : text + blanks;
  }
  size_t kept = 0, bytes = 0;
  for (; bytes < text.size(); ++bytes) {
    if (starts(text[bytes]) && ++kept == width) break;
  }
  return text.substr(0, bytes) + "~";
}

std::string ShareText(double value) { return std::isnan(value) ? "-" : absl::StrFormat("%.4f", value); }

std::string TableLine(const std::string& name, const std::vector<std::string>& cells) {
  std::string line = FitWidth(name, kNameWidth, false);
  for (const std::string& cell : cells) absl::StrAppend(&line, "  ", FitWidth(cell, kCellWidth, true));
  return line + "\n";
}

// The classes that occur, in their sequence.
std::vector<int64_t> Occurring(const Confusion& confusion) {
  std::vector<int64_t> classes;
  for (size_t c = 0; c < confusion.classes().size(); ++c) {
    if (confusion.classes()[c].occurs()) classes.push_back(static_cast<int64_t>(c));
  }
  return classes;
}

std::string ClassTable(const Judgement& judgement, const ClassNames& names) {
  const Confusion& confusion = judgement.confusion;
  const auto of = [&](int64_t c) -> const Confusion::Class& { return confusion.classes()[static_cast<size_t>(c)]; };
  std::vector<int64_t> shown = Occurring(confusion);
  const size_t there = shown.size();
  const bool bounded = there > kMostInTable;
  if (bounded) {
    std::stable_sort(shown.begin(), shown.end(), [&](int64_t a, int64_t b) { return of(a).f1() < of(b).f1(); });
    shown.resize(kMostInTable);
  }
  const bool areas = !judgement.areas.empty();
  std::vector<std::string> heads = {"rows", "predicted", "precision", "recall", "F1"};
  if (areas) heads.push_back("AUC");
  std::string text = TableLine("class", heads);
  for (const int64_t c : shown) {
    std::vector<std::string> cells = {absl::StrCat(of(c).samples), absl::StrCat(of(c).predicted),
                                      ShareText(of(c).precision()), ShareText(of(c).recall()), ShareText(of(c).f1())};
    if (areas) cells.push_back(ShareText(judgement.areas[static_cast<size_t>(c)]));
    text += TableLine(names.Of(c), cells);
  }
  const Confusion::Means means = confusion.means();
  std::vector<std::string> cells = {absl::StrCat(confusion.rows()), "", ShareText(means.precision),
                                    ShareText(means.recall), ShareText(means.f1)};
  if (areas) cells.push_back(ShareText(judgement.mean_area));
  text += TableLine(absl::StrCat("mean of classes"), cells);
  if (bounded) {
    absl::StrAppend(&text, "These are the ", kMostInTable, " of ", there, " classes with the lowest F1.\n");
  }
  return text;
}

std::string ConfusionMatrix(const Judgement& judgement, const ClassNames& names, const std::vector<int64_t>& classes) {
  std::vector<int64_t> predicted = classes;
  if (judgement.confusion.unpredicted() > 0) predicted.push_back(Confusion::kNone);
  std::vector<std::string> cells;
  for (const int64_t c : predicted) cells.push_back(names.Of(c));
  std::string text = TableLine("label \\ taken for", cells);
  for (const int64_t label : classes) {
    cells.clear();
    for (const int64_t c : predicted) {
      const int64_t count = judgement.confusion.Count(label, c);
      cells.push_back(count == 0 ? "." : absl::StrCat(count));
    }
    text += TableLine(names.Of(label), cells);
  }
  return text;
}

std::string ConfusionList(const Confusion& confusion, const ClassNames& names) {
  const std::vector<Confusion::Cell> cells = confusion.Confused();
  if (cells.empty()) return "No row was taken for another class.\n";
  std::string text = "most frequent confusions\n";
  for (size_t i = 0; i < std::min(cells.size(), kMostConfusions); ++i) {
    const Confusion::Cell& cell = cells[i];
    const int64_t samples = confusion.classes()[static_cast<size_t>(cell.label)].samples;
    absl::StrAppendFormat(&text, "  %s taken for %s: %d of %d (%.1f %%)\n", names.Of(cell.label),
                          names.Of(cell.predicted), cell.count, samples,
                          100 * static_cast<double>(cell.count) / static_cast<double>(samples));
  }
  if (cells.size() > kMostConfusions) {
    absl::StrAppend(&text, "  and ", cells.size() - kMostConfusions, " other pairs; --json has all\n");
  }
  return text;
}

}  // namespace

std::string JudgementText(const Judgement& judgement, const ClassNames& names) {
  const Confusion& confusion = judgement.confusion;
  std::string text =
      absl::StrCat("\nclasses: the scores are \"", judgement.scores, "\", the labels \"", judgement.labels, "\"");
  if (judgement.ignored > 0) {
    absl::StrAppend(&text, "; ", judgement.ignored, " rows are left out, as their labels say");
  }
  text += "\n";
  if (confusion.rows() == 0) return text + "No row counts.\n";
  text += ClassTable(judgement, names);
  if (judgement.in_top.has_value()) {
    absl::StrAppendFormat(&text, "top-%d accuracy %.4f: so many rows have their label among the %d highest scores.\n",
                          Judgement::kTop, judgement.top_accuracy(), Judgement::kTop);
  }
  if (!judgement.areas_missing.empty()) absl::StrAppend(&text, "No AUC: ", judgement.areas_missing, ".\n");
  if (confusion.unpredicted() > 0) {
    absl::StrAppend(&text, confusion.unpredicted(),
                    " rows have scores that are no numbers, and were taken for none.\n");
  }
  const std::vector<int64_t> classes = Occurring(confusion);
  text += "\n";
  return text + (classes.size() <= kMostInMatrix ? ConfusionMatrix(judgement, names, classes)
                                                 : ConfusionList(confusion, names));
}

void WriteJudgement(const Judgement& judgement, const ClassNames& names, Json& json) {
  const Confusion& confusion = judgement.confusion;
  const Confusion::Means means = confusion.means();
  json.Object().Key("scores").String(judgement.scores).Key("labels").String(judgement.labels);
  json.Key("rows").Number(confusion.rows()).Key("ignored").Number(judgement.ignored);
  json.Key("unpredicted").Number(confusion.unpredicted());
  json.Key("accuracy").Number(confusion.accuracy()).Key("cross_entropy").Number(judgement.cross_entropy);
  json.Key("precision").Number(means.precision).Key("recall").Number(means.recall).Key("f1").Number(means.f1);
  if (judgement.in_top.has_value()) {
    json.Key(absl::StrCat("top", Judgement::kTop, "_accuracy")).Number(judgement.top_accuracy());
  }
  json.Key("auc").Number(judgement.mean_area);
  if (!judgement.areas_missing.empty()) json.Key("auc_missing").String(judgement.areas_missing);
  json.Key("each").Array();
  for (size_t c = 0; c < confusion.classes().size(); ++c) {
    const Confusion::Class& one = confusion.classes()[c];
    const auto number = static_cast<int64_t>(c);
    json.Object().Key("class").Number(number).Key("name").String(names.Of(number));
    json.Key("rows").Number(one.samples).Key("predicted").Number(one.predicted).Key("right").Number(one.right);
    json.Key("precision").Number(one.precision()).Key("recall").Number(one.recall()).Key("f1").Number(one.f1());
    json.Key("auc");
    if (judgement.areas.empty()) {
      json.Null();
    } else {
      json.Number(judgement.areas[c]);
    }
    json.End();
  }
  json.End().Key("confusions").Array();
  for (const Confusion::Cell& cell : confusion.Confused()) {
    json.Array().Number(cell.label);
    if (cell.predicted == Confusion::kNone) {
      json.Null();
    } else {
      json.Number(cell.predicted);
    }
    json.Number(cell.count).End();
  }
  json.End();
  const auto classes = static_cast<int64_t>(confusion.classes().size());
  if (classes <= kMostInDocument) {
    json.Key("confusion").Array();
    for (int64_t label = 0; label < classes; ++label) {
      json.Array();
      for (int64_t predicted = 0; predicted < classes; ++predicted) json.Number(confusion.Count(label, predicted));
      json.End();
    }
    json.End();
  }
  json.End();
}

}  // namespace snug::core::cli
