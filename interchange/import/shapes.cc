// Ops that rearrange: most change only the view of a value; others choose, join, cut and repeat.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "interchange/import/arrangements.h"
#include "interchange/import/node.h"
#include "proto/network.pb.h"

namespace snug::core::onnx {
namespace {

absl::Status Reshape(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const Dims dims, ReshapeDims(c, x.shape));
  SNUG_ASSIGN_OR_RETURN(Value y, Reshaped(c.builder(), x, dims));
  c.Set(0, std::move(y));
  return absl::OkStatus();
}

absl::Status Flatten(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const Dims dims, FlattenedDims(c, x.shape));
  SNUG_ASSIGN_OR_RETURN(Value y, Reshaped(c.builder(), x, dims));
  c.Set(0, std::move(y));
  return absl::OkStatus();
}

absl::Status Transpose(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const std::vector<int> axes, PermutationOf(c, x.rank()));
  c.Set(0, Transposed(x, axes));
  return absl::OkStatus();
}

// New axes of size 1 are none of the layer's.
absl::Status Unsqueeze(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const Dims dims, UnsqueezedDims(c, x.shape));
  SNUG_ASSIGN_OR_RETURN(const auto axes, c.ListOf("axes", 1));
  std::vector<bool> added(dims.size(), false);
  for (const int64_t written : *axes) {
    SNUG_ASSIGN_OR_RETURN(const int axis, c.Axis(written, static_cast<int>(dims.size())));
    added[static_cast<size_t>(axis)] = true;
  }
  for (size_t i = 0; i < added.size(); ++i) {
    if (added[i]) x.axes.insert(x.axes.begin() + static_cast<int64_t>(i), std::vector<int>());
  }
  x.shape = dims;
  c.Set(0, std::move(x));
  return absl::OkStatus();
}

absl::Status RemoveAxes(Value* x, const std::vector<bool>& removed) {
  for (size_t i = removed.size(); i-- > 0;) {
    if (!removed[i]) continue;
    if (BatchAxis(*x) == static_cast<int>(i)) {
      return absl::InvalidArgumentError(
          "removes the axis of the batch: Snug keeps it; export with a batch that is open");
    }
    x->axes.erase(x->axes.begin() + static_cast<int64_t>(i));
    x->shape.erase(x->shape.begin() + static_cast<int64_t>(i));
  }
  return absl::OkStatus();
}

absl::Status Squeeze(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(Value x, c.Computed(0));
  SNUG_RETURN_IF_ERROR(SqueezedDims(c, x.shape).status());
  SNUG_ASSIGN_OR_RETURN(const auto axes, c.ListOf("axes", 1));
  std::vector<bool> removed(x.shape.size(), false);
  for (size_t i = 0; i < removed.size(); ++i) removed[i] = !axes.has_value() && x.shape[i] == 1;
  for (const int64_t written : axes.value_or(std::vector<int64_t>())) {
    SNUG_ASSIGN_OR_RETURN(const int axis, c.Axis(written, x.rank()));
    removed[static_cast<size_t>(axis)] = true;
  }
  SNUG_RETURN_IF_ERROR(RemoveAxes(&x, removed));
  c.Set(0, std::move(x));
  return absl::OkStatus();
}

// An axis as one axis of the layer's output, where it stands already if it can.
absl::StatusOr<Value> OnOneAxis(NodeContext& c, const Value& x, int axis) {
  const std::vector<int>& own = x.axes[static_cast<size_t>(axis)];
  if (own.size() == 1) return x;
  return OneForOne(c.builder(), x);
}

