#include <algorithm>
#include <array>

#include "memory/order/exact_search.h"
#include "memory/order/order_search.h"
#include "memory/race.h"

namespace snug::core::memory {
namespace {

constexpr int64_t kWorkOfPiece = int64_t{1} << 16;  // takes a millisecond or two
constexpr int64_t kAlone = kWorkOfPiece / 4;
constexpr int64_t kFirstSlice = 2 * kWorkOfPiece;
constexpr int kSearches = 2;

class Bisection {
 public:
  Bisection(int64_t work_limit, OrderSearch* search)
      : search_(search),
        stop_(search->work_left() - std::min(work_limit, search->work_left())),
        exact_{ExactSearch(search->net(), ExactSearch::Late::kTakenAlong),
               ExactSearch(search->net(), ExactSearch::Late::kLikeOthers)} {}

  void Run() {
    for (slice_ = kFirstSlice; !Done(); slice_ *= 2) {
      LowerPeak();
      RaiseBound();
    }
  }

 private:
  bool Done() { return search_->work_left() <= stop_ || search_->Done(); }

  // The first search alone answers most questions at once. Only what it leaves goes to both searches side by side,
  // round by round. A round ends when both have spent a piece, even if one has answered already, so that the result
  // does not depend on how many threads there are. Pieces are short beside the slice: little is wasted and a clock is
  // heeded.
  Answer Ask(int64_t bound) {
    Answer answer = Round(1, kAlone, bound);
    const int64_t piece = std::max(kWorkOfPiece, slice_ / 8);
    for (int64_t left = slice_; answer == Answer::kUnknown && left > 0 && !Done(); left -= piece) {
      answer = Round(kSearches, piece, bound);
    }
    return answer;
  }

  Answer Round(int searches, int64_t most, int64_t bound) {
    const int64_t piece = std::min(most, (search_->work_left() - stop_) / searches + 1);
    std::array<Answer, kSearches> answers{Answer::kUnknown, Answer::kUnknown};
    const int64_t before = Work();
    RunAll(search_->threads(), searches,
           [&](int i) { answers[static_cast<size_t>(i)] = exact_[static_cast<size_t>(i)].Decide(bound, piece); });
    search_->Spend(Work() - before + 1);
    Answer answer = Answer::kUnknown;
    for (size_t i = 0; i < kSearches; ++i) {
      if (answers[i] == Answer::kUnknown) continue;
      answer = answers[i];
      if (answer == Answer::kFound) search_->Offer(exact_[i].order());
      if (answer == Answer::kNone) search_->RaiseBound(bound + 1);
    }
    return answer;
  }

  int64_t Work() const { return exact_[0].work() + exact_[1].work(); }

  // Treats an answer that was not found as "no such order".
  void LowerPeak() {
    int64_t least = search_->bound();
    while (least < search_->peak() && !Done()) {
      const int64_t middle = least + (search_->peak() - 1 - least) / 2;
      if (Ask(middle) != Answer::kFound) least = middle + 1;
    }
  }

  // Treats an answer that was not refuted as "there is such an order".
  void RaiseBound() {
    int64_t most = search_->peak();
    while (search_->bound() < most && !Done()) {
      const int64_t middle = search_->bound() + (most - 1 - search_->bound()) / 2;
      if (Ask(middle) != Answer::kNone) most = std::min(middle, search_->peak());
    }
  }

  OrderSearch* search_;
  const int64_t stop_;  // stops when so little work is left
  std::array<ExactSearch, kSearches> exact_;
  int64_t slice_ = 0;
};

}  // namespace

void CloseGap(int64_t work_limit, OrderSearch* search) { Bisection(work_limit, search).Run(); }

}  // namespace snug::core::memory
