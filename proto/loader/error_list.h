// The mistakes found in one file, each with its place and reported once, in the order of the file.
#pragma once

#include <absl/status/status.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "proto/source_map.h"

namespace snug::core::loader {

class ErrorList {
 public:
  explicit ErrorList(const SourceMap* map) : map_(map) {}

  // A second mistake at the same place is dropped if it says the same, or if it came from another use of the same
  // block.
  void Add(SourcePos pos, std::string message);

  bool empty() const { return errors_.empty(); }
  // Tells whether there are so many mistakes that reading on is useless.
  bool full() const { return errors_.size() >= kMost; }

  // Adds a mistake of syntax. No other mistake is reported on its line, because it may only follow from this one.
  void AddSyntax(SourcePos pos, std::string message);
  // Returns the last line with a mistake of syntax, or 0.
  int32_t last_syntax_line() const { return syntax_lines_.empty() ? 0 : *syntax_lines_.rbegin(); }

  // Says that the structure of the file is in doubt from `pos` on: what later stages find there is not reported.
  void DoubtAfter(SourcePos pos);
  bool in_doubt() const { return doubt_.known(); }

  // While an object of this class lives, nothing is added: it is for going on with a guess of what was meant.
  class Mute {
   public:
    explicit Mute(ErrorList* list) : list_(list) { ++list_->muted_; }
    ~Mute() { --list_->muted_; }
    Mute(const Mute&) = delete;
    Mute& operator=(const Mute&) = delete;

   private:
    ErrorList* list_;
  };
  bool muted() const { return muted_ > 0; }

  // Returns OK, or InvalidArgument with up to 20 lines.
  absl::Status ToStatus() const;

 private:
  static constexpr size_t kShown = 20;
  static constexpr size_t kMost = 1000;

  struct Error {
    SourcePos pos;
    std::string message;
  };

  const SourceMap* map_;
  std::vector<Error> errors_;
  std::set<std::tuple<int32_t, int32_t, std::string>> seen_;
  std::set<int32_t> syntax_lines_;
  SourcePos doubt_;
  int muted_ = 0;
};

}  // namespace snug::core::loader
