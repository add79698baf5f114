#include "interchange/import/value.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <numeric>

#include "engine/base/status.h"

namespace snug::core::onnx {
namespace {

int64_t SizeOfAxis(const Value& x, size_t axis) {
  int64_t size = 1;
  for (const int a : x.axes[axis]) size *= x.ref.dims[static_cast<size_t>(a)];
  return size;
}

absl::Status NotFirst(const Value& x) {
  return absl::InvalidArgumentError(
      absl::StrCat("needs the batch as an axis of its own, and it is mixed with others here (shape ", DimsText(x.shape),
                   "): Snug keeps samples apart"));
}

// The order of the layer's axes in which x's view goes through them; those in no axis come last.
std::vector<int> Sequence(const Value& x, const std::vector<int>& order) {
  std::vector<int> sequence;
  for (const int axis : order) {
    for (const int a : x.axes[static_cast<size_t>(axis)]) sequence.push_back(a);
  }
  for (int a = 0; a < static_cast<int>(x.ref.dims.size()); ++a) {
    if (std::find(sequence.begin(), sequence.end(), a) == sequence.end()) sequence.push_back(a);
  }
  return sequence;
}

// Whether the elements change places when the layer's axes come in this sequence.
bool Moves(const Value& x, const std::vector<int>& sequence) {
  int last = -1;
  for (const int a : sequence) {
    if (x.ref.dims[static_cast<size_t>(a)] == 1) continue;
    if (a < last) return true;
    last = a;
  }
  return false;
}

std::vector<int> Iota(size_t n) {
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// Cuts axes of the layer's output in pieces: `pieces[a]` are the sizes that axis a falls into.
absl::StatusOr<Value> Cut(NetworkBuilder& builder, const Value& x, const std::vector<Dims>& pieces) {
  Dims dims;
  std::vector<std::vector<int>> becomes;
  for (const Dims& sizes : pieces) {
    std::vector<int> parts;
    for (const int64_t size : sizes) {
      parts.push_back(static_cast<int>(dims.size()));
      dims.push_back(size);
    }
    becomes.push_back(std::move(parts));
  }
  Value y = x;
  SNUG_ASSIGN_OR_RETURN(y.ref, builder.Reshape(x.ref, dims));
  for (std::vector<int>& axis : y.axes) {
    std::vector<int> parts;
    for (const int a : axis) {
      const std::vector<int>& of = becomes[static_cast<size_t>(a)];
      parts.insert(parts.end(), of.begin(), of.end());
    }
    axis = std::move(parts);
  }
  return y;
}

// One step of walking along the layer's axes: a piece of one of them.
struct Piece {
  int axis;
  int64_t size;
};

}  // namespace

bool Value::is_plain() const {
  if (constant.has_value() || ref.dims != shape) return false;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != std::vector<int>{static_cast<int>(i)}) return false;
  }
  return true;
}

Value Plain(Ref ref) {
  const std::vector<int> order = Iota(ref.dims.size());
  return FromArranged(std::move(ref), order);
}

Value Constant(Tensor tensor) {
  Value value;
  value.constant = std::move(tensor);
  return value;
}

int BatchAxis(const Value& x) {
  for (size_t i = 0; i < x.axes.size(); ++i) {
    if (std::find(x.axes[i].begin(), x.axes[i].end(), 0) != x.axes[i].end()) return static_cast<int>(i);
  }
  return -1;
}

std::vector<int> BatchFirst(const Value& x) {
  const int batch = BatchAxis(x);
  std::vector<int> order;
  if (batch >= 0) order.push_back(batch);
  for (int i = 0; i < x.rank(); ++i) {
    if (i != batch) order.push_back(i);
  }
  return order;
}

absl::StatusOr<Ref> Arranged(NetworkBuilder& builder, const Value& x, const std::vector<int>& order) {
  if (order.empty() || x.axes[static_cast<size_t>(order[0])] != std::vector<int>{0}) {
    // An axis of size 1 with the batch is the batch alone.
    Dims others;
    if (!order.empty()) {
      for (const int a : x.axes[static_cast<size_t>(order[0])]) {
        if (a != 0) others.push_back(x.ref.dims[static_cast<size_t>(a)]);
      }
    }
    const bool alone = !order.empty() && BatchAxis(x) == order[0] &&
                       std::all_of(others.begin(), others.end(), [](int64_t d) { return d == 1; });
    if (!alone) return NotFirst(x);
  }
  Ref ref = x.ref;
  const std::vector<int> sequence = Sequence(x, order);
  if (Moves(x, sequence)) {
    SNUG_ASSIGN_OR_RETURN(ref, builder.Transpose(ref, sequence));
  }
  Dims dims;
  for (const int axis : order) dims.push_back(x.shape[static_cast<size_t>(axis)]);
  return builder.Reshape(ref, dims);
}