absl::StatusOr<Value> Sliced(NodeContext& c, Value x, const SliceRange& range) {
  const auto axis = static_cast<size_t>(range.axis);
  if (range.count == x.shape[axis] && range.step == 1) return x;
  if (range.count == 0) return absl::InvalidArgumentError(absl::StrCat("leaves nothing of axis ", range.axis));
  if (BatchAxis(x) == range.axis)
    return absl::InvalidArgumentError("takes a part of the batch: Snug keeps all samples");
  SNUG_ASSIGN_OR_RETURN(x, OnOneAxis(c, x, range.axis));
  const int own = x.axes[axis][0];
  int64_t begin = range.begin, step = range.step;
  if (step < 0) {  // the same, in a value that was turned round
    proto::Layer flip;
    flip.mutable_flip()->add_axes(own);
    SNUG_ASSIGN_OR_RETURN(x.ref, c.builder().AddOne(c.LayerName() + ".flip", std::move(flip), {x.ref}));
    begin = x.shape[axis] - 1 - begin;
    step = -step;
  }
  x.shape[axis] = range.count;
  if (begin == 0 && step == 1 && range.count == x.ref.dims[static_cast<size_t>(own)]) return x;
  proto::Layer layer;
  proto::Slice* slice = layer.mutable_slice();
  slice->add_axis(own);
  slice->add_begin(begin);
  slice->add_end(begin + (range.count - 1) * step + 1);
  if (step != 1) slice->add_step(step);
  SNUG_ASSIGN_OR_RETURN(x.ref, c.Layer(std::move(layer), {x.ref}));
  return x;
}

absl::Status Slice(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const std::vector<SliceRange> ranges, SliceRanges(c, x.shape));
  for (const SliceRange& range : ranges) {
    SNUG_ASSIGN_OR_RETURN(x, Sliced(c, x, range));
  }
  c.Set(0, std::move(x));
  return absl::OkStatus();
}

absl::Status Split(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const SplitSizes split, SplitSizesOf(c, x.shape));
  if (BatchAxis(x) == split.axis) return absl::InvalidArgumentError("splits the batch: Snug keeps it");
  SNUG_ASSIGN_OR_RETURN(x, OnOneAxis(c, x, split.axis));
  proto::Layer layer;
  layer.mutable_split()->set_axis(x.axes[static_cast<size_t>(split.axis)][0]);
  const bool equal =
      std::all_of(split.sizes.begin(), split.sizes.end(), [&](int64_t s) { return s == split.sizes[0]; });
  if (equal) layer.mutable_split()->set_parts(static_cast<int64_t>(split.sizes.size()));
  for (size_t i = 0; !equal && i < split.sizes.size(); ++i) layer.mutable_split()->add_size(split.sizes[i]);
  SNUG_ASSIGN_OR_RETURN(const std::vector<Ref> refs, c.builder().Add(c.LayerName(), std::move(layer), {x.ref}, {},
                                                                     static_cast<int>(split.sizes.size())));
  for (size_t i = 0; i < refs.size(); ++i) {
    x.ref = refs[i];
    x.shape[static_cast<size_t>(split.axis)] = split.sizes[i];
    c.Set(static_cast<int>(i), x);
  }
  return absl::OkStatus();
}

// Rows of a table, chosen by what is computed.
absl::Status Embedding(NodeContext& c, const Tensor& table, int axis) {
  if (axis != 0 || table.rank() != 2 || !table.is_float()) {
    return absl::InvalidArgumentError(absl::StrCat("of a constant ", DimsText(table.dims()),
                                                   ": only rows of a matrix are chosen by computed indices"));
  }
  Value ids = c.input(1);
  SNUG_ASSIGN_OR_RETURN(const Ref ref, InOrder(c.builder(), ids));
  proto::Layer layer;
  layer.mutable_embedding()->set_entries(table.dims()[0]);
  layer.mutable_embedding()->set_width(table.dims()[1]);
  SNUG_ASSIGN_OR_RETURN(Ref y, c.Layer(std::move(layer), {ref}, {{"weight", table}}, &table));
  proto::Network& network = c.builder().network();
  for (proto::Input& input : *network.mutable_input()) {
    if (input.name() == ref.name && (!input.has_max_value() || input.max_value() > table.dims()[0])) {
      input.set_max_value(table.dims()[0]);
    }
  }
  c.SetRef(0, std::move(y));
  return absl::OkStatus();
}

