// What the files of snug/c.h share: the handles, and how a call becomes an error or nothing.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "snug/c.h"
#include "snug/snug.h"

// Each handle is an object of the C++ library, under a name that C can say.
struct snug_error {
  snug::Status status;
};
struct snug_names {
  std::vector<std::string> names;
};
struct snug_network {
  snug::Network network;
};
struct snug_options {
  snug::SessionOptions options;
};
// Arrays that look at its bytes own it too.
struct snug_session {
  std::shared_ptr<snug::Session> session;
};

namespace snug {
inline namespace v0 {
namespace c_api {

snug_error& OutOfMemory();  // the error for which no memory was left
snug_error* ErrorOf(Status status) noexcept;

// Runs what may run out of memory, and lets nothing else out.
template <class Body>
snug_error* Guarded(Body body) noexcept {
  try {
    return ErrorOf(body());
  } catch (const std::bad_alloc&) {
    return &OutOfMemory();
  } catch (...) {
    return ErrorOf({StatusCode::kInternal, "an exception that the library did not expect"});
  }
}

inline Status Invalid(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }

struct Argument {
  const char* name;
  const void* value;
};
inline Status Given(std::initializer_list<Argument> arguments) {
  for (const Argument& argument : arguments) {
    if (argument.value == nullptr) {
      return Invalid(std::string("argument \"") + argument.name + "\": expected a pointer, found NULL");
    }
  }
  return {};
}

inline Result<DType> DTypeFrom(snug_dtype dtype) {
  const int number = dtype;
  if (number >= SNUG_FLOAT32 && number <= SNUG_UINT8) return static_cast<DType>(number);
  return Invalid("argument \"dtype\": expected a snug_dtype, 0 to 5, found " + std::to_string(number));
}
static_assert(static_cast<int>(DType::kFloat32) == SNUG_FLOAT32 &&
              static_cast<int>(DType::kBFloat16) == SNUG_BFLOAT16 &&
              static_cast<int>(DType::kFloat64) == SNUG_FLOAT64 && static_cast<int>(DType::kInt32) == SNUG_INT32 &&
              static_cast<int>(DType::kInt64) == SNUG_INT64 && static_cast<int>(DType::kUint8) == SNUG_UINT8);

inline Result<Program> ProgramOf(snug_session* session, snug_program program) {
  if (Status given = Given({{"session", session}}); !given.ok()) return given;
  const int number = program;
  if (number == SNUG_TRAINING) return session->session->program();
  if (number == SNUG_EVALUATION) return session->session->evaluation();
  return Invalid("argument \"program\": expected SNUG_TRAINING or SNUG_EVALUATION, found " + std::to_string(number));
}

// Gives `body` the program, where there is one and the arguments are there.
template <class Body>
snug_error* WithProgram(snug_session* session, snug_program program, std::initializer_list<Argument> arguments,
                        Body body) noexcept {
  return Guarded([&]() -> Status {
    if (Status given = Given(arguments); !given.ok()) return given;
    Result<Program> found = ProgramOf(session, program);
    return found.ok() ? body(*found) : found.status();
  });
}

inline char* CopyOf(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

inline Status GiveTensor(const Result<Tensor>& found, snug_tensor* tensor) {
  if (!found.ok()) return found.status();
  *tensor = {.data = found->data,
             .shape = found->shape.data(),
             .rank = static_cast<int32_t>(found->shape.size()),
             .dtype = static_cast<int32_t>(found->dtype),
             .reserved = {}};
  return {};
}

inline Status GiveNames(Result<std::vector<std::string>> found, snug_names** names) {
  if (!found.ok()) return found.status();
  *names = new snug_names{std::move(*found)};
  return {};
}

inline SessionOptions OptionsOf(const snug_options* options) {
  return options == nullptr ? SessionOptions() : options->options;
}

}  // namespace c_api
}  // namespace v0
}  // namespace snug
