// Every engine, by name: what a test of semantics runs against.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/run/dependency/dynamic_engine.h"
#include "engine/run/dependency/serial_engine.h"

namespace snug::core {

struct ExecutorKind {
  std::string name;
  int workers = 0;  // 0: the serial engine
};

inline std::vector<ExecutorKind> AllEngines() {
  return {{"Serial", 0}, {"Workers1", 1}, {"Workers2", 2}, {"Workers4", 4}, {"Workers16", 16}};
}

inline std::unique_ptr<Engine> MakeEngine(int workers) {
  if (workers == 0) return std::make_unique<SerialEngine>();
  return DynamicEngine::Create({.devices = {{.device = {}, .workers = workers}}}).value();
}

// A task that does nothing.
inline absl::Status Nothing() { return absl::OkStatus(); }

}  // namespace snug::core