// Whether the integers are 0, 1, ... size - 1.
bool IsCount(const Tensor& t, int64_t size) {
  if (t.is_float() || t.stored_count() != size) return false;
  for (int64_t i = 0; i < size; ++i) {
    if (t.ints()[static_cast<size_t>(i)] != i) return false;
  }
  return true;
}

absl::Status Gather(NodeContext& c) {
  if (!c.has(1)) return absl::InvalidArgumentError("expected indices");
  const Value& data = c.input(0);
  SNUG_ASSIGN_OR_RETURN(const int axis, c.AxisAttribute(0, data.rank()));
  if (data.constant.has_value()) return Embedding(c, *data.constant, axis);
  SNUG_ASSIGN_OR_RETURN(const Tensor* indices, c.ConstantInput(1, "indices"));
  SNUG_ASSIGN_OR_RETURN(const Tensor all, indices->Spread());
  if (IsCount(all, data.shape[static_cast<size_t>(axis)])) {  // all elements in their sequence: PyTorch's as_strided
    Dims dims(data.shape.begin(), data.shape.begin() + axis);
    dims.insert(dims.end(), all.dims().begin(), all.dims().end());
    dims.insert(dims.end(), data.shape.begin() + axis + 1, data.shape.end());
    SNUG_ASSIGN_OR_RETURN(Value y, Reshaped(c.builder(), data, dims));
    c.Set(0, std::move(y));
    return absl::OkStatus();
  }
  if (all.is_float() || all.rank() > 1 || all.stored_count() == 0) {
    return absl::InvalidArgumentError("indices: expected one integer or a list");
  }
  const int64_t size = data.shape[static_cast<size_t>(axis)];
  std::vector<int64_t> list = all.ints();
  bool in_sequence = true;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] < -size || list[i] >= size) {
      return absl::InvalidArgumentError(absl::StrCat("index ", list[i], " of ", size));
    }
    if (list[i] < 0) list[i] += size;
    in_sequence = in_sequence && list[i] == list[0] + static_cast<int64_t>(i);
  }
  Value x = data;
  if (in_sequence) {
    SNUG_ASSIGN_OR_RETURN(x, Sliced(c, x, {axis, list[0], 1, static_cast<int64_t>(list.size())}));
  } else {
    if (BatchAxis(x) == axis) return absl::InvalidArgumentError("chooses samples: Snug keeps them all");
    SNUG_ASSIGN_OR_RETURN(x, OnOneAxis(c, x, axis));
    const auto count = static_cast<int64_t>(list.size());
    SNUG_ASSIGN_OR_RETURN(const Ref chosen, c.LayerOf(Tensor::Ints({count}, list)));
    proto::Layer layer;
    layer.mutable_gather()->set_axis(x.axes[static_cast<size_t>(axis)][0]);
    SNUG_ASSIGN_OR_RETURN(x.ref, c.Layer(std::move(layer), {x.ref, chosen}));
    x.shape[static_cast<size_t>(axis)] = count;
  }
  if (all.rank() == 0) {
    std::vector<bool> removed(x.shape.size(), false);
    removed[static_cast<size_t>(axis)] = true;
    SNUG_RETURN_IF_ERROR(RemoveAxes(&x, removed));
  }
  c.Set(0, std::move(x));
  return absl::OkStatus();
}

