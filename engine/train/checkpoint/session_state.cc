#include "engine/train/checkpoint/session_state.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/differentiate/differentiate.h"
#include "engine/compile/import/import.h"
#include "engine/train/checkpoint/element_type.h"

namespace snug::core::checkpoint {
namespace {

constexpr size_t kMaxListed = 20;

std::vector<int64_t> Dims(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

std::string TypeText(const ValueType& type) {
  return TensorEntry{.type = ElementTypeOf(type.dtype), .shape = Dims(type.shape)}.TypeText();
}

bool Fits(const TensorEntry& tensor, const ValueType& type, LoadMode mode) {
  if (tensor.shape != Dims(type.shape)) return false;
  return mode == LoadMode::kResume ? tensor.type == ElementTypeOf(type.dtype) : CanConvert(tensor.type, type.dtype);
}

// Compares the file's tensors and the session's Variables, one name after the other.
class Match {
 public:
  Match(const TensorSource& file, LoadMode mode) : file_(file), mode_(mode) {
    for (const TensorEntry& tensor : file.tensors()) unread_[tensor.name] = &tensor;
  }

  // Takes the parameter's average for it, if the file has one. Returns whether it has.
  bool ExpectAverage(const std::string& name, const ValueType& type, std::byte* data) {
    const std::string average = absl::StrCat(name, kAverageSuffix);
    if (file_.Find(average) == nullptr) return false;
    Expect(average, type, data);
    unread_.erase(name);
    return true;
  }

  void Expect(const std::string& name, const ValueType& type, std::byte* data) {
    const auto found = unread_.find(name);
    if (found == unread_.end()) {
      Differ(name, absl::StrCat("expected ", TypeText(type), ", missing in the file"));
      return;
    }
    const TensorEntry* const tensor = std::exchange(found->second, nullptr);
    if (Fits(*tensor, type, mode_)) {
      assignments_.push_back({tensor, {&type, data}});
    } else {
      Differ(name, absl::StrCat("expected ", TypeText(type), ", found ", tensor->TypeText()));
    }
  }

  // Must be called after all expected names.
  absl::StatusOr<std::vector<Assignment>> Finish(std::vector<std::string>* notes) {
    for (const auto& [name, tensor] : unread_) {
      if (tensor == nullptr) continue;
      if (IsIgnored(name)) {
        notes->push_back(absl::StrCat("tensor \"", name, "\": ignored, nothing reads it"));
      } else if (mode_ == LoadMode::kResume || !IsTrainingState(file_, name)) {
        Differ(name, absl::StrCat("not expected, found ", tensor->TypeText()));
      }
    }
    if (differences_.empty()) return std::move(assignments_);
    std::sort(differences_.begin(), differences_.end());
    const size_t listed = std::min(differences_.size(), kMaxListed);
    std::string message =
        absl::StrCat(file_.path(), ": is not of this network, ", differences_.size(),
                     differences_.size() == 1 ? " tensor differs:\n  " : " tensors differ:\n  ",
                     absl::StrJoin(differences_.begin(), differences_.begin() + static_cast<long>(listed), "\n  "));
    if (listed < differences_.size()) absl::StrAppend(&message, "\n  and ", differences_.size() - listed, " more");
    return absl::InvalidArgumentError(message);
  }

 private:
  void Differ(const std::string& name, const std::string& how) {
    differences_.push_back(absl::StrCat("\"", name, "\": ", how));
  }

  const TensorSource& file_;
  LoadMode mode_;
  std::map<std::string, const TensorEntry*> unread_;
  std::vector<Assignment> assignments_;
  std::vector<std::string> differences_;
};

// Checks that the same parameters decay as before, because a training that goes on depends on that.
absl::Status CheckDecay(const TensorSource& file, const Compiled& compiled) {
  SNUG_ASSIGN_OR_RETURN(const DecayRule rule, DecayRuleOf(file));
  if (rule == compiled.decay_rule || compiled.decay_differs.empty()) return absl::OkStatus();
  const bool decayed = rule == DecayRule::kAll;
  return absl::InvalidArgumentError(absl::StrCat(
      file.path(), ": in its training weight decay ", decayed ? "acted" : "did not act", " on ",
      absl::StrJoin(compiled.decay_differs, ", "), ", here it ", decayed ? "does not" : "does",
      "; to go on with it, say so in these layers of the model: param { name: \"bias\" decay_mult: ", decayed ? 1 : 0,
      " }"));
}

// Whether a Variable's content is more than what its program makes anew.
bool Lasts(VariableRole role) {
  return role != VariableRole::kConstant && role != VariableRole::kWithinStep && role != VariableRole::kDerived;
}

}  // namespace

absl::StatusOr<DecayRule> DecayRuleOf(const TensorSource& file) {
  const Metadata& metadata = file.metadata();
  const auto found = metadata.find(std::string(kDecayKey));
  if (found == metadata.end()) return DecayRule::kNotDenseBiases;
  if (const std::optional<DecayRule> rule = DecayRuleFromName(found->second)) return *rule;
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": metadata \"", kDecayKey, "\": expected ",
                                                 Name(DecayRule::kAll), " or ", Name(DecayRule::kNotDenseBiases),
                                                 ", found \"", found->second, "\"; it may be of a newer Snug"));
}

