// What is chosen from constants, or put together of them, while a model is imported.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "interchange/import/arrangements.h"
#include "interchange/import/fold.h"

namespace snug::core::onnx {
namespace {

// A rearrangement of an initializer is still that initializer.
Tensor Inherit(Tensor t, const Tensor& from) {
  t.name = from.name;
  t.is_weight = from.is_weight;
  return t;
}

}  // namespace

absl::StatusOr<Tensor> Take(const Tensor& x, int axis, const std::vector<int64_t>& indices, const Dims& index_dims) {
  SNUG_ASSIGN_OR_RETURN(const Tensor whole, x.stored()[static_cast<size_t>(axis)] == x.dims()[static_cast<size_t>(axis)]
                                                ? absl::StatusOr<Tensor>(x.OnlyStored())
                                                : x.Spread());
  const Dims& from = whole.stored();
  const auto a = static_cast<size_t>(axis);
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < a; ++i) outer *= from[i];
  for (size_t i = a + 1; i < from.size(); ++i) inner *= from[i];
  Dims flat = {outer, static_cast<int64_t>(indices.size()), inner};
  SNUG_RETURN_IF_ERROR(CheckCount(flat));
  std::vector<float> floats;
  std::vector<int64_t> ints;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t index : indices) {
      if (index < -from[a] || index >= from[a]) {
        return absl::InvalidArgumentError(absl::StrCat("index ", index, " of ", from[a], " along axis ", axis));
      }
      if (index < 0) index += from[a];
      const int64_t begin = (o * from[a] + index) * inner;
      for (int64_t i = begin; i < begin + inner; ++i) {
        if (x.is_float()) {
          floats.push_back(whole.floats()[static_cast<size_t>(i)]);
        } else {
          ints.push_back(whole.ints()[static_cast<size_t>(i)]);
        }
      }
    }
  }
  Dims stored(from.begin(), from.begin() + axis), dims(x.dims().begin(), x.dims().begin() + axis);
  stored.insert(stored.end(), index_dims.begin(), index_dims.end());
  dims.insert(dims.end(), index_dims.begin(), index_dims.end());
  stored.insert(stored.end(), from.begin() + axis + 1, from.end());
  dims.insert(dims.end(), x.dims().begin() + axis + 1, x.dims().end());
  Tensor t = x.is_float() ? Tensor::Floats(stored, std::move(floats)) : Tensor::Ints(stored, std::move(ints), x.kind());
  SNUG_ASSIGN_OR_RETURN(t, t.BroadcastTo(dims));
  return Inherit(std::move(t), x);
}

absl::StatusOr<Tensor> FoldGather(NodeContext& c, const Inputs& in) {
  if (in.size() < 2) return absl::InvalidArgumentError("expected 2 inputs");
  SNUG_ASSIGN_OR_RETURN(const int axis, c.AxisAttribute(0, in[0]->rank()));
  SNUG_ASSIGN_OR_RETURN(const Tensor indices, in[1]->Spread());
  if (indices.is_float()) return absl::InvalidArgumentError("expected integers as indices");
  return Take(*in[0], axis, indices.ints(), indices.dims());
}

absl::StatusOr<Tensor> FoldSlice(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const std::vector<SliceRange> ranges, SliceRanges(c, in[0]->dims()));
  Tensor t = *in[0];
  for (const SliceRange& range : ranges) {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < range.count; ++i) indices.push_back(range.begin + i * range.step);
    SNUG_ASSIGN_OR_RETURN(t, Take(t, range.axis, indices, {range.count}));
  }
  return t;
}

absl::StatusOr<Tensor> FoldConcat(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const int axis, c.AxisAttribute(0, in[0]->rank()));
  // One after the other along axis 0, after that axis was brought there.
  std::vector<int> to_front = {axis};
  for (int i = 0; i < in[0]->rank(); ++i) {
    if (i != axis) to_front.push_back(i);
  }
  std::vector<float> floats;
  std::vector<int64_t> ints;
  Dims dims;
  bool weight = false;
  for (const Tensor* input : in) {
    if (input->rank() != in[0]->rank() || input->is_float() != in[0]->is_float()) {
      return absl::InvalidArgumentError("its inputs have different ranks or types");
    }
    SNUG_ASSIGN_OR_RETURN(Tensor t, input->Spread());
    SNUG_ASSIGN_OR_RETURN(t, t.Transposed(to_front));
    if (t.is_float()) floats.insert(floats.end(), t.floats().begin(), t.floats().end());
    if (!t.is_float()) ints.insert(ints.end(), t.ints().begin(), t.ints().end());
    if (dims.empty()) {
      dims = t.dims();
    } else {
      if (Dims(dims.begin() + 1, dims.end()) != Dims(t.dims().begin() + 1, t.dims().end())) {
        return absl::InvalidArgumentError("its inputs have different shapes");
      }
      dims[0] += t.dims()[0];
    }
    weight = weight || input->is_weight;
  }
  SNUG_RETURN_IF_ERROR(CheckCount(dims));
  Tensor t =
      in[0]->is_float() ? Tensor::Floats(dims, std::move(floats)) : Tensor::Ints(dims, std::move(ints), in[0]->kind());
  std::vector<int> back(to_front.size());
  for (size_t i = 0; i < to_front.size(); ++i) back[static_cast<size_t>(to_front[i])] = static_cast<int>(i);
  SNUG_ASSIGN_OR_RETURN(t, t.Transposed(back));
  t.is_weight = weight;
  return t;
}

