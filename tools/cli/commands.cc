#include "tools/cli/commands.h"

#include "engine/base/status.h"

namespace snug::core::cli {

// Each is in a file of its own.
CommandFunction RunBench, RunCompare, RunCompile, RunCompletion, RunDoctor, RunEval, RunExport, RunFindLr, RunFit,
    RunImport, RunMan, RunMemcost, RunNew, RunOps, RunOrder, RunPlace, RunPlan, RunPredict, RunStep, RunTrain, RunTune,
    RunWatch;

namespace {

constexpr Command kCommands[] = {
    {"train", "train a network: checkpoints, metrics, a curve", RunTrain},
    {"watch", "show a training while it runs, as a page on this machine", RunWatch},
    {"compare", "compare trainings by what they left: a table, and a page of their curves", RunCompare},
    {"find-lr", "find a learning rate to begin with, by a short training that tries many", RunFindLr},
    {"eval", "how good trained parameters are on data", RunEval},
    {"predict", "what trained parameters say of each sample, as a table", RunPredict},
    {"step", "train some steps on random data; print losses and times", RunStep},
    {"compile", "show what a model file becomes: sizes, or every stage as text and dot", RunCompile},
    {"plan", "plan the memory of a step: what lies where, the peak, the bound; save the plan", RunPlan},
    {"memcost", "what a step needs under every memory strategy, forward only and in training", RunMemcost},
    {"fit", "the largest batch that fits in a given memory", RunFit},
    {"tune", "find by measuring which kernels, passes and threads are fastest here", RunTune},
    {"bench", "time steps, or an op's kernels, in turn; bench memory: tables of many networks' bytes", RunBench},
    {"export", "write a network as an ONNX model", RunExport},
    {"import", "make a model file and weights of an ONNX model", RunImport},
    {"new", "write a model file to begin with, commented, which trains as it is", RunNew},
    {"ops", "list the ops", RunOps},
    {"doctor", "what this machine and this build have, and what is used of it", RunDoctor},
    {"place", "give the buffers of a file offsets in the smallest arena", RunPlace},
    {"order", "order the tasks of a file for the least memory, and place what they hand on", RunOrder},
    {"completion", "print what makes a shell complete commands and flags: bash, zsh or fish", RunCompletion},
    {"man", "print the manual page", RunMan},
};

constexpr ExitCode kExitCodes[] = {
    {0, "it is done"},
    {1, "the run failed: kernels, memory, files"},
    {2, "the command, the model file or its data are wrong"},
    {3, "it is done, but over the --capacity that was given to place"},
    {4, "a training was stopped by a signal, after a checkpoint"},
    {5, "a stuck run was ended (--watchdog-abort)"},
};

constexpr Variable kVariables[] = {
    {"SNUG_ISA", "instructions of our own loops: baseline, avx2 or avx512"},
    {"SNUG_CUDA_LIBRARIES", "where CUDA's libraries are"},
    {"SNUG_KERNEL_CACHE", "where compiled kernels are kept"},
    {"GOMP_SPINCOUNT, OMP_WAIT_POLICY",
     "how idle threads wait; if neither is set, the command sets the first and starts itself anew"},
};

}  // namespace

absl::Span<const Command> Commands() { return kCommands; }
absl::Span<const ExitCode> ExitCodes() { return kExitCodes; }
absl::Span<const Variable> EnvironmentVariables() { return kVariables; }

Usage UsageOf(const Command& command) {
  const absl::Status listed = command.run({kListFlags}).status();
  SNUG_CHECK(listed.code() == absl::StatusCode::kCancelled);
  return Flags::ReadList(listed.message());
}

}  // namespace snug::core::cli
