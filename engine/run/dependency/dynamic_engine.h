// The engine that runs tasks in parallel, on workers of their device. Thread-safe. dependency/scheduler.h has what
// threads do to each other; this has what tasks mean: tags, versions, errors.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <vector>

#include "engine/run/dependency/engine.h"

namespace snug::core {

struct DeviceWorkers {
  Device device;
  int workers = 1;
};

struct DynamicEngineOptions {
  std::vector<DeviceWorkers> devices = {{.device = {}, .workers = 1}};
  // Push() blocks while so many tasks are unfinished, or while the unfinished ones hold so many bytes.
  int64_t max_tasks = 4096;
  int64_t max_bytes = int64_t{1} << 30;
};

class DynamicEngine : public Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const DynamicEngineOptions& options);
};

}  // namespace snug::core
