#include "engine/train/checkpoint/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "engine/base/status.h"
#include "tests/checkpoint/simulated_disk.h"
#include "tests/checkpoint/torch_archive.h"
#include "tests/testing/source_path.h"

namespace snug::core::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::string Golden(const std::string& name) {
  std::ifstream file(test::SourcePath("tests/data/torch/" + name), std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

class TorchFiles : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<TensorSource>> Open(const std::string& content) {
    EXPECT_TRUE(disk_.Create("f.pth").ok());
    disk_.Content("f.pth") = content;
    return OpenTensorSource(disk_, "f.pth");
  }
  std::string OpenError(const std::string& content) {
    const auto file = Open(content);
    EXPECT_FALSE(file.ok());
    return std::string(file.status().message());
  }
  // The error of an archive with this pickle, and a storage of 4 float32.
  std::string PickleError(const std::string& pickle) {
    return OpenError(MakeArchive({{"f/data.pkl", pickle}, {"f/data/0", std::string(16, '\0')}}));
  }
  std::string TensorError(const std::string& tensor) {
    return PickleError(Pickled(PickledDict({PickledText("w"), tensor})));
  }
  static std::vector<float> Floats(const TensorSource& file, const std::string& name) {
    const TensorEntry* const tensor = file.Find(name);
    if (tensor == nullptr) return {-999};
    std::vector<std::byte> bytes(static_cast<size_t>(tensor->size_bytes()));
    EXPECT_TRUE(file.ReadWhole(*tensor, absl::MakeSpan(bytes)).ok());
    std::vector<float> values(bytes.size() / static_cast<size_t>(SizeOf(tensor->type)));
    Convert(tensor->type, bytes, DType::kFloat32, reinterpret_cast<std::byte*>(values.data()));
    return values;
  }

  void ChangeAndRead(int rounds, uint64_t seed);

  SimulatedDisk disk_;
};

TEST_F(TorchFiles, HaveEveryTypeAndEveryWayOfLying) {
  const auto file = Open(Golden("tensors.pth"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::vector<std::string> found;
  for (const TensorEntry& tensor : (*file)->tensors()) found.push_back(tensor.name + " " + tensor.TypeText());
  EXPECT_THAT(found, ElementsAre("float32 F32[2, 3]", "float64 F64[2, 3]", "float16 F16[2, 3]", "bfloat16 BF16[2, 3]",
                                 "int64 I64[2, 3]", "int32 I32[2, 3]", "int16 I16[2, 3]", "int8 I8[2, 3]",
                                 "uint8 U8[2, 3]", "bool BOOL[3]", "scalar F32[]", "empty F32[0, 4]",
                                 "matrix F32[4, 6]", "transposed F32[6, 4]", "column F32[4]", "part F32[2, 3]",
                                 "repeated F32[2, 3]", "tied F32[4, 6]", "parameter F32[2]", "größe F32[1]"));
  for (const char* name : {"float32", "float64", "float16", "bfloat16"}) {
    EXPECT_THAT(Floats(**file, name), ElementsAre(-2, -1, 0, 1, 2, 3)) << name;
  }
  EXPECT_THAT(Floats(**file, "scalar"), ElementsAre(3.5));
  EXPECT_THAT(Floats(**file, "empty"), IsEmpty());
  EXPECT_EQ(Floats(**file, "matrix"), Floats(**file, "tied"));
  EXPECT_THAT(Floats(**file, "transposed"),
              ElementsAre(0, 6, 12, 18, 1, 7, 13, 19, 2, 8, 14, 20, 3, 9, 15, 21, 4, 10, 16, 22, 5, 11, 17, 23));
  EXPECT_THAT(Floats(**file, "column"), ElementsAre(2, 8, 14, 20));
  EXPECT_THAT(Floats(**file, "part"), ElementsAre(6, 8, 10, 12, 14, 16));
  EXPECT_THAT(Floats(**file, "repeated"), ElementsAre(7, 7, 7, 7, 7, 7));
  EXPECT_THAT(Floats(**file, "parameter"), ElementsAre(1, -1));
  const auto bytes = [&](const std::string& name) {
    const TensorEntry& tensor = *(*file)->Find(name);
    std::string content(static_cast<size_t>(tensor.size_bytes()), '\0');
    EXPECT_TRUE((*file)->ReadWhole(tensor, {reinterpret_cast<std::byte*>(content.data()), content.size()}).ok());
    return content;
  };
  EXPECT_EQ(bytes("int8"), std::string("\xfe\xff\0\1\2\3", 6));
  EXPECT_EQ(bytes("uint8"), std::string("\0\1\2\3\4\5", 6));
  EXPECT_EQ(bytes("bool"), std::string("\1\0\1", 3));
  EXPECT_EQ(bytes("int16").substr(0, 4), "\xfe\xff\xff\xff");
  EXPECT_EQ(bytes("int64").substr(40), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ((*file)->Find("weight"), nullptr);
  EXPECT_THAT((*file)->notes(), IsEmpty());
  EXPECT_TRUE((*file)->VerifyChecksums().ok());
}

TEST_F(TorchFiles, MayHaveTheStateDictAmongOtherThings) {
  const auto plain = Open(Golden("state_dict.pth"));
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_THAT((*plain)->notes(), IsEmpty());
  EXPECT_THAT(Floats(**plain, "fc.weight"), ElementsAre(1, 2));
  const auto training = Open(Golden("training.pth"));
  ASSERT_TRUE(training.ok()) << training.status().message();
  EXPECT_THAT((*training)->notes(), ElementsAre("the state_dict under \"model_state_dict\" is taken, and left out: "
                                                "\"epoch\", \"optimizer\", \"best\""));
  EXPECT_THAT(Floats(**training, "fc.bias"), ElementsAre(3));
  EXPECT_EQ((*training)->Find("best"), nullptr);
  const auto parallel = Open(Golden("data_parallel.pth"));
  ASSERT_TRUE(parallel.ok()) << parallel.status().message();
  EXPECT_THAT((*parallel)->notes(),
              ElementsAre("the state_dict under \"state_dict\" is taken",
                          "all names begin with \"module.\", of a wrapper of the module: removed"));
  EXPECT_THAT(Floats(**parallel, "fc.weight"), ElementsAre(1, 2));
}

TEST_F(TorchFiles, KeepAPrefixThatNotAllNamesHave) {
  const std::string tensor = PickledTensor("0", 4, 0, {4}, {1});
  const auto file = Open(MakeArchive(
      {{"f/data.pkl",
        Pickled(PickledDict({PickledText("module.a"), tensor, PickledText("b"), tensor, PickledText("lr"), "K\1"}))},
       {"f/data/0", std::string(16, '\0')}},
      /*zip64=*/true));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_NE((*file)->Find("module.a"), nullptr);
  EXPECT_THAT((*file)->notes(), ElementsAre("not tensors, and left out: \"lr\""));
}

TEST_F(TorchFiles, RunNothing) {
  EXPECT_THAT(
      OpenError(Golden("system.pth")),
      testing::MatchesRegex("f.pth: byte [0-9]+: this file wants to run posix.system, which Snug does not do: of a "
                            "pickle it reads a state_dict alone; in PyTorch, torch.save\\(model.state_dict\\(\\), "
                            "FILE\\) writes one"));
  EXPECT_THAT(OpenError(Golden("sparse.pth")), HasSubstr("wants to run torch._utils._rebuild_sparse_tensor, which"));
  EXPECT_THAT(PickleError(Pickled("cos\nsystem\n" + PickledText("ls") + "\x85R")),
              HasSubstr("wants to run os.system,"));
  EXPECT_THAT(PickleError(Pickled(PickledText("builtins") + PickledText("eval") + "\x93")),
              HasSubstr("wants to run builtins.eval,"));
  EXPECT_THAT(PickleError(Pickled("c__main__\nNet\n)\x81")), HasSubstr("wants to run __main__.Net,"));
  EXPECT_THAT(PickleError(Pickled("ctorch\nFloatStorage\n)R")), HasSubstr("wants to run torch.FloatStorage,"));
  EXPECT_THAT(PickleError(Pickled("}i")), HasSubstr("byte 46: this file wants to do the pickle operation 0x69, which"));
  EXPECT_THAT(PickleError(Pickled("ctorch\nComplexFloatStorage\n")),
              HasSubstr("tensors of torch.ComplexFloatStorage have elements that Snug does not know"));
}

TEST_F(TorchFiles, OfOtherFormatsSayWhatToDo) {
  EXPECT_EQ(OpenError(Golden("legacy.pth")),
            "f.pth: byte 0: is in the format of torch.save before PyTorch 1.6, which Snug does not read; in PyTorch, "
            "torch.save(torch.load(FILE, map_location=\"cpu\"), FILE) writes it anew");
  EXPECT_THAT(PickleError(Pickled("ctorch._utils\n_rebuild_tensor_v3\n")),
              HasSubstr("tensors of float8, or unsigned of 16 bits and more, are not read: convert them in PyTorch"));
  EXPECT_THAT(OpenError(Golden("no_tensors.pth")), HasSubstr("found a dict with none; in PyTorch, torch.save(model."));
  EXPECT_THAT(OpenError(MakeArchive({{"a/b.txt", "x"}})), HasSubstr("with a member NAME/data.pkl; found none"));
  EXPECT_THAT(OpenError(MakeArchive({{"f/data.pkl", Pickled("]")}})), HasSubstr("expected a dict of tensors"));
  EXPECT_THAT(OpenError(MakeArchive({{"f/data.pkl", Pickled("}")}, {"f/constants.pkl", ""}})),
              HasSubstr("TorchScript"));
  EXPECT_THAT(OpenError(MakeArchive({{"f/data.pkl", Pickled("}")}, {"f/byteorder", "big"}})),
              HasSubstr("byteorder: expected little, found \"big\""));
}

TEST_F(TorchFiles, OfTensorsThatDoNotFitTheirStorageAreRefused) {
  // The place is that of the call: the last byte of the tensor, before which the archive's header and the dict's key
  // lie.
  const std::string past = PickledTensor("0", 4, 0, {5}, {1});
  EXPECT_EQ(TensorError(past),
            absl::StrCat("f.pth: byte ", 53 + past.size() - 1, ": tensor \"w\": shape [5] with strides [1] from ",
                         "element 0 on reaches past its storage of 4 elements"));
  EXPECT_THAT(TensorError(PickledTensor("0", 4, 4, {1}, {1})), HasSubstr("from element 4 on reaches past"));
  EXPECT_THAT(TensorError(PickledTensor("0", 4, 0, {2, 2}, {3, 1})), HasSubstr("reaches past its storage"));
  EXPECT_THAT(TensorError(PickledTensor("0", 4, 0, {int64_t{1} << 62, 4}, {int64_t{1} << 62, 1})),
              HasSubstr("reaches past"));
  EXPECT_THAT(TensorError(PickledTensor("0", 4, INT64_MAX, {1}, {1})), HasSubstr("reaches past"));
  EXPECT_THAT(TensorError(PickledTensor("0", 4, INT64_MAX, {0}, {1})), HasSubstr("reaches past"));
  EXPECT_THAT(TensorError(PickledTensor("0", 4, 0, {INT64_MAX}, {0})), HasSubstr("has 2^63 bytes or more"));
  EXPECT_THAT(TensorError(PickledTensor("0", 4, -1, {1}, {1})),
              HasSubstr("expected an offset of 0 and more, found -1"));
  EXPECT_THAT(TensorError(PickledTensor("0", 4, 0, {-1}, {1})), HasSubstr("shape: expected numbers of 0 and more"));
  EXPECT_THAT(TensorError(PickledTensor("0", 4, 0, {2}, {-1})), HasSubstr("strides: expected numbers of 0 and more"));
  EXPECT_THAT(TensorError(PickledTensor("0", 4, 0, {2}, {1, 1})), HasSubstr("expected a stride for each of 1 dim"));
  EXPECT_THAT(TensorError(PickledTensor("0", 4, 0, std::vector<int64_t>(65, 1), {})),
              HasSubstr("of at most 16 numbers"));
  EXPECT_THAT(TensorError(PickledTensor("0", 5, 0, {4}, {1})),
              HasSubstr("its storage has 5 elements of F32, and the member \"f/data/0\" 16 bytes"));
  EXPECT_THAT(TensorError(PickledTensor("0", INT64_MAX, 0, {4}, {1})), HasSubstr("its storage has 92233720"));
  EXPECT_THAT(TensorError(PickledTensor("0", -4, 0, {4}, {1})), HasSubstr("a storage of -4 elements"));
  EXPECT_THAT(TensorError(PickledTensor("1", 4, 0, {4}, {1})), HasSubstr("the archive has no member \"f/data/1\""));
  EXPECT_THAT(TensorError(PickledTensor("../x", 4, 0, {4}, {1})), HasSubstr("has no member \"f/data/../x\""));
  const std::string tensor = PickledTensor("0", 4, 0, {4}, {1});
  EXPECT_THAT(PickleError(Pickled(PickledDict({PickledText("w"), tensor, PickledText("w"), tensor}))),
              HasSubstr("tensor \"w\" stands twice in the dict"));
  EXPECT_THAT(PickleError(Pickled(PickledDict({PickledText("\xff"), tensor}))), HasSubstr("\"\\xff\": expected UTF-8"));
  EXPECT_THAT(PickleError(Pickled(PickledDict({"K\1", tensor}))), HasSubstr("expected a text as the name"));
  EXPECT_THAT(PickleError(Pickled(
                  PickledDict({PickledText("v"), PickledTensor("0", 3, 0, {3}, {1}), PickledText("w"), tensor}))),
              HasSubstr("expected 3 elements of F32, as at byte"));
}

TEST_F(TorchFiles, OfPicklesThatAreNoneAreRefused) {
  EXPECT_THAT(PickleError(""), HasSubstr("the pickle is cut short"));
  EXPECT_THAT(PickleError("\x80\x02}"), HasSubstr("the pickle is cut short"));
  EXPECT_THAT(PickleError("\x80\x09}."), HasSubstr("expected a pickle of protocol 2 to 5, found 9"));
  EXPECT_THAT(PickleError(Pickled("")), HasSubstr("expected one object at the end, found 0"));
  EXPECT_THAT(PickleError(Pickled("}}")), HasSubstr("expected one object at the end, found 2"));
  EXPECT_THAT(PickleError(Pickled("}") + "x"), HasSubstr("expected the end of data.pkl"));
  EXPECT_THAT(PickleError(Pickled("t")), HasSubstr("expected a mark on the stack, found none"));
  EXPECT_THAT(PickleError(Pickled("h\7")), HasSubstr("expected an object in slot 7 of the memo, found none"));
  EXPECT_THAT(PickleError(Pickled("](K\1K\2u")), HasSubstr("expected a dict to add to, found a list"));
  EXPECT_THAT(PickleError(Pickled("}(K\1u")), HasSubstr("expected a value for each key of a dict"));
  EXPECT_THAT(PickleError(Pickled(std::string("X\xff\xff\xff\xff") + "a")),
              HasSubstr("expected 4294967295 bytes more, found 2"));
  EXPECT_THAT(PickleError(Pickled("K\1Q")), HasSubstr("expected a persistent id"));
  EXPECT_THAT(PickleError(Pickled("K\1)R")), HasSubstr("expected a function to call, found a number"));
  EXPECT_THAT(PickleError(Pickled("ctorch._utils\n_rebuild_tensor_v2\n(" + std::string(17, 'N') + "tR")),
              HasSubstr("expected at most 16 arguments, found 17"));
}

// The reader follows no object into another, so neither depth nor circles cost it anything.
TEST_F(TorchFiles, MayHoldDeepNestsAndCircles) {
  EXPECT_THAT(PickleError(Pickled(")" + std::string(1'000'000, '\x85'))), HasSubstr("expected a dict of tensors"));
  EXPECT_THAT(PickleError(Pickled(std::string(4'100'000, ')'))), HasSubstr("expected at most 4000000 objects"));
  const std::string tensor = PickledTensor("0", 4, 0, {4}, {1});
  const std::string circle = Pickled(absl::StrCat("}", std::string("q\0", 2), "(", PickledText("state_dict"),
                                                  std::string("h\0", 2), PickledText("w"), tensor, "u"));
  const auto file = Open(MakeArchive({{"f/data.pkl", circle}, {"f/data/0", std::string(16, '\0')}}));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_THAT(Floats(**file, "w"), ElementsAre(0, 0, 0, 0));
}

// What a pickle repeats at the cost of some bytes costs the reader no more than that.
TEST_F(TorchFiles, MayRepeatLongNames) {
  const std::string name = PickledText(std::string(1'000'000, 'n'));
  std::string many = "}(" + name + std::string("q\1N", 3);
  for (int i = 0; i < 20'000; ++i) many += std::string("h\1N", 3);
  const std::string tensor = PickledTensor("0", 4, 0, {4}, {1});
  const auto file = Open(MakeArchive(
      {{"f/data.pkl", Pickled(many + PickledText("w") + tensor + "u")}, {"f/data/0", std::string(16, '\0')}}));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ((*file)->notes().size(), 1);
  EXPECT_LT((*file)->notes()[0].size(), 2000);
  EXPECT_THAT((*file)->notes()[0], HasSubstr("and 19991 more"));
  EXPECT_THAT(
      PickleError(Pickled(PickledDict({PickledText("w"), PickledTensor(std::string(256, 'k'), 4, 0, {4}, {1})}))),
      HasSubstr("a storage's name of at most 255 bytes, found 256"));
}

TEST_F(TorchFiles, LoseAFewWrappersAtMost) {
  std::string name;
  for (int i = 0; i < 100'000; ++i) name += "module.";
  const std::string pickle = Pickled(PickledDict({PickledText(name + "w"), PickledTensor("0", 4, 0, {4}, {1})}));
  const auto file = Open(MakeArchive({{"f/data.pkl", pickle}, {"f/data/0", std::string(16, '\0')}}));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->notes().size(), 4);
}

TEST_F(TorchFiles, OfViewsThatAreToBeNegatedAreRefused) {
  const std::string tensor = PickledTensor("0", 4, 0, {4}, {1});
  const auto with_flags = [&](const std::string& flags) {
    std::string changed = tensor;
    return changed.replace(changed.size() - 2, 0, flags);
  };
  EXPECT_THAT(
      PickleError(Pickled(PickledDict({PickledText("w"), with_flags(PickledDict({PickledText("neg"), "\x88"}))}))),
      HasSubstr("found one with the flag \"neg\": save tensor.resolve_neg() in its place"));
  const std::string plain =
      Pickled(PickledDict({PickledText("w"), with_flags(PickledDict({PickledText("neg"), "\x89"}))}));
  const auto file = Open(MakeArchive({{"f/data.pkl", plain}, {"f/data/0", std::string(16, '\0')}}));
  EXPECT_TRUE(file.ok()) << file.status().message();
}

TEST_F(TorchFiles, OfArchivesThatAreNoneAreRefused) {
  const std::string good = Golden("state_dict.pth");
  EXPECT_THAT(OpenError(good.substr(0, good.size() - 1)),
              HasSubstr("expected a zip archive's directory before the end"));
  EXPECT_THAT(
      OpenError(MakeArchive({{"f/data.pkl", "x", 8}})),
      HasSubstr("member \"f/data.pkl\": expected bytes as they are, as torch.save stores them, found compression "
                "method 8"));
  EXPECT_THAT(OpenError(MakeArchive({{"f/data.pkl", "x", 0, 1}})), HasSubstr("it is encrypted"));
  EXPECT_THAT(OpenError(MakeArchive({{"f/data.pkl", "}."}, {"f/data.pkl", "}."}})), HasSubstr("is there twice"));
  EXPECT_THAT(OpenError(MakeArchive({{"f/data.pkl", "}."}, {"g/data.pkl", "}."}})), HasSubstr("a second data.pkl"));
  const std::vector<ArchiveMember> members = {{"f/data.pkl", Pickled("}")}, {"f/data/0", std::string(16, '\0')}};
  const auto with = [](std::string bytes, size_t at, const std::string& change) {
    return bytes.replace(at, change.size(), change);
  };
  for (const bool zip64 : {false, true}) {
    const std::string bytes = MakeArchive(members, zip64);
    const size_t first = bytes.find("PK\x01\x02"), second = bytes.find("PK\x01\x02", first + 1),
                 end = bytes.rfind("PK\x05\x06");
    EXPECT_THAT(OpenError(with(bytes, first, "QK")), HasSubstr("expected a record of the directory"));
    EXPECT_THAT(OpenError(with(bytes, 0, "PK\x03\x04").replace(30, 1, "g")), HasSubstr("as the directory has it"));
    if (zip64) {
      const size_t sizes = first + 46 + 10 + 4;  // of data.pkl, behind its name and the extra field's head
      EXPECT_THAT(OpenError(with(bytes, sizes, BytesOf(INT64_MAX) + BytesOf(INT64_MAX))),
                  HasSubstr("expected 9223372036854775807 bytes, the file has"));
      EXPECT_THAT(OpenError(with(bytes, sizes + 16, BytesOf(INT64_MAX))),
                  HasSubstr("expected within the file, found at 92"));
      EXPECT_THAT(OpenError(with(bytes, sizes - 4, BytesOf(uint16_t{2}))), HasSubstr("expected zip64 fields"));
      EXPECT_THAT(OpenError(with(bytes, sizes - 2, BytesOf(uint16_t{8}))),
                  HasSubstr("expected a size of 8 bytes in the zip64"));
      EXPECT_THAT(OpenError(with(bytes, end - 20 - 56 + 48, BytesOf(INT64_MAX))),
                  HasSubstr("does not lie in the file"));
      EXPECT_THAT(OpenError(with(bytes, end - 20 + 8, BytesOf(int64_t{-1}))), HasSubstr("byte -1: expected 56 bytes"));
    } else {
      EXPECT_THAT(OpenError(with(bytes, first + 20, BytesOf(uint32_t{9000}) + BytesOf(uint32_t{9000}))),
                  HasSubstr("expected 9000 bytes, the file has"));
      EXPECT_THAT(OpenError(with(bytes, first + 20, BytesOf(uint32_t{50}) + BytesOf(uint32_t{50}))),
                  HasSubstr("overlap"));
      EXPECT_THAT(OpenError(with(bytes, second + 20, BytesOf(uint32_t{17}) + BytesOf(uint32_t{17}))),
                  HasSubstr("the directory and the member \"f/data/0\" overlap"));
      EXPECT_THAT(OpenError(with(bytes, first + 24, BytesOf(uint32_t{3}))),
                  HasSubstr("its two sizes, 4 and 3, differ"));
      EXPECT_THAT(OpenError(with(bytes, first + 42, BytesOf(uint32_t{9000}))),
                  HasSubstr("expected within the file, found at 9000"));
      EXPECT_THAT(OpenError(with(bytes, first + 42, BytesOf(uint32_t{3}))),
                  HasSubstr("byte 3: expected the header of the member"));
      EXPECT_THAT(OpenError(with(bytes, first + 30, BytesOf(uint16_t{60000}))),
                  HasSubstr("the record reaches past the directory"));
      EXPECT_THAT(OpenError(with(bytes, end + 10, BytesOf(uint16_t{7}))), HasSubstr("expected 7 members, found 2"));
    }
  }
}

TEST_F(TorchFiles, ThatAreDamagedAreFoundByTheirChecksums) {
  std::string content = Golden("state_dict.pth");
  const size_t at = content.find(std::string("\0\0\x80\x3f\0\0\0\x40", 8));  // 1 and 2
  ASSERT_NE(at, std::string::npos);
  content[at] = 1;
  const auto file = Open(content);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const absl::Status status = (*file)->VerifyChecksums();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              StartsWith(absl::StrCat("f.pth: byte ", at, ": \"state_dict/data/0\" does not have the checksum")));
}

TEST(Crc32, IsThatOfZip) {
  const std::string text = "123456789";
  const absl::Span<const std::byte> bytes(reinterpret_cast<const std::byte*>(text.data()), text.size());
  EXPECT_EQ(Crc32(bytes), 0xCBF43926);
  EXPECT_EQ(Crc32(bytes.subspan(2), Crc32(bytes.first(2))), 0xCBF43926);
}

// Whatever was changed, the file is refused with a place, or all its tensors can be read.
void TorchFiles::ChangeAndRead(int rounds, uint64_t seed) {
  std::mt19937_64 random(seed);
  int opened = 0;
  for (const char* name : {"tensors.pth", "training.pth", "data_parallel.pth"}) {
    const std::string good = Golden(name);
    for (size_t size = 0; size < good.size(); size += 7) EXPECT_FALSE(Open(good.substr(0, size)).ok()) << size;
    for (int round = 0; round < rounds; ++round) {
      std::string content = good;
      for (auto changes = 1 + random() % 4; changes > 0; --changes) {
        const size_t at = random() % content.size();
        switch (random() % 4) {
          case 0:
            content[at] = static_cast<char>(random());
            break;
          case 1:
            content[at] = static_cast<char>(content[at] ^ (1 << random() % 8));
            break;
          case 2:
            content[at] = static_cast<char>(random() % 2 == 0 ? 0xFF : 0);
            break;
          default:
            content.replace(at, 4, content, random() % content.size(), 4);
        }
      }
      const auto file = Open(content);
      if (!file.ok()) {
        ASSERT_THAT(std::string(file.status().message()), StartsWith("f.pth: "));
        continue;
      }
      ++opened;
      for (const TensorEntry& tensor : (*file)->tensors()) {
        if (tensor.size_bytes() > 1'000'000) continue;  // strides of 0 make much of little
        std::vector<std::byte> bytes(static_cast<size_t>(tensor.size_bytes()));
        ASSERT_TRUE((*file)->ReadWhole(tensor, absl::MakeSpan(bytes)).ok());
      }
      (void)(*file)->VerifyChecksums();
    }
  }
  EXPECT_GT(opened, rounds / 10) << "of files that are changed little, many are good enough to be read";
}

TEST_F(TorchFiles, EndInAnErrorOrInTensorsWhateverIsChanged) { ChangeAndRead(3'000, 1); }

TEST_F(TorchFiles, CampaignEndInAnErrorOrInTensorsWhateverIsChanged) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "a long one: set SNUG_CAMPAIGN";
  ChangeAndRead(300'000, 2);
}

}  // namespace
}  // namespace snug::core::checkpoint
