// The mistakes found in one file: located, each said once, in the order of the file.
#pragma once

#include <absl/status/status.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "proto/source_map.h"

namespace snug::loader {

class ErrorList {
 public:
  explicit ErrorList(const SourceMap* map) : map_(map) {}

  // A second mistake at the same place that says the same (or that came from another use of the same block) is dropped.
  void Add(SourcePos pos, std::string message);

  bool empty() const { return errors_.empty(); }
  // So many that reading on is of no use.
  bool full() const { return errors_.size() >= kMost; }

  // The line could not be read as tokens: this mistake is reported, and no other on that line.
  void AddUnreadable(SourcePos pos, std::string message);
  bool IsUnreadable(int line) const { return unreadable_.contains(line); }

  // From `pos` on the structure of the file is in doubt: what later stages find there is not reported.
  void DoubtAfter(SourcePos pos);

  // While one lives, nothing is added: for going on with a guess of what was meant.
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

  // OK, or InvalidArgument with up to 20 lines.
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
  std::set<int32_t> unreadable_;  // lines
  SourcePos doubt_;
  int muted_ = 0;
};

}  // namespace snug::loader
