// `snug new KIND [FILE]` writes a model file to begin with. Each trains as it is, on data that needs no download, and
// says what to change.
#include "tools/cli/new.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/base/text/suggest.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/flags.h"

namespace snug::core::cli {
namespace {

struct Template {
  const char* kind;
  const char* text;
};

constexpr Template kTemplates[] = {
    {"mlp",
     R"(# A multi-layer perceptron. docs/model_files.md tells what else a model file can say; `snug ops` lists the layers.
name: "mlp"

# What a sample is, without its batch. These are 28 x 28 pixels in one row, and a class from 0 to 9.
input { name: "image" shape { dim: 784 } }
input { name: "label" dtype: INT32 max_value: 10 }

# Each layer names what it reads. Sizes of weights follow from that.
layer { name: "fc1"   input: "image" dense { units: 256 } }
layer { name: "relu1" input: "fc1"   relu {} }
layer { name: "fc2"   input: "relu1" dense { units: 10 } }

# What is made small, and what is shown beside it.
layer { name: "loss"     input: "fc2" input: "label" softmax_cross_entropy {} }
layer { name: "accuracy" input: "fc2" input: "label" accuracy {} }
objective: "loss"
output: "accuracy"

# How it is trained, unless a flag of `snug train` says otherwise. Drawn digits need no download; in their place a table of
# your own: data { csv { file: "table.csv" label: "class" } }, with the input's dim the number of its other columns.
optimizer { learning_rate: 1e-3 adam {} }
training { batch: 64 epochs: 2 schedule { cosine {} } data { digits {} } }
)"},
    {"convnet",
     R"(# A convolutional network. docs/model_files.md tells what else a model file can say; `snug ops` lists the layers.
name: "convnet"

# What a sample is, without its batch: channels, height, width, and a class from 0 to 9.
input { name: "image" shape { dim: [3, 32, 32] } }
input { name: "label" dtype: INT32 max_value: 10 }

# Layers that come again and again are a block, with arguments.
block {
  name: "stage"
  arg: ["filters", "stride"]
  layer { name: "conv" input: "$input" conv { filters: $filters kernel: 3 pad: 1 stride: $stride bias: false } }
  layer { name: "norm" input: "conv" batch_norm {} }
  layer { name: "relu" input: "norm" relu {} }
}
layer { name: "stage1" input: "image"  stage { filters: 16 stride: 1 } }
layer { name: "stage2" input: "stage1" stage { filters: 32 stride: 2 } }
layer { name: "stage3" input: "stage2" stage { filters: 64 stride: 2 } }
layer { name: "pool"   input: "stage3" global_avg_pool {} }
layer { name: "fc"     input: "pool"   dense { units: 10 } }

# What is made small, and what is shown beside it.
layer { name: "loss"     input: "fc" input: "label" softmax_cross_entropy {} }
layer { name: "accuracy" input: "fc" input: "label" accuracy {} }
objective: "loss"
output: "accuracy"

# How it is trained, unless a flag of `snug train` says otherwise. Textures need no download; in their place pictures of your
# own, a folder for each class: data { images { directory: "pictures" } flip: true }.
optimizer { learning_rate: 0.05 weight_decay: 5e-4 sgd { momentum: 0.9 } }
training { batch: 64 epochs: 2 schedule { one_cycle {} } data { textures {} } }
)"},
    {"transformer",
     R"(# A small transformer over sequences. docs/model_files.md tells what else a model file can say; `snug ops` lists the layers.
name: "transformer"

# What a sample is, without its batch: 32 tokens, each below 32, and as many labels.
input { name: "tokens" shape { dim: 32 } dtype: INT32 max_value: 32 }
input { name: "label"  shape { dim: 32 } dtype: INT32 max_value: 32 }

# Layers that come again and again are a block, with arguments.
block {
  name: "transformer"
  arg: ["width", "heads"]
  layer { name: "ln1"       input: "$input" layer_norm {} }
  layer { name: "qkv"       input: "ln1" dense { units: 3 * $width } }
  layer { name: "split"     input: "qkv" split { axis: -1 parts: 3 } }
  layer { name: "attention" input: ["split:0", "split:1", "split:2"] attention { causal: true heads: $heads } }
  layer { name: "proj"      input: "attention" dense { units: $width } }
  layer { name: "add1"      input: "$input" input: "proj" add {} }

  layer { name: "ln2"  input: "add1" layer_norm {} }
  layer { name: "fc1"  input: "ln2" dense { units: 4 * $width } }
  layer { name: "gelu" input: "fc1" gelu { tanh: true } }
  layer { name: "fc2"  input: "gelu" dense { units: $width } }
  layer { name: "add2" input: "add1" input: "fc2" add {} }
}

layer { name: "tok"   input: "tokens" embedding { entries: 32 width: 64 } }
layer { name: "pos"   parameter { dim: [32, 64] init { kind: NORMAL value: 0.02 } } }
layer { name: "embed" input: "tok" input: "pos" add {} }
repeat {
  name: "blocks"
  times: 2
  index: "i"
  input: "embed"
  layer { name: "block$i" input: "$input" transformer { width: 64 heads: 4 } }
}
layer { name: "ln"   input: "blocks" layer_norm {} }
layer { name: "head" input: "ln" dense { units: 32 } }

# What is made small, and what is shown beside it.
layer { name: "loss"     input: "head" input: "label" softmax_cross_entropy {} }
layer { name: "accuracy" input: "head" input: "label" accuracy {} }
objective: "loss"
output: "accuracy"

# How it is trained, unless a flag of `snug train` says otherwise. Sequences to be repeated need no download; in their place
# the bytes of a text of your own: data { text { file: "book.txt" } }, with 256 for every 32 that counts tokens' values.
optimizer { learning_rate: 2e-3 adam {} }
training { batch: 64 epochs: 1 schedule { warm_up: 50 cosine {} } data { copy {} } }
)"},
};

std::string Kinds() { return absl::StrJoin(NewKinds(), ", "); }

absl::StatusOr<const Template*> Find(const std::string& kind) {
  Suggester suggester(kind);
  for (const Template& each : kTemplates) {
    if (kind == each.kind) return &each;
    suggester.Consider(each.kind);
  }
  return absl::InvalidArgumentError(absl::StrCat("expected one of ", Kinds(), ", found \"", kind, "\"",
                                                 suggester.found() ? suggester.Question() : ""));
}

// As a word of a command for the shell.
std::string Quoted(const std::string& path) {
  if (path.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=:,@%") ==
      std::string::npos) {
    return path;
  }
  return absl::StrCat("'", absl::StrReplaceAll(path, {{"'", "'\\''"}}), "'");
}

// Writes a file that was not there.
absl::Status WriteNew(const std::string& path, const char* text) {
  // Other commands read files of these names, and no others, as text; and "-", or a flag's look, is no name for them.
  const bool text_name = absl::EndsWith(path, ".pbtxt") || absl::EndsWith(path, ".txt");
  if (!text_name || absl::StartsWith(path, "-")) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected the name of a file that ends in .pbtxt, found \"", path, "\""));
  }
  std::FILE* const file = std::fopen(path.c_str(), "wx");
  if (file == nullptr) {
    const bool there = errno == EEXIST;
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", there ? "is there already" : std::strerror(errno),
                                                   "; `snug new KIND FILE` names another file"));
  }
  const bool written = std::fputs(text, file) >= 0;
  if (std::fclose(file) == 0 && written) return absl::OkStatus();
  std::remove(path.c_str());
  return absl::InternalError(absl::StrCat(path, ": cannot be written"));
}

}  // namespace

