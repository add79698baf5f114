#include "engine/compile/kernels/tuning.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "engine/base/hash.h"
#include "engine/base/max_threads.h"
#include "engine/base/status.h"
#include "engine/compile/message_file.h"
#include "proto/tuning.pb.h"

namespace snug::core {
namespace {

absl::Status CheckPlatform(const Platform& made_on, const Platform& here) {
  const auto check = [](absl::string_view what, const std::string& there, const std::string& found) {
    if (there == found) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the tuning was measured with another ", what, ": ", there,
                                                   ", here it is ", found, "; `snug tune` makes one for this machine"));
  };
  SNUG_RETURN_IF_ERROR(check("device", made_on.device, here.device));
  SNUG_RETURN_IF_ERROR(check("instruction set", made_on.instructions, here.instructions));
  return check("library", made_on.library, here.library);
}

}  // namespace

std::string Tuning::ChoiceFor(const std::string& key) const {
  const auto it = kernels.find(key);
  return it == kernels.end() ? std::string() : it->second.choice;
}

uint64_t Tuning::Digest() const {
  std::string text;
  for (const std::string& pass : disabled_passes) absl::StrAppend(&text, "without ", pass, "\n");
  for (const auto& [key, kernel] : kernels) absl::StrAppend(&text, key, ": ", kernel.choice, "\n");
  return HashName(text);
}

std::string TuningKey(absl::string_view op, const NodeTypes& types, absl::Span<const int> kept_inputs) {
  std::string key = absl::StrCat(op, "(");
  for (int i = 0; i < types.num_inputs(); ++i) {
    absl::StrAppend(&key, i == 0 ? "" : ", ", types.has_input(i) ? types.input(i).ToString() : "-");
  }
  absl::StrAppend(&key, ") ->");
  for (const ValueType& output : types.outputs) absl::StrAppend(&key, " ", output.ToString());
  if (!types.options.text().empty()) absl::StrAppend(&key, " {", types.options.text(), "}");
  if (!kept_inputs.empty()) absl::StrAppend(&key, " with kept inputs ", absl::StrJoin(kept_inputs, ", "));
  return key;
}

absl::StatusOr<Tuning> LoadTuning(const std::string& path, const Platform& here) {
  proto::Tuning file;
  SNUG_RETURN_IF_ERROR(ReadMessageFile(path, "a tuning", "snug tune", &file));
  Tuning tuning{.platform = {file.device(), file.instructions(), file.library()},
                .threads = file.threads(),
                .disabled_passes = {file.disabled_pass().begin(), file.disabled_pass().end()},
                .network = file.network(),
                .batch = file.batch(),
                .step_ms = file.step_ms(),
                .tuned_step_ms = file.tuned_step_ms()};
  if (tuning.threads < 1 || tuning.threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a tuning for 1 to ", kMaxThreads, " threads per op, found ", tuning.threads));
  }
  for (const proto::TunedKernel& kernel : file.kernel()) {
    tuning.kernels[kernel.node()] = {kernel.choice(), kernel.ms(), kernel.default_ms()};
  }
  SNUG_RETURN_IF_ERROR(Annotate(CheckPlatform(tuning.platform, here), path));
  return tuning;
}

absl::Status SaveTuning(const Tuning& tuning, const std::string& path) {
  proto::Tuning file;
  file.set_device(tuning.platform.device);
  file.set_instructions(tuning.platform.instructions);
  file.set_library(tuning.platform.library);
  file.set_threads(tuning.threads);
  for (const std::string& pass : tuning.disabled_passes) file.add_disabled_pass(pass);
  for (const auto& [key, tuned] : tuning.kernels) {
    proto::TunedKernel* const kernel = file.add_kernel();
    kernel->set_node(key);
    kernel->set_choice(tuned.choice);
    kernel->set_ms(tuned.ms);
    kernel->set_default_ms(tuned.default_ms);
  }
  file.set_network(tuning.network);
  file.set_batch(tuning.batch);
  file.set_step_ms(tuning.step_ms);
  file.set_tuned_step_ms(tuning.tuned_step_ms);
  return WriteMessageFile(path, file);
}

}  // namespace snug::core
