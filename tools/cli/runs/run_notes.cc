#include "tools/cli/runs/run_notes.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/output_file.h"
#include "proto/train.pb.h"
#include "tools/cli/flags/proto_flags.h"
#include "tools/cli/plan.h"
#include "tools/picture/picture.h"

namespace snug::core::cli {
namespace {

// A page of a hundred thousand buffers would be larger than all else that a training leaves.
constexpr size_t kMostBuffersDrawn = 20000;

absl::Status WriteWhole(const std::string& path, const std::string& text) {
  OutputFile::RemoveLeftovers(path);
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(path));
  file->Write(text);
  return file->Finish();
}

void WarnUnlessOk(const absl::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "warning: %s\n", std::string(status.message()).c_str());
}

// Of a training whose end is not in its record.
std::string WhatReadersSee(const RunFolder& folder) {
  const absl::StatusOr<runs::RunRecord> there = runs::RunRecord::ReadFrom(folder);
  if (!there.ok()) return "and `snug watch` and `snug compare` cannot know how it ended";
  if (there->state == "running") {
    return "but the file still says \"running\": `snug watch` and `snug compare` will call it gone, as if it had been "
           "killed";
  }
  return absl::StrCat("but the file says \"", there->state,
                      "\", of an earlier part: so will `snug watch` and `snug compare`");
}

// A training leaves the same, however long planning took.
void ForgetTimes(Picture* picture) {
  for (PictureStrategy& strategy : picture->strategies) strategy.seconds = 0;
  for (PictureBody& body : picture->bodies) body.plan.seconds = 0;
}

absl::Status DrawMemory(const RunFolder& folder, const Compiled& compiled, const MemoryOptions& options) {
  if (compiled.executable.memory.dynamic.has_value()) return absl::OkStatus();  // there is no plan
  if (compiled.executable.memory.step.problem.buffers.size() > kMostBuffersDrawn) return absl::OkStatus();
  SNUG_ASSIGN_OR_RETURN(Picture picture, MakePicture(compiled, options, /*beside=*/false));
  ForgetTimes(&picture);
  SNUG_RETURN_IF_ERROR(WriteWhole(folder.memory_page(), PicturePage(picture)));
  return WriteWhole(folder.memory_picture(), PictureSvg(picture));
}

// What cannot be read is nobody's, and goes too.
void ForgetLaterConfusion(const RunFolder& folder, int64_t step) {
  OutputFile::RemoveLeftovers(folder.confusion());
  const absl::StatusOr<runs::ConfusionRecord> there = runs::ConfusionRecord::ReadFrom(folder);
  if (absl::IsNotFound(there.status()) || (there.ok() && step > 0 && there->step <= step)) return;
  std::error_code error;
  if (!std::filesystem::remove(folder.confusion(), error) && error) {
    WarnUnlessOk(absl::UnavailableError(
        absl::StrCat(folder.confusion(), ": is of another training, and cannot be removed: ", error.message())));
  }
}

}  // namespace