std::map<std::string, StateVariable> StateVariables(Session& session, HostAccess access) {
  std::map<std::string, StateVariable> found;
  for (size_t i = 0; i < session.programs(); ++i) {
    for (const Variable& variable : session.program(i).compiled().graph.variables()) {
      if (!Lasts(variable.role) || found.count(variable.name) > 0) continue;
      const absl::StatusOr<ValueView> view = session.FindVariable(variable.name, access);
      SNUG_CHECK_OK(view.status());
      SNUG_CHECK_MSG(view->type->layout.plain(), variable.name);
      found.emplace(variable.name, StateVariable{variable.role, *view});
    }
  }
  return found;
}

std::vector<TensorBytes> StateOf(Session& session) {
  std::vector<TensorBytes> state;
  for (const auto& [name, variable] : StateVariables(session, HostAccess::kRead)) {
    const ValueType& type = *variable.view.type;
    state.push_back({.name = name,
                     .type = ElementTypeOf(type.dtype),
                     .shape = Dims(type.shape),
                     .bytes = {variable.view.data, static_cast<size_t>(type.size_bytes())}});
  }
  return state;
}

bool IsTrainingState(const TensorSource& file, absl::string_view tensor) {
  if (tensor == kRandomStateName || absl::StartsWith(tensor, "optimizer.")) return true;
  if (absl::EndsWith(tensor, ".carried_state")) return true;  // of a state layer (ops/control/state.cc)
  const size_t slash = tensor.rfind('/');                     // slots are "<parameter>/<slot>"
  return slash != absl::string_view::npos && file.Find(std::string(tensor.substr(0, slash))) != nullptr;
}

bool IsIgnored(absl::string_view tensor) {
  return tensor == "num_batches_tracked" || absl::EndsWith(tensor, ".num_batches_tracked");
}

absl::Status Assign(const TensorSource& file, const std::vector<Assignment>& assignments) {
  int64_t total = 0;
  for (const Assignment& assignment : assignments) total += assignment.from->size_bytes();
  std::vector<std::byte> staged(static_cast<size_t>(total));
  absl::Span<std::byte> rest = absl::MakeSpan(staged);
  for (const Assignment& assignment : assignments) {
    const auto size = static_cast<size_t>(assignment.from->size_bytes());
    SNUG_RETURN_IF_ERROR(file.ReadWhole(*assignment.from, rest.first(size)));
    rest.remove_prefix(size);
  }
  absl::Span<const std::byte> unwritten = staged;
  for (const Assignment& assignment : assignments) {
    const auto size = static_cast<size_t>(assignment.from->size_bytes());
    Convert(assignment.from->type, unwritten.first(size), assignment.to.type->dtype, assignment.to.data);
    unwritten.remove_prefix(size);
  }
  return absl::OkStatus();
}

absl::StatusOr<LoadedState> LoadState(Session& session, FileSystem& files, const std::string& path, LoadMode mode) {
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<TensorSource> file, OpenTensorSource(files, path));
  return LoadState(session, *file, mode);
}

absl::StatusOr<LoadedState> LoadState(Session& session, const TensorSource& file, LoadMode mode) {
  LoadedState loaded{.metadata = file.metadata(), .notes = file.notes()};
  if (mode == LoadMode::kResume) SNUG_RETURN_IF_ERROR(CheckDecay(file, session.compiled()));
  Match match(file, mode);
  bool has_averages = false;
  for (const auto& [name, variable] : StateVariables(session)) {
    if (mode != LoadMode::kResume && !variable.is_weight()) continue;
    const ValueView& view = variable.view;
    const bool averaged = mode == LoadMode::kAverages && match.ExpectAverage(name, *view.type, view.data);
    has_averages |= averaged;
    if (!averaged) match.Expect(name, *view.type, view.data);
  }
  if (mode == LoadMode::kAverages && !has_averages) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), ": has no averages of this network's parameters; a training keeps them with --average-decay"));
  }
  SNUG_ASSIGN_OR_RETURN(const std::vector<Assignment> assignments, match.Finish(&loaded.notes));
  SNUG_RETURN_IF_ERROR(file.VerifyChecksums());
  SNUG_RETURN_IF_ERROR(Assign(file, assignments));
  if (mode == LoadMode::kResume) session.VariablesRestored();
  return loaded;
}

}  // namespace snug::core::checkpoint
