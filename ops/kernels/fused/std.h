// Stands in for the standard headers, and for ops/kit/isa.h, where NVRTC compiles fused kernels (prelude.h). It
// has no standard library, and fused kernels need little of one. Mathematical functions are NVRTC's own.
#pragma once

#if defined(__CUDACC_RTC__)

// This means the same as in isa.h.
#define SNUG_INLINE __host__ __device__ __attribute__((always_inline)) inline

using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;

namespace std {

using ::copysign;
using ::cos;
using ::erf;
using ::exp;
using ::fabs;
using ::floor;
using ::log;
using ::pow;
using ::sin;
using ::sqrt;
using ::tanh;

template <class To, class From>
__host__ __device__ constexpr To bit_cast(const From& from) {
  return __builtin_bit_cast(To, from);
}

template <bool kCondition, class A, class B>
struct conditional {
  using type = A;
};
template <class A, class B>
struct conditional<false, A, B> {
  using type = B;
};
template <bool kCondition, class A, class B>
using conditional_t = typename conditional<kCondition, A, B>::type;

template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;
template <class T>
inline constexpr bool is_floating_point_v = is_same_v<T, float> || is_same_v<T, double>;
template <class T>
inline constexpr bool is_integral_v = is_same_v<T, uint8_t> || is_same_v<T, int32_t> || is_same_v<T, int64_t>;

template <class T>
struct numeric_limits;
template <>
struct numeric_limits<float> {
  __host__ __device__ static constexpr float min() { return 0x1p-126F; }
  __host__ __device__ static constexpr float infinity() { return bit_cast<float>(0x7f800000U); }
  __host__ __device__ static constexpr float quiet_NaN() { return bit_cast<float>(0x7fc00000U); }
};
template <>
struct numeric_limits<double> {
  __host__ __device__ static constexpr double infinity() { return bit_cast<double>(0x7ff0000000000000ULL); }
};
template <>
struct numeric_limits<uint8_t> {
  __host__ __device__ static constexpr uint8_t min() { return 0; }
  __host__ __device__ static constexpr uint8_t max() { return 255; }
};
template <>
struct numeric_limits<int32_t> {
  __host__ __device__ static constexpr int32_t min() { return -0x7fffffff - 1; }
  __host__ __device__ static constexpr int32_t max() { return 0x7fffffff; }
};
template <>
struct numeric_limits<int64_t> {
  __host__ __device__ static constexpr int64_t min() { return -0x7fffffffffffffffLL - 1; }
  __host__ __device__ static constexpr int64_t max() { return 0x7fffffffffffffffLL; }
};

}  // namespace std

#endif
