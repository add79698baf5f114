#include "engine/train/data/tokenizer/tokenizer.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "engine/train/checkpoint/json_reader.h"
#include "engine/train/data/sources.h"
#include "engine/train/data/tokenizer/tokenizer_file.h"
#include "engine/train/data/tokenizer/unicode_classes.h"
#include "engine/train/data/tokenizer/words.h"
#include "tests/testing/source_path.h"
#include "tests/train_data/test_files.h"

namespace snug::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string ContentOf(const std::string& path) {
  std::stringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

std::string GoldenPath(const std::string& name) { return test::SourcePath("tests/golden/tokenizers/" + name); }

std::vector<int32_t> TokensOf(const Tokenizer& tokenizer, absl::string_view text) {
  std::vector<int32_t> tokens;
  tokenizer.Encode(text, &tokens);
  return tokens;
}

struct Golden {
  std::string text;
  std::vector<int32_t> tokens;
};

// Reads {"text": "...", "tokens": [...]}.
Golden ReadGolden(const std::string& line) {
  Golden golden;
  checkpoint::JsonReader json(line);
  std::string key;
  EXPECT_TRUE(json.BeginObject().ok() && json.NextKey(&key).value() && key == "text");
  golden.text = json.String().value();
  EXPECT_TRUE(json.NextKey(&key).value() && key == "tokens" && json.BeginArray().ok());
  while (json.NextElement().value()) golden.tokens.push_back(static_cast<int32_t>(json.Integer().value()));
  return golden;
}

class TokenizerTest : public FileTest {
 protected:
  std::shared_ptr<const Tokenizer> OpenGolden(const std::string& name) {
    auto tokenizer = Tokenizer::Open(GoldenPath(name + ".json"));
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    return *std::move(tokenizer);
  }
  // What is said of a golden file in which `from` was replaced.
  std::string ErrorWith(const std::string& name, const std::string& from, const std::string& to) {
    const std::string content = ContentOf(GoldenPath(name + ".json"));
    const std::string changed = absl::StrReplaceAll(content, {{from, to}});
    EXPECT_NE(changed, content) << from;
    return ErrorOf(Tokenizer::Open(Write("t.json", changed)));
  }
};

// The tokens are those of the package tokenizers; make.py beside the files has made them.
TEST_F(TokenizerTest, MakesTheTokensOfThePackage) {
  for (const std::string name : {"gpt2", "prefix", "llama3", "qwen2"}) {
    const std::shared_ptr<const Tokenizer> tokenizer = OpenGolden(name);
    std::ifstream lines(GoldenPath(name + ".jsonl"));
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      const Golden golden = ReadGolden(line);
      EXPECT_EQ(TokensOf(*tokenizer, golden.text), golden.tokens) << name << ": " << line;
      // Once more: now words are remembered.
      EXPECT_EQ(TokensOf(*tokenizer, golden.text), golden.tokens) << name << ": " << line;
    }
    EXPECT_GT(count, 150) << name;
  }
}

TEST_F(TokenizerTest, KnowsItsBoundAndItsFile) {
  EXPECT_EQ(OpenGolden("gpt2")->bound(), 700);
  EXPECT_EQ(OpenGolden("llama3")->bound(), 605);
  EXPECT_EQ(OpenGolden("gpt2")->digest().size(), 16);
  EXPECT_NE(OpenGolden("gpt2")->digest(), OpenGolden("qwen2")->digest());
}

TEST_F(TokenizerTest, ThreadsShareOne) {
  const std::shared_ptr<const Tokenizer> tokenizer = OpenGolden("gpt2");
  const std::string text = ContentOf(test::SourcePath("README.md"));
  const std::vector<int32_t> expected = TokensOf(*tokenizer, text);
  std::vector<std::vector<int32_t>> found(4);
  std::vector<std::thread> threads;
  for (std::vector<int32_t>& one : found) threads.emplace_back([&] { tokenizer->Encode(text, &one); });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<int32_t>& one : found) EXPECT_EQ(one, expected);
}

