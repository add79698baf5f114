#include "engine/train/checkpoint/safetensors.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/train/checkpoint/digest.h"
#include "engine/train/checkpoint/element_type.h"
#include "engine/train/checkpoint/file_system.h"
#include "tests/checkpoint/checkpoint_content.h"
#include "tests/checkpoint/simulated_disk.h"
#include "tests/testing/source_path.h"

namespace snug::core::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string HeaderError(const std::string& json, int64_t data_bytes = 0) {
  const auto header = ParseHeader(json, data_bytes);
  EXPECT_FALSE(header.ok()) << json;
  return std::string(header.status().message());
}

std::string Tensor(const std::string& name, const std::string& type, const std::string& shape,
                   const std::string& offsets) {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"", type, "\",\"shape\":[", shape, "],\"data_offsets\":[", offsets,
                      "]}");
}

TEST(SafetensorsHeader, KnowsWhatEveryTensorMustSay) {
  EXPECT_EQ(HeaderError(""), "header: byte 8: expected an object, '{', found the end");
  EXPECT_EQ(HeaderError("{\"a\":3}"), "header: tensor \"a\": byte 13: expected an object, '{', found '3'");
  EXPECT_EQ(HeaderError("{\"a\":{}}"), "header: tensor \"a\": expected dtype, shape and data_offsets, found none");
  EXPECT_EQ(HeaderError("{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}"),
            "header: tensor \"a\": expected dtype, shape and data_offsets, found only dtype and shape");
  EXPECT_EQ(HeaderError("{\"a\":{\"size\":3}}"),
            "header: tensor \"a\": expected dtype, shape and data_offsets, found \"size\"");
  EXPECT_THAT(HeaderError("{\"a\":{\"shape\":[],\"shape\":[]}}"),
              HasSubstr("expected no second \"shape\" before this"));
  EXPECT_EQ(
      HeaderError(absl::StrCat("{", Tensor("a", "F33", "", "0,4"), "}"), 4),
      "header: tensor \"a\": dtype: expected one of F64, F32, BF16, F16, F8_E5M2, F8_E4M3, I64, I32, I16, I8, U64, "
      "U32, U16, U8, BOOL, found \"F33\"");
  EXPECT_EQ(HeaderError(absl::StrCat("{", Tensor("a", "F32", "", "4"), "}"), 4),
            "header: tensor \"a\": data_offsets: expected [begin, end], found [4]");
  EXPECT_EQ(HeaderError(absl::StrCat("{", Tensor("a", "F32", "", "4,0"), "}"), 4),
            "header: tensor \"a\": data_offsets: expected [begin, end], found [4, 0]");
  EXPECT_THAT(HeaderError(absl::StrCat("{", Tensor("a", "F32", "", "0,4,8"), "}"), 4),
              HasSubstr("expected at most 2 numbers"));
  EXPECT_THAT(HeaderError(absl::StrCat("{", Tensor("a", "F32", "-1", "0,4"), "}"), 4),
              HasSubstr("expected a whole number, not negative, found '-'"));
  EXPECT_EQ(HeaderError(absl::StrCat("{", Tensor("a", "F32", "3", "0,4"), "}"), 4),
            "header: tensor \"a\": data_offsets: expected 12 bytes for F32[3], found 4");
}

TEST(SafetensorsHeader, SurvivesHostileNumbers) {
  EXPECT_EQ(HeaderError(absl::StrCat("{", Tensor("a", "F64", "4294967296,4294967296", "0,0"), "}")),
            "header: tensor \"a\": data_offsets: expected 2^63 or more bytes for F64[4294967296, 4294967296], found 0");
  EXPECT_THAT(HeaderError(absl::StrCat("{", Tensor("a", "U8", "1", "18446744073709551615,0"), "}")),
              HasSubstr("expected a number below 2^63"));
  const std::string max = "9223372036854775807";
  EXPECT_EQ(HeaderError(absl::StrCat("{", Tensor("a", "U8", max, "0," + max), "}"), 3),
            "expected 9223372036854775807 bytes of data after the header, found 3: the file is cut short");
  EXPECT_EQ(HeaderError(absl::StrCat("{", Tensor("a", "U8", "1", "0,1"), ",", Tensor("b", "U8", max, "1," + max), "}")),
            "header: tensor \"b\": data_offsets: expected 9223372036854775807 bytes for U8[9223372036854775807], found "
            "9223372036854775806");
  // Nothing of nothing is nothing, however often.
  EXPECT_TRUE(
      ParseHeader(absl::StrCat("{", Tensor("a", "F32", absl::StrCat(max, ",", max, ",0"), "0,0"), "}"), 0).ok());
  std::string dims = "1";
  for (int i = 0; i < 64; ++i) dims += ",1";
  EXPECT_THAT(HeaderError(absl::StrCat("{", Tensor("a", "U8", dims, "0,1"), "}"), 1),
              HasSubstr("expected at most 64 numbers"));
}

