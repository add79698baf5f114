// What rearranges, chooses, joins and repeats; and reductions.
#include <absl/strings/str_cat.h>

#include <limits>
#include <utility>

#include "engine/base/status.h"
#include "interchange/export/writer.h"
#include "interchange/onnx.pb.h"
#include "ops/slice_box.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"

namespace snug::core::onnx {
namespace {

using snug::proto::onnx::TensorProto;

constexpr int64_t kAsFarAsItGoes = std::numeric_limits<int32_t>::max();

int64_t FromFront(int64_t axis, const Shape& shape) { return axis < 0 ? axis + shape.rank() : axis; }

absl::Status Reshape(ExportContext& c) {
  SNUG_ASSIGN_OR_RETURN(const std::string target, c.ReshapeTarget(c.shape(0), c.out_shape()));
  return c.Finish("Reshape", {c.in(0), target});
}

absl::Status Transpose(ExportContext& c) {
  std::vector<int64_t> axes;
  for (const int64_t axis : c.options<proto::Transpose>().axes()) axes.push_back(FromFront(axis, c.shape(0)));
  return c.Finish("Transpose", {c.in(0)}, {{"perm", axes}});
}

absl::Status Concat(ExportContext& c) {
  std::vector<std::string> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.in(i));
  return c.Finish("Concat", inputs, {{"axis", FromFront(c.options<proto::Concat>().axis(), c.shape(0))}});
}

absl::Status Split(ExportContext& c) {
  const int64_t axis = FromFront(c.options<proto::Split>().axis(), c.shape(0));
  std::vector<int64_t> sizes;
  std::vector<std::string> outputs;
  for (int i = 0; i < static_cast<int>(c.node().outputs.size()); ++i) {
    sizes.push_back(c.out_shape(i)[static_cast<int>(axis)]);
    outputs.push_back(c.out(i));
    if (c.OfBatch(sizes.back())) return absl::InvalidArgumentError("splits the batch: say --batch=N");
  }
  c.writer().Add("Split", {c.in(0), c.List(sizes)}, outputs, {{"axis", axis}});
  return absl::OkStatus();
}

absl::Status Slice(ExportContext& c) {
  SNUG_ASSIGN_OR_RETURN(const SliceBox box, ResolveSlice(c.options<proto::Slice>(), c.shape(0)));
  std::vector<int64_t> axes, begins, ends, steps;
  for (int i = 0; i < c.shape(0).rank(); ++i) {
    const int64_t begin = box.begin[i], step = box.step[i], size = box.shape[i];
    if (begin == 0 && step == 1 && size == c.shape(0)[i]) continue;
    if (c.OfBatch(c.shape(0)[i])) return absl::InvalidArgumentError("takes a part of the batch: say --batch=N");
    axes.push_back(i);
    begins.push_back(begin);
    ends.push_back(begin + (size - 1) * step + 1);
    steps.push_back(step);
  }
  if (axes.empty()) return c.Finish("Identity", {c.in(0)});
  return c.Finish("Slice", {c.in(0), c.List(begins), c.List(ends), c.List(axes), c.List(steps)});
}

absl::Status Flip(ExportContext& c) {
  std::vector<int64_t> axes;
  for (const int64_t axis : c.options<proto::Flip>().axes()) axes.push_back(FromFront(axis, c.shape(0)));
  const std::vector<int64_t> begins(axes.size(), -1), ends(axes.size(), -kAsFarAsItGoes), steps(axes.size(), -1);
  return c.Finish("Slice", {c.in(0), c.List(begins), c.List(ends), c.List(axes), c.List(steps)});
}

absl::Status Pad(ExportContext& c) {
  const auto& o = c.options<proto::Pad>();
  const auto rank = static_cast<size_t>(c.shape(0).rank());
  std::vector<int64_t> pads(2 * rank, 0);
  for (int i = 0; i < o.axis_size(); ++i) {
    const auto axis = static_cast<size_t>(FromFront(o.axis(i), c.shape(0)));
    pads[axis] = i < o.before_size() ? o.before(i) : 0;
    pads[axis + rank] = i < o.after_size() ? o.after(i) : 0;
  }
  if (c.dtype(0) != DType::kFloat32) return absl::InvalidArgumentError("pads integers");
  return c.Finish("Pad", {c.in(0), c.List(pads), c.Scalar(o.value())});
}

absl::Status Gather(ExportContext& c) {
  return c.Finish("Gather", {c.in(0), c.in(1)}, {{"axis", FromFront(c.options<proto::Gather>().axis(), c.shape(0))}});
}

absl::Status Embedding(ExportContext& c) { return c.Finish("Gather", {c.in(1), c.in(0)}, {{"axis", int64_t{0}}}); }

// A size that stays is a 1 there: Expand repeats axes of size 1 only.
absl::Status BroadcastTo(ExportContext& c) {
  const Shape& from = c.shape(0);
  const Shape& to = c.out_shape();
  std::vector<int64_t> target;
  for (int i = 0; i < to.rank(); ++i) {
    const int own = i - (to.rank() - from.rank());
    const bool stays = own >= 0 && from[own] == to[i];
    target.push_back(stays ? 1 : to[i]);
  }
  SNUG_ASSIGN_OR_RETURN(const std::string sizes, c.SizesThere(target));
  return c.Finish("Expand", {c.in(0), sizes});
}

absl::Status Tile(ExportContext& c) {
  std::vector<int64_t> repeats = {1};
  for (const int64_t n : c.options<proto::Tile>().repeats()) repeats.push_back(n);
  return c.Finish("Tile", {c.in(0), c.List(repeats)});
}

absl::Status Fill(ExportContext& c) {
  const std::vector<int64_t> dims(c.out_shape().dims().begin(), c.out_shape().dims().end());
  const std::vector<int64_t> ones(dims.size(), 1);
  SNUG_ASSIGN_OR_RETURN(const std::string sizes, c.SizesThere(dims));
  const auto value = static_cast<float>(c.options<proto::Fill>().value());
  std::string number = c.writer().Floats(ones, {value});
  if (c.out_dtype() != DType::kFloat32) {
    const int64_t to = c.out_dtype() == DType::kUint8   ? TensorProto::UINT8
                       : c.out_dtype() == DType::kInt64 ? TensorProto::INT64
                                                        : TensorProto::INT32;
    number = c.Add("Cast", {number}, {{"to", to}});
  }
  return c.Finish("Expand", {number, sizes});
}

absl::Status OneHot(ExportContext& c) {
  const auto& o = c.options<proto::OneHot>();
  const std::string values = c.writer().Floats({2}, {0, 1});
  const std::string ids = c.Add("Cast", {c.in(0)}, {{"to", static_cast<int64_t>(TensorProto::INT64)}});
  return c.Finish("OneHot", {ids, c.writer().Ints({}, {o.classes()}), values}, {{"axis", int64_t{-1}}});
}

// ---- reductions ----

struct ReducedAxes {
  std::vector<int64_t> axes;
  int64_t keep;
};

absl::StatusOr<ReducedAxes> AxesOf(ExportContext& c) {
  const auto& o = c.options<proto::Reduce>();
  ReducedAxes r;
  for (const int64_t axis : o.axis()) r.axes.push_back(FromFront(axis, c.shape(0)));
  for (int i = 0; o.axis_size() == 0 && i < c.shape(0).rank(); ++i) r.axes.push_back(i);
  r.keep = o.keep_dims() ? 1 : 0;
  return r;
}

absl::Status ReduceSum(ExportContext& c) {
  SNUG_ASSIGN_OR_RETURN(const ReducedAxes r, AxesOf(c));
  return c.Finish("ReduceSum", {c.in(0), c.List(r.axes)}, {{"keepdims", r.keep}});
}
absl::Status ReduceMean(ExportContext& c) {
  SNUG_ASSIGN_OR_RETURN(const ReducedAxes r, AxesOf(c));
  return c.Finish("ReduceMean", {c.in(0)}, {{"axes", r.axes}, {"keepdims", r.keep}});
}
absl::Status ReduceMax(ExportContext& c) {
  SNUG_ASSIGN_OR_RETURN(const ReducedAxes r, AxesOf(c));
  return c.Finish("ReduceMax", {c.in(0)}, {{"axes", r.axes}, {"keepdims", r.keep}});
}

absl::Status ArgMax(ExportContext& c) {
  const auto& o = c.options<proto::ArgMax>();
  const int64_t keep = o.keep_dims() ? 1 : 0;
  const std::string index = c.Add("ArgMax", {c.in(0)}, {{"axis", FromFront(o.axis(), c.shape(0))}, {"keepdims", keep}});
  return c.Finish("Cast", {index}, {{"to", static_cast<int64_t>(TensorProto::INT32)}});
}

absl::Status TopK(ExportContext& c) {
  const auto& o = c.options<proto::LargestK>();
  const std::string indices = c.writer().Unique(absl::StrCat(c.node().name, "/indices"));
  c.writer().Add("TopK", {c.in(0), c.List({o.k()})}, {c.out(0), indices}, {{"axis", FromFront(o.axis(), c.shape(0))}});
  c.writer().Add("Cast", {indices}, {c.out(1)}, {{"to", static_cast<int64_t>(TensorProto::INT32)}});
  return absl::OkStatus();
}

absl::Status CumSum(ExportContext& c) {
  const auto& o = c.options<proto::CumulativeSum>();
  return c.Finish("CumSum", {c.in(0), c.writer().Ints({}, {FromFront(o.axis(), c.shape(0))})},
                  {{"reverse", int64_t{o.reverse() ? 1 : 0}}});
}

}  // namespace

std::vector<NamedTranslation> ShapeTranslations() {
  return {{"argmax", ArgMax},
          {"broadcast_to", BroadcastTo},
          {"concat", Concat},
          {"cumsum", CumSum},
          {"embedding", Embedding},
          {"fill", Fill},
          {"flatten", Reshape},
          {"flip", Flip},
          {"gather", Gather},
          {"one_hot", OneHot},
          {"pad", Pad},
          {"reduce_max", ReduceMax},
          {"reduce_mean", ReduceMean},
          {"reduce_sum", ReduceSum},
          {"reshape", Reshape},
          {"reshape_to", Reshape},
          {"slice", Slice},
          {"split", Split},
          {"tile", Tile},
          {"top_k", TopK},
          {"transpose", Transpose}};
}

}  // namespace snug::core::onnx
