// Whether this build checks itself as it runs, which makes it five to twenty times slower.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SNUG_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SNUG_SANITIZED 1
#endif
#endif
#ifndef SNUG_SANITIZED
#define SNUG_SANITIZED 0
#endif

namespace snug::core::test {

inline constexpr bool kSanitized = SNUG_SANITIZED != 0;

}  // namespace snug::core::test