TEST_F(TokenizerTest, LongWordsTakeNoLongTime) {
  const std::shared_ptr<const Tokenizer> tokenizer = OpenGolden("gpt2");
  for (const std::string letter : {"a", " ", "é", "\n", "'", "<|"}) {
    std::string text;
    while (text.size() < (size_t{1} << 20)) text += letter;
    EXPECT_GT(TokensOf(*tokenizer, text).size(), 0);
  }
}

TEST_F(TokenizerTest, RefusesByNameWhatItDoesNotDo) {
  const auto nfc = R"("normalizer":{"type":"NFC"})";
  EXPECT_EQ(
      ErrorWith("gpt2", R"("normalizer":null)", nfc),
      "t.json: byte 199: normalizer: expected null, found \"NFC\": byte-level BPE, as of GPT-2, Llama 3 and Qwen 2, "
      "is read");
  EXPECT_THAT(ErrorWith("gpt2", R"("type":"BPE")", R"("type":"WordPiece")"),
              HasSubstr("model.type: expected \"BPE\", found \"WordPiece\""));
  EXPECT_THAT(ErrorWith("gpt2", R"("dropout":null)", R"("dropout":0.1)"),
              HasSubstr("model.dropout: expected null, found 0.1"));
  EXPECT_THAT(ErrorWith("gpt2", R"("end_of_word_suffix":null)", R"("end_of_word_suffix":"</w>")"),
              HasSubstr("model.end_of_word_suffix: expected null, found \"</w>\""));
  EXPECT_THAT(ErrorWith("gpt2", R"("truncation":null)", R"("truncation":{"max_length":8})"),
              HasSubstr("truncation: expected null: the option `truncate`"));
  EXPECT_THAT(ErrorWith("gpt2", R"("padding":null)", R"("padding":{"pad_id":0})"), HasSubstr("padding: expected null"));
  EXPECT_THAT(ErrorWith("gpt2", R"("single_word":false)", R"("single_word":true)"),
              HasSubstr("added_tokens: \"<|endoftext|>\": single_word: expected false, found true"));
  EXPECT_THAT(ErrorWith("gpt2", R"("pre_tokenizer":{"type":"ByteLevel")", R"("pre_tokenizer":{"type":"Whitespace")"),
              HasSubstr("pre_tokenizer: expected \"ByteLevel\", or \"Sequence\" of \"Split\" and \"ByteLevel\", found "
                        "\"Whitespace\""));
  EXPECT_THAT(ErrorWith("gpt2", R"("decoder":{"type":"ByteLevel")", R"("decoder":{"type":"WordPiece")"),
              HasSubstr("decoder: expected \"ByteLevel\", found \"WordPiece\""));
  EXPECT_THAT(ErrorWith("llama3", R"(\\p{N}{1,3})", R"(\\p{N}{1,4})"),
              HasSubstr("pre_tokenizer.Split.pattern: expected that of GPT-2, Llama 3 or Qwen 2 to the letter, found"));
  EXPECT_THAT(ErrorWith("llama3", R"("behavior":"Isolated")", R"("behavior":"Removed")"),
              HasSubstr("pre_tokenizer.Split.behavior: expected \"Isolated\", found \"Removed\""));
  EXPECT_THAT(ErrorWith("llama3", R"("invert":false)", R"("invert":true)"), HasSubstr("invert: expected false"));
  EXPECT_THAT(
      ErrorWith("llama3", R"("TemplateProcessing")", R"("RobertaProcessing")"),
      HasSubstr("post_processor: expected null, \"ByteLevel\", \"TemplateProcessing\", or a \"Sequence\" of them, "
                "found \"RobertaProcessing\""));
  EXPECT_THAT(ErrorWith("gpt2", R"("version":"1.0")", R"("version":"2.0")"), HasSubstr("version: expected \"1.0\""));
  EXPECT_THAT(ErrorWith("gpt2", R"("truncation")", R"("truncations")"),
              HasSubstr("expected one of version, truncation, padding, added_tokens, normalizer, pre_tokenizer, "
                        "post_processor, decoder; found \"truncations\", which is not known here"));
  EXPECT_THAT(ErrorWith("gpt2", R"("fuse_unk")", R"("fuse_unks")"), HasSubstr("model: expected one of type, dropout"));
  EXPECT_THAT(ErrorWith("gpt2", R"("rstrip")", R"("rstrips")"), HasSubstr("added_tokens: expected one of id, content"));
}

