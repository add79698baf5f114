#include "memory/place/olla_addresses.h"

#include <algorithm>

namespace snug::core::memory {

int32_t OllaAddresses::Add(double size, double spacing, double fixed) {
  const double lower = fixed >= 0 ? fixed : 0;
  const double upper = fixed >= 0 ? fixed : std::max(0.0, top_ - size);
  const int32_t variable = model_->AddVariable(lower, upper, false);
  model_->AddConstraint({{{arena_, 1}, {variable, -1}}}, size, IlpModel::kInfinity);
  buffers_.push_back({variable, spacing});
  return static_cast<int32_t>(buffers_.size()) - 1;
}

void OllaAddresses::AddOrder(int32_t a, int32_t b, int32_t variable, bool inverted) {
  // (7a, 7b): address a + spacing a <= address b + slack. The slack applies when the variable does not put a below b,
  // and is enough for any two addresses.
  const Variable& below = buffers_[static_cast<size_t>(a)];
  const Variable& above = buffers_[static_cast<size_t>(b)];
  const double slack = model_->upper()[static_cast<size_t>(below.variable)] + below.spacing -
                       model_->lower()[static_cast<size_t>(above.variable)];
  const double factor = inverted ? -slack : slack;
  const double limit = inverted ? 0 : slack;
  model_->AddConstraint({{{below.variable, 1}, {above.variable, -1}, {variable, factor}}}, -IlpModel::kInfinity,
                        limit - below.spacing);
  pairs_.push_back({a, b, variable, inverted});
}

void OllaAddresses::KeepApart(int32_t a, int32_t b) {
  const int32_t a_below = model_->AddBinary();
  AddOrder(a, b, a_below, false);
  AddOrder(b, a, a_below, true);
}

std::vector<LinearTerm> OllaAddresses::MayKeepApart(int32_t a, int32_t b) {
  const int32_t a_below = model_->AddBinary();
  const int32_t b_below = model_->AddBinary();
  AddOrder(a, b, a_below, false);
  AddOrder(b, a, b_below, false);
  std::vector<LinearTerm> sum = {{a_below, 1}, {b_below, 1}};
  model_->AddConstraint(sum, -IlpModel::kInfinity, 1);  // (6)
  return sum;
}

void OllaAddresses::Encode(const std::vector<double>& addresses, std::vector<double>* values) const {
  for (size_t i = 0; i < buffers_.size(); ++i) (*values)[static_cast<size_t>(buffers_[i].variable)] = addresses[i];
  for (const Pair& pair : pairs_) {
    const auto below = static_cast<size_t>(pair.below);
    const bool holds = addresses[below] + buffers_[below].spacing <= addresses[static_cast<size_t>(pair.above)];
    if (holds) (*values)[static_cast<size_t>(pair.variable)] = pair.inverted ? 0 : 1;
  }
}

}  // namespace snug::core::memory