absl::StatusOr<Ref> InOrder(NetworkBuilder& builder, const Value& x) {
  return Arranged(builder, x, Iota(x.shape.size()));
}

Value FromArranged(Ref ref, const std::vector<int>& order) {
  Value value;
  value.shape.resize(order.size());
  value.axes.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    value.shape[static_cast<size_t>(order[i])] = ref.dims[i];
    value.axes[static_cast<size_t>(order[i])] = {static_cast<int>(i)};
  }
  value.ref = std::move(ref);
  return value;
}

absl::StatusOr<Value> WithLast(NetworkBuilder& builder, const Value& x, int axis) {
  const std::vector<int> group = x.axes[static_cast<size_t>(axis)];
  const int last = static_cast<int>(x.ref.dims.size()) - 1;
  if (group.size() == 1 && group[0] == last && last > 0) return x;
  if (BatchAxis(x) == axis) return NotFirst(x);
  // The layer's axes as they are, then those of this axis, which become one.
  std::vector<int> sequence;
  for (int a = 0; a <= last; ++a) {
    if (std::find(group.begin(), group.end(), a) == group.end()) sequence.push_back(a);
  }
  Value y = x;
  Dims dims;
  for (const int a : sequence) dims.push_back(x.ref.dims[static_cast<size_t>(a)]);
  dims.push_back(SizeOfAxis(x, static_cast<size_t>(axis)));
  std::vector<int> place(x.ref.dims.size());
  for (size_t i = 0; i < sequence.size(); ++i) place[static_cast<size_t>(sequence[i])] = static_cast<int>(i);
  for (std::vector<int>& axes : y.axes) {
    for (int& a : axes) a = place[static_cast<size_t>(a)];
  }
  y.axes[static_cast<size_t>(axis)] = {static_cast<int>(dims.size()) - 1};
  sequence.insert(sequence.end(), group.begin(), group.end());
  Ref ref = x.ref;
  if (Moves(x, sequence)) {
    SNUG_ASSIGN_OR_RETURN(ref, builder.Transpose(ref, sequence));
  }
  SNUG_ASSIGN_OR_RETURN(y.ref, builder.Reshape(ref, dims));
  return y;
}

absl::StatusOr<Value> OneForOne(NetworkBuilder& builder, const Value& x) {
  const std::vector<int> order = BatchFirst(x);
  SNUG_ASSIGN_OR_RETURN(Ref ref, Arranged(builder, x, order));
  return FromArranged(std::move(ref), order);
}

Value Transposed(const Value& x, const std::vector<int>& axes) {
  Value y = x;
  for (size_t i = 0; i < axes.size(); ++i) {
    y.shape[i] = x.shape[static_cast<size_t>(axes[i])];
    y.axes[i] = x.axes[static_cast<size_t>(axes[i])];
  }
  return y;
}

