// A Network says what is computed. It comes from a model file, or is built by code.
//
//   snug::Network network("mlp");
//   network.Input("image", {784}).Input("label", {}, snug::DType::kInt32);
//   network.Layer("fc1", "dense", {"image"}, {{"units", 128}});
//   network.Layer("act1", "relu", {"fc1"});
//   network.Layer("out", "dense", {"act1"}, {{"units", 10}});
//   network.Layer("loss", "softmax_cross_entropy", {"out", "label"}).Objective("loss");
//
// Layers, options and their meaning are those of the model file. Mistakes are kept until the network is used; then all
// of them come at once, with the lines of the program in which they were made.
//
// Thread-compatible.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "snug/control.h"
#include "snug/export.h"
#include "snug/op.h"
#include "snug/option.h"
#include "snug/status.h"
#include "snug/tensor.h"
#include "snug/where.h"

namespace snug {
inline namespace v0 {

class SNUG_API Network {
 public:
  // Reads text (*.pbtxt) or binary (*.pb).
  static Result<Network> FromFile(const std::string& path) noexcept;
  // `name` stands for the file in messages.
  static Result<Network> FromText(std::string_view text, const std::string& name = "text") noexcept;

  // Begins an empty network that code builds.
  explicit Network(std::string name, Where where = Where::Current()) noexcept;
  Network(Network&& other) noexcept;
  Network& operator=(Network&& other) noexcept;
  ~Network();

  // `shape` is that of one sample. Without a dtype the input has the precision of the run.
  Network& Input(std::string name, std::vector<int64_t> shape = {}, std::optional<DType> dtype = {},
                 Where where = Where::Current()) noexcept;
  Network& Layer(std::string name, std::string op, std::vector<std::string> inputs, std::vector<Option> options = {},
                 Where where = Where::Current()) noexcept;
  // Says how a layer's parameter differs from what its op asks for: {{"frozen", true}, {"init.kind", "HE_NORMAL"}}.
  Network& Param(std::string layer, std::string parameter, std::vector<Option> options,
                 Where where = Where::Current()) noexcept;
  // Adds a piece of network that loops run and branches take, by its name. Its inputs have neither shape nor dtype:
  // those follow from what the loop or branch gives them. It puts out what it names by Output.
  //
  //   snug::Network cell("cell");
  //   cell.Input("x").Input("h").Layer("sum", "add", {"x", "h"}).Layer("next", "tanh", {"sum"}).Output("next");
  //   network.Subnetwork(cell);
  //   network.Loop("rnn", "cell", {"text", "zeros"}, {.carries = {{"h", "next"}}, .scans = {{"x"}}});
  Network& Subnetwork(const Network& body, Where where = Where::Current()) noexcept;
  // Inputs are those of the body, without the one for the index; then the count, if it is counted. The layer puts out
  // what the carries are at last, and then what is collected.
  Network& Loop(std::string name, std::string body, std::vector<std::string> inputs, LoopOptions options,
                Where where = Where::Current()) noexcept;
  // Inputs are the selector, one integer or one for each sample, and those of the bodies.
  Network& Branch(std::string name, std::vector<std::string> bodies, std::vector<std::string> inputs,
                  Where where = Where::Current()) noexcept;
  Network& Objective(std::string layer, Where where = Where::Current()) noexcept;
  Network& Output(std::string value, Where where = Where::Current()) noexcept;
  // Sets options of the optimizer: {{"learning_rate", 0.1}, {"sgd.momentum", 0.9}}.
  Network& Optimizer(std::vector<Option> options, Where where = Where::Current()) noexcept;
  // Adds one of the updates that a step makes one after the other: it minimises these objectives by changing the
  // parameters that patterns of names match, and what comes after it is computed with the changed ones. Options are
  // those of an optimizer of its own; none: the network's. Without updates all objectives train all parameters, at
  // once.
  //
  //   network.Update({"real_loss", "drawn_loss"}, {"discriminator.*"}).Update({"generator_loss"}, {"generator.*"});
  Network& Update(std::vector<std::string> objectives, std::vector<std::string> parameters,
                  std::vector<Option> optimizer = {}, Where where = Where::Current()) noexcept;
  // May be called before or after adding layers of the op, but before the network is used.
  Network& AddOp(Op op) noexcept;

  // Returns the same network with `classes` outputs of the layers that score classes: those that lead to what its
  // losses and metrics compare with labels, as `snug train --classes-of-data` finds them. Fails with InvalidArgument,
  // which says why, where there are none, or where another layer makes the scores.
  Result<Network> WithClasses(int64_t classes) const noexcept;

  // Returns the first mistakes so far, without those that only show when shapes are known.
  Status status() const noexcept;
  // Returns the network as the text of a model file.
  Result<std::string> ToText() const noexcept;

  struct Impl;

 private:
  friend class Session;
  explicit Network(std::unique_ptr<Impl> impl) noexcept;

  std::unique_ptr<Impl> impl_;
};

}  // namespace v0
}  // namespace snug
