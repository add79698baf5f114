#include "snug/network.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <utility>

#include "engine/base/text/suggest.h"
#include "engine/train/class_heads.h"
#include "snug/internal/convert.h"
#include "snug/internal/custom.pb.h"
#include "snug/internal/engine.h"
#include "snug/internal/fill.h"
#include "snug/internal/network_impl.h"

namespace snug {
inline namespace v0 {
namespace {

constexpr size_t kMaxErrors = 20;

core::SourcePos PosOf(const Where& where, const std::string& file) {
  if (where.file() != file) return {};
  return {where.line(), 0, -1};
}

// Adds a place to the map, so that what the compiler finds wrong is located too. Entries before it were written
// elsewhere.
void Place(std::vector<core::SourceNode>* places, int i, core::SourcePos pos) {
  places->resize(static_cast<size_t>(i));
  places->push_back({nullptr, pos, {}});
}

class Builder {
 public:
  Builder(Network::Impl* impl, const Where& where) : impl_(*impl), where_(where) {}

  void Error(absl::string_view message) {
    const core::SourceLoc loc{std::make_shared<const std::string>(where_.file()), where_.line(), 0, nullptr};
    if (impl_.errors.size() < kMaxErrors) {
      impl_.errors.emplace_back(At(loc, absl::InvalidArgumentError(message)).message());
    }
  }

  core::SourcePos pos() const { return PosOf(where_, impl_.file); }

  void Input(std::string name, const std::vector<int64_t>& shape, std::optional<DType> dtype) {
    if (name.empty()) return Error("an input without a name");
    proto::Input& input = *impl_.network.add_input();
    Place(&impl_.locations.inputs, impl_.network.input_size() - 1, pos());
    input.set_name(std::move(name));
    for (const int64_t dim : shape) input.mutable_shape()->add_dim(dim);
    if (dtype.has_value()) input.set_dtype(static_cast<proto::DataType>(proto::FromDType(embed::ToEngine(*dtype))));
  }

  void Layer(std::string name, const std::string& op, std::vector<std::string> inputs,
             const std::vector<Option>& options) {
    if (name.empty()) return Error("a layer without a name");
    proto::Layer& layer = *impl_.network.add_layer();
    Place(&impl_.locations.layers, impl_.network.layer_size() - 1, pos());
    layer.set_name(std::move(name));
    for (std::string& input : inputs) layer.add_input(std::move(input));
    const auto* field = proto::Layer::descriptor()->FindFieldByName(op);
    const bool ours = field != nullptr && field->containing_oneof() != nullptr;
    if (!ours) layer.MutableExtension(custom)->set_op(op);
    for (const Option& option : options) {
      if (!ours) {
        embed::SetCustomOption(option, layer.MutableExtension(custom));
        continue;
      }
      const absl::Status status = embed::SetOption(option, layer.GetReflection()->MutableMessage(&layer, field));
      if (!status.ok()) Error(absl::StrCat("layer \"", layer.name(), "\" (", op, "): ", status.message()));
    }
    if (ours) layer.GetReflection()->MutableMessage(&layer, field);  // also when there are no options
  }

  // Adds a layer of control flow, whose options the caller fills.
  proto::Layer& Control(std::string name, std::vector<std::string> inputs) {
    if (name.empty()) Error("a layer without a name");
    proto::Layer& layer = *impl_.network.add_layer();
    Place(&impl_.locations.layers, impl_.network.layer_size() - 1, pos());
    layer.set_name(std::move(name));
    for (std::string& input : inputs) layer.add_input(std::move(input));
    return layer;
  }

  void Loop(proto::Loop* loop, std::string body, const LoopOptions& options) {
    loop->set_body(std::move(body));
    for (const LoopOptions::Carry& carry : options.carries) {
      proto::Carry& added = *loop->add_carry();
      added.set_input(carry.input);
      added.set_output(carry.output);
    }
    const auto along = [](const LoopOptions::Along& from, auto* to) {
      to->set_axis(from.axis);
      if (from.reverse) to->set_reverse(true);
    };
    for (const LoopOptions::Along& scan : options.scans) {
      proto::Scan& added = *loop->add_scan();
      added.set_input(scan.name);
      along(scan, &added);
    }
    for (const LoopOptions::Along& collect : options.collects) {
      proto::Collect& added = *loop->add_collect();
      added.set_output(collect.name);
      along(collect, &added);
    }
    if (options.times.has_value()) loop->set_times(*options.times);
    if (options.counted) loop->set_counted(true);
    if (!options.condition.empty()) loop->set_condition(options.condition);
    if (!options.index.empty()) loop->set_index(options.index);
    if (options.stop_at_bound) loop->set_stop_at_bound(true);
  }

  // Takes over what `body` has: as a sub-network, with the sub-networks that it has itself.
  void Subnetwork(const Network::Impl& body) {
    for (const std::string& error : body.errors) {
      if (impl_.errors.size() < kMaxErrors) impl_.errors.push_back(error);
    }
    const proto::Network& from = body.network;
    if (from.objective_size() > 0 || from.has_optimizer() || from.update_size() > 0) {
      Error(absl::StrCat("sub-network \"", from.name(),
                         "\": only the whole network has objectives, updates and an optimizer"));
    }
    proto::Subnetwork added;
    added.set_name(from.name());
    for (const proto::Input& input : from.input()) {
      if (input.has_shape() || input.has_dtype()) {
        Error(absl::StrCat("sub-network \"", from.name(), "\": input \"", input.name(),
                           "\": expected neither shape nor dtype, which follow from what it is given"));
      }
      added.add_input(input.name());
    }
    *added.mutable_layer() = from.layer();
    for (const std::string& output : from.output()) added.add_output()->set_name(output);
    core::SourceNode place{proto::Network::descriptor()->FindFieldByName("subnetwork"), pos(), body.locations.layers};
    place.children.resize(static_cast<size_t>(from.layer_size()));
    for (core::SourceNode& layer : place.children)
      layer.field = proto::Subnetwork::descriptor()->FindFieldByName("layer");
    *impl_.network.mutable_subnetwork()->Add() = std::move(added);
    impl_.locations.network.children.push_back(std::move(place));
    impl_.network.mutable_subnetwork()->MergeFrom(from.subnetwork());
    const auto& inner = body.locations.network.children;
    impl_.locations.network.children.insert(impl_.locations.network.children.end(), inner.begin(), inner.end());
  }

  void Param(const std::string& layer_name, const std::string& parameter, const std::vector<Option>& options) {
    core::Suggester suggester(layer_name);
    for (proto::Layer& layer : *impl_.network.mutable_layer()) {
      suggester.Consider(layer.name());
      if (layer.name() != layer_name) continue;
      proto::Param& param = *layer.add_param();
      param.set_name(parameter);
      for (const Option& option : options) {
        const absl::Status status = embed::SetOption(option, &param);
        if (!status.ok()) {
          Error(absl::StrCat("layer \"", layer_name, "\": param \"", parameter, "\": ", status.message()));
        }
      }
      return;
    }
    Error(absl::StrCat("param \"", parameter, "\": \"", layer_name, "\" names no layer before this",
                       suggester.Question()));
  }

  void Optimizer(const std::vector<Option>& options) {
    for (const Option& option : options) {
      const absl::Status status = embed::SetOption(option, impl_.network.mutable_optimizer());
      if (!status.ok()) Error(absl::StrCat("optimizer: ", status.message()));
    }
  }

  void Update(std::vector<std::string> objectives, std::vector<std::string> parameters,
              const std::vector<Option>& optimizer) {
    proto::AlternatingUpdate& update = *impl_.network.add_update();
    impl_.locations.network.children.push_back({proto::Network::descriptor()->FindFieldByName("update"), pos(), {}});
    for (std::string& objective : objectives) update.add_objective(std::move(objective));
    for (std::string& parameter : parameters) update.add_parameter(std::move(parameter));
    for (const Option& option : optimizer) {
      const absl::Status status = embed::SetOption(option, update.mutable_optimizer());
      if (!status.ok()) Error(absl::StrCat("update: optimizer: ", status.message()));
    }
  }

  void AddOp(Op op) {
    const absl::Status status = impl_.ops->Add(std::move(op));
    if (!status.ok() && impl_.errors.size() < kMaxErrors) impl_.errors.emplace_back(status.message());
  }

  void Add(std::vector<core::SourceNode>* places, google::protobuf::RepeatedPtrField<std::string>* names,
           std::string name) {
    *names->Add() = std::move(name);
    Place(places, names->size() - 1, pos());
  }

 private:
  Network::Impl& impl_;
  const Where& where_;
};

// Calls `function` to add something. A Network whose memory could not be had has no Impl and stays as it is.
template <class Function>
void Build(std::unique_ptr<Network::Impl>& impl, const Where& where, Function&& function) noexcept {
  if (impl == nullptr) return;
  try {
    Builder builder(impl.get(), where);
    function(builder);
  } catch (...) {
    impl.reset();
  }
}

Result<std::unique_ptr<Network::Impl>> Loaded(absl::StatusOr<core::LoadedNetwork> loaded) {
  if (!loaded.ok()) return embed::FromEngine(loaded.status());
  auto impl = std::make_unique<Network::Impl>();
  impl->network = std::move(loaded->network);
  impl->locations = std::move(loaded->source_map);
  return impl;
}

}  // namespace

absl::Status Network::Impl::Check() const {
  return errors.empty() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrJoin(errors, "\n"));
}

Network::Network(std::string name, Where where) noexcept {
  try {
    impl_ = std::make_unique<Impl>();
    impl_->file = where.file();
    impl_->locations = core::SourceMap(impl_->file);
    impl_->network.set_name(std::move(name));
  } catch (...) {
    impl_.reset();
  }
}

Network::Network(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Network::Network(Network&& other) noexcept = default;
Network& Network::operator=(Network&& other) noexcept = default;
Network::~Network() = default;

Result<Network> Network::FromFile(const std::string& path) noexcept {
  return embed::Guarded([&]() -> Result<Network> {
    Result<std::unique_ptr<Impl>> impl = Loaded(core::LoadNetworkFile(path));
    if (!impl.ok()) return impl.status();
    return Network(*std::move(impl));
  });
}

Result<Network> Network::FromText(std::string_view text, const std::string& name) noexcept {
  return embed::Guarded([&]() -> Result<Network> {
    Result<std::unique_ptr<Impl>> impl = Loaded(core::LoadNetworkText(embed::View(text), name));
    if (!impl.ok()) return impl.status();
    return Network(*std::move(impl));
  });
}

Network& Network::Input(std::string name, std::vector<int64_t> shape, std::optional<DType> dtype,
                        Where where) noexcept {
  Build(impl_, where, [&](Builder& b) { b.Input(std::move(name), shape, dtype); });
  return *this;
}

Network& Network::Layer(std::string name, std::string op, std::vector<std::string> inputs, std::vector<Option> options,
                        Where where) noexcept {
  Build(impl_, where, [&](Builder& b) { b.Layer(std::move(name), op, std::move(inputs), options); });
  return *this;
}

Network& Network::Param(std::string layer, std::string parameter, std::vector<Option> options, Where where) noexcept {
  Build(impl_, where, [&](Builder& b) { b.Param(layer, parameter, options); });
  return *this;
}

Network& Network::Subnetwork(const Network& body, Where where) noexcept {
  Build(impl_, where, [&](Builder& b) {
    if (body.impl_ == nullptr) return b.Error("an empty network as a sub-network");
    b.Subnetwork(*body.impl_);
  });
  return *this;
}

Network& Network::Loop(std::string name, std::string body, std::vector<std::string> inputs, LoopOptions options,
                       Where where) noexcept {
  Build(impl_, where, [&](Builder& b) {
    b.Loop(b.Control(std::move(name), std::move(inputs)).mutable_loop(), std::move(body), options);
  });
  return *this;
}

Network& Network::Branch(std::string name, std::vector<std::string> bodies, std::vector<std::string> inputs,
                         Where where) noexcept {
  Build(impl_, where, [&](Builder& b) {
    proto::Branch& branch = *b.Control(std::move(name), std::move(inputs)).mutable_branch();
    for (std::string& body : bodies) branch.add_body(std::move(body));
  });
  return *this;
}

Network& Network::Objective(std::string layer, Where where) noexcept {
  Build(impl_, where,
        [&](Builder& b) { b.Add(&impl_->locations.objectives, impl_->network.mutable_objective(), std::move(layer)); });
  return *this;
}

Network& Network::Output(std::string value, Where where) noexcept {
  Build(impl_, where,
        [&](Builder& b) { b.Add(&impl_->locations.outputs, impl_->network.mutable_output(), std::move(value)); });
  return *this;
}

Network& Network::Optimizer(std::vector<Option> options, Where where) noexcept {
  Build(impl_, where, [&](Builder& b) { b.Optimizer(options); });
  return *this;
}

Network& Network::Update(std::vector<std::string> objectives, std::vector<std::string> parameters,
                         std::vector<Option> optimizer, Where where) noexcept {
  Build(impl_, where, [&](Builder& b) { b.Update(std::move(objectives), std::move(parameters), optimizer); });
  return *this;
}

Network& Network::AddOp(Op op) noexcept {
  Build(impl_, Where::Current(), [&](Builder& b) { b.AddOp(std::move(op)); });
  return *this;
}

Result<Network> Network::WithClasses(int64_t classes) const noexcept {
  if (Status s = status(); !s.ok()) return s;
  return embed::Guarded([&]() -> Result<Network> {
    if (classes < 1 || classes > core::kMostClasses) {
      return embed::FromEngine(
          absl::InvalidArgumentError(absl::StrCat("classes: expected 1 to ", core::kMostClasses, ", found ", classes)));
    }
    const absl::StatusOr<core::ClassHeads> heads = core::FindClassHeads(impl_->network);
    if (!heads.ok()) {
      return embed::FromEngine(absl::InvalidArgumentError(
          absl::StrCat("classes: this network has none to set: ", heads.status().message())));
    }
    auto impl = std::make_unique<Impl>(*impl_);
    impl->ops = std::make_shared<embed::OutsideOps>(*impl_->ops);
    core::SetClasses(*heads, classes, &impl->network);
    return Network(std::move(impl));
  });
}

Status Network::status() const noexcept {
  if (impl_ == nullptr) return Status(StatusCode::kFailedPrecondition, "an empty network");
  return embed::Guarded([&]() -> Status { return embed::FromEngine(impl_->Check()); });
}

Result<std::string> Network::ToText() const noexcept {
  if (Status s = status(); !s.ok()) return s;
  return embed::Guarded([&]() -> Result<std::string> { return core::WriteNetworkText(impl_->network); });
}

}  // namespace v0
}  // namespace snug