// A constant before or after computed values that have the batch: these get zeros there, to which it is added. So
// every sample gets it, as a class token.
absl::StatusOr<Ref> WithConstantsBeside(NodeContext& c, Ref x, int axis, const std::optional<Tensor>& before,
                                        const std::optional<Tensor>& after) {
  const auto a = static_cast<size_t>(axis);
  const int64_t size = x.dims[a];
  const auto length = [a](const std::optional<Tensor>& t) { return t.has_value() ? t->dims()[a] : 0; };
  proto::Layer layer;
  layer.mutable_pad()->add_axis(axis);
  layer.mutable_pad()->add_before(length(before));
  layer.mutable_pad()->add_after(length(after));
  SNUG_ASSIGN_OR_RETURN(Ref room, c.builder().AddOne(c.LayerName() + ".room", std::move(layer), {x}));
  for (const bool is_before : {true, false}) {
    const std::optional<Tensor>& constant = is_before ? before : after;
    if (!constant.has_value()) continue;
    // Axes in front of the joined one that have size 1, as the batch's, are not needed for adding.
    const Dims& dims = constant->dims();
    size_t first = 0;
    while (first < a && dims[first] == 1) ++first;
    SNUG_ASSIGN_OR_RETURN(const Tensor content,
                          constant->Reshaped(Dims(dims.begin() + static_cast<int64_t>(first), dims.end())));
    SNUG_ASSIGN_OR_RETURN(const Ref ref, c.LayerOf(content));
    proto::Layer pad;
    pad.mutable_pad()->add_axis(axis - static_cast<int>(first));
    pad.mutable_pad()->add_before(is_before ? 0 : length(before) + size);
    pad.mutable_pad()->add_after(is_before ? size + length(after) : 0);
    SNUG_ASSIGN_OR_RETURN(const Ref padded, c.builder().AddOne(ref.name + ".row", std::move(pad), {ref}));
    proto::Layer add;
    add.mutable_add();
    SNUG_ASSIGN_OR_RETURN(room, c.Layer(std::move(add), {room, padded}));
  }
  return room;
}

absl::Status Concat(NodeContext& c) {
  const Value* model = nullptr;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.has(i)) return absl::InvalidArgumentError(absl::StrCat("input ", i, " is absent"));
    if (model == nullptr && !c.input(i).constant.has_value()) model = &c.input(i);
  }
  if (model == nullptr) return absl::InvalidArgumentError("is of constants alone");
  SNUG_ASSIGN_OR_RETURN(const int axis, c.AxisAttribute(1, model->rank()));
  if (BatchAxis(*model) == axis) return absl::InvalidArgumentError("joins along the batch: Snug keeps it as it is");
  const std::vector<int> order = BatchFirst(*model);
  const int own = static_cast<int>(std::find(order.begin(), order.end(), axis) - order.begin());
  std::vector<Ref> refs;
  std::optional<Tensor> before, after;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const Value& x = c.input(i);
    if (x.rank() != model->rank()) return absl::InvalidArgumentError("its inputs have different ranks");
    if (!x.constant.has_value()) {
      if (after.has_value()) return absl::InvalidArgumentError("has constants between what is computed");
      SNUG_ASSIGN_OR_RETURN(Ref ref, Arranged(c.builder(), x, order));
      refs.push_back(std::move(ref));
      continue;
    }
    // The same for every sample: kept once.
    Dims dims = x.dims();
    const auto batch = static_cast<size_t>(order[0]);
    if (x.constant->stored()[batch] != 1 || dims[batch] != model->shape[batch]) {
      return absl::InvalidArgumentError("joins a constant that has another value for each sample");
    }
    Tensor t = x.constant->OnlyStored();
    dims[batch] = 1;
    SNUG_ASSIGN_OR_RETURN(t, t.BroadcastTo(dims));
    SNUG_ASSIGN_OR_RETURN(t, t.Transposed(order));
    std::optional<Tensor>& place = refs.empty() ? before : after;
    if (place.has_value()) return absl::InvalidArgumentError("has several constants one after the other");
    place = std::move(t);
  }
  Ref joined = refs[0];
  if (refs.size() > 1) {
    proto::Layer layer;
    layer.mutable_concat();
    if (own != 1) layer.mutable_concat()->set_axis(own);
    SNUG_ASSIGN_OR_RETURN(joined, c.Layer(std::move(layer), refs));
  }
  if (before.has_value() || after.has_value()) {
    SNUG_ASSIGN_OR_RETURN(joined, WithConstantsBeside(c, joined, own, before, after));
  }
  c.Set(0, FromArranged(std::move(joined), order));
  return absl::OkStatus();
}

