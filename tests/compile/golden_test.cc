// Golden dumps of compile stages: tests/golden/compile/*.test. A new test is a new file:
//
//   # stage=30_backward gradients=a,b disable=dead_code      (the first line: what to do; more words in RunCase)
//   name: "example" ...                                       (a model file)
//   ----
//   graph "example" ...                                       (the expected text of that stage)
//
// SNUG_UPDATE_GOLDEN=1 rewrites the expected parts; review reads the difference.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "engine/compile/pipeline.h"
#include "engine/compile/summary.h"
#include "engine/graph/graph.h"
#include "proto/text_loader.h"
#include "tests/testing/source_path.h"

namespace snug::core {
namespace {

std::vector<std::string> Cases() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(test::SourcePath("tests/golden/compile"))) {
    if (entry.path().extension() == ".test") files.push_back(entry.path().stem().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::map<std::string, std::string> Words(const std::string& line) {
  std::map<std::string, std::string> words;
  for (const absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(word, absl::MaxSplits('=', 1));
    words.insert(pair);
  }
  return words;
}

std::vector<std::string> List(const std::string& text) { return absl::StrSplit(text, ',', absl::SkipEmpty()); }

std::string RunCase(const std::string& model, const std::map<std::string, std::string>& words) {
  const auto word = [&words](const std::string& key) {
    const auto it = words.find(key);
    return it == words.end() ? std::string() : it->second;
  };
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(model, "model");
  if (!loaded.ok()) return std::string(loaded.status().message());
  std::string text;
  CompileOptions options{.training = word("mode") != "forward", .plain_kernels = !words.contains("fast")};
  if (words.contains("batch")) options.batch = std::stoll(word("batch"));
  for (const std::string& pass : List(word("disable"))) options.disabled_passes.insert(pass);
  options.update_as_made = words.contains("as_made");
  options.recompute_sweeps = words.contains("recompute");
  options.gradients_from_outputs = words.contains("from_outputs");
  options.loss_in_blocks = words.contains("loss_in_blocks");
  options.half_byte_indices = words.contains("half_bytes");
  options.gradients = List(word("gradients"));
  options.fetch = List(word("fetch"));
  options.memory.strategy = words.contains("memory") ? word("memory") : "none";
  if (word("precision") == "bfloat16") options.precision = DType::kBFloat16;
  if (word("device") == "cuda") options.device = {Device::Kind::kCuda};
  if (words.contains("micro_batches")) {  // 4 samples in two parts: first or last
    options.batch = 4;
    options.micro_batches = {.count = 2, .last = word("micro_batches") == "last"};
  }
  options.observer = [&](absl::string_view stage, const Graph& graph) {
    if (stage == word("stage")) text = ToText(graph);
  };
  const absl::StatusOr<Compiled> compiled =
      Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  if (word("device") == "cuda" && !text.empty()) return text;  // a build without CUDA has no kernels, but the stage
  if (!compiled.ok()) return std::string(compiled.status().message()) + "\n";
  if (word("stage") == "plan") return PlanText(*compiled);
  if (word("stage") == "order") return OrderText(*compiled);
  return text.empty() ? "no such stage\n" : text;
}

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, StageEqualsGolden) {
  const std::string path = test::SourcePath(absl::StrCat("tests/golden/compile/", GetParam(), ".test"));
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  const std::pair<std::string, std::string> parts = absl::StrSplit(content.str(), absl::MaxSplits("----\n", 1));
  const std::string first_line = parts.first.substr(0, parts.first.find('\n'));
  ASSERT_EQ(first_line.substr(0, 1), "#") << path;
  const std::string found = RunCase(parts.first, Words(first_line.substr(1)));
  if (std::getenv("SNUG_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << parts.first << "----\n" << found;
    return;
  }
  EXPECT_EQ(found, parts.second) << path;
}

INSTANTIATE_TEST_SUITE_P(Compile, GoldenTest, testing::ValuesIn(Cases()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace snug::core
