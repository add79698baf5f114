#include "engine/base/text/source_loc.h"

#include <gtest/gtest.h>

namespace snug::core {
namespace {

std::shared_ptr<const std::string> Text(const char* text) { return std::make_shared<const std::string>(text); }

TEST(SourceLoc, SaysAsMuchAsIsKnown) {
  EXPECT_EQ(SourceLoc().ToString(), "");
  EXPECT_EQ((SourceLoc{.file = Text("a.pbtxt")}).ToString(), "a.pbtxt");
  EXPECT_EQ((SourceLoc{.file = Text("a.cc"), .line = 4}).ToString(), "a.cc:4");
  EXPECT_EQ((SourceLoc{.file = Text("a.pbtxt"), .line = 4, .column = 9}).ToString(), "a.pbtxt:4:9");
}

TEST(SourceLoc, PutsThePlaceBeforeAnErrorAndTheTraceAfterIt) {
  const SourceLoc loc = {.file = Text("a"), .line = 1, .column = 2};
  EXPECT_EQ(At(loc, absl::NotFoundError("what")), absl::NotFoundError("a:1:2: what"));
  SourceLoc expanded = loc;
  expanded.trace = Text("in block \"b\"");
  EXPECT_EQ(At(expanded, absl::NotFoundError("what")).message(), "a:1:2: what (in block \"b\")");
  EXPECT_EQ(At(SourceLoc(), absl::NotFoundError("what")).message(), "what");
  EXPECT_TRUE(At(loc, absl::OkStatus()).ok());
}

}  // namespace
}  // namespace snug::core