std::vector<std::string> NewKinds() {
  std::vector<std::string> kinds;
  for (const Template& each : kTemplates) kinds.emplace_back(each.kind);
  return kinds;
}

absl::StatusOr<int> RunNew(const Arguments& arguments) {
  bool json = false;
  Flags flags(
      "snug new KIND [FILE]",
      absl::StrCat("Writes a model file to begin with, of one of these kinds: ", Kinds(),
                   ". Its name is FILE or KIND.pbtxt,\nand nothing may be there yet. It trains as it is, on data "
                   "that needs no download, and says what to change."));
  AddJsonFlag(flags, &json);
  SNUG_ASSIGN_OR_RETURN(const Arguments positional, flags.Parse(arguments));
  if (positional.empty() || positional.size() > 2) {
    return absl::InvalidArgumentError(absl::StrCat("expected a kind of network (", Kinds(),
                                                   ") and perhaps a file, found ", positional.size(),
                                                   " arguments; usage: snug new KIND [FILE]"));
  }
  SNUG_ASSIGN_OR_RETURN(const Template* const chosen, Find(positional[0]));
  const std::string path = positional.size() == 2 ? positional[1] : absl::StrCat(chosen->kind, ".pbtxt");
  SNUG_RETURN_IF_ERROR(WriteNew(path, chosen->text));
  if (json) {
    std::puts(Json().Object().Key("file").String(path).End().text().c_str());
  } else {
    std::printf("%s is written. To train it: snug train %s\n", path.c_str(), Quoted(path).c_str());
  }
  return 0;
}

}  // namespace snug::core::cli