runs::RunRecord DescribeRun(const Trainer& trainer, const TrainingOptions& given, const RunFlags& run,
                            const CompileFlags& compile, const MemoryFlags& memory, const std::string& init_from,
                            const RunFolder& folder) {
  const Session& session = trainer.session();
  runs::RunRecord record{.network = session.compiled().graph.name,
                         .batch = trainer.batch(),
                         .steps = trainer.steps(),
                         .steps_per_epoch = trainer.steps_per_epoch(),
                         .state_bytes = session.state_bytes(),
                         .step_bytes = session.step_bytes(),
                         .metrics = trainer.metrics()};
  proto::Training training = given.training;
  Override(memory.given, training.mutable_memory());
  const proto::Memory about_memory = training.memory();
  training.clear_memory();
  record.options = ListProtoFlags("", "optimizer", given.optimizer);
  for (auto& option : ListProtoFlags("", "training", training)) record.options.push_back(std::move(option));
  for (auto& option : ListProtoFlags("", "", about_memory)) record.options.push_back(std::move(option));
  // "": it is at its default.
  const auto set = [&](const std::string& name, const std::string& value) {
    std::erase_if(record.options, [&](const auto& option) { return value.empty() && option.first == name; });
    if (value.empty()) return;
    for (auto& option : record.options) {
      if (option.first == name) {
        option.second = value;
        return;
      }
    }
    record.options.emplace_back(name, value);
  };
  const auto set_switch = [&](const std::string& name, bool on) { set(name, on ? "true" : ""); };
  // These come from flags of every command, or from what nobody says.
  set("batch", absl::StrCat(trainer.batch()));
  set("precision", std::string(Name(session.compiled().precision)));
  set("threads", absl::StrCat(session.compiled().threads));
  set("device", session.compiled().device.ToString());
  set_switch("stochastic-rounding", compile.stochastic_rounding.value_or(false));
  set_switch("tf32", compile.tf32);
  set_switch("fast", compile.fast);
  set_switch("split-products", compile.split_products);
  set_switch("plain-kernels", compile.plain_kernels);
  set_switch("keep-inputs", compile.keep_inputs);
  set_switch("update-as-made", compile.update_as_made);
  set_switch("recompute-sweeps", compile.recompute_sweeps);
  set_switch("gradients-from-outputs", compile.gradients_from_outputs);
  set_switch("loss-in-blocks", compile.loss_in_blocks);
  set_switch("half-byte-indices", compile.half_byte_indices);
  set("sparse-tables", absl::StrJoin(compile.sparse_tables, ","));
  set("loops", compile.loops == "by-size" ? "" : compile.loops);
  set("recompute-rounds", compile.recompute_rounds == 0 ? "" : absl::StrCat(compile.recompute_rounds));
  set("stash-limit", compile.stash_limit);
  set("disable-passes", absl::StrJoin(compile.disabled_passes, ","));
  set("tuning", compile.tuning);
  set("streams", memory.streams.count == 1 ? "" : absl::StrCat(memory.streams.count));
  set("stream-policy", memory.streams.policy);
  set("plan", memory.plan_file);
  set("engine", run.engine == "replay" ? "" : run.engine);
  // A training that goes on began with what it began with, whatever it is told now.
  if (trainer.step() == 0) {
    set("init-from", init_from);
  } else if (const absl::StatusOr<runs::RunRecord> before = runs::RunRecord::ReadFrom(folder); before.ok()) {
    for (const auto& [name, value] : before->options) {
      if (name == "init-from") set(name, value);
    }
  }
  return record;
}

RunNotes::RunNotes(const RunFolder& folder, runs::RunRecord record, const Trainer& trainer, const MemoryOptions& memory)
    : folder_(folder), record_(std::move(record)) {
  WarnUnlessOk(record_.WriteTo(folder_));
  WarnUnlessOk(DrawMemory(folder_, trainer.session().compiled(), memory));
  ForgetLaterConfusion(folder_, trainer.step());
}

RunNotes::~RunNotes() {
  if (!ended_) Ended(absl::InternalError("it ended before its first step"), false);
}

void RunNotes::Evaluated(const runs::ConfusionRecord& confusion) { WarnUnlessOk(confusion.WriteTo(folder_)); }

void RunNotes::Ended(const absl::Status& status, bool finished, const std::string& why) {
  ended_ = true;
  record_.state = !status.ok() ? "failed" : finished ? "done" : "stopped";
  // The first line says what went wrong, the others what to do.
  record_.error = status.ok() ? "" : std::string(*absl::StrSplit(status.message(), '\n').begin());
  if (record_.state == "stopped" && !why.empty()) {
    record_.error = absl::StrCat("Stopped after a checkpoint: ", why, ".");
  }
  if (const absl::Status written = record_.WriteTo(folder_); !written.ok()) {
    std::fprintf(stderr, "warning: %s: this training is %s, %s\n", std::string(written.message()).c_str(),
                 record_.state.c_str(), WhatReadersSee(folder_).c_str());
  }
}

}  // namespace snug::core::cli
