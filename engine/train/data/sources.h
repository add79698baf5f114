// Opens data in files as Datasets: each format is in a .cc file of its own. What is fed by name is said as `Fields:`.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/data/dataset.h"

namespace snug::core {
class Tokenizer;  // tokenizer/tokenizer.h

// IDX, the format of MNIST, Fashion-MNIST and EMNIST: one file of images, one of labels, gzipped or not.
// Fields: image float32[1, height, width] in [0, 1], label int32.
// Checks that the labels lie in [0, classes).
absl::StatusOr<std::shared_ptr<const Dataset>> OpenIdx(const std::string& images, const std::string& labels,
                                                       int64_t classes = 10);

// CIFAR-10 and CIFAR-100 in their binary versions: files of records, each a label (for CIFAR-100 a coarse and a fine
// one) and the bytes of an image. Several files are one dataset. Fields: image float32[3, 32, 32] in [0, 1], label
// int32, and for CIFAR-100 coarse_label int32. Checks the labels.
//
// Names of classes lie in text files beside the records, a name a line, and `names` tells where these are:
// batches.meta.txt, or fine_label_names.txt and coarse_label_names.txt. A file that is not there names nothing.
absl::StatusOr<std::shared_ptr<const Dataset>> OpenCifar10(const std::vector<std::string>& paths,
                                                           const std::string& names = {});
absl::StatusOr<std::shared_ptr<const Dataset>> OpenCifar100(const std::vector<std::string>& paths,
                                                            const std::string& names = {});

// Reads a table as CSV: one column is the label, the others are the features, in their sequence. The whole file is read
// at once. Fields: features float32[N], label int32 (a class), or float32 for regression. Categories have a number for
// each of their values, and labels may be texts, whose classes are sorted.
struct CsvOptions {
  std::optional<bool> header;  // absent: it is seen by the texts in the first line
  std::string label;           // the column's name or number, from 0; -1 or "" is the last column
  bool regression = false;     // whether labels are any numbers
  int64_t classes = 0;         // labels that are numbers lie in [0, classes); 0: as the largest label says
  char separator = ',';
  std::vector<std::string> categories = {};  // columns, by name or number
  std::vector<std::string> missing = {};     // what empty fields become: "mean", a number, "refuse"; or as "age=mean"
  bool normalise = false;                    // whether numbers get the mean 0 and the deviation 1
  std::string test_file = {};                // for evaluation; empty: some rows are held back
  double held_back = 0;                      // the share of them
  uint64_t seed = 0;                         // decides which
  std::string learnt = {};                   // CsvData::learnt of an earlier training, to be used; empty: none
  // Whether a file may be without the label's column, where `learnt` says which that is: its rows have no labels then,
  // and are not parted.
  bool may_lack_labels = false;
};

struct CsvData {
  std::shared_ptr<const Dataset> training, evaluation;  // the second is null where nothing is held back
  std::vector<std::string> notes;
  std::string learnt;                // what was learnt from the training rows; for checkpoints
  std::vector<std::string> classes;  // where labels are texts
  bool lacks_labels = false;         // the file has no column of them; `test_file` is not read then
  bool test_lacks_labels = false;    // nor has `test_file`
};

absl::StatusOr<CsvData> OpenCsv(const std::string& path, const CsvOptions& options);

// Reads arrays saved by NumPy. Each file is a field, and its first axis counts samples.
//
//   OpenNpy({{.name = "image", .path = "x.npy"}, {.name = "label", .path = "y.npy", .label = true, .max_value = 10}})
struct NpyField {
  std::string name, path;
  // The type of the field: float32, float64, int32, int64 or uint8. When it is absent, floats become float32, and other
  // integers and bools int32. Unsigned bytes with at least two axes for each sample are pixels: they are divided by 255
  // and become float32.
  std::optional<DType> dtype;
  bool label = false;     // is padded with kIgnoredLabel, which the file may contain too
  int64_t max_value = 0;  // integers lie in [0, max_value); 0: no bound
};

// Numbers are checked when they are read: NaN, infinity, and integers beyond their bounds are errors.
absl::StatusOr<std::shared_ptr<const Dataset>> OpenNpy(const std::vector<NpyField>& fields);

struct TextTokens;

// Reads text for language models as bytes, in windows of one length; the label of each byte is the byte after it.
// Fields: tokens int32[length], label int32[length], both in [0, 256).
// With a tokenizer its tokens take the place of bytes.
struct TextOptions {
  int64_t length = 128;     // of a window, in tokens
  int64_t stride = 0;       // from one window's start to the next; 0: the length
  double from = 0, to = 1;  // the part of the file that is read; the rest can be held back
  // How many parts of the text are read side by side: sample i is the next window of part i % rows. So row r of a batch
  // of `rows` samples goes on where row r of the batch before ended.
  int64_t rows = 1;
  std::shared_ptr<const TextTokens> tokens = {};  // of the file, instead of its bytes
};

// The tokens of a whole file, by a tokenizer. Reading takes the file's bytes, which must be UTF-8.
struct TextTokens {
  std::vector<int32_t> tokens;
  int64_t bound = 0;       // all tokens that the tokenizer knows lie in [0, bound)
  int64_t file_bytes = 0;  // how many bytes the file has
};
absl::StatusOr<std::shared_ptr<const TextTokens>> ReadTokens(const std::string& path, const Tokenizer& tokenizer);

absl::StatusOr<std::shared_ptr<const Dataset>> OpenText(const std::string& path, const TextOptions& options);

// Reads samples of many lengths: a JSON object a line, whose fields are the inputs of a network by name. A string
// becomes its bytes or tokens, a list its numbers, and both are filled up at the end. Every line is read and checked
// once, when the file is opened. Where an input "label" is as long as "tokens", and the first line has none, the label
// of each token is the token after it, as in OpenText. Fields: one for each input.
struct JsonLinesInput {
  DataField field;           // what the network takes; `padding` fills up short samples
  bool has_padding = false;  // whether `padding` was asked for
};

struct JsonLinesOptions {
  std::vector<JsonLinesInput> inputs;
  std::string length;     // the input that gets the length of a sample's longest field; empty: none
  bool truncate = false;  // cuts what is too long
  std::shared_ptr<const Tokenizer> tokenizer = {};  // makes the tokens of texts; without one, they are bytes
  // Whether labels are the next tokens; without it, the first line says so.
  std::optional<bool> next_tokens = {};
};

struct JsonLines {
  std::shared_ptr<const Dataset> dataset;
  std::vector<std::string> unread;  // fields of the file that no input is called
  bool next_tokens = false;
};

absl::StatusOr<JsonLines> OpenJsonLines(const std::string& path, const JsonLinesOptions& options);

// Splits a Dataset in two: the part to train on, and the part that is held back.
struct PartedDataset {
  std::shared_ptr<const Dataset> training, held_back;
};

// Holds back a fraction of the samples, at least one. `seed` alone decides which.
absl::StatusOr<PartedDataset> HoldBack(std::shared_ptr<const Dataset> dataset, double fraction, uint64_t seed);
// Returns which samples of a dataset of `size` HoldBack would leave to train on, in ascending order.
absl::StatusOr<std::vector<int64_t>> TrainingSamples(int64_t size, double fraction, uint64_t seed);

}  // namespace snug::core
