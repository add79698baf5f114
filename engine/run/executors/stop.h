// Whether a run is ended early because somebody asked for it, or changes Variables: whichever comes first. So what is
// stopped has changed nothing, and what has begun to change Variables runs to its end.
#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <cstdint>

namespace snug::core {

// Thread-safe, but for Begin.
class Stop {
 public:
  // From now on `*asked` asks for it. It must outlive this; null: nobody asks.
  void Watch(const std::atomic<bool>* asked) { asked_ = asked; }

  void Begin() { fate_.store(Fate::kOpen, std::memory_order_relaxed); }
  // Says before each Step, which may mutate Variables, whether it is left out.
  bool LeavesOut(bool mutates) {
    Fate fate = fate_.load(std::memory_order_relaxed);
    if (fate == Fate::kOpen && (mutates || Asked())) {
      const Fate wanted = Asked() ? Fate::kStopped : Fate::kChanging;
      if (fate_.compare_exchange_strong(fate, wanted, std::memory_order_relaxed)) fate = wanted;
    }
    return fate == Fate::kStopped;
  }
  // Whether Steps were left out in this run.
  bool stopped() const { return fate_.load(std::memory_order_relaxed) == Fate::kStopped; }
  static absl::Status Error() {
    return absl::CancelledError("the step was stopped, as was asked, before it had changed any Variable");
  }

 private:
  enum class Fate : uint8_t { kOpen, kStopped, kChanging };
  bool Asked() const { return asked_ != nullptr && asked_->load(std::memory_order_relaxed); }

  const std::atomic<bool>* asked_ = nullptr;
  std::atomic<Fate> fate_{Fate::kOpen};
};

}  // namespace snug::core
