// `snug bench memory`: what many networks need by strategy, beside what PyTorch would.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "engine/compile/memory/plan_memory.h"
#include "engine/compile/pipeline.h"
#include "proto/text_loader.h"
#include "tools/cli/command.h"
#include "tools/picture/memory_table.h"

namespace snug::core::cli {

CommandFunction RunBenchMemory;  // the arguments behind `bench memory`

struct MemoryTableOptions {
  CompileOptions compile;
  std::vector<int64_t> batches;
  bool forward = true, training = true;
  bool lean = false;  // adds what `best` takes without and with the passes by which training needs less
};

// The columns of `lean`, and what each is.
struct LeanColumn {
  const char* name;
  const char* what;
};
const std::vector<LeanColumn>& LeanColumns();

// Adds rows for one model file: each batch, forward only and in training.
absl::Status AddNetwork(const LoadedNetwork& loaded, const MemoryTableOptions& options,
                        const std::vector<MemoryOptions>& strategies, std::vector<MemoryTableRow>* rows);
// Adds the row of a graph of tasks (memory/formats/formats.h), which tells of one step as it stands: the strategies
// begin with the order of the file, which is PyTorch's where it was traced there.
absl::Status AddGraphFile(const std::string& path, const std::vector<MemoryOptions>& strategies,
                          std::vector<MemoryTableRow>* rows);

std::string MemoryTableText(const std::vector<MemoryTableRow>& rows);
std::string MemoryTableMarkdown(const std::vector<MemoryTableRow>& rows);
std::string MemoryTableJson(const std::vector<MemoryTableRow>& rows);

}  // namespace snug::core::cli
