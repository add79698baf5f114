// Everything here reports failure by a Status: no exception leaves the library.
//
//   snug::Result<double> loss = session.FetchScalar("loss");
//   if (!loss.ok()) return std::puts(loss.status().message().c_str());
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace snug {
inline namespace v0 {

// gRPC and Abseil use the same numbers.
enum class StatusCode : uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,  // out of memory, or of disk
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,  // a bug in the library
  kUnavailable = 14,
  kDataLoss = 15,
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  // Says `mlp.pbtxt:4:30: layer "fc1" (dense): option "units": expected at least 1, found 0`, with a line for each
  // mistake.
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

// A T, or the reason why there is none. Asking an error for its value is a bug in the program, which then ends with a
// message.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & { return Checked(); }
  const T& value() const& { return const_cast<Result*>(this)->Checked(); }
  T&& value() && { return std::move(Checked()); }
  T& operator*() & { return Checked(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(Checked()); }
  T* operator->() { return &Checked(); }
  const T* operator->() const { return &value(); }
  T value_or(T other) const { return ok() ? *value_ : std::move(other); }

 private:
  T& Checked() {
    if (!value_.has_value()) {
      std::fprintf(stderr, "snug: the value of an error was asked for: %s\n", status_.message().c_str());
      std::abort();
    }
    return *value_;
  }

  Status status_;
  std::optional<T> value_;
};

}  // namespace v0
}  // namespace snug