absl::StatusOr<Tensor> FoldTile(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const std::vector<int64_t> repeats, c.ListInput(1, "repeats"));
  if (repeats.size() != in[0]->dims().size()) return absl::InvalidArgumentError("expected a repeat for each axis");
  Tensor t = *in[0];
  for (int axis = 0; axis < t.rank(); ++axis) {
    const int64_t n = repeats[static_cast<size_t>(axis)], size = t.dims()[static_cast<size_t>(axis)];
    if (n < 0) return absl::InvalidArgumentError(absl::StrCat("repeats an axis ", n, " times"));
    if (n == 1) continue;
    if (size == 1) {  // it stays stored once
      Dims dims = t.dims();
      dims[static_cast<size_t>(axis)] = n;
      SNUG_ASSIGN_OR_RETURN(t, t.BroadcastTo(dims));
      continue;
    }
    SNUG_RETURN_IF_ERROR(CheckCount({n, std::max<int64_t>(size, 1)}));
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < n * size; ++i) indices.push_back(i % size);
    SNUG_ASSIGN_OR_RETURN(t, Take(t, axis, indices, {n * size}));
  }
  return t;
}

absl::StatusOr<Tensor> FoldTrilu(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const int64_t upper, c.Int("upper", 1));
  const bool says_which = in.size() > 1 && in[1]->stored_count() == 1;
  if (says_which && in[1]->is_float()) return absl::InvalidArgumentError("input 1 (k): expected a whole number");
  const int64_t k = says_which ? in[1]->ints()[0] : 0;
  SNUG_ASSIGN_OR_RETURN(const Tensor x, in[0]->Spread());
  if (x.rank() < 2) return absl::InvalidArgumentError("expected matrices");
  const int64_t rows = x.dims()[static_cast<size_t>(x.rank() - 2)], columns = x.dims().back();
  std::vector<double> values(static_cast<size_t>(x.stored_count()));
  for (int64_t i = 0; i < x.stored_count(); ++i) {
    const int64_t row = i / columns % rows, column = i % columns;
    const bool kept = upper != 0 ? column - row >= k : column - row <= k;
    values[static_cast<size_t>(i)] = kept ? x.Get(i) : 0;
  }
  return Tensor::Make(x.kind(), x.dims(), x.dims(), values);
}

absl::StatusOr<Tensor> FoldScatterNd(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const std::string reduction, c.String("reduction", "none"));
  if (in.size() != 3 || reduction != "none" || in[1]->rank() < 1 || in[1]->is_float()) {
    return absl::InvalidArgumentError("expected data, indices and updates, and no reduction");
  }
  SNUG_ASSIGN_OR_RETURN(const Tensor x, in[0]->Spread());
  SNUG_ASSIGN_OR_RETURN(const Tensor indices, in[1]->Spread());
  SNUG_ASSIGN_OR_RETURN(const Tensor updates, in[2]->Spread());
  const int64_t depth = indices.dims().back();
  if (depth < 1 || depth > x.rank())
    return absl::InvalidArgumentError("its indices have more numbers than the data axes");
  int64_t inner = 1;
  for (size_t i = static_cast<size_t>(depth); i < x.dims().size(); ++i) inner *= x.dims()[i];
  const int64_t rows = indices.stored_count() / depth;
  if (updates.stored_count() != rows * inner) return absl::InvalidArgumentError("its updates do not fit its indices");
  std::vector<double> values(static_cast<size_t>(x.stored_count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = x.Get(static_cast<int64_t>(i));
  for (int64_t row = 0; row < rows; ++row) {
    int64_t at = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t size = x.dims()[static_cast<size_t>(k)];
      int64_t index = indices.ints()[static_cast<size_t>(row * depth + k)];
      if (index < -size || index >= size)
        return absl::InvalidArgumentError(absl::StrCat("index ", index, " of ", size));
      at = at * size + (index < 0 ? index + size : index);
    }
    for (int64_t i = 0; i < inner; ++i) values[static_cast<size_t>(at * inner + i)] = updates.Get(row * inner + i);
  }
  return Tensor::Make(x.kind(), x.dims(), x.dims(), values);
}

