#include "memory/order/live_sweep.h"

namespace snug::core::memory {

LiveSweep::LiveSweep(const TaskNet& net, Direction direction)
    : net_(net),
      forward_(direction == Direction::kForward),
      live_(forward_ ? net.start_bytes : 0),
      delta_(static_cast<size_t>(net.size), 0),
      waiting_for_(static_cast<size_t>(net.size)),
      readers_(net.values.size()) {
  for (int32_t t = 0; t < net.size; ++t) {
    waiting_for_[static_cast<size_t>(t)] = static_cast<int32_t>((forward_ ? net.before : net.after)[t].size());
  }
  for (int32_t v = 0; v < static_cast<int32_t>(net.values.size()); ++v) {
    const NetValue& value = net.values[static_cast<size_t>(v)];
    Readers& readers = readers_[static_cast<size_t>(v)];
    for (const int32_t reader : net.readers[v]) {
      ++readers.left;
      readers.mixed ^= reader;
    }
    if (value.producer >= 0) delta_[static_cast<size_t>(value.producer)] += forward_ ? value.bytes : -value.bytes;
    if (forward_) {
      if (readers.left == 1) delta_[static_cast<size_t>(readers.mixed)] -= value.bytes;
    } else {
      if (value.fetched) live_ += value.bytes;
      for (const int32_t reader : net.readers[v]) delta_[static_cast<size_t>(reader)] += value.bytes;
    }
  }
}

void LiveSweep::Take(int32_t task) {
  changed_.clear();
  live_ += delta_[static_cast<size_t>(task)];
  waiting_for_[static_cast<size_t>(task)] = -1;
  if (forward_) {
    TakeForward(task);
  } else {
    TakeBackward(task);
  }
  for (const int32_t next : (forward_ ? net_.after : net_.before)[task]) {
    if (--waiting_for_[static_cast<size_t>(next)] == 0) changed_.push_back(next);
  }
}

void LiveSweep::Return(int32_t task) {
  for (const int32_t next : net_.after[task]) ++waiting_for_[static_cast<size_t>(next)];
  for (const int32_t v : net_.inputs[task]) {
    Readers& readers = readers_[static_cast<size_t>(v)];
    if (readers.left == 1) delta_[static_cast<size_t>(readers.mixed)] += net_.values[static_cast<size_t>(v)].bytes;
    ++readers.left;
    readers.mixed ^= task;
  }
  waiting_for_[static_cast<size_t>(task)] = 0;
  live_ -= delta_[static_cast<size_t>(task)];
}

void LiveSweep::TakeForward(int32_t task) {
  for (const int32_t v : net_.inputs[task]) {
    Readers& readers = readers_[static_cast<size_t>(v)];
    readers.mixed ^= task;
    if (--readers.left == 1) Lower(readers.mixed, net_.values[static_cast<size_t>(v)].bytes);
  }
}

void LiveSweep::TakeBackward(int32_t task) {
  for (const int32_t v : net_.inputs[task]) {
    Readers& readers = readers_[static_cast<size_t>(v)];
    if (readers.left == 0) continue;  // it is live already
    readers.left = 0;
    for (const int32_t reader : net_.readers[v]) {
      if (reader != task) Lower(reader, net_.values[static_cast<size_t>(v)].bytes);
    }
  }
}

void LiveSweep::Lower(int32_t task, int64_t bytes) {
  delta_[static_cast<size_t>(task)] -= bytes;
  if (Ready(task)) changed_.push_back(task);
}

}  // namespace snug::core::memory
