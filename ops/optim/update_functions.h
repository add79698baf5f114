// What optimizers make of one element of a parameter and of its slots: one formula each, for the processor and for CUDA
// (update_op.h). A function is made once for a step, of the options, the learning rate and the number of the step, from
// 1 on. It says how many slots it has, which of them hold squares (a bit for each), and whether it counts steps; one
// that does not gets the number 1 at every step.
//
// SNUG_UPDATES, at the end, is the list of them: what is in it has CUDA kernels (updates.cu).
#pragma once

#include <cmath>

#include "engine/base/host_device.h"
#include "ops/optim/updates_cuda.h"

namespace snug::core::updates {

template <class T>
struct Sgd {
  static constexpr int kSlots = 0;
  static constexpr unsigned kSquares = 0;
  static constexpr bool kCounts = false;
  T lr, decay;

  Sgd() = default;
  SNUG_HOST_DEVICE Sgd(const UpdateNumbers& n, double rate, double /*step*/)
      : lr(static_cast<T>(rate)), decay(static_cast<T>(n.weight_decay)) {}

  SNUG_HOST_DEVICE void operator()(T grad, T& p) const { p -= lr * (grad + decay * p); }
};

template <class T>
struct Momentum {
  static constexpr int kSlots = 1;
  static constexpr unsigned kSquares = 0b0;
  static constexpr bool kCounts = false;
  T lr, momentum, decay;
  bool nesterov;

  Momentum() = default;
  SNUG_HOST_DEVICE Momentum(const UpdateNumbers& n, double rate, double /*step*/)
      : lr(static_cast<T>(rate)),
        momentum(static_cast<T>(n.momentum)),
        decay(static_cast<T>(n.weight_decay)),
        nesterov(n.nesterov) {}

  SNUG_HOST_DEVICE void operator()(T grad, T& p, T& v) const {
    grad += decay * p;
    const T velocity = momentum * v + grad;
    v = velocity;
    p -= lr * (nesterov ? grad + momentum * velocity : velocity);
  }
};

template <class T>
struct Adam {
  static constexpr int kSlots = 2;
  static constexpr unsigned kSquares = 0b10;
  static constexpr bool kCounts = true;
  T step_size, correction, keep, decay, beta1, rest1, beta2, rest2, epsilon;

  Adam() = default;
  SNUG_HOST_DEVICE Adam(const UpdateNumbers& n, double rate, double step)
      : step_size(static_cast<T>(rate / (1 - std::pow(n.beta1, step)))),
        correction(static_cast<T>(std::sqrt(1 - std::pow(n.beta2, step)))),
        keep(static_cast<T>(n.decoupled_decay ? 1 - rate * n.weight_decay : 1)),
        decay(static_cast<T>(n.decoupled_decay ? 0 : n.weight_decay)),
        beta1(static_cast<T>(n.beta1)),
        rest1(static_cast<T>(1 - n.beta1)),
        beta2(static_cast<T>(n.beta2)),
        rest2(static_cast<T>(1 - n.beta2)),
        epsilon(static_cast<T>(n.epsilon)) {}

  SNUG_HOST_DEVICE void operator()(T grad, T& p, T& m, T& v) const {
    grad += decay * p;
    const T first = beta1 * m + rest1 * grad;
    const T second = beta2 * v + rest2 * grad * grad;
    m = first;
    v = second;
    p = keep * p - step_size * (first / (std::sqrt(second) / correction + epsilon));
  }
};

template <class T>
struct Rmsprop {
  static constexpr int kSlots = 1;
  static constexpr unsigned kSquares = 0b1;
  static constexpr bool kCounts = false;
  T lr, decay, alpha, rest, epsilon;

  Rmsprop() = default;
  SNUG_HOST_DEVICE Rmsprop(const UpdateNumbers& n, double rate, double /*step*/)
      : lr(static_cast<T>(rate)),
        decay(static_cast<T>(n.weight_decay)),
        alpha(static_cast<T>(n.beta2)),
        rest(static_cast<T>(1 - n.beta2)),
        epsilon(static_cast<T>(n.epsilon)) {}

  // The update before the learning rate.
  SNUG_HOST_DEVICE T Direction(T grad, T p, T& v) const {
    grad += decay * p;
    v = alpha * v + rest * grad * grad;
    return grad / (std::sqrt(v) + epsilon);
  }
  SNUG_HOST_DEVICE void operator()(T grad, T& p, T& v) const { p -= lr * Direction(grad, p, v); }
};

template <class T>
struct RmspropMomentum : Rmsprop<T> {
  static constexpr int kSlots = 2;
  static constexpr unsigned kSquares = 0b01;
  T momentum;

  RmspropMomentum() = default;
  SNUG_HOST_DEVICE RmspropMomentum(const UpdateNumbers& n, double rate, double step)
      : Rmsprop<T>(n, rate, step), momentum(static_cast<T>(n.momentum)) {}

  SNUG_HOST_DEVICE void operator()(T grad, T& p, T& v, T& velocity) const {
    velocity = momentum * velocity + this->Direction(grad, p, v);
    p -= this->lr * velocity;
  }
};

template <class T>
struct Adagrad {
  static constexpr int kSlots = 1;
  static constexpr unsigned kSquares = 0b1;
  static constexpr bool kCounts = true;
  T lr, decay, epsilon;

  Adagrad() = default;
  SNUG_HOST_DEVICE Adagrad(const UpdateNumbers& n, double rate, double step)
      : lr(static_cast<T>(rate / (1 + (step - 1) * n.lr_decay()))),
        decay(static_cast<T>(n.weight_decay)),
        epsilon(static_cast<T>(n.epsilon)) {}

  SNUG_HOST_DEVICE void operator()(T grad, T& p, T& sum) const {
    grad += decay * p;
    sum += grad * grad;
    p -= lr * (grad / (std::sqrt(sum) + epsilon));
  }
};

template <class T>
struct Lion {
  static constexpr int kSlots = 1;
  static constexpr unsigned kSquares = 0b0;
  static constexpr bool kCounts = false;
  T lr, keep, beta1, rest1, beta2, rest2;

  Lion() = default;
  SNUG_HOST_DEVICE Lion(const UpdateNumbers& n, double rate, double /*step*/)
      : lr(static_cast<T>(rate)),
        keep(static_cast<T>(1 - rate * n.weight_decay)),
        beta1(static_cast<T>(n.beta1)),
        rest1(static_cast<T>(1 - n.beta1)),
        beta2(static_cast<T>(n.beta2)),
        rest2(static_cast<T>(1 - n.beta2)) {}

  SNUG_HOST_DEVICE void operator()(T grad, T& p, T& m) const {
    const T direction = beta1 * m + rest1 * grad;
    m = beta2 * m + rest2 * grad;
    p = keep * p - (direction > T(0) ? lr : direction < T(0) ? -lr : T(0));
  }
};

}  // namespace snug::core::updates

#define SNUG_UPDATES(ROW) \
  ROW(Sgd)                \
  ROW(Momentum)           \
  ROW(Adam)               \
  ROW(Rmsprop)            \
  ROW(RmspropMomentum)    \
  ROW(Adagrad)            \
  ROW(Lion)
