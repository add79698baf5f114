#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/printable.h"
#include "engine/train/data/sources.h"
#include "engine/train/data/synthetic.h"
#include "engine/train/data/tokenizer/tokenizer.h"
#include "engine/train/open_images.h"
#include "engine/train/training_options.h"
#include "proto/network.pb.h"
#include "proto/train.pb.h"

namespace snug::core {
namespace {

using DatasetPtr = std::shared_ptr<const Dataset>;

// The metadata of a checkpoint, or null.
using Kept = const std::map<std::string, std::string>*;

const std::string* KeptWord(Kept kept, const std::string& key) {
  if (kept == nullptr) return nullptr;
  const auto found = kept->find(key);
  return found == kept->end() ? nullptr : &found->second;
}

// Keys of TrainingData::learnt.
constexpr char kTableKey[] = "data.table", kTokenizerKey[] = "data.tokenizer";

// Without a `test` dataset, a part of the samples is held back.
absl::StatusOr<TrainingData> Parted(DatasetPtr all, DatasetPtr test, const proto::Data& data, uint64_t seed) {
  if (test != nullptr) return TrainingData{.training = std::move(all), .evaluation = std::move(test)};
  if (data.held_back() == 0) return TrainingData{.training = std::move(all)};
  SNUG_ASSIGN_OR_RETURN(PartedDataset parted, HoldBack(std::move(all), data.held_back(), seed));
  return TrainingData{.training = std::move(parted.training), .evaluation = std::move(parted.held_back)};
}

absl::Status Missing(absl::string_view what, absl::string_view flag) {
  return absl::InvalidArgumentError(absl::StrCat("the data: ", what, " is missing: --", flag, "=FILE"));
}

absl::StatusOr<TrainingData> Synthetic(absl::string_view task, uint64_t seed, int64_t samples) {
  TrainingData data;
  SNUG_ASSIGN_OR_RETURN(data.training, MakeSynthetic(task, {.seed = seed, .samples = samples}));
  SNUG_ASSIGN_OR_RETURN(data.evaluation, MakeSynthetic(task, {.seed = seed, .held_back = true}));
  return data;
}

absl::StatusOr<TrainingData> Idx(const proto::Data& data, uint64_t seed) {
  const proto::Idx& idx = data.idx();
  if (!idx.has_images()) return Missing("the file of the images", "data-idx-images");
  if (!idx.has_labels()) return Missing("the file of the labels", "data-idx-labels");
  SNUG_ASSIGN_OR_RETURN(DatasetPtr all, OpenIdx(idx.images(), idx.labels()));
  DatasetPtr test;
  if (idx.has_test_images() || idx.has_test_labels()) {
    if (!idx.has_test_images()) return Missing("the images for evaluation", "data-idx-test-images");
    if (!idx.has_test_labels()) return Missing("the labels for evaluation", "data-idx-test-labels");
    SNUG_ASSIGN_OR_RETURN(test, OpenIdx(idx.test_images(), idx.test_labels()));
  }
  return Parted(std::move(all), std::move(test), data, seed);
}

// The files have the names that CIFAR's makers gave them.
absl::StatusOr<TrainingData> Cifar(const proto::Data& data, uint64_t seed) {
  const proto::Cifar& cifar = data.cifar();
  if (!cifar.has_directory()) return Missing("the directory of the files", "data-cifar-directory");
  const std::string directory = cifar.directory() + "/";
  if (cifar.classes() != 10 && cifar.classes() != 100) {
    return absl::InvalidArgumentError(absl::StrCat("cifar: expected 10 or 100 classes, found ", cifar.classes()));
  }
  const bool ten = cifar.classes() == 10;
  std::vector<std::string> files;
  for (int i = 1; ten && i <= 5; ++i) files.push_back(absl::StrCat(directory, "data_batch_", i, ".bin"));
  if (!ten) files = {directory + "train.bin"};
  const std::string test_file = directory + (ten ? "test_batch.bin" : "test.bin");
  const auto open = ten ? OpenCifar10 : OpenCifar100;
  SNUG_ASSIGN_OR_RETURN(DatasetPtr all, open(files, cifar.directory()));
  DatasetPtr test;
  std::error_code error;
  if (std::filesystem::exists(test_file, error)) {
    SNUG_ASSIGN_OR_RETURN(test, open({test_file}, cifar.directory()));
  }
  return Parted(std::move(all), std::move(test), data, seed);
}

// Expects "image=x.npy" for each input of the network.
absl::StatusOr<DatasetPtr> OpenNpyFiles(const google::protobuf::RepeatedPtrField<std::string>& files,
                                        const proto::Network& network) {
  std::vector<NpyField> fields;
  for (const std::string& file : files) {
    const std::vector<std::string> parts = absl::StrSplit(file, absl::MaxSplits('=', 1));
    if (parts.size() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("npy: expected files as image=x.npy, with the name of an input, found \"", file, "\""));
    }
    NpyField field{.name = parts[0], .path = parts[1]};
    for (const proto::Input& input : network.input()) {
      if (input.name() != field.name || input.dtype() == proto::FLOAT || input.dtype() == proto::FLOAT32) continue;
      if (input.dtype() == proto::INT32) field.dtype = DType::kInt32;
      if (input.dtype() == proto::INT64) field.dtype = DType::kInt64;
      if (input.dtype() == proto::UINT8) field.dtype = DType::kUint8;
      field.label = input.dtype() == proto::INT32 || input.dtype() == proto::INT64;
      field.max_value = input.max_value();
    }
    fields.push_back(std::move(field));
  }
  return OpenNpy(fields);
}

// Why these files tell nothing of some inputs; empty: there is one for each.
std::string WhatHasNoFile(const google::protobuf::RepeatedPtrField<std::string>& files, const proto::Network& network) {
  if (files.size() >= network.input_size()) return {};  // inputs may take fields of other names
  std::vector<std::string> missing;
  for (const proto::Input& input : network.input()) {
    const bool named = std::any_of(files.begin(), files.end(), [&](const std::string& file) {
      return absl::StartsWith(file, absl::StrCat(input.name(), "="));
    });
    if (!named) missing.push_back(Shown(input.name()));
  }
  return absl::StrCat("npy: no file is named for ", absl::StrJoin(missing, ", "), ": nothing that depends on ",
                      missing.size() == 1 ? "it" : "them", " is computed");
}

absl::StatusOr<TrainingData> Npy(const proto::Data& data, const proto::Network& network, uint64_t seed,
                                 bool may_lack_labels) {
  if (data.npy().file().empty()) return Missing("a file for each input", "data-npy-file=image");
  SNUG_ASSIGN_OR_RETURN(DatasetPtr all, OpenNpyFiles(data.npy().file(), network));
  if (std::string missing = WhatHasNoFile(data.npy().file(), network); may_lack_labels && !missing.empty()) {
    TrainingData unlabelled{.training = std::move(all), .notes = {std::move(missing)}, .lacks_labels = true};
    if (!data.npy().test_file().empty()) {
      unlabelled.notes.push_back(absl::StrCat(absl::StrJoin(data.npy().test_file(), ","),
                                              ": is not read: all samples of ", absl::StrJoin(data.npy().file(), ","),
                                              " are predicted"));
    }
    return unlabelled;
  }
  DatasetPtr test;
  if (!data.npy().test_file().empty()) {
    SNUG_ASSIGN_OR_RETURN(test, OpenNpyFiles(data.npy().test_file(), network));
  }
  std::string missing_of_test = test == nullptr ? "" : WhatHasNoFile(data.npy().test_file(), network);
  SNUG_ASSIGN_OR_RETURN(TrainingData opened, Parted(std::move(all), std::move(test), data, seed));
  opened.evaluation_lacks_labels = may_lack_labels && !missing_of_test.empty();
  if (opened.evaluation_lacks_labels) opened.notes.push_back(std::move(missing_of_test));
  return opened;
}

// Whether a sample depends on more than its own row.
bool LearnsSomething(const CsvOptions& options, const CsvData& opened) {
  return options.normalise || !options.categories.empty() || !opened.classes.empty() ||
         std::any_of(options.missing.begin(), options.missing.end(),
                     [](const std::string& rule) { return absl::EndsWith(rule, "mean"); });
}

absl::StatusOr<TrainingData> Csv(const proto::Data& data, const proto::Network& network, uint64_t seed, Kept kept,
                                 bool may_lack_labels) {
  const proto::Csv& csv = data.csv();
  if (!csv.has_file()) return Missing("the table", "data-csv-file");
  CsvOptions options{.label = csv.label(),
                     .regression = true,
                     .categories = {csv.category().begin(), csv.category().end()},
                     .missing = {csv.missing().begin(), csv.missing().end()},
                     .normalise = csv.normalise(),
                     .test_file = csv.test_file(),
                     .held_back = data.held_back(),
                     .seed = seed,
                     .may_lack_labels = may_lack_labels};
  for (const proto::Input& input : network.input()) {
    if (input.dtype() != proto::INT32 && input.dtype() != proto::INT64) continue;
    options.regression = false;  // something in the network wants classes
    options.classes = input.max_value();
  }
  if (const std::string* table = KeptWord(kept, kTableKey); table != nullptr) options.learnt = *table;
  SNUG_ASSIGN_OR_RETURN(CsvData opened, OpenCsv(csv.file(), options));
  if (kept != nullptr && options.learnt.empty() && LearnsSomething(options, opened)) {
    opened.notes.push_back(
        absl::StrCat("the checkpoint keeps nothing of the table that it was trained with: what is "
                     "learnt of one comes from the training rows of ",
                     csv.file()));
  }
  return TrainingData{.training = std::move(opened.training),
                      .evaluation = std::move(opened.evaluation),
                      .notes = std::move(opened.notes),
                      .learnt = {{kTableKey, std::move(opened.learnt)}},
                      .lacks_labels = opened.lacks_labels,
                      .evaluation_lacks_labels = opened.test_lacks_labels};
}

// Opens a tokenizer for data that name one, and null for others. It must be the one that a checkpoint was trained with.
absl::StatusOr<std::shared_ptr<const Tokenizer>> OpenTokenizer(const std::string& path, Kept kept, bool goes_on,
                                                               TrainingData* data) {
  const std::string* const before = KeptWord(kept, kTokenizerKey);
  if (path.empty()) {
    if (before == nullptr) return nullptr;
    return absl::InvalidArgumentError(
        "tokenizer: the checkpoint was trained with one: expected the same here, found none");
  }
  SNUG_ASSIGN_OR_RETURN(std::shared_ptr<const Tokenizer> tokenizer, Tokenizer::Open(path));
  if (before != nullptr && *before != tokenizer->digest()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": expected the tokenizer that the checkpoint was trained with, found a file with other bytes; one "
        "that was written anew counts as another"));
  }
  if (kept != nullptr && before == nullptr) {
    if (goes_on) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": the checkpoint was trained without a tokenizer: expected none here, found one"));
    }
    data->notes.push_back(
        absl::StrCat("the checkpoint keeps nothing of a tokenizer: it was trained without one, or elsewhere, and ",
                     path, " may not be what it knows"));
  }
  data->learnt[kTokenizerKey] = tokenizer->digest();
  return tokenizer;
}

