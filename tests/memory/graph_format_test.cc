#include <gmock/gmock.h>

#include "memory/formats/formats.h"

namespace snug::core::memory {
namespace {

using ::testing::ElementsAre;

TEST(GraphFormat, ReadsEveryKindOfTensor) {
  const absl::StatusOr<GraphFile> file = ParseGraph("f",
                                                    "# head\n"
                                                    "tensor 0 7 10 3,5,3\n"
                                                    "node 7 source 0\nnode 3 update 1\nnode 5 sink 0\n"
                                                    "tensor 1 7 123 3,7 persistent\n"
                                                    "tensor 2 5 0 3 war\n"
                                                    "tensor 3 7 0 5 control\n"
                                                    "tensor 4 3 8 -\n");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->ids, ElementsAre(7, 3, 5));
  EXPECT_THAT(file->tasks.names, ElementsAre("source", "update", "sink"));
  ASSERT_EQ(file->tasks.values.size(), 3u);
  EXPECT_EQ(file->tasks.values[0].producer, 0);
  EXPECT_THAT(file->tasks.values[0].readers, ElementsAre(1, 2));
  EXPECT_TRUE(file->tasks.values[1].resident);
  EXPECT_EQ(file->tasks.values[1].size_bytes, 123);
  EXPECT_TRUE(file->tasks.values[2].readers.empty());
  EXPECT_THAT(file->tasks.edges, ElementsAre(std::make_pair(2, 1), std::make_pair(0, 2)));
}

struct Bad {
  const char* text;
  const char* message;
};

TEST(GraphFormat, SaysWhereAndWhatIsWrong) {
  const Bad cases[] = {
      {"", "f: has no node"},
      {"node 1 a 0\nedge 1 2", "f:2: expected \"node\" or \"tensor\", found \"edge\""},
      {"node 1", "f:1: expected \"node ID NAME UPDATES\", found 2 fields"},
      {"node -1 a 0", "f:1: expected a node id of at least 0, found -1"},
      {"node 1 a 2", "f:1: expected 1 for an update, else 0, of at most 1, found 2"},
      {"node 1 a 0\nnode 1 b 0", "f:2: node 1 comes twice"},
      {"node 1 a 0\ntensor 0 1 4", "f:2: expected \"tensor ID PRODUCER BYTES CONSUMERS [KIND]\", found 4 fields"},
      {"node 1 a 0\ntensor 0 2 4 -", "f:2: there is no node 2, the producer"},
      {"node 1 a 0\ntensor 0 1 4 2", "f:2: there is no node 2, a consumer"},
      {"node 1 a 0\ntensor 0 1 4 x", "f:2: expected a consumer, found \"x\""},
      {"node 1 a 0\ntensor 0 1 4 1", "f:2: node 1 consumes what it produces"},
      {"node 1 a 0\ntensor 0 1 -4 -", "f:2: expected a size in bytes of at least 0, found -4"},
      {"node 1 a 0\ntensor 0 1 4 -\ntensor 0 1 4 -", "f:3: tensor 0 comes twice"},
      {"node 1 a 0\nnode 2 b 0\ntensor 0 1 4 2 war", "f:3: expected 0 bytes for war, found 4"},
      {"node 1 a 0\nnode 2 b 0\ntensor 0 1 4 2 often",
       "f:3: expected persistent, control, war or nothing, found \"often\""},
      {"node 1 a 0\ntensor 0 1 4611686018427387900 -\ntensor 1 1 4 -",
       "f:3: expected a size in bytes of at most 3, found 4"},
      {"node 1 a 0\nnode 2 b 0\ntensor 0 1 4 2\ntensor 1 2 4 1",
       "f: the tasks wait for each other in a cycle; \"a\" lies on it or behind it"},
  };
  for (const Bad& bad : cases) {
    const absl::StatusOr<GraphFile> file = ParseGraph("f", bad.text);
    ASSERT_FALSE(file.ok()) << bad.text;
    EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(file.status().message(), bad.message) << bad.text;
  }
}

TEST(GraphFormat, NamesAMissingFile) {
  EXPECT_EQ(ReadGraphFile("/nowhere.graph").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace snug::core::memory