// Along `axis`, each element by an index of its own.
absl::StatusOr<Tensor> FoldGatherElements(NodeContext& c, const Inputs& in) {
  if (in.size() != 2 || in[0]->rank() != in[1]->rank() || in[1]->is_float()) {
    return absl::InvalidArgumentError("expected data and as many axes of indices");
  }
  SNUG_ASSIGN_OR_RETURN(const int axis, c.AxisAttribute(0, in[0]->rank()));
  const auto a = static_cast<size_t>(axis);
  const int64_t size = in[0]->dims()[a];
  const Dims& dims = in[1]->dims();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i != a && dims[i] > in[0]->dims()[i]) return absl::InvalidArgumentError("has more indices than data");
  }
  // Where both are the same for all samples, so is the result: only what is stored is looked at.
  Dims stored = in[1]->stored();
  for (size_t i = 0; i < stored.size(); ++i) {
    if (i != a && in[0]->stored()[i] != 1) stored[i] = dims[i];
  }
  SNUG_RETURN_IF_ERROR(CheckCount(stored));
  std::vector<double> values;
  std::vector<int64_t> at(stored.size(), 0);
  const auto offset_in = [](const Dims& own, const std::vector<int64_t>& place) {
    int64_t offset = 0;
    for (size_t i = 0; i < own.size(); ++i) offset = offset * own[i] + (own[i] == 1 ? 0 : place[i]);
    return offset;
  };
  SNUG_ASSIGN_OR_RETURN(const int64_t count, CountElements(stored));
  for (int64_t n = 0; n < count; ++n) {
    int64_t index = in[1]->ints()[static_cast<size_t>(offset_in(in[1]->stored(), at))];
    if (index < -size || index >= size) return absl::InvalidArgumentError(absl::StrCat("index ", index, " of ", size));
    std::vector<int64_t> from = at;
    from[a] = index < 0 ? index + size : index;
    values.push_back(in[0]->Get(offset_in(in[0]->stored(), from)));
    for (size_t i = stored.size(); i-- > 0;) {
      if (++at[i] < stored[i]) break;
      at[i] = 0;
    }
  }
  return Tensor::Make(in[0]->kind(), dims, stored, values);
}

absl::StatusOr<Tensor> FoldGatherNd(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const int64_t batch_dims, c.Int("batch_dims", 0));
  if (in.size() != 2 || batch_dims != 0 || in[1]->rank() < 1 || in[1]->is_float()) {
    return absl::InvalidArgumentError("expected data and indices, and no batch_dims");
  }
  SNUG_ASSIGN_OR_RETURN(const Tensor x, in[0]->Spread());
  const int64_t depth = in[1]->dims().back();
  if (depth < 1 || depth > x.rank() || in[1]->stored().back() != depth) {
    return absl::InvalidArgumentError("its indices have more numbers than the data axes");
  }
  int64_t inner = 1;
  for (size_t i = static_cast<size_t>(depth); i < x.dims().size(); ++i) inner *= x.dims()[i];
  Dims dims(in[1]->dims().begin(), in[1]->dims().end() - 1), stored(in[1]->stored().begin(), in[1]->stored().end() - 1);
  const int64_t rows = in[1]->stored_count() / depth;
  SNUG_RETURN_IF_ERROR(CheckCount({rows, inner}));
  std::vector<double> values;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t at = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t size = x.dims()[static_cast<size_t>(k)];
      const int64_t index = in[1]->ints()[static_cast<size_t>(row * depth + k)];
      if (index < -size || index >= size)
        return absl::InvalidArgumentError(absl::StrCat("index ", index, " of ", size));
      at = at * size + (index < 0 ? index + size : index);
    }
    for (int64_t i = 0; i < inner; ++i) values.push_back(x.Get(at * inner + i));
  }
  dims.insert(dims.end(), x.dims().begin() + depth, x.dims().end());
  stored.insert(stored.end(), x.dims().begin() + depth, x.dims().end());
  return Tensor::Make(x.kind(), dims, stored, values);
}

absl::StatusOr<std::vector<Tensor>> FoldSplit(NodeContext& c, const Inputs& in) {
  SNUG_ASSIGN_OR_RETURN(const SplitSizes split, SplitSizesOf(c, in[0]->dims()));
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (const int64_t size : split.sizes) {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < size; ++i) indices.push_back(begin + i);
    SNUG_ASSIGN_OR_RETURN(Tensor part, Take(*in[0], split.axis, indices, {size}));
    parts.push_back(std::move(part));
    begin += size;
  }
  return parts;
}

}  // namespace snug::core::onnx