// The inputs that take windows of tokens must take every token there may be.
absl::Status CheckBound(const Tokenizer& tokenizer, const proto::Network& network) {
  for (const proto::Input& input : network.input()) {
    const bool takes_tokens = input.dtype() == proto::INT32 && input.shape().dim_size() == 1;
    if (!takes_tokens || input.max_value() == 0 || input.max_value() >= tokenizer.bound()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(tokenizer.path(), ": has tokens up to ", tokenizer.bound() - 1, ", and input \"", input.name(),
                     "\" of the network takes values below ", input.max_value(), ": expected a max_value of at least ",
                     tokenizer.bound(), ", and as many `entries` of its embedding"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const TextTokens>> TokensOf(const std::string& file, const Tokenizer& tokenizer,
                                                           std::vector<std::string>* notes) {
  SNUG_ASSIGN_OR_RETURN(std::shared_ptr<const TextTokens> tokens, ReadTokens(file, tokenizer));
  const auto count = static_cast<double>(std::max<size_t>(tokens->tokens.size(), 1));
  notes->push_back(absl::StrFormat("%s: %d bytes are %d tokens by %s, %.2f bytes each", file, tokens->file_bytes,
                                   tokens->tokens.size(), tokenizer.path(),
                                   static_cast<double>(tokens->file_bytes) / count));
  return tokens;
}

// Holds back the end of the file. Windows from all over it would not do: their neighbours tell what is in them.
absl::StatusOr<TrainingData> Text(const proto::Data& data, const proto::Network& network, Kept kept, bool goes_on) {
  const proto::Text& text = data.text();
  if (!text.has_file()) return Missing("the file", "data-text-file");
  TextOptions options;
  if (text.has_window()) {
    options.length = text.window();
  } else {
    for (const proto::Input& input : network.input()) {
      if (input.dtype() == proto::INT32 && input.shape().dim_size() == 1) options.length = input.shape().dim(0);
    }
  }
  if (text.has_rows() && data.shuffle()) {
    return absl::InvalidArgumentError(
        "text: rows: the rows of a batch go on where they ended in the batch before, which takes the batches in their "
        "sequence: say shuffle: false");
  }
  TrainingData opened;
  SNUG_ASSIGN_OR_RETURN(const std::shared_ptr<const Tokenizer> tokenizer,
                        OpenTokenizer(text.tokenizer(), kept, goes_on, &opened));
  if (tokenizer != nullptr) {
    SNUG_RETURN_IF_ERROR(CheckBound(*tokenizer, network));
    SNUG_ASSIGN_OR_RETURN(options.tokens, TokensOf(text.file(), *tokenizer, &opened.notes));
  }
  TextOptions in_rows = options;
  if (text.has_rows()) in_rows.rows = text.rows();
  if (text.has_test_file()) {
    SNUG_ASSIGN_OR_RETURN(opened.training, OpenText(text.file(), in_rows));
    if (tokenizer != nullptr) {
      SNUG_ASSIGN_OR_RETURN(options.tokens, TokensOf(text.test_file(), *tokenizer, &opened.notes));
    }
    SNUG_ASSIGN_OR_RETURN(opened.evaluation, OpenText(text.test_file(), options));
    return opened;
  }
  options.to = in_rows.to = 1 - data.held_back();
  SNUG_ASSIGN_OR_RETURN(opened.training, OpenText(text.file(), in_rows));
  if (data.held_back() > 0) {
    options.from = std::exchange(options.to, 1);
    SNUG_ASSIGN_OR_RETURN(opened.evaluation, OpenText(text.file(), options));
  }
  return opened;
}

absl::Status CheckPadding(const DataField& field, int64_t value, const std::string& length) {
  const std::string place = absl::StrCat("json_lines: padding: input \"", field.name, "\" ");
  if (field.name == length) return absl::InvalidArgumentError(absl::StrCat(place, "is the length, which is counted"));
  if (IsFloating(field.type.dtype)) return absl::OkStatus();
  const bool is_signed = field.type.dtype != DType::kUint8;
  if (is_signed && value == kIgnoredLabel) return absl::OkStatus();
  int64_t low = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  if (field.type.dtype == DType::kInt32) low = std::numeric_limits<int32_t>::min(), most = ~low;
  if (!is_signed) low = 0, most = 255;
  if (field.max_value > 0) low = 0, most = std::min(most, field.max_value - 1);
  if (value >= low && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      place, "takes numbers from ", low, " to ", most,
      is_signed ? absl::StrCat(", or ", kIgnoredLabel, " where a loss leaves it out") : "", "; found ", value));
}

// Names fields that are not read, the first of them where there are many.
void NoteUnread(const std::string& file, const std::vector<std::string>& unread, std::vector<std::string>* notes) {
  constexpr size_t kMostNamed = 10;
  for (size_t i = 0; i < std::min(unread.size(), kMostNamed); ++i) {
    notes->push_back(absl::StrCat(file, ": field \"", unread[i], "\" is no input of the network, and not read"));
  }
  if (unread.size() > kMostNamed) {
    notes->push_back(absl::StrCat(file, ": nor are ", unread.size() - kMostNamed, " other fields"));
  }
}

absl::StatusOr<JsonLinesOptions> OptionsOf(const proto::JsonLines& lines, const proto::Network& network) {
  JsonLinesOptions options{.length = lines.length(), .truncate = lines.truncate()};
  for (const proto::Input& input : network.input()) {
    JsonLinesInput one{.field = {.name = input.name(), .max_value = input.max_value()}};
    if (input.dtype() == proto::INT32) one.field.type.dtype = DType::kInt32;
    if (input.dtype() == proto::INT64) one.field.type.dtype = DType::kInt64;
    if (input.dtype() == proto::UINT8) one.field.type.dtype = DType::kUint8;
    const std::vector<int64_t> dims(input.shape().dim().begin(), input.shape().dim().end());
    SNUG_ASSIGN_OR_RETURN(one.field.type.shape, MakeShape(dims));
    options.inputs.push_back(std::move(one));
  }
  for (const std::string& text : lines.padding()) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    int64_t value = 0;
    const auto found = std::find_if(options.inputs.begin(), options.inputs.end(),
                                    [&](const JsonLinesInput& input) { return input.field.name == parts.first; });
    if (found == options.inputs.end() || !absl::SimpleAtoi(parts.second, &value)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "json_lines: padding: expected an input of the network and a whole number, as tags=-100; found \"", text,
          "\""));
    }
    SNUG_RETURN_IF_ERROR(CheckPadding(found->field, value, lines.length()));
    found->field.padding = value;
    found->has_padding = true;
  }
  return options;
}