TEST(SafetensorsHeader, AllowsNoHolesOverlapsOrTwins) {
  const std::string a = Tensor("a", "U8", "4", "0,4");
  EXPECT_EQ(HeaderError(absl::StrCat("{", a, ",", Tensor("b", "U8", "4", "5,9"), "}"), 9),
            "tensor \"b\": expected at byte 4 of the data, where the one before it ends, found at 5: there may be no "
            "hole");
  EXPECT_EQ(HeaderError(absl::StrCat("{", Tensor("b", "U8", "4", "3,7"), ",", a, "}"), 7),
            "tensor \"b\": expected at byte 4 of the data, where the one before it ends, found at 3: there may be no "
            "overlap");
  EXPECT_EQ(HeaderError(absl::StrCat("{", Tensor("b", "U8", "4", "4,8"), "}"), 8),
            "tensor \"b\": expected at byte 0 of the data, where the one before it ends, found at 4: there may be no "
            "hole");
  EXPECT_EQ(HeaderError(absl::StrCat("{", a, "}"), 5), "expected 4 bytes of data after the header, found 5");
  EXPECT_EQ(HeaderError(absl::StrCat("{", a, ",", a, "}"), 4), "header: tensor \"a\": stands twice in the header");
  EXPECT_EQ(HeaderError("{\"__metadata__\":{},\"__metadata__\":{}}"),
            "header: tensor \"__metadata__\": stands twice in the header");
  EXPECT_EQ(HeaderError("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}"), "header: metadata \"a\" stands twice");
  EXPECT_EQ(HeaderError("{\"__metadata__\":{\"a\":1}}"), "header: byte 29: expected a string, found '1'");
  EXPECT_EQ(HeaderError("{\"\xff\":{}}"), "header: byte 10: expected UTF-8, found byte 0xff");
}

// Written by the Python library; tests/cli/safetensors_test.py exchanges files with the one that is installed.
TEST(Safetensors, ReadsWhatTheReferenceImplementationWrote) {
  PosixFileSystem files;
  const auto file = SafetensorsFile::Open(files, test::SourcePath("tests/data/reference.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->header().metadata, (Metadata{{"format", "pt"}, {"note", "line\nüé\"\\"}}));
  std::vector<std::string> found;
  for (const TensorEntry& tensor : file->header().tensors) found.push_back(tensor.name + " " + tensor.TypeText());
  EXPECT_THAT(found, testing::UnorderedElementsAre("weight F32[2, 3]", "half F16[4]", "mask BOOL[3]", "steps I64[]",
                                                   "empty F32[0, 4]", "näme \"q\" BF16[2]"));
  const auto floats = [&](const std::string& name) {
    const TensorEntry& tensor = *file->Find(name);
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.size_bytes()));
    EXPECT_TRUE(file->Read(tensor, absl::MakeSpan(bytes)).ok());
    std::vector<float> values(bytes.size() / static_cast<size_t>(SizeOf(tensor.type)));
    Convert(tensor.type, bytes, DType::kFloat32, reinterpret_cast<std::byte*>(values.data()));
    return values;
  };
  EXPECT_THAT(floats("weight"), ElementsAre(1.5, -2, 3, 0.25, std::numeric_limits<float>::infinity(), -0.0));
  EXPECT_THAT(floats("half"), ElementsAre(1, -0.5, 65504, std::ldexp(1.0F, -24)));
  EXPECT_THAT(floats("näme \"q\""), ElementsAre(1, -3));
  EXPECT_EQ(file->Find("weights"), nullptr);
  EXPECT_TRUE(file->VerifyDigest(/*required=*/false).ok());
}

