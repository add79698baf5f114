#include "memory/formats/text_file.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <unistd.h>
#include <zlib.h>

namespace snug::core::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TestPath(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/snug_text_file_test_", getpid(), "_", name);
}

std::string WriteGz(const std::string& name, const std::string& text) {
  const std::string path = TestPath(name);
  gzFile file = gzopen(path.c_str(), "wb");
  EXPECT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
  EXPECT_EQ(gzclose(file), Z_OK);
  return path;
}

TEST(ReadTextFile, UnpacksWhatIsGzippedWhateverItsName) {
  const std::string text(200000, 'x');
  EXPECT_EQ(*ReadTextFile(WriteGz("a.txt", text)), text);
  ASSERT_TRUE(WriteTextFile(TestPath("b.gz"), text).ok());
  EXPECT_EQ(*ReadTextFile(TestPath("b.gz")), text);
}

TEST(ReadTextFile, RefusesTornFiles) {
  std::string noise;  // what does not pack, so that a part is missing for sure
  for (uint32_t i = 1, x = 1; i < 100000; ++i) noise.push_back(static_cast<char>((x = x * 1664525 + 1013904223) >> 24));
  const std::string path = WriteGz("torn.gz", noise);
  std::FILE* file = std::fopen(path.c_str(), "rb");
  std::string packed(50000, '\0');
  ASSERT_EQ(std::fread(packed.data(), 1, packed.size(), file), packed.size());
  std::fclose(file);
  ASSERT_TRUE(WriteTextFile(path, packed).ok());
  EXPECT_THAT(std::string(ReadTextFile(path).status().message()), HasSubstr("cannot be read to its end"));
}

TEST(ReadTextFile, SaysWhatIsWrong) {
  EXPECT_EQ(ReadTextFile("/nowhere/at/all").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadTextFile(::testing::TempDir()).status().message()), HasSubstr("a directory"));
  EXPECT_THAT(std::string(ReadTextFile(WriteGz("bomb.gz", std::string(5000, 'a')), 4999).status().message()),
              HasSubstr("more than 4999 bytes"));
  EXPECT_FALSE(WriteTextFile("/nowhere/at/all", "x").ok());
}

TEST(TextLines, SkipsCommentsAndCountsLines) {
  const std::string text = "# head\n\n a  1\tb \r\nlast,x,";
  TextLines lines("f", text);
  ASSERT_TRUE(lines.Next());
  EXPECT_THAT(lines.fields(), ElementsAre("a", "1", "b"));
  EXPECT_EQ(lines.number(), 3);
  ASSERT_TRUE(lines.Next(','));
  EXPECT_THAT(lines.fields(), ElementsAre("last", "x", ""));
  EXPECT_FALSE(lines.Next());
}

TEST(TextLines, AByteOrderMarkIsNoText) {
  TextLines lines("f",
                  "\xEF\xBB\xBF"
                  "id,size");
  ASSERT_TRUE(lines.Next(','));
  EXPECT_THAT(lines.fields(), ElementsAre("id", "size"));
}

TEST(TextLines, ErrorsSayFileAndLine) {
  const std::string text = "\nnode x 7";
  TextLines lines("dir/f.graph", text);
  ASSERT_TRUE(lines.Next());
  EXPECT_EQ(lines.Integer(1, "a node id", 0).status().message(), "dir/f.graph:2: expected a node id, found \"x\"");
  EXPECT_EQ(lines.Integer(2, "a size", 8).status().message(), "dir/f.graph:2: expected a size of at least 8, found 7");
  EXPECT_EQ(lines.Integer(2, "a size", 0, 6).status().message(),
            "dir/f.graph:2: expected a size of at most 6, found 7");
  EXPECT_EQ(lines.Integer(3, "a size", 0).status().message(),
            "dir/f.graph:2: expected a size as field 4, found the end of the line");
  EXPECT_EQ(*lines.Integer(2, "a size", 0), 7);
}

}  // namespace
}  // namespace snug::core::memory
