// Saves a session's Variables to files, and loads them.
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

#include "engine/run/session/session.h"
#include "engine/train/checkpoint/safetensors.h"

namespace snug::core::checkpoint {

// Returns by name all that lasts between steps: parameters, statistics, optimizer slots, and scalars (learning rate,
// step, RNG state). Constants are left out, because the network has them. The bytes are the session's own, so they must
// be saved before the next step.
std::vector<TensorBytes> StateOf(Session& session);

// A checkpoint names the rule of weight decay with which its training began, because with another rule the training
// would not go on with the same bits. A checkpoint without a rule dates from before there was a choice.
inline constexpr absl::string_view kDecayKey = "decay";
absl::StatusOr<DecayRule> DecayRuleOf(const TensorSource& file);

enum class LoadMode : uint8_t {
  kResume,    // everything, bit for bit, so that training goes on as if it had never stopped
  kWeights,   // parameters and statistics, with floating-point types converted: for evaluation, and from other programs
  kAverages,  // the same, with the moving averages of parameters in place of those that were trained
};

struct LoadedState {
  Metadata metadata;
  std::vector<std::string> notes;  // the file's own, and tensors of it that nothing needs
};

// An error changes nothing. If the file does not fit the network, the error lists up to 20 tensors that are missing,
// unexpected, or of another type. kResume also works on a session that has failed, and requires that weight decay acts
// on the parameters that it acted on before; resume.h checks the other conditions that the bits depend on.
absl::StatusOr<LoadedState> LoadState(Session& session, FileSystem& files, const std::string& path, LoadMode mode);
absl::StatusOr<LoadedState> LoadState(Session& session, const TensorSource& file, LoadMode mode);

// The rest is used here and in init_from.h.

// Tells by its name whether a tensor belongs to the optimizer or is a counter, which evaluation does not need.
bool IsTrainingState(const TensorSource& file, absl::string_view tensor);
// Tells whether it is the counter that PyTorch's batch norm keeps, which nothing reads.
bool IsIgnored(absl::string_view tensor);

struct StateVariable {
  VariableRole role;
  ValueView view;
  bool is_weight() const { return role == VariableRole::kParameter || role == VariableRole::kStatistic; }
};
// `access` says what the caller does with the bytes.
std::map<std::string, StateVariable> StateVariables(Session& session, HostAccess access = HostAccess::kReadWrite);

struct Assignment {
  const TensorEntry* from;
  ValueView to;
};
// Reads all tensors before it writes any of them, converted.
absl::Status Assign(const TensorSource& file, const std::vector<Assignment>& assignments);

}  // namespace snug::core::checkpoint