// Repeats axes so often, after each has become one of the layer's.
absl::StatusOr<Value> Repeated(NodeContext& c, const Value& x, const std::vector<int64_t>& repeats) {
  if (std::all_of(repeats.begin(), repeats.end(), [](int64_t n) { return n == 1; })) return x;
  const std::vector<int> order = BatchFirst(x);
  SNUG_ASSIGN_OR_RETURN(const Ref ref, Arranged(c.builder(), x, order));
  proto::Layer layer;
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t n = repeats[static_cast<size_t>(order[i])];
    if (i == 0 && n != 1) return absl::InvalidArgumentError("repeats samples: Snug keeps the batch as it is");
    if (i > 0) layer.mutable_tile()->add_repeats(n);
  }
  SNUG_ASSIGN_OR_RETURN(Ref y, c.Layer(std::move(layer), {ref}));
  return FromArranged(std::move(y), order);
}

absl::Status Tile(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const std::vector<int64_t> repeats, c.ListInput(1, "repeats"));
  if (repeats.size() != x.shape.size()) return absl::InvalidArgumentError("expected a repeat for each axis");
  SNUG_ASSIGN_OR_RETURN(Value y, Repeated(c, x, repeats));
  c.Set(0, std::move(y));
  return absl::OkStatus();
}

absl::Status Expand(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(Dims dims, c.ListInput(1, "shape"));
  SNUG_ASSIGN_OR_RETURN(dims, BroadcastDims(dims, x.shape));
  const size_t added = dims.size() - x.shape.size();
  x.axes.insert(x.axes.begin(), added, std::vector<int>());
  x.shape.insert(x.shape.begin(), added, 1);
  std::vector<int64_t> repeats;
  for (size_t i = 0; i < dims.size(); ++i) repeats.push_back(x.shape[i] == dims[i] ? 1 : dims[i]);
  SNUG_ASSIGN_OR_RETURN(Value y, Repeated(c, x, repeats));
  c.Set(0, std::move(y));
  return absl::OkStatus();
}

absl::Status Pad(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const std::string mode, c.String("mode", "constant"));
  if (mode != "constant") return absl::InvalidArgumentError(absl::StrCat("mode ", mode, ": only constant"));
  SNUG_ASSIGN_OR_RETURN(const std::vector<int64_t> pads, c.ListInput(1, "pads"));
  double value = 0;
  if (c.has(2)) {
    SNUG_ASSIGN_OR_RETURN(const Tensor* number, c.ConstantInput(2, "constant_value"));
    if (number->stored_count() != 1) return absl::InvalidArgumentError("constant_value: expected one number");
    value = number->scalar();
  }
  std::vector<int64_t> axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  if (c.has(3)) {
    SNUG_ASSIGN_OR_RETURN(axes, c.ListInput(3, "axes"));
  }
  if (pads.size() != 2 * axes.size()) return absl::InvalidArgumentError("expected two pads for each axis");
  SNUG_ASSIGN_OR_RETURN(x, OneForOne(c.builder(), x));
  proto::Layer layer;
  proto::Pad* pad = layer.mutable_pad();
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t before = pads[i], after = pads[i + axes.size()];
    if (before == 0 && after == 0) continue;
    SNUG_ASSIGN_OR_RETURN(const int axis, c.Axis(axes[i], x.rank()));
    if (BatchAxis(x) == axis) return absl::InvalidArgumentError("pads the batch: Snug keeps it as it is");
    if (before < 0 || after < 0 || before > (int64_t{1} << 31) || after > (int64_t{1} << 31)) {
      return absl::InvalidArgumentError("has a pad that is negative or too large");
    }
    pad->add_axis(x.axes[static_cast<size_t>(axis)][0]);
    pad->add_before(before);
    pad->add_after(after);
    x.shape[static_cast<size_t>(axis)] += before + after;
  }
  if (pad->axis_size() == 0) {
    c.Set(0, std::move(x));
    return absl::OkStatus();
  }
  if (value != 0) pad->set_value(value);
  return c.SetElementwise(x, std::move(layer));
}

// [batch, channels, h, w] with the channels cut as (b, b, channels) or (channels, b, b).
absl::StatusOr<int64_t> BlockOf(NodeContext& c, const Value& x) {
  SNUG_ASSIGN_OR_RETURN(const int64_t block, c.Int("blocksize", 0));
  if (x.rank() != 4 || block < 1 || block > 1 << 15) {
    return absl::InvalidArgumentError("expected images and a blocksize of at least 1");
  }
  return block;
}

