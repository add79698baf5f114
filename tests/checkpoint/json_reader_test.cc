#include "engine/train/checkpoint/json_reader.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include "engine/base/status.h"

namespace snug::core::checkpoint {
namespace {

absl::StatusOr<std::string> ReadString(const std::string& text) {
  JsonReader json(text);
  absl::StatusOr<std::string> value = json.String();
  if (!value.ok()) return value;
  const absl::Status end = json.End();
  return end.ok() ? value : end;
}

absl::StatusOr<int64_t> ReadInteger(const std::string& text) {
  JsonReader json(text);
  return json.Integer();
}

// Objects of arrays of whole numbers, as "key:1,2;".
absl::StatusOr<std::string> ReadObject(const std::string& text) {
  JsonReader json(text, 100);
  std::string out, key;
  SNUG_RETURN_IF_ERROR(json.BeginObject());
  for (;;) {
    SNUG_ASSIGN_OR_RETURN(const bool more_keys, json.NextKey(&key));
    if (!more_keys) break;
    absl::StrAppend(&out, key, ":");
    SNUG_RETURN_IF_ERROR(json.BeginArray());
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json.NextElement());
      if (!more) break;
      SNUG_ASSIGN_OR_RETURN(const int64_t value, json.Integer());
      absl::StrAppend(&out, value, ",");
    }
    out += ';';
  }
  SNUG_RETURN_IF_ERROR(json.End());
  return out;
}

TEST(JsonReader, ReadsStringsWithEveryEscape) {
  EXPECT_EQ(*ReadString(R"( "" )"), "");
  EXPECT_EQ(*ReadString(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(*ReadString(R"("\u0041\u00e9\u20AC\ud83d\ude00")"), "A\u00e9\u20ac\U0001F600");
  EXPECT_EQ(*ReadString("\"\\u0000\""), std::string(1, '\0'));
  EXPECT_EQ(*ReadString("\"é\x7f\""), "é\x7f");
}

TEST(JsonReader, SaysWhereAStringIsWrong) {
  const auto error = [](const std::string& text) { return std::string(ReadString(text).status().message()); };
  EXPECT_EQ(error("x"), "byte 0: expected a string, found 'x'");
  EXPECT_EQ(error("\"ab"), "byte 3: expected the string's closing '\"', found the end");
  EXPECT_EQ(error("\"a\nb\""), "byte 2: expected no control character in a string, found '\\n'");
  EXPECT_EQ(error("\"\\q\""), "byte 2: expected one of \"\\/bfnrtu after a backslash, found 'q'");
  EXPECT_EQ(error("\"\\"), "byte 2: expected one of \"\\/bfnrtu after a backslash, found the end");
  EXPECT_EQ(error("\"\\u12g4\""), "byte 5: expected four hexadecimal digits after \\u, found 'g'");
  EXPECT_EQ(error("\"\\ud800\""), "byte 7: expected the second half of a surrogate pair, found '\"'");
  EXPECT_EQ(error("\"\\ud800\\n\""), "byte 8: expected the second half of a surrogate pair, found 'n'");
  EXPECT_EQ(error("\"\\ud800\\u0041\""),
            "byte 13: expected the second half of a surrogate pair before this, found '\"'");
  EXPECT_EQ(error("\"\\udc00\""), "byte 7: expected a first half of a surrogate pair before its second, found '\"'");
}

TEST(JsonReader, ReadsWholeNumbersBelowTwoToThe63) {
  EXPECT_EQ(*ReadInteger("0"), 0);
  EXPECT_EQ(*ReadInteger(" 9223372036854775807 "), INT64_MAX);
  const auto error = [](const std::string& text) { return std::string(ReadInteger(text).status().message()); };
  EXPECT_EQ(error("9223372036854775808"), "byte 18: expected a number below 2^63, found '8'");
  EXPECT_EQ(error("99999999999999999999999"), "byte 18: expected a number below 2^63, found '9'");
  EXPECT_EQ(error("-1"), "byte 0: expected a whole number, not negative, found '-'");
  EXPECT_EQ(error("007"), "byte 0: expected a number without leading zeros, found '0'");
  EXPECT_EQ(error("1.5"), "byte 1: expected a whole number, found '.'");
  EXPECT_EQ(error("1e3"), "byte 1: expected a whole number, found 'e'");
}

TEST(JsonReader, GoesThroughObjectsAndArrays) {
  EXPECT_EQ(*ReadObject("{}"), "");
  EXPECT_EQ(*ReadObject(" {\n\"a\" : [ ] ,\"b\":[1, 2\t,3]\r}  "), "a:;b:1,2,3,;");
  const auto error = [](const std::string& text) { return std::string(ReadObject(text).status().message()); };
  EXPECT_EQ(error(""), "byte 100: expected an object, '{', found the end");
  EXPECT_EQ(error("[1]"), "byte 100: expected an object, '{', found '['");
  EXPECT_EQ(error("{\"a\":[1]"), "byte 108: expected ',' or '}', found the end");
  EXPECT_EQ(error("{\"a\":[1],}"), "byte 109: expected a string, found '}'");
  EXPECT_EQ(error("{,}"), "byte 101: expected a string, found ','");
  EXPECT_EQ(error("{\"a\" [1]}"), "byte 105: expected ':', found '['");
  EXPECT_EQ(error("{\"a\":[1 2]}"), "byte 108: expected ',' or ']', found '2'");
  EXPECT_EQ(error("{\"a\":[1,]}"), "byte 108: expected a whole number, not negative, found ']'");
  EXPECT_EQ(error("{} {"), "byte 103: expected nothing after the closing '}', found '{'");
  EXPECT_EQ(error("{\"a\":" + std::string(1'000'000, '[')),
            "byte 106: expected a whole number, not negative, found '['");
}

TEST(JsonQuoted, IsReadAsItWas) {
  std::string all;
  for (int c = 0; c < 0x80; ++c) all += static_cast<char>(c);
  all += "é€\U0001F600";
  EXPECT_EQ(*ReadString(JsonQuoted(all)), all);
  EXPECT_EQ(JsonQuoted("a\"\\\n"), R"("a\"\\\u000a")");
}

}  // namespace
}  // namespace snug::core::checkpoint
