// The place in the program where something was written. As the default of an argument it is the caller's line.
//
// It is not std::source_location, which clang 14 lacks: the type is part of the library's binary interface, and must be
// the same for every compiler.
#pragma once

namespace snug {
inline namespace v0 {

class Where {
 public:
  static constexpr Where Current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return Where(file, line);
  }
  constexpr const char* file() const { return file_; }
  constexpr int line() const { return line_; }

 private:
  constexpr Where(const char* file, int line) : file_(file), line_(line) {}

  const char* file_;
  int line_;
};

}  // namespace v0
}  // namespace snug
