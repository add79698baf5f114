#include <gtest/gtest.h>

#include <string>

#include "memory/formats/formats.h"

namespace snug::core::memory {
namespace {

TEST(Csv, ReadsHalfOpenLifetimesInAnyColumnOrder) {
  const absl::StatusOr<Problem> problem =
      ParseCsv("size,id,lower,upper,offset,alignment,gaps\r\n4,b1,0,9,7,2,3-5 6-7\n\n1,b2,3,4,0,1,\n", "x.csv");
  ASSERT_TRUE(problem.ok()) << problem.status();
  ASSERT_EQ(problem->buffers.size(), 2U);
  const Buffer& b = problem->buffers[0];
  EXPECT_EQ(b.name, "b1");
  EXPECT_EQ(b.size_bytes, 4);
  EXPECT_EQ(b.alignment, 2);
  EXPECT_EQ(b.first, 0);
  EXPECT_EQ(b.last, 8);
  ASSERT_EQ(b.gaps.size(), 2U);
  EXPECT_EQ(b.gaps[0].first, 3);
  EXPECT_EQ(b.gaps[0].last, 4);
  EXPECT_EQ(b.gaps[1].first, 6);
  EXPECT_EQ(b.gaps[1].last, 6);
}

TEST(Csv, ErrorsSayWhere) {
  const auto error = [](const std::string& text) { return std::string(ParseCsv(text, "x.csv").status().message()); };
  const std::string head = "id,lower,upper,size\n";
  EXPECT_EQ(error(""), "x.csv: expected a header line \"id,lower,upper,size\", found nothing");
  EXPECT_EQ(error("id,lower,size\n"),
            "x.csv:1: expected the columns id, lower, upper and size, found \"id,lower,size\": \"upper\" is missing");
  EXPECT_EQ(error("id,id,lower,upper,size\n"), "x.csv:1: column \"id\" is there twice");
  EXPECT_EQ(error(head + "a,0,1\n"), "x.csv:2: expected 4 fields, as in the header, found 3");
  EXPECT_EQ(error(head + "a,0,1,big\n"), "x.csv:2: expected size, found \"big\"");
  EXPECT_EQ(error(head + "a,0,1,-1\n"), "x.csv:2: expected size of at least 0, found -1");
  EXPECT_EQ(error(head + "a,1,1,1\n"), "x.csv:2: expected upper of at least 2, found 1");
  EXPECT_EQ(error(head + "a,0,1,1\n\na,0,1,1\n"), "x.csv:4: id \"a\" is there twice, first in line 2");
  EXPECT_EQ(error("id,lower,upper,size,gaps\na,0,9,1,0-3\n"), "x.csv:2: expected a gap's begin of at least 1, found 0");
}

TEST(Csv, WritesOffsets) {
  EXPECT_EQ(OffsetsCsv({"a", "b"}, {.offsets = {4, 0}, .arena_bytes = 8}), "id,offset\na,4\nb,0\n");
}

}  // namespace
}  // namespace snug::core::memory