TEST_F(TokenizerTest, FindsWhatIsWrongInTheModel) {
  EXPECT_THAT(ErrorWith("gpt2", R"("Ċ":)", R"("Ċx":)"),
              HasSubstr("model.vocab: expected a token for each byte, found none for byte 10 (\"Ċ\")"));
  EXPECT_THAT(ErrorWith("gpt2", R"("!":1,)", R"("!":2,)"), HasSubstr("expected a token of its own, found 2"));
  EXPECT_THAT(ErrorWith("gpt2", R"("!":1,)", R"("!":99999999999,)"), HasSubstr("expected at most 2147483646"));
  EXPECT_THAT(ErrorWith("gpt2", R"("!":1,)", R"("!":-1,)"), HasSubstr("expected a whole number, not negative"));
  EXPECT_THAT(ErrorWith("gpt2", R"("merges":[)", R"("merges":[["zq","zq"],)"),
              HasSubstr("model.merges: \"zq\" and \"zq\": expected \"zq\" in the vocabulary, found none"));
  EXPECT_THAT(ErrorWith("gpt2", R"("merges":[)", R"("merges":["a b c",)"),
              HasSubstr("expected two texts with a space between, found \"a b c\""));
  EXPECT_THAT(ErrorWith("gpt2", R"("merges":[)", R"("merges":[["a"],)"), HasSubstr("found fewer"));
  EXPECT_THAT(ErrorWith("gpt2", R"("merges":[)", R"("merges":[["a","b","c"],)"), HasSubstr("found more"));
  EXPECT_THAT(ErrorWith("gpt2", R"("merges":[)", R"("merges":[7,)"), HasSubstr("expected a merge, as \"a b\""));
  EXPECT_THAT(ErrorWith("gpt2", R"({"id":0,)", R"({"id":5,)"),
              HasSubstr("\"<|endoftext|>\": expected the id 0, which it has in the vocabulary; found 5"));
  EXPECT_THAT(ErrorWith("llama3", R"({"id":603,)", R"({"id":700,)"),
              HasSubstr("\"<|begin|>\": expected the id 603, the next one; found 700"));
  EXPECT_THAT(ErrorWith("llama3", R"("ids":[603])", R"("ids":[6030])"),
              HasSubstr("expected the id of a token, found 6030, which is none"));
}

TEST_F(TokenizerTest, HostileFilesAreErrors) {
  EXPECT_THAT(ErrorOf(Tokenizer::Open(PathOf("none.json"))), HasSubstr("none.json: cannot be opened"));
  EXPECT_EQ(ErrorOf(Tokenizer::Open(Write("t.json", ""))), "t.json: byte 0: expected an object, '{', found the end");
  EXPECT_EQ(ErrorOf(Tokenizer::Open(Write("t.json", "{\"a\xFF"))),
            "t.json: byte 3: expected UTF-8, found a byte that is none");
  EXPECT_EQ(ErrorOf(Tokenizer::Open(Write("t.json", "{}"))), "t.json: expected \"model\", found none");
  std::string deep = R"({"normalizer": )" + std::string(100000, '[');
  EXPECT_THAT(ErrorOf(Tokenizer::Open(Write("t.json", deep))), HasSubstr("not nested so deeply"));
  std::string many = R"({"added_tokens": [0)";
  for (int i = 0; i < (1 << 20); ++i) many += ",0";
  EXPECT_THAT(ErrorOf(Tokenizer::Open(Write("t.json", many + "]}"))), HasSubstr("expected fewer values"));
  EXPECT_THAT(ErrorWith("gpt2", "<|endoftext|>", std::string(2000, 'x')),
              HasSubstr("expected 1 to 1024 bytes, found 2000"));
}