absl::StatusOr<TrainingData> Lines(const proto::Data& data, const proto::Network& network, uint64_t seed, Kept kept,
                                   bool goes_on) {
  const proto::JsonLines& lines = data.json_lines();
  if (!lines.has_file()) return Missing("the file of samples", "data-json-lines-file");
  if (lines.by_length() > 1 && !data.shuffle()) {
    return absl::InvalidArgumentError(
        "json_lines: by_length: samples of about one length come together in a shuffled order: leave out shuffle: "
        "false, or by_length");
  }
  SNUG_ASSIGN_OR_RETURN(JsonLinesOptions options, OptionsOf(lines, network));
  TrainingData tokenized;
  SNUG_ASSIGN_OR_RETURN(options.tokenizer, OpenTokenizer(lines.tokenizer(), kept, goes_on, &tokenized));
  SNUG_ASSIGN_OR_RETURN(JsonLines all, OpenJsonLines(lines.file(), options));
  DatasetPtr test;
  std::vector<std::string> unread_of_test;
  if (lines.has_test_file()) {
    options.next_tokens = all.next_tokens;
    SNUG_ASSIGN_OR_RETURN(JsonLines judged, OpenJsonLines(lines.test_file(), options));
    test = std::move(judged.dataset);
    unread_of_test = std::move(judged.unread);
  }
  SNUG_ASSIGN_OR_RETURN(TrainingData opened, Parted(std::move(all.dataset), std::move(test), data, seed));
  opened.learnt = std::move(tokenized.learnt);
  opened.notes = std::move(tokenized.notes);
  NoteUnread(lines.file(), all.unread, &opened.notes);
  NoteUnread(lines.test_file(), unread_of_test, &opened.notes);
  return opened;
}

}  // namespace

