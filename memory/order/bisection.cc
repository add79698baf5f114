#include "memory/order/bisection.h"

#include <algorithm>

#include "memory/order/exact_search.h"

namespace snug::memory {
namespace {

constexpr int64_t kPiece = int64_t{1} << 16;
constexpr int64_t kFirstSlice = 2 * kPiece;

class Bisection {
 public:
  Bisection(int64_t work_limit, OrderSearch* search)
      : search_(search),
        stop_(search->work_left() - std::min(work_limit, search->work_left())),
        exact_{{search->net(), ExactSearch::Late::kTakenAlong}, {search->net(), ExactSearch::Late::kLikeOthers}} {}

  void Run() {
    for (slice_ = kFirstSlice; !Done(); slice_ *= 2) {
      LowerPeak();
      RaiseBound();
    }
  }

 private:
  bool Done() { return search_->work_left() <= stop_ || search_->Done(); }

  // Both searches by turns, in short pieces, so that a clock is heeded.
  Answer Ask(int64_t bound) {
    for (int64_t left = slice_; left > 0; left -= kPiece) {
      for (ExactSearch& exact : exact_) {
        if (Done()) return Answer::kUnknown;
        const int64_t before = exact.work();
        const Answer answer = exact.Decide(bound, std::min(kPiece, search_->work_left() - stop_));
        search_->Spend(exact.work() - before + 1);
        if (answer == Answer::kFound) search_->Offer(exact.order());
        if (answer == Answer::kNone) search_->RaiseBound(bound + 1);
        if (answer != Answer::kUnknown) return answer;
      }
    }
    return Answer::kUnknown;
  }

  // What is not found counts as not there.
  void LowerPeak() {
    int64_t least = search_->bound();
    while (least < search_->peak() && !Done()) {
      const int64_t middle = least + (search_->peak() - 1 - least) / 2;
      if (Ask(middle) != Answer::kFound) least = middle + 1;
    }
  }

  // What is not refuted counts as there.
  void RaiseBound() {
    int64_t most = search_->peak();
    while (search_->bound() < most && !Done()) {
      const int64_t middle = search_->bound() + (most - 1 - search_->bound()) / 2;
      if (Ask(middle) != Answer::kNone) most = std::min(middle, search_->peak());
    }
  }

  OrderSearch* search_;
  const int64_t stop_;  // the work that must be left
  ExactSearch exact_[2];
  int64_t slice_ = 0;
};

}  // namespace

void CloseGap(int64_t work_limit, OrderSearch* search) { Bisection(work_limit, search).Run(); }

}  // namespace snug::memory
