#include "engine/run/session/initialize.h"

#include <cmath>
#include <cstring>

#include "engine/base/random.h"
#include "engine/base/status.h"

namespace snug::core {
namespace {

double Draw(const Initializer& init, const Philox& random, int64_t element) {
  switch (init.kind) {
    case Initializer::Kind::kConstant:
    case Initializer::Kind::kBytes:
      return init.value;
    case Initializer::Kind::kUniform: {
      const uint32_t word = random(0, static_cast<uint64_t>(element))[0];
      return init.value * (2 * static_cast<double>(ToUniform(word)) - 1);
    }
    case Initializer::Kind::kNormal: {
      const auto words = random(0, static_cast<uint64_t>(element));
      return init.value * ToNormals(words[0], words[1])[0];
    }
    case Initializer::Kind::kTruncatedNormal:
      // Draws again from the next stream until the number falls inside, which 95 % do.
      for (uint64_t attempt = 0;; ++attempt) {
        const auto words = random(attempt, static_cast<uint64_t>(element));
        for (const double z : ToNormals(words[0], words[1])) {
          if (std::abs(z) <= 2) return init.value * z;
        }
      }
  }
  return 0;
}

template <class T>
void Fill(const Variable& variable, uint64_t seed, std::byte* data) {
  const Philox random{MixKeys(seed, variable.random_id)};
  T* out = reinterpret_cast<T*>(data);
  const int64_t n = variable.type.num_elements();
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(Draw(variable.init, random, i));
}

}  // namespace

void Initialize(const Variable& variable, uint64_t seed, std::byte* data) {
  if (variable.init.kind == Initializer::Kind::kBytes) {
    SNUG_CHECK(static_cast<int64_t>(variable.init.bytes->size()) == variable.type.size_bytes());
    std::memcpy(data, variable.init.bytes->data(), variable.init.bytes->size());
    return;
  }
  switch (variable.type.dtype) {
#define SNUG_CASE(enumerator, name, type) \
  case DType::enumerator:                 \
    return Fill<type>(variable, seed, data);
    SNUG_DTYPES(SNUG_CASE)
#undef SNUG_CASE
  }
}

}  // namespace snug::core
