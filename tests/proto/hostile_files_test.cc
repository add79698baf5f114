// Files made to do harm: each gets a clear error, soon, and nothing grows without bound.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/network_writer.h"
#include "proto/text_loader.h"

namespace snug::core {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Repeat(absl::string_view text, int n) {
  std::string result;
  for (int i = 0; i < n; ++i) absl::StrAppend(&result, text);
  return result;
}

std::string ErrorOf(const absl::StatusOr<LoadedNetwork>& loaded) {
  EXPECT_FALSE(loaded.ok());
  return std::string(loaded.status().message());
}
std::string ErrorOfText(absl::string_view text, const LoadOptions& options = {}) {
  return ErrorOf(LoadNetworkText(text, "f", options));
}

constexpr char kInput[] = "input { name: \"x\" }\n";
constexpr char kLayer[] = "layer { name: \"a\" input: \"x\" relu {} }\n";

TEST(HostileFiles, DeepNesting) {
  EXPECT_THAT(ErrorOfText(Repeat("layer { ", 100000)), HasSubstr("\"layer\" is never closed"));
  EXPECT_THAT(ErrorOfText(Repeat("a { ", 100000)), HasSubstr("nested more than 32 deep"));
  EXPECT_THAT(ErrorOfText("batch: " + Repeat("[", 100000)), HasSubstr("nested more than 32 deep"));
  EXPECT_THAT(ErrorOfText("batch: " + Repeat("(", 100000)), HasSubstr("nested more than 32 deep"));
  EXPECT_THAT(ErrorOfText("batch: " + Repeat("-", 100000) + "1"), HasSubstr("nested more than 32 deep"));
  EXPECT_THAT(ErrorOfText("batch: 1" + Repeat(" + 1", 100000)),
              HasSubstr("the expression has more than 100 operators"));
}

// Small limits, so that the sanitizers' builds get there too.
LoadOptions SmallLimits() {
  LoadOptions options;
  options.max_layers = 5000;
  options.max_expanded_bytes = 16 << 20;
  return options;
}

TEST(HostileFiles, RepeatBombs) {
  const std::string bomb = "repeat { times: 1000000000000 index: \"i\" layer { name: \"l$i\" relu {} } }";
  EXPECT_THAT(ErrorOfText(bomb), HasSubstr("more than 200000 layers"));
  EXPECT_THAT(ErrorOfText(bomb, SmallLimits()), HasSubstr("more than 5000 layers"));
  // Nothing is made, and still it ends.
  EXPECT_THAT(ErrorOfText(absl::StrCat(kInput,
                                       "repeat { times: 1000000000000 repeat { times: 0 input: \"x\" layer { relu "
                                       "{} } } }"),
                          SmallLimits()),
              HasSubstr("the network becomes too large here"));
}

// Each block uses the next one twice: 2^60 layers from 60 lines.
TEST(HostileFiles, BlockBombs) {
  std::string text = kInput;
  for (int i = 0; i < 60; ++i) {
    const std::string next = i == 59 ? "relu {}" : absl::StrCat("b", i + 1, " {}");
    absl::StrAppend(&text, "block { name: \"b", i, "\" layer { name: \"p\" input: \"$input\" ", next,
                    " } layer { name: \"q\" input: \"p\" ", next, " } }\n");
  }
  LoadOptions options = SmallLimits();
  EXPECT_THAT(ErrorOfText(text + "layer { name: \"a\" input: \"x\" b0 {} }", options),
              HasSubstr("nested more than 16 deep"));
  options.max_block_depth = 1000;
  options.max_name_length = 1 << 20;
  EXPECT_THAT(ErrorOfText(text + "layer { name: \"a\" input: \"x\" b0 {} }", options),
              HasSubstr("more than 5000 layers"));
}

// Each block's argument is the next one's, doubled.
TEST(HostileFiles, StringBombs) {
  std::string text = kInput;
  for (int i = 0; i < 15; ++i) {
    const std::string next = i == 14 ? "relu {}" : absl::StrCat("b", i + 1, " { s: \"$s$s$s$s\" }");
    absl::StrAppend(&text, "block { name: \"b", i, "\" arg: \"s\" layer { input: \"$input\" ",
                    i == 14 ? "name: \"$s\" " : "", next, " } }\n");
  }
  EXPECT_THAT(ErrorOfText(text + "layer { name: \"a\" input: \"x\" b0 { s: \"0123456789\" } }"),
              HasSubstr("the string becomes longer than 4096 characters"));
}

TEST(HostileFiles, ListBombs) {
  const std::string text = absl::StrCat(
      kInput, "block { name: \"b\" layer { name: \"c\" input: $input constant { value: [", Repeat("1,", 1000),
      "1] } } }\nrepeat { times: 4000 index: \"i\" layer { name: \"u$i\" input: \"x\" b {} } }");
  EXPECT_THAT(ErrorOfText(text, SmallLimits()), HasSubstr("the network becomes too large here"));
  // The same list, handed from block to block.
  EXPECT_THAT(
      ErrorOfText(absl::StrCat(kInput, "block { name: \"b\" arg: \"v\" layer { name: \"c\" input: $input relu {} } }\n",
                               "repeat { times: 4000 index: \"i\" layer { name: \"u$i\" input: \"x\" b { v: [",
                               Repeat("1,", 1000), "1] } } }"),
                  SmallLimits()),
      HasSubstr("the network becomes too large here"));
}

TEST(HostileFiles, TooManyValuesOrBytes) {
  LoadOptions options;
  options.max_values = 1000;
  EXPECT_THAT(ErrorOfText("batch: [" + Repeat("1,", 2000) + "1]", options), HasSubstr("more than 1000 values"));
  EXPECT_THAT(ErrorOfText("relu { " + Repeat("a: 1 ", 2000), options), HasSubstr("more than 1000 values"));
  EXPECT_THAT(ErrorOfText("name: " + Repeat("\"a\" ", 2000), options), HasSubstr("more than 1000 values"));
  options.max_file_bytes = 1 << 20;
  EXPECT_EQ(ErrorOfText(std::string((1 << 20) + 1, ' '), options), "f: the file is larger than 1 MiB");
}

TEST(HostileFiles, ManyMistakesAreCountedUpToALimit) {
  EXPECT_THAT(ErrorOfText(Repeat("nonsense: 1\n", 100)), HasSubstr("\n... and 80 more errors"));
  EXPECT_THAT(ErrorOfText(Repeat("nonsense: 1\n", 100000)),
              HasSubstr("... and 980 more errors (reading stopped there)"));
}

TEST(HostileFiles, LongNames) {
  const std::string name(300, 'n');
  EXPECT_EQ(ErrorOfText(absl::StrCat("layer { name: \"", name, "\" relu {} }")),
            "f:1:15: the name has 300 characters; at most 256 are allowed");
  EXPECT_THAT(ErrorOfText(std::string(100000, 'a') + ": 1"), HasSubstr("unknown field"));
}

TEST(HostileFiles, NotText) {
  EXPECT_EQ(ErrorOfText("name: \"a\"\n  \xff\xfe"),
            "f:2:3: this is no text: the byte 0xff is not UTF-8; binary networks are named *.pb");
  EXPECT_EQ(ErrorOfText("name: \"\xed\xa0\x80\""),
            "f:1:8: this is no text: the byte 0xed is not UTF-8; binary networks are named *.pb");
  EXPECT_THAT(ErrorOfText("name: \"\\xff\"\n" + std::string(kInput) + kLayer), HasSubstr("which is not UTF-8"));
  EXPECT_THAT(ErrorOfText(absl::string_view("name: \"a\"\0", 10)), HasSubstr("f:1:10: "));
  EXPECT_THAT(ErrorOfText(""), HasSubstr("a network needs at least one layer"));
  EXPECT_TRUE(LoadNetworkText(absl::StrCat("\xEF\xBB\xBF", kInput, kLayer), "f").ok());  // a byte order mark
}

TEST(HostileFiles, FilesThatCannotBeRead) {
  const auto missing = LoadNetworkFile("/nowhere/net.pbtxt");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(ErrorOf(missing), StartsWith("/nowhere/net.pbtxt: cannot be read"));
  EXPECT_THAT(ErrorOf(LoadNetworkFile(::testing::TempDir())), HasSubstr(": expected a file, found a directory"));
  LoadOptions options;
  options.max_file_bytes = 1 << 20;
  EXPECT_THAT(ErrorOf(LoadNetworkFile("/dev/zero", options)), HasSubstr("larger than 1 MiB"));
}

// ---- binary ----

std::string ErrorOfBinary(absl::string_view bytes) { return ErrorOf(LoadNetworkBinary(bytes, "f.pb")); }

TEST(HostileFiles, DamagedBinaries) {
  const auto good = LoadNetworkText(absl::StrCat(kInput, kLayer), "f");
  ASSERT_TRUE(good.ok());
  const std::string bytes = WriteNetworkBinary(good->network);
  EXPECT_EQ(ErrorOfBinary(bytes.substr(0, bytes.size() - 1)), "f.pb: is no binary network, or is damaged");
  EXPECT_EQ(ErrorOfBinary("layer { }"), "f.pb: is no binary network, or is damaged");
  EXPECT_EQ(ErrorOfBinary(""), "f.pb: a network needs at least one layer");
  EXPECT_THAT(ErrorOfBinary(bytes + std::string("\xa0\x06\x01", 3)),
              HasSubstr("fields that this program does not know"));
}

TEST(HostileFiles, BinariesThatBreakTheRules) {
  proto::Network n;
  n.add_input()->set_name("x");
  n.add_input()->set_name("x");
  n.mutable_input(0)->mutable_shape()->add_dim(0);
  for (const char* name : {"a", "a", "b c", "d"}) n.add_layer()->set_name(name);
  n.mutable_layer(0)->mutable_relu();
  n.mutable_layer(0)->add_input("d");
  n.mutable_layer(1)->mutable_relu();
  n.mutable_layer(1)->add_input("xx");
  n.mutable_layer(2)->mutable_relu();
  n.mutable_layer(3)->add_input("a");
  n.add_output("e");
  n.set_batch(0);
  EXPECT_EQ(ErrorOfBinary(WriteNetworkBinary(n)),
            "f.pb: \"batch\": expected at least 1, found 0\n"
            "f.pb: input 0 \"x\": \"dim\": expected at least 1, found 0\n"
            "f.pb: the name \"x\" is given twice\n"
            "f.pb: the name \"a\" is given twice\n"
            "f.pb: name \"b c\": \" \" is not allowed; names have letters, digits, and _ . - /\n"
            "f.pb: layer 3 \"d\": expected one op, found 0\n"
            "f.pb: layer \"a\": a cycle: \"d\" reads this layer, directly or through others\n"
            "f.pb: layer \"a\": there is no layer or input \"xx\"; did you mean \"x\"?\n"
            "f.pb: there is no layer or input \"e\"");
}

}  // namespace
}  // namespace snug::core
