// A session's Variables to and from files.
//
//   CheckpointStore store(&files, "run/checkpoints");
//   SNUG_RETURN_IF_ERROR(store.Save(step, StateOf(*session), {{"epoch", "3"}}));
//   ...
//   SNUG_ASSIGN_OR_RETURN(const CheckpointStore::Found found, store.Newest());
//   SNUG_ASSIGN_OR_RETURN(const LoadedState state, LoadState(*session, files, found.path, LoadMode::kResume));
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <vector>

#include "engine/run/session.h"
#include "engine/train/checkpoint/safetensors.h"

namespace snug::checkpoint {

// All that lasts between steps, by name: parameters, statistics, optimizer slots, and scalars (learning rate, step, RNG
// state); no constants, which the network holds. The bytes are the session's own, so save before the next step.
std::vector<TensorBytes> StateOf(Session& session);

// The rule of weight decay that a checkpoint's training began with, kept in its metadata: with another its bits would
// not go on. A checkpoint that names none is from before there was a choice.
inline constexpr absl::string_view kDecayKey = "decay";
absl::StatusOr<DecayRule> DecayRuleOf(const SafetensorsFile& file);

enum class LoadMode : uint8_t {
  kResume,   // everything, bit for bit: training goes on as if it had never stopped
  kWeights,  // parameters and statistics, floating-point types converted: for evaluation, and from other programs
};

struct LoadedState {
  Metadata metadata;
  std::vector<std::string> notes;  // what the file has that nobody needs
};

// All or nothing. Where the file is not of this network, the error lists the tensors that are missing, unexpected, or
// of another type (20 of them), and the session stays as it is. With kResume, one that had failed goes on, and weight
// decay must act on the parameters that it acted on before; that the rest of what the bits depend on is the same, too,
// is for resume.h to see to.
absl::StatusOr<LoadedState> LoadState(Session& session, FileSystem& files, const std::string& path, LoadMode mode);
absl::StatusOr<LoadedState> LoadState(Session& session, const SafetensorsFile& file, LoadMode mode);

// For loading, here and in init_from.h.

// Whether a tensor is the optimizer's or a counter, which evaluation needs not: by its name, as ours are.
bool IsTrainingState(const SafetensorsFile& file, absl::string_view tensor);
// What PyTorch's batch norm counts, and nothing reads.
bool IsIgnored(absl::string_view tensor);

struct StateVariable {
  VariableRole role;
  ValueView view;
  bool is_weight() const { return role == VariableRole::kParameter || role == VariableRole::kStatistic; }
};
// `access`: what is done to their bytes.
std::map<std::string, StateVariable> StateVariables(Session& session, HostAccess access = HostAccess::kReadWrite);

struct Assignment {
  const TensorEntry* from;
  ValueView to;
};
// Reads all of them, then writes all of them, converted.
absl::Status Assign(const SafetensorsFile& file, const std::vector<Assignment>& assignments);

}  // namespace snug::checkpoint
