// Makes tokens for peers_test.py, which compares them with those of the package tokenizers.
//
//   tokenizer_peer FILE.json             for each line of standard input, a text as JSON, a line of tokens
//   tokenizer_peer FILE.json TEXT        tokens of a file, and how long they took, as JSON
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/train/checkpoint/json_reader.h"
#include "engine/train/data/sources.h"
#include "engine/train/data/tokenizer/tokenizer.h"

namespace snug::core {
namespace {

absl::Status EncodeLines(const Tokenizer& tokenizer) {
  for (std::string line; std::getline(std::cin, line);) {
    checkpoint::JsonReader json(line);
    SNUG_ASSIGN_OR_RETURN(const std::string text, json.String());
    std::vector<int32_t> tokens;
    tokenizer.Encode(text, &tokens);
    std::printf("%s\n", absl::StrJoin(tokens, " ").c_str());
  }
  return absl::OkStatus();
}

absl::Status EncodeFile(const Tokenizer& tokenizer, const std::string& path) {
  const auto begin = std::chrono::steady_clock::now();
  SNUG_ASSIGN_OR_RETURN(const auto tokens, ReadTokens(path, tokenizer));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("{\"seconds\": %.6f, \"tokens\": [%s]}\n", took.count(), absl::StrJoin(tokens->tokens, ", ").c_str());
  return absl::OkStatus();
}

absl::Status Run(int argc, char** argv) {
  if (argc < 2 || argc > 3) return absl::InvalidArgumentError("expected FILE.json, and perhaps TEXT");
  SNUG_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Open(argv[1]));
  return argc == 2 ? EncodeLines(*tokenizer) : EncodeFile(*tokenizer, argv[2]);
}

}  // namespace
}  // namespace snug::core

int main(int argc, char** argv) {
  const absl::Status status = snug::core::Run(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