// Whatever a file has become, it is read or refused with its path, and what is read makes tokens within its bound.
TEST_F(TokenizerTest, DamagedFilesAreReadOrRefused) {
  std::mt19937 random(22);
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  int read = 0, refused = 0;
  for (const std::string name : {"gpt2", "prefix", "llama3", "qwen2"}) {
    const std::string content = ContentOf(GoldenPath(name + ".json"));
    for (int i = 0; i < 1000; ++i) {
      std::string damaged = content;
      for (size_t changes = 1 + below(3); changes > 0; --changes) {
        // What the vocabulary holds is not what decides most; the beginning has all options.
        const size_t at = below(2) == 0 ? below(damaged.size()) : below(std::min<size_t>(damaged.size(), 1500));
        const size_t length = std::min(below(20) + 1, damaged.size() - at);
        switch (below(4)) {
          case 0:
            damaged[at] = static_cast<char>(below(256));
            break;
          case 1:
            damaged.erase(at, length);
            break;
          case 2:
            damaged.insert(at, damaged.substr(below(damaged.size()), length));
            break;
          default:
            damaged[at] = "0123456789\"{}[],:tfn"[below(20)];
        }
      }
      const auto file = ParseTokenizer(damaged, "t.json");
      if (!file.ok()) {
        ++refused;
        EXPECT_THAT(std::string(file.status().message()), StartsWith("t.json: "));
        continue;
      }
      ++read;
      if (i % 8 != 0) continue;
      const auto tokenizer = Tokenizer::Open(Write("damaged.json", damaged));
      ASSERT_TRUE(tokenizer.ok());
      for (const int32_t token : TokensOf(**tokenizer, "The snug engine's  runs\n\n1234 é<|endoftext|> <mask>")) {
        ASSERT_GE(token, 0);
        ASSERT_LT(token, (*tokenizer)->bound());
      }
    }
  }
  EXPECT_GT(read, 20);
  EXPECT_GT(refused, 1000);
}

TEST(UnicodeClasses, AreThoseOfTheStandard) {
  EXPECT_EQ(UnicodeVersion(), "16.0.0");
  EXPECT_EQ(ClassOf('a'), CharacterClass::kLetter);
  EXPECT_EQ(ClassOf(0xDF), CharacterClass::kLetter);
  EXPECT_EQ(ClassOf(0x4E2D), CharacterClass::kLetter);
  EXPECT_EQ(ClassOf(0x1C89), CharacterClass::kLetter);  // new in Unicode 16
  EXPECT_EQ(ClassOf(0x301), CharacterClass::kOther);    // a mark
  EXPECT_EQ(ClassOf('7'), CharacterClass::kNumber);
  EXPECT_EQ(ClassOf(0xB2), CharacterClass::kNumber);
  EXPECT_EQ(ClassOf(0x216B), CharacterClass::kNumber);
  for (const uint32_t blank : {0x9U, 0xDU, 0x20U, 0x85U, 0xA0U, 0x3000U})
    EXPECT_EQ(ClassOf(blank), CharacterClass::kBlank);
  for (const uint32_t none : {0x8U, 0x1FU, 0x180EU, 0x200BU, 0xFEFFU}) EXPECT_EQ(ClassOf(none), CharacterClass::kOther);
  EXPECT_EQ(ClassOf(0x10FFFF), CharacterClass::kOther);
}

std::vector<std::string> WordsOf(WordPattern pattern, absl::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t length = WordLength(pattern, text);
    words.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return words;
}

