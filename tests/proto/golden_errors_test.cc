// Each tests/golden/errors/NAME.pbtxt is a broken model file, and NAME.expected what the loader says of it, all of it.
// With SNUG_UPDATE_GOLDEN=1 in the environment the expectations are written anew, for review.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "proto/text_loader.h"
#include "tests/testing/source_path.h"

namespace snug::core {
namespace {

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<std::filesystem::path> BrokenFiles() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(test::SourcePath("tests/golden/errors"))) {
    if (entry.path().extension() == ".pbtxt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class GoldenErrors : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(GoldenErrors, SayWhatIsWrongAndWhere) {
  const std::filesystem::path& path = GetParam();
  const auto loaded = LoadNetworkText(ReadAll(path), path.filename().string());
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string found = std::string(loaded.status().message()) + "\n";
  std::filesystem::path expected_path = path;
  expected_path.replace_extension(".expected");
  if (std::getenv("SNUG_UPDATE_GOLDEN") != nullptr) std::ofstream(expected_path, std::ios::binary) << found;
  EXPECT_EQ(found, ReadAll(expected_path));
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenErrors, ::testing::ValuesIn(BrokenFiles()),
                         [](const auto& info) { return info.param.stem().string(); });

// Of 25 mistakes the first twenty are shown: each at the line after the comment that announces it, and nothing else.
TEST(GoldenErrors, TwentyOfTwentyFiveMistakesEachWhereItWasPlanted) {
  const std::string path = test::SourcePath("tests/golden/errors/twenty_five_mistakes.pbtxt");
  const std::string text = ReadAll(path);
  std::vector<int> planted;
  int line = 1;
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = text.find('\n', begin);
    const std::string content = text.substr(begin, end - begin);
    const size_t comment = content.find_first_not_of(' ');
    if (comment != std::string::npos && content.compare(comment, 2 + std::to_string(planted.size() + 1).size(),
                                                        "# " + std::to_string(planted.size() + 1)) == 0) {
      planted.push_back(line + 1);
    }
    begin = end + 1;
  }
  ASSERT_EQ(planted.size(), 25U);

  const auto loaded = LoadNetworkText(text, "f");
  ASSERT_FALSE(loaded.ok());
  std::vector<int> found;
  std::string message = std::string(loaded.status().message()) + "\n";
  std::string last;
  while (!message.empty()) {
    last = message.substr(0, message.find('\n'));
    message.erase(0, last.size() + 1);
    if (last.rfind("f:", 0) == 0) found.push_back(std::atoi(last.c_str() + 2));
  }
  EXPECT_EQ(last, "... and 5 more errors");
  EXPECT_EQ(found, std::vector<int>(planted.begin(), planted.begin() + 20));
}

}  // namespace
}  // namespace snug::core
