// What a task does: anything callable as `absl::Status()` or `absl::Status(const TaskContext&)`. It is held inline when
// it is small, so that pushing a task allocates nothing. Move-only.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "engine/base/device.h"

namespace snug::core {

struct TaskContext {
  Stream stream;  // the stream that runs it
};

class TaskFunction {
 public:
  TaskFunction() = default;

  template <class F>
  requires(!std::is_same_v<std::decay_t<F>, TaskFunction>)
      TaskFunction(F&& function) {  // NOLINT(google-explicit-constructor,bugprone-forwarding-reference-overload)
    using Held = std::decay_t<F>;
    if constexpr (sizeof(Held) <= kInlineBytes && alignof(Held) <= kInlineAlignment &&
                  std::is_nothrow_move_constructible_v<Held>) {
      new (&bytes_) Held(std::forward<F>(function));
      how_ = &kInline<Held>;
    } else {
      using Pointer = Held*;
      new (&bytes_) Pointer(new Held(std::forward<F>(function)));
      how_ = &kOnHeap<Held>;
    }
  }
  TaskFunction(TaskFunction&& other) noexcept { Take(other); }
  TaskFunction& operator=(TaskFunction&& other) noexcept {
    if (this != &other) {
      Reset();
      Take(other);
    }
    return *this;
  }
  ~TaskFunction() { Reset(); }

  explicit operator bool() const { return how_ != nullptr; }
  absl::Status operator()(const TaskContext& context) { return how_->call(&bytes_, context); }
  void Reset() {
    if (how_ != nullptr && how_->destroy != nullptr) how_->destroy(&bytes_);
    how_ = nullptr;
  }

 private:
  // Together with what TaskRecord keeps beside it, this fills a cache line.
  static constexpr size_t kInlineBytes = 40, kInlineAlignment = alignof(void*);

  struct How {
    absl::Status (*call)(void* bytes, const TaskContext& context);
    void (*move)(void* from, void* to);  // moves and destroys the old one; null: the bytes are copied
    void (*destroy)(void* bytes);        // null: there is nothing to do
  };

  template <class Held>
  static absl::Status Call(Held& held, const TaskContext& context) {
    if constexpr (std::is_invocable_v<Held&, const TaskContext&>) {
      return held(context);
    } else {
      return held();
    }
  }
  template <class Held>
  static Held* OnHeap(void* bytes) {
    return *static_cast<Held**>(bytes);
  }

  template <class Held>
  static constexpr How kInline = {
      [](void* bytes, const TaskContext& context) { return Call(*static_cast<Held*>(bytes), context); },
      std::is_trivially_copyable_v<Held> ? nullptr : +[](void* from, void* to) {
        new (to) Held(std::move(*static_cast<Held*>(from)));
        static_cast<Held*>(from)->~Held();
      },
      std::is_trivially_destructible_v<Held> ? nullptr : +[](void* bytes) { static_cast<Held*>(bytes)->~Held(); }};
  template <class Held>
  static constexpr How kOnHeap = {
      [](void* bytes, const TaskContext& context) { return Call(*OnHeap<Held>(bytes), context); }, nullptr,
      [](void* bytes) { delete OnHeap<Held>(bytes); }};

  void Take(TaskFunction& other) {
    how_ = std::exchange(other.how_, nullptr);
    if (how_ == nullptr) return;
    if (how_->move != nullptr) {
      how_->move(&other.bytes_, &bytes_);
    } else {
      std::memcpy(&bytes_, &other.bytes_, kInlineBytes);
    }
  }

  const How* how_ = nullptr;
  alignas(kInlineAlignment) std::byte bytes_[kInlineBytes] = {};
};

}  // namespace snug::core
