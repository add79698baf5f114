#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/train/data/sources.h"
#include "tests/train_data/test_files.h"

namespace snug::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A file as NumPy writes it: the header ends in a line end, at a multiple of 64 bytes.
std::string Npy(const std::string& dictionary, const std::string& data, int version = 1) {
  const size_t prefix = version == 1 ? 10 : 12;
  std::string header = dictionary;
  while ((prefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file = absl::StrCat("\x93NUMPY", std::string(1, static_cast<char>(version)), std::string(1, '\0'));
  for (size_t i = 0; i < prefix - 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  return file + header + data;
}
std::string Npy(const std::string& descr, const std::string& shape, const std::string& data) {
  return Npy(absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", shape, ", }"), data);
}

class NpyTest : public FileTest {
 protected:
  std::shared_ptr<const Dataset> Open(const std::string& bytes, NpyField field = {}) {
    auto dataset = OpenNpy({Complete(bytes, std::move(field))});
    EXPECT_TRUE(dataset.ok()) << dataset.status().message();
    return *std::move(dataset);
  }
  std::string Error(const std::string& bytes, NpyField field = {}) {
    return ErrorOf(OpenNpy({Complete(bytes, std::move(field))}));
  }
  std::string ReadError(const std::string& bytes, int64_t sample, NpyField field = {}) {
    return ErrorOf(Sample(*Open(bytes, std::move(field)), sample).status());
  }

 private:
  NpyField Complete(const std::string& bytes, NpyField field) {
    field.name = "x";
    field.path = Write("x.npy", bytes);
    return field;
  }
};

TEST_F(NpyTest, EveryElementType) {
  const auto floats = [&](const std::string& descr, const std::string& data) {
    return Sample(*Open(Npy(descr, "(1, 2)", data)), 0).Field<float>(0);
  };
  const auto integers = [&](const std::string& descr, const std::string& data) {
    return Sample(*Open(Npy(descr, "(1, 2)", data)), 0).Field<int32_t>(0);
  };
  EXPECT_THAT(floats("<f4", BytesOf<float>({1.5F, -2})), ElementsAre(1.5F, -2));
  EXPECT_THAT(floats("<f8", BytesOf<double>({0.1, -2})), ElementsAre(0.1F, -2));
  EXPECT_THAT(integers("|i1", BytesOf<int8_t>({-128, 127})), ElementsAre(-128, 127));
  EXPECT_THAT(integers("|u1", BytesOf<uint8_t>({0, 255})), ElementsAre(0, 255));
  EXPECT_THAT(integers("<i2", BytesOf<int16_t>({-32768, 2})), ElementsAre(-32768, 2));
  EXPECT_THAT(integers("<u2", BytesOf<uint16_t>({65535, 2})), ElementsAre(65535, 2));
  EXPECT_THAT(integers("<i4", BytesOf<int32_t>({-2147483647 - 1, 2})), ElementsAre(-2147483647 - 1, 2));
  EXPECT_THAT(integers("<i8", BytesOf<int64_t>({-3, 2})), ElementsAre(-3, 2));
  EXPECT_THAT(integers("|b1", std::string("\0\1", 2)), ElementsAre(0, 1));
}

TEST_F(NpyTest, TheFirstAxisCountsSamples) {
  const auto dataset = Open(Npy("<f4", "(2, 3)", BytesOf<float>({1, 2, 3, 4, 5, 6})));
  EXPECT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->fields()[0].type.ToString(), "float32[3]");
  EXPECT_THAT(Sample(*dataset, 1).Field<float>(0), ElementsAre(4, 5, 6));
  EXPECT_EQ(Open(Npy("<i8", "(2,)", BytesOf<int64_t>({1, 2})))->fields()[0].type.ToString(), "int32[]");
}

TEST_F(NpyTest, PixelsAreDividedUnlessToldOtherwise) {
  const std::string file = Npy("|u1", "(1, 2, 2)", BytesOf<uint8_t>({0, 51, 102, 255}));
  EXPECT_THAT(Sample(*Open(file), 0).Field<float>(0), ElementsAre(0, 0.2F, 0.4F, 1));
  EXPECT_THAT(Sample(*Open(file, {.dtype = DType::kFloat32}), 0).Field<float>(0), ElementsAre(0, 51, 102, 255));
  EXPECT_THAT(Sample(*Open(file, {.dtype = DType::kUint8}), 0).Field<uint8_t>(0), ElementsAre(0, 51, 102, 255));
  EXPECT_THAT(Sample(*Open(file, {.dtype = DType::kInt64}), 0).Field<int64_t>(0), ElementsAre(0, 51, 102, 255));
  EXPECT_THAT(Sample(*Open(file, {.dtype = DType::kFloat64}), 0).Field<double>(0), ElementsAre(0, 51, 102, 255));
}

TEST_F(NpyTest, VersionsOfTheFormat) {
  const std::string dictionary = "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }";
  for (const int version : {1, 2, 3}) {
    EXPECT_THAT(Sample(*Open(Npy(dictionary, BytesOf<int32_t>({7}), version)), 0).Field<int32_t>(0), ElementsAre(7));
  }
  EXPECT_EQ(Error(Npy(dictionary, "", 4)), "x.npy: byte 6: expected version 1, 2 or 3 of the .npy format, found 4");
}

TEST_F(NpyTest, HeadersThatAreRefused) {
  const auto error = [&](const std::string& dictionary) { return Error(Npy(dictionary, "")); };
  EXPECT_EQ(error("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }"),
            "x.npy: byte 44: .npy header: the array is in Fortran order, expected C order: save "
            "numpy.ascontiguousarray(array)");
  EXPECT_EQ(error("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 2), }"),
            "x.npy: byte 20: .npy header: element type '>f4' is big-endian: convert it with array.astype('<f4')");
  EXPECT_EQ(
      error("{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }"),
      "x.npy: byte 20: .npy header: element type '|O': expected little-endian f4, f8, i1, u1, i2, u2, i4, i8 or b1: "
      "convert it with array.astype(numpy.float32)");
  EXPECT_THAT(error("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 2), }"),
              HasSubstr("expected numbers of one type, found records (a structured dtype)"));
  EXPECT_THAT(error("{'descr': '<f4', 'fortran_order': False, 'shape': (), }"),
              HasSubstr("expected an array whose first axis counts samples, found a single number (shape ())"));
  EXPECT_THAT(error("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2), }"),
              HasSubstr("dimension 0 of shape [0, 2]: expected at least 1"));
  EXPECT_THAT(error("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }"),
              HasSubstr("has too many elements"));
  EXPECT_THAT(error("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }"),
              HasSubstr("expected a dimension"));
  EXPECT_THAT(error("{'descr': '<f4', 'fortran_order': False}"), HasSubstr("the header ends without 'shape'"));
  EXPECT_THAT(error("{'descr': '<f4', 'fortran_order': False, 'shape': (2, -2)}"), HasSubstr("expected a dimension"));
  EXPECT_THAT(error("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}"), HasSubstr("expected True or False"));
  EXPECT_THAT(error("{'descr': '<f4"), HasSubstr("expected a closing quote"));
  EXPECT_THAT(error("{'colour': 'red'}"), HasSubstr("expected 'descr', 'fortran_order' or 'shape', found 'colour'"));
  EXPECT_THAT(error("garbage"), HasSubstr("x.npy: byte 10: .npy header: expected \"{\""));
  EXPECT_THAT(error("{"), HasSubstr("expected a string in quotes"));
}

TEST_F(NpyTest, FilesOfTheWrongLength) {
  const std::string good = Npy("<f4", "(2, 2)", BytesOf<float>({1, 2, 3, 4}));
  const auto size = static_cast<int>(good.size());
  EXPECT_EQ(Error(good.substr(0, 9)), "x.npy: byte 9: the file ends here, expected a .npy header of at least 10 bytes");
  EXPECT_EQ(Error(good.substr(0, 40)),
            "x.npy: byte 40: the file ends here, expected a .npy header of 128 bytes: it was cut short");
  EXPECT_EQ(Error(good.substr(0, good.size() - 1)),
            absl::StrCat("x.npy: byte ", size - 1, ": the file ends here, expected ", size,
                         " bytes (a header, then [2, 2] of f4): it was cut short, fetch it again"));
  EXPECT_EQ(Error(good + "x"),
            absl::StrCat("x.npy: byte ", size,
                         ": expected the end of the file here (a header, then [2, 2] of f4), found 1 more bytes"));
  EXPECT_EQ(Error("PK\3\4 and so on"),
            "x.npy: byte 0: expected a .npy file, which begins with \\x93NUMPY, found something else (an .npz archive: "
            "save one array with numpy.save)");
  EXPECT_EQ(Error("1,2,3\n4,5,6\n"),
            "x.npy: byte 0: expected a .npy file, which begins with \\x93NUMPY, found something else");
}

// Wherever a file is cut, and whatever byte of its header is another: an error or other numbers, never a crash.
TEST_F(NpyTest, DamagedFilesAreErrors) {
  const std::string good = Npy("<f4", "(2, 2)", BytesOf<float>({1, 2, 3, 4}));
  for (size_t n = 0; n < good.size(); ++n) EXPECT_NE(Error(good.substr(0, n)), "") << n;
  for (size_t at = 0; at < 128; ++at) {
    for (const char byte : {'\0', '\'', '9'}) {
      std::string damaged = good;
      damaged[at] = byte;
      const auto dataset = OpenNpy({{.name = "x", .path = Write("x.npy", damaged)}});
      if (dataset.ok()) Sample(**dataset, (*dataset)->size() - 1);
    }
  }
}

TEST_F(NpyTest, NumbersThatAreRefused) {
  const auto at = [](int64_t i) { return absl::StrCat("x.npy: byte ", i, ": "); };
  EXPECT_EQ(ReadError(Npy("<f4", "(2, 2)", BytesOf<float>({1, 2, 3, NAN})), 0), "");
  EXPECT_EQ(ReadError(Npy("<f4", "(2, 2)", BytesOf<float>({1, 2, 3, NAN})), 1),
            at(128 + 12) + "sample 1, element 1 of field \"x\": expected a finite float32, found nan");
  EXPECT_EQ(ReadError(Npy("<f8", "(1, 2)", BytesOf<double>({1, 1e300})), 0),
            at(128 + 8) + "sample 0, element 1 of field \"x\": expected a finite float32, found 1e+300");
  EXPECT_EQ(ReadError(Npy("<f8", "(1, 2)", BytesOf<double>({1, 1e300})), 0, {.dtype = DType::kFloat64}), "");
  EXPECT_EQ(ReadError(Npy("<i8", "(1,)", BytesOf<int64_t>({int64_t{1} << 31})), 0),
            at(128) + "sample 0, element 0 of field \"x\": expected a number that int32 can hold, found 2147483648");
  EXPECT_EQ(ReadError(Npy("|i1", "(1,)", BytesOf<int8_t>({-1})), 0, {.dtype = DType::kUint8}),
            at(128) + "sample 0, element 0 of field \"x\": expected a number that uint8 can hold, found -1");
  EXPECT_EQ(Error(Npy("<f4", "(1,)", BytesOf<float>({1})), {.dtype = DType::kInt32}),
            "x.npy: field \"x\": expected integers, found f4: save array.astype(numpy.int32)");
  EXPECT_EQ(Error(Npy("<f4", "(1,)", BytesOf<float>({1})), {.dtype = DType::kBFloat16}),
            "type of field \"x\": expected float32, float64, int32, int64 or uint8, found bfloat16");
}

TEST_F(NpyTest, LabelsOutOfRange) {
  const std::string file = Npy("<i8", "(3,)", BytesOf<int64_t>({9, 10, -100}));
  const NpyField label = {.label = true, .max_value = 10};
  EXPECT_EQ(ReadError(file, 0, label), "");
  EXPECT_EQ(ReadError(file, 1, label),
            "x.npy: byte 136: sample 1, element 0 of field \"x\": expected 0 to 9, found 10");
  EXPECT_EQ(ReadError(file, 2, label), "");
  EXPECT_EQ(ReadError(file, 2, {.max_value = 10}),
            "x.npy: byte 144: sample 2, element 0 of field \"x\": expected 0 to 9, found -100");
}

TEST_F(NpyTest, FieldsHaveAsManySamples) {
  const std::string x = Write("x.npy", Npy("<f4", "(2,)", BytesOf<float>({1, 2})));
  const std::string y = Write("y.npy", Npy("<f4", "(3,)", BytesOf<float>({1, 2, 3})));
  EXPECT_EQ(ErrorOf(OpenNpy({{.name = "x", .path = x}, {.name = "y", .path = y}})),
            "y.npy: expected as many samples as x.npy has, 2, found 3");
  EXPECT_EQ(ErrorOf(OpenNpy({})), ".npy: expected a field, found none");
}

// What NumPy itself writes.
TEST_F(NpyTest, ReadsWhatNumPyWrites) {
  const std::string script = Write("write.py", R"(
import sys
import numpy as np
folder = sys.argv[1]
for name in ["f4", "f8", "i1", "u1", "i2", "u2", "i4", "i8"]:
    np.save(f"{folder}/{name}.npy", np.arange(24).reshape(4, 6).astype(name))
np.save(f"{folder}/b1.npy", np.arange(24).reshape(4, 6) % 2 == 0)
np.save(f"{folder}/flat.npy", np.arange(4))
np.save(f"{folder}/fortran.npy", np.asfortranarray(np.ones((4, 6), "f4")))
np.save(f"{folder}/big_endian.npy", np.ones((4, 6), ">f4"))
np.save(f"{folder}/records.npy", np.zeros(4, [("a", "f4"), ("b", "i4")]))
for version in [(2, 0), (3, 0)]:
    with open(f"{folder}/v{version[0]}.npy", "wb") as file:
        np.lib.format.write_array(file, np.arange(24).reshape(4, 6), version=version)
)");
  if (std::system(absl::StrCat("/usr/bin/python3 ", script, " ", PathOf("."), " 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << "/usr/bin/python3 with NumPy is missing: what it writes was NOT read";
  }
  for (const std::string name : {"f4", "f8", "i1", "u1", "i2", "u2", "i4", "i8", "v2", "v3"}) {
    const auto dataset = OpenNpy({{.name = "x", .path = PathOf(name + ".npy"), .dtype = DType::kFloat32}});
    ASSERT_TRUE(dataset.ok()) << name << ": " << dataset.status().message();
    ASSERT_EQ((*dataset)->size(), 4);
    EXPECT_THAT(Sample(**dataset, 3).Field<float>(0), ElementsAre(18, 19, 20, 21, 22, 23)) << name;
  }
  const auto open = [&](const std::string& name) { return OpenNpy({{.name = "x", .path = PathOf(name)}}); };
  EXPECT_THAT(Sample(**open("b1.npy"), 1).Field<int32_t>(0), ElementsAre(1, 0, 1, 0, 1, 0));
  EXPECT_THAT(Sample(**open("flat.npy"), 3).Field<int32_t>(0), ElementsAre(3));
  EXPECT_THAT(ErrorOf(open("fortran.npy")),
              HasSubstr("fortran.npy: byte 44: .npy header: the array is in Fortran order"));
  EXPECT_THAT(ErrorOf(open("big_endian.npy")), HasSubstr("is big-endian"));
  EXPECT_THAT(ErrorOf(open("records.npy")), HasSubstr("found records"));
}

}  // namespace
}  // namespace snug::core
