// A tensor whose content is known while a model is imported: an initializer, or what follows from initializers and
// shapes. Axes along which it is only repeated are kept once, so that a mask that is spread over the batch takes no
// more memory than one sample's.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace snug::core::onnx {

using Dims = std::vector<int64_t>;

// Returns the product, or an error if it is more than a file can mean well.
absl::StatusOr<int64_t> CountElements(const Dims& dims);
std::string DimsText(const Dims& dims);  // "[2, 3]"
// The shape of an elementwise op's result, as in NumPy; an error if they do not fit.
absl::StatusOr<Dims> BroadcastDims(const Dims& a, const Dims& b);

// Most elements that a folded constant may have: what a file says in one line could otherwise fill the memory.
inline constexpr int64_t kMaxFoldedElements = int64_t{1} << 26;

enum class Kind : uint8_t { kFloat, kInt, kBool };

class Tensor {
 public:
  static Tensor Floats(Dims dims, std::vector<float> values);
  static Tensor Ints(Dims dims, std::vector<int64_t> values, Kind kind = Kind::kInt);
  static Tensor Scalar(float value) { return Floats({}, {value}); }
  // `values` has one for each element of the stored shape.
  static Tensor Make(Kind kind, Dims dims, Dims stored, const std::vector<double>& values);

  Kind kind() const { return kind_; }
  bool is_float() const { return kind_ == Kind::kFloat; }
  const Dims& dims() const { return dims_; }
  const Dims& stored() const { return stored_; }  // as dims(), but 1 along axes where all is equal
  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t stored_count() const;

  // Element i of the stored ones.
  double Get(int64_t i) const {
    return is_float() ? static_cast<double>((*floats_)[static_cast<size_t>(i)])
                      : static_cast<double>((*ints_)[static_cast<size_t>(i)]);
  }
  const std::vector<float>& floats() const { return *floats_; }
  const std::vector<int64_t>& ints() const { return *ints_; }
  // All elements, repeated ones too; an error if they are too many.
  absl::StatusOr<Tensor> Spread() const;
  // The same content with other dimensions, of which there are as many elements.
  absl::StatusOr<Tensor> Reshaped(Dims dims) const;
  // The stored elements under the dimensions stored().
  Tensor OnlyStored() const;
  absl::StatusOr<Tensor> Transposed(const std::vector<int>& axes) const;
  // The same, repeated along axes of size 1.
  absl::StatusOr<Tensor> BroadcastTo(const Dims& dims) const;
  Tensor As(Kind kind) const;

  // The numbers of a list of integers, as shapes and axes are.
  absl::StatusOr<std::vector<int64_t>> IntList() const;
  bool IsScalar() const;  // one number, whatever its dimensions
  double scalar() const { return Get(0); }

  // The initializer that it is, or is a rearrangement of; empty for all that was computed.
  std::string name;
  // Whether it was an initializer of floating-point numbers, which training may change, and not a constant of the
  // graph.
  bool is_weight = false;

 private:
  Kind kind_ = Kind::kFloat;
  Dims dims_, stored_;
  std::shared_ptr<const std::vector<float>> floats_;
  std::shared_ptr<const std::vector<int64_t>> ints_;
};

}  // namespace snug::core::onnx