absl::StatusOr<Value> Reshaped(NetworkBuilder& builder, const Value& x, const Dims& shape) {
  if (shape == x.shape) return x;
  SNUG_ASSIGN_OR_RETURN(const int64_t from, CountElements(x.shape));
  SNUG_ASSIGN_OR_RETURN(const int64_t to, CountElements(shape));
  if (from != to || to == 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot give ", DimsText(x.shape), " the shape ", DimsText(shape)));
  }
  std::vector<Piece> left;  // what is still to be given to an axis, the next one last
  for (size_t i = x.axes.size(); i-- > 0;) {
    for (size_t k = x.axes[i].size(); k-- > 0;) {
      const int a = x.axes[i][k];
      // Axes of size 1 are in no new axis, but the batch always is in one.
      if (a == 0 || x.ref.dims[static_cast<size_t>(a)] != 1) left.push_back({a, x.ref.dims[static_cast<size_t>(a)]});
    }
  }
  std::vector<Dims> pieces(x.ref.dims.size());
  std::vector<std::vector<Piece>> groups;
  bool fits = true;
  for (const int64_t size : shape) {
    groups.emplace_back();
    int64_t wanted = size;
    // A batch of 1 goes to an axis of size 1 that is next, or into a larger one that comes after it.
    while (fits && !left.empty() && (wanted > 1 || (size == 1 && groups.back().empty() && left.back().size == 1))) {
      const Piece piece = left.back();
      if (wanted % piece.size == 0) {
        left.pop_back();
        groups.back().push_back(piece);
        pieces[static_cast<size_t>(piece.axis)].push_back(piece.size);
        wanted /= piece.size;
      } else if (piece.axis != 0 && piece.size % wanted == 0) {
        groups.back().push_back({piece.axis, wanted});
        pieces[static_cast<size_t>(piece.axis)].push_back(wanted);
        left.back().size /= wanted;
        wanted = 1;
      } else {
        fits = false;
      }
    }
    fits = fits && wanted == 1;
  }
  while (fits && !left.empty() && !groups.empty()) {  // the batch, of size 1
    groups.back().push_back(left.back());
    pieces[static_cast<size_t>(left.back().axis)].push_back(left.back().size);
    left.pop_back();
  }
  if (!fits || groups.empty()) {
    // Its axes are not those of before, cut or joined: the elements are needed in their order, and the batch first.
    SNUG_ASSIGN_OR_RETURN(const Ref ref, InOrder(builder, x));
    SNUG_ASSIGN_OR_RETURN(Ref reshaped, builder.Reshape(ref, shape));
    return Plain(std::move(reshaped));
  }
  // Pieces of one axis are taken in their sequence, so they are numbered as they come.
  std::vector<int> first(pieces.size());
  Value cut = x;
  bool is_cut = false;
  int next = 0;
  for (size_t a = 0; a < pieces.size(); ++a) {
    if (pieces[a].empty()) pieces[a].push_back(x.ref.dims[a]);
    is_cut = is_cut || pieces[a].size() > 1;
    first[a] = next;
    next += static_cast<int>(pieces[a].size());
  }
  if (is_cut) {
    SNUG_ASSIGN_OR_RETURN(cut, Cut(builder, x, pieces));
  }
  Value y;
  y.ref = cut.ref;
  y.shape = shape;
  for (const std::vector<Piece>& group : groups) {
    y.axes.emplace_back();
    for (const Piece& piece : group) y.axes.back().push_back(first[static_cast<size_t>(piece.axis)]++);
  }
  return y;
}

absl::StatusOr<Tensor> ConstantBeside(NetworkBuilder& builder, Value* x, const Tensor& constant) {
  Dims stored = constant.stored();
  if (constant.rank() > x->rank()) {
    SNUG_ASSIGN_OR_RETURN(Dims shape, BroadcastDims(x->shape, constant.dims()));
    shape = x->shape;
    shape.insert(shape.begin(), static_cast<size_t>(constant.rank() - x->rank()), 1);
    SNUG_ASSIGN_OR_RETURN(*x, Reshaped(builder, *x, shape));
  }
  const size_t front = static_cast<size_t>(x->rank()) - stored.size();
  stored.insert(stored.begin(), front, 1);
  // What is stored once for all along an axis is repeated where x has one element there.
  for (size_t i = front; i < stored.size(); ++i) {
    if (stored[i] == 1 && x->shape[i] == 1) stored[i] = constant.dims()[i - front];
  }
  const Dims repeated(stored.begin() + static_cast<int64_t>(front), stored.end());
  SNUG_ASSIGN_OR_RETURN(Tensor t, constant.OnlyStored().BroadcastTo(repeated));
  SNUG_ASSIGN_OR_RETURN(t, t.Spread());
  // Where the constant has more than x along an axis, x needs an axis there.
  for (size_t i = 0; i < stored.size(); ++i) {
    if (stored[i] == 1 || x->shape[i] != 1) continue;
    if (x->axes[i].size() == 1 && x->axes[i][0] != 0) continue;
    SNUG_ASSIGN_OR_RETURN(*x, OneForOne(builder, *x));
    if (x->axes[i] == std::vector<int>{0}) {
      return absl::InvalidArgumentError(absl::StrCat("combines the batch with a constant of ", stored[i], " samples"));
    }
    break;
  }
  // The constant's axes, cut as x's are; then in the sequence of the layer's.
  Dims cut;
  std::vector<int> of;  // the layer's axis of each
  for (size_t i = 0; i < stored.size(); ++i) {
    for (const int a : x->axes[i]) {
      of.push_back(a);
      const int64_t size = x->ref.dims[static_cast<size_t>(a)];
      cut.push_back(stored[i] == 1 ? 1 : x->shape[i] == 1 ? stored[i] : size);
    }
    if (x->axes[i].empty() && stored[i] != 1) return absl::InternalError("a constant has an axis that is not there");
  }
  SNUG_ASSIGN_OR_RETURN(t, t.Reshaped(cut));
  std::vector<int> sequence = Iota(of.size());
  std::sort(sequence.begin(), sequence.end(),
            [&](int a, int b) { return of[static_cast<size_t>(a)] < of[static_cast<size_t>(b)]; });
  SNUG_ASSIGN_OR_RETURN(t, t.Transposed(sequence));
  Dims dims(x->ref.dims.size(), 1);
  for (size_t i = 0; i < sequence.size(); ++i) {
    dims[static_cast<size_t>(of[static_cast<size_t>(sequence[i])])] = t.dims()[i];
  }
  SNUG_ASSIGN_OR_RETURN(t, t.Reshaped(dims));
  // What is the same for all samples is kept once.
  if (!dims.empty() && dims[0] > 1) {
    const int64_t sample = t.stored_count() / dims[0];
    for (int64_t i = sample; i < t.stored_count(); ++i) {
      if (t.Get(i) == t.Get(i % sample)) continue;
      return absl::InvalidArgumentError("combines samples with a constant that has another value for each of them");
    }
    std::vector<double> values(static_cast<size_t>(sample));
    for (int64_t i = 0; i < sample; ++i) values[static_cast<size_t>(i)] = t.Get(i);
    Tensor once = Tensor::Make(t.kind(), {}, {sample}, values);
    dims[0] = 1;
    once = Tensor::Make(t.kind(), dims, dims, values);
    once.name = t.name;
    once.is_weight = t.is_weight;
    t = std::move(once);
  }
  const auto not_one = std::find_if(dims.begin(), dims.end(), [](int64_t d) { return d != 1; });
  return t.Reshaped(Dims(not_one, dims.end()));
}