TEST(Words, AreCutByEachPattern) {
  EXPECT_THAT(WordsOf(WordPattern::kGpt2, "I'll  go, it's 12345 'x"),
              ElementsAre("I", "'ll", " ", " go", ",", " it", "'s", " 12345", " '", "x"));
  EXPECT_THAT(WordsOf(WordPattern::kLlama3, "I'LL  go,\n\n it's 12345 'x"),
              ElementsAre("I", "'LL", " ", " go", ",\n\n", " it", "'s", " ", "123", "45", " '", "x"));
  EXPECT_THAT(WordsOf(WordPattern::kQwen2, "a\t\n  b 12"), ElementsAre("a", "\t\n", " ", " b", " ", "1", "2"));
  EXPECT_THAT(WordsOf(WordPattern::kNone, "a b"), ElementsAre("a b"));
}

class TokenizedData : public TokenizerTest {};

TEST_F(TokenizedData, WindowsOfTokens) {
  const std::shared_ptr<const Tokenizer> tokenizer = OpenGolden("gpt2");
  const std::string text = ContentOf(test::SourcePath("docs/engine.md"));
  const std::string path = Write("text.txt", text);
  const auto tokens = ReadTokens(path, *tokenizer);
  ASSERT_TRUE(tokens.ok()) << tokens.status().message();
  EXPECT_EQ((*tokens)->tokens, TokensOf(*tokenizer, text));
  EXPECT_EQ((*tokens)->file_bytes, static_cast<int64_t>(text.size()));
  const auto dataset = OpenText(path, {.length = 16, .from = 0.5, .tokens = *tokens});
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  EXPECT_EQ((*dataset)->fields()[0].max_value, 700);
  const size_t begin = (*tokens)->tokens.size() / 2 + 16;
  const Sample second(**dataset, 1);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(second.Field<int32_t>(0)[i], (*tokens)->tokens[begin + i]);
    EXPECT_EQ(second.Field<int32_t>(1)[i], (*tokens)->tokens[begin + i + 1]);
  }
  EXPECT_EQ(
      ErrorOf(OpenText(path, {.length = 1000000, .tokens = *tokens})),
      absl::StrCat("text.txt: token ", (*tokens)->tokens.size(),
                   ": the text ends here, expected at least 1000001 tokens from token 0 on (a window of 1000000 and "
                   "the token after it): use a longer text or a shorter window"));
  EXPECT_EQ(ErrorOf(ReadTokens(Write("latin1.txt", "caf\xE9 noir"), *tokenizer)),
            "latin1.txt: byte 3: expected UTF-8, which a tokenizer takes, found a byte that is none");
}

TEST_F(TokenizedData, TextsOfManyGigabytesAreRefused) {
  const std::string path = Write("large.txt", "a");
  std::filesystem::resize_file(path, uintmax_t{1} << 31);  // a hole, which takes no room on the disk
  EXPECT_EQ(
      ErrorOf(ReadTokens(path, *OpenGolden("gpt2"))),
      "large.txt: byte 2147483647: expected at most 2147483647 bytes for a tokenizer, found 2147483648: their tokens "
      "are kept in memory");
}

TEST_F(TokenizedData, TextsInLinesOfJson) {
  const JsonLinesInput input = {
      .field = {.name = "text", .type = {.dtype = DType::kInt32, .shape = {8}}, .max_value = 605}};
  JsonLinesOptions options{.inputs = {input}, .tokenizer = OpenGolden("llama3")};
  const std::string path = Write("data.jsonl", "{\"text\": \"a\"}\n{\"text\": \"\"}\n");
  const auto lines = OpenJsonLines(path, options);
  ASSERT_TRUE(lines.ok()) << lines.status().message();
  EXPECT_THAT(Sample(*lines->dataset, 0).Field<int32_t>(0), ElementsAre(603, 64, 604, 0, 0, 0, 0, 0));
  EXPECT_THAT(Sample(*lines->dataset, 1).Field<int32_t>(0), ElementsAre(603, 604, 0, 0, 0, 0, 0, 0));
  options.inputs[0].field.max_value = 604;
  EXPECT_THAT(ErrorOf(OpenJsonLines(path, options)),
              testing::AllOf(StartsWith("data.jsonl:1:13: field \"text\": has token 604 by "),
                             HasSubstr("and the input takes values below 604: expected a max_value of at least 605")));
}

}  // namespace
}  // namespace snug::core
