#include "snug/version.h"

namespace snug {
inline namespace v0 {

const char* LibraryVersion() noexcept { return SNUG_VERSION_STRING; }

}  // namespace v0
}  // namespace snug