class Written : public testing::Test {
 protected:
  absl::Status Write(const std::vector<TensorBytes>& tensors, const Metadata& metadata = {}) {
    return WriteSafetensors(tensors, metadata, **disk_.Create("f"));
  }
  std::string OpenError(const std::string& content) {
    EXPECT_TRUE(disk_.Create("f").ok());
    disk_.Content("f") = content;
    return std::string(SafetensorsFile::Open(disk_, "f").status().message());
  }
  SimulatedDisk disk_;
};

TEST_F(Written, LiesAlignedWithTheLargerElementsFirst) {
  ASSERT_TRUE(Write({{"b", ElementType::kU8, {3}, Bytes("123")},
                     {"z", ElementType::kF64, {}, Bytes("12345678")},
                     {"a", ElementType::kU8, {0, 9}, {}}},
                    {{"k", "v"}})
                  .ok());
  const std::string& content = disk_.Content("f");
  const std::string json =
      R"({"__metadata__":{"k":"v"},"z":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"U8","shape":[0,9],"data_offsets":[8,8]},"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  uint64_t length = 0;
  std::memcpy(&length, content.data(), 8);
  EXPECT_EQ(length % 8, 0U);
  EXPECT_EQ(content.substr(8, length), json + std::string(length - json.size(), ' '));
  EXPECT_EQ(content.substr(8 + length), "12345678123");
}

TEST_F(Written, MayBeEmpty) {
  ASSERT_TRUE(Write({}).ok());
  EXPECT_EQ(disk_.Content("f"), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
  EXPECT_TRUE(SafetensorsFile::Open(disk_, "f").ok());
}

TEST_F(Written, IsNeverWrong) {
  const auto error = [&](const std::vector<TensorBytes>& tensors, const Metadata& metadata = {}) {
    return std::string(Write(tensors, metadata).message());
  };
  EXPECT_EQ(error({{"a", ElementType::kF32, {2}, Bytes("1234")}}), "tensor \"a\" F32[2]: expected 8 bytes, found 4");
  EXPECT_EQ(error({{"a", ElementType::kU8, {1}, Bytes("1")}, {"a", ElementType::kF32, {1}, Bytes("1234")}}),
            "tensor \"a\": expected once, found twice");
  EXPECT_EQ(error({{"__metadata__", ElementType::kU8, {1}, Bytes("1")}}),
            "tensor \"__metadata__\": the name is the format's own");
  EXPECT_EQ(error({{"a\xff", ElementType::kU8, {1}, Bytes("1")}}), "tensor \"a\\xff\": expected UTF-8");
  EXPECT_EQ(error({}, {{"k", "\xff"}}), "metadata \"k\": expected UTF-8");
}

TEST_F(Written, OrNotAtAllIsSaidWithThePath) {
  EXPECT_EQ(OpenError(""), "f: expected a safetensors file, at least 8 bytes, found 0");
  EXPECT_EQ(OpenError("PK\x03\x04 a zip file, of torch.save"),
            "f: byte 0: expected the length of a safetensors header, at most 100000000, found 8800140462016121680");
  EXPECT_EQ(OpenError(std::string("\x10\0\0\0\0\0\0\0{}", 10)),
            "f: expected 16 bytes of header, found 2: the file is cut short");
  EXPECT_EQ(OpenError(std::string("\x02\0\0\0\0\0\0\0{}1", 11)),
            "f: expected 0 bytes of data after the header, found 1");
  EXPECT_EQ(OpenError(std::string("\x02\0\0\0\0\0\0\0[]", 10)),
            "f: header: byte 8: expected an object, '{', found '['");
}

// The checksum is of the content, not of how it lies.
TEST(Digest, StaysWhenAnotherProgramWritesTheSameAnew) {
  std::vector<TensorBytes> tensors = {{"a", ElementType::kU8, {2}, Bytes("12")},
                                      {"b", ElementType::kU8, {1, 2}, Bytes("34")}};
  const std::string digest = DigestOf(tensors, {{"k", "v"}});
  EXPECT_EQ(digest.size(), 16U);
  std::swap(tensors[0], tensors[1]);
  EXPECT_EQ(DigestOf(tensors, {{"k", "v"}, {std::string(kDigestKey), "any"}}), digest);
  EXPECT_NE(DigestOf(tensors, {{"k", "w"}}), digest);
  tensors[0].shape = {2};
  EXPECT_NE(DigestOf(tensors, {{"k", "v"}}), digest);
}

}  // namespace
}  // namespace snug::core::checkpoint