absl::StatusOr<Pair> Together(NetworkBuilder& builder, const Value& x, const Value& y) {
  if (x.axes == y.axes && x.shape == y.shape && x.ref.dims == y.ref.dims) return Pair{x, x.ref, y.ref};
  if (x.rank() != y.rank()) {
    // As NumPy does, the shorter gets axes in front.
    const Value& shorter = x.rank() < y.rank() ? x : y;
    Dims shape = shorter.shape;
    shape.insert(shape.begin(), static_cast<size_t>(std::abs(x.rank() - y.rank())), 1);
    SNUG_ASSIGN_OR_RETURN(const Value longer, Reshaped(builder, shorter, shape));
    return x.rank() < y.rank() ? Together(builder, longer, y) : Together(builder, x, longer);
  }
  // Where each axis of both falls into the same sizes, or into none, only the order of the layers' axes may differ.
  bool alike = x.ref.dims.size() >= y.ref.dims.size();
  std::vector<int> from(x.ref.dims.size(), -1);  // the axis of y's layer for each of x's
  for (size_t i = 0; alike && i < x.axes.size(); ++i) {
    if (y.shape[i] == 1 && BatchAxis(y) != static_cast<int>(i)) continue;
    alike = x.axes[i].size() == y.axes[i].size() && x.shape[i] == y.shape[i];
    for (size_t k = 0; alike && k < x.axes[i].size(); ++k) {
      const auto a = static_cast<size_t>(x.axes[i][k]);
      const auto b = static_cast<size_t>(y.axes[i][k]);
      alike = x.ref.dims[a] == y.ref.dims[b];
      from[a] = static_cast<int>(b);
    }
  }
  if (alike && from[0] == 0) {
    std::vector<int> sequence;
    Dims dims;
    for (const int b : from) {
      if (b >= 0) sequence.push_back(b);
      dims.push_back(b >= 0 ? y.ref.dims[static_cast<size_t>(b)] : 1);
    }
    for (int b = 0; b < static_cast<int>(y.ref.dims.size()); ++b) {
      if (std::find(sequence.begin(), sequence.end(), b) == sequence.end()) sequence.push_back(b);
    }
    Ref ref = y.ref;
    if (Moves(y, sequence)) {
      SNUG_ASSIGN_OR_RETURN(ref, builder.Transpose(ref, sequence));
    }
    SNUG_ASSIGN_OR_RETURN(ref, builder.Reshape(ref, dims));
    return Pair{x, x.ref, ref};
  }
  if (BatchAxis(x) != BatchAxis(y)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "combines values whose batches lie along different axes: ", DimsText(x.shape), " and ", DimsText(y.shape)));
  }
  SNUG_ASSIGN_OR_RETURN(const Value whole_x, OneForOne(builder, x));
  SNUG_ASSIGN_OR_RETURN(const Value whole_y, OneForOne(builder, y));
  return Pair{whole_x, whole_x.ref, whole_y.ref};
}

}  // namespace snug::core::onnx