absl::Status DepthToSpace(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const int64_t b, BlockOf(c, x));
  SNUG_ASSIGN_OR_RETURN(const std::string mode, c.String("mode", "DCR"));
  const Dims& s = x.shape;
  if (s[1] % (b * b) != 0)
    return absl::InvalidArgumentError(absl::StrCat(s[1], " channels are no multiple of ", b * b));
  if (mode == "CRD") {
    SNUG_ASSIGN_OR_RETURN(const Ref ref, InOrder(c.builder(), x));
    proto::Layer layer;
    layer.mutable_pixel_shuffle()->set_factor(b);
    SNUG_ASSIGN_OR_RETURN(Ref y, c.Layer(std::move(layer), {ref}));
    c.SetRef(0, std::move(y));
    return absl::OkStatus();
  }
  SNUG_ASSIGN_OR_RETURN(Value y, Reshaped(c.builder(), x, {s[0], b, b, s[1] / (b * b), s[2], s[3]}));
  y = Transposed(y, {0, 3, 4, 1, 5, 2});
  SNUG_ASSIGN_OR_RETURN(y, Reshaped(c.builder(), y, {s[0], s[1] / (b * b), s[2] * b, s[3] * b}));
  c.Set(0, std::move(y));
  return absl::OkStatus();
}

absl::Status SpaceToDepth(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const int64_t b, BlockOf(c, x));
  const Dims& s = x.shape;
  if (s[2] % b != 0 || s[3] % b != 0) return absl::InvalidArgumentError("its image is no multiple of its blocks");
  SNUG_ASSIGN_OR_RETURN(Value y, Reshaped(c.builder(), x, {s[0], s[1], s[2] / b, b, s[3] / b, b}));
  y = Transposed(y, {0, 3, 5, 1, 2, 4});
  SNUG_ASSIGN_OR_RETURN(y, Reshaped(c.builder(), y, {s[0], s[1] * b * b, s[2] / b, s[3] / b}));
  c.Set(0, std::move(y));
  return absl::OkStatus();
}

absl::Status OneHot(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const int64_t axis, c.Int("axis", -1));
  SNUG_ASSIGN_OR_RETURN(const Tensor* depth, c.ConstantInput(1, "depth"));
  SNUG_ASSIGN_OR_RETURN(const Tensor* values, c.ConstantInput(2, "values"));
  if ((axis != -1 && axis != x.rank()) || depth->stored_count() != 1 || values->stored_count() != 2 ||
      values->Get(0) != 0 || values->Get(1) != 1) {
    return absl::InvalidArgumentError("only zeros and ones along a new last axis");
  }
  SNUG_ASSIGN_OR_RETURN(const Ref ref, InOrder(c.builder(), x));
  proto::Layer layer;
  layer.mutable_one_hot()->set_classes(static_cast<int64_t>(depth->scalar()));
  SNUG_ASSIGN_OR_RETURN(Ref y, c.Layer(std::move(layer), {ref}));
  if (!values->is_float()) {
    proto::Layer cast;
    cast.mutable_cast()->set_dtype(proto::INT32);
    SNUG_ASSIGN_OR_RETURN(y, c.Layer(std::move(cast), {y}));
  }
  c.SetRef(0, std::move(y));
  return absl::OkStatus();
}

}  // namespace

std::vector<NamedMapping> ShapeMappings() {
  return {{"Concat", Concat},
          {"DepthToSpace", DepthToSpace},
          {"Expand", Expand},
          {"Flatten", Flatten},
          {"Gather", Gather},
          {"OneHot", OneHot},
          {"Pad", Pad},
          {"Reshape", Reshape},
          {"Slice", Slice},
          {"SpaceToDepth", SpaceToDepth},
          {"Split", Split},
          {"Squeeze", Squeeze},
          {"Tile", Tile},
          {"Transpose", Transpose},
          {"Unsqueeze", Unsqueeze}};
}

}  // namespace snug::core::onnx