absl::StatusOr<TrainingData> OpenData(const proto::Data& data, const proto::Network& network, uint64_t seed,
                                      const std::map<std::string, std::string>* kept, bool goes_on,
                                      bool may_lack_labels, const DataProgress& progress) {
  switch (data.source_case()) {
    case proto::Data::kDigits:
      return Synthetic("digits", seed, data.digits().samples());
    case proto::Data::kTextures:
      return Synthetic("textures", seed, data.textures().samples());
    case proto::Data::kSpiral:
      return Synthetic("spiral", seed, data.spiral().samples());
    case proto::Data::kCopy:
      return Synthetic("copy", seed, data.copy().samples());
    case proto::Data::kIdx:
      return Idx(data, seed);
    case proto::Data::kCifar:
      return Cifar(data, seed);
    case proto::Data::kNpy:
      return Npy(data, network, seed, may_lack_labels);
    case proto::Data::kCsv:
      return Csv(data, network, seed, kept, may_lack_labels);
    case proto::Data::kText:
      return Text(data, network, kept, goes_on);
    case proto::Data::kImages:
      return OpenImageData(data, network, seed, kept, may_lack_labels, progress);
    case proto::Data::kJsonLines:
      return Lines(data, network, seed, kept, goes_on);
    case proto::Data::SOURCE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "no data: name some, with --data=digits or `training { data { digits {} } }` in the model file; "
      "snug train --help lists what there is");
}

}  // namespace snug::core
