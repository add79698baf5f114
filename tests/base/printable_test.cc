#include "engine/base/text/printable.h"

#include <gtest/gtest.h>

#include <string>

namespace snug::core {
namespace {

TEST(Printable, TextStaysAsItIs) {
  for (const char* text : {"", "a class", "caf\xc3\xa9", "\xe7\x8c\xab", "\xf0\x9f\x90\x88", "a\\n\"b\""}) {
    EXPECT_EQ(Printable(text), text);
  }
}

TEST(Printable, WhatATerminalObeysIsEscaped) {
  EXPECT_EQ(Printable("\x1b[31mred\n"), "\\033[31mred\\n");
  EXPECT_EQ(Printable(absl::string_view("a\0b\x7f", 4)), "a\\000b\\177");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31mC1 caf\xc3\xa9"),
            "\\u009b31mC1 caf\xc3\xa9");
}

TEST(Printable, WhatTurnsTextAroundIsEscaped) {
  EXPECT_EQ(Printable("a\xe2\x80\xaegpj.exe"), "a\\u202egpj.exe");
  EXPECT_EQ(Printable("\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\xaa\xe2\x81\xa6\xe2\x81\xa9\xd8\x9c"),
            "\\u200e\\u200f\\u202a\\u2066\\u2069\\u061c");
  EXPECT_EQ(Printable("a\xe2\x80\xa8"
                      "b"),
            "a\\u2028b");
  EXPECT_EQ(Printable("\xe2\x80\x8d\xe2\x80\xaf"), "\xe2\x80\x8d\xe2\x80\xaf");  // a joiner and a blank
}

TEST(Printable, BytesThatAreNoUtf8AreEscapedOneByOne) {
  EXPECT_EQ(Printable("caf\xe9"), "caf\\xe9");
  EXPECT_EQ(Printable("\x80\xc3"), "\\x80\\xc3");
  EXPECT_EQ(Printable("\xc0\x80"), "\\xc0\\x80");                    // longer than it need be
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
  EXPECT_EQ(Printable("\xff\xc3\xa9"), "\\xff\xc3\xa9");
}

TEST(Printable, LongTextHasItsBeginning) {
  EXPECT_EQ(Printable("caf\xc3\xa9 noir", 4), "caf\xc3\xa9...");
  EXPECT_EQ(Printable("caf\xc3\xa9", 4), "caf\xc3\xa9");
}

TEST(Shown, QuotesAndBackslashesAreTold) {
  EXPECT_EQ(Shown("a \"b\" c\\"), "\"a \\\"b\\\" c\\\\\"");
  EXPECT_EQ(Shown("\xef\xbb\xbf{"), "\"\\ufeff{\"");
  EXPECT_EQ(Shown(std::string(100, 'x')), "\"" + std::string(80, 'x') + "...\"");
}

}  // namespace
}  // namespace snug::core
