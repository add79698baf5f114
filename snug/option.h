// An option of a layer, by the name it has in the model file: {"units", 128}, {"kernel", {3, 3}}, {"padding", "SAME"}.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace snug {
inline namespace v0 {

class OptionValue {
 public:
  using Value = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

  OptionValue(bool value) : value_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) OptionValue(T value) : value_(static_cast<int64_t>(value)) {}
  template <std::floating_point T>
  OptionValue(T value) : value_(static_cast<double>(value)) {}
  OptionValue(const char* value) : value_(std::string(value)) {}  // strings, and the names of enums
  OptionValue(std::string value) : value_(std::move(value)) {}
  OptionValue(std::vector<int64_t> values) : value_(std::move(values)) {}
  OptionValue(std::vector<double> values) : value_(std::move(values)) {}
  template <class T>
  requires std::is_arithmetic_v<T> OptionValue(std::initializer_list<T> values)
      : value_(List<T>(values.begin(), values.end())) {}

  const Value& value() const { return value_; }

 private:
  template <class T>
  using List = std::conditional_t<std::integral<T>, std::vector<int64_t>, std::vector<double>>;

  Value value_;
};

struct Option {
  std::string name;
  OptionValue value;
};

}  // namespace v0
}  // namespace snug
