// The options on which the numbers of a training depend, as its checkpoints keep them, and which of them may change
// where it goes on: `--resume-with=learning-rate,data`. What lies in the session (network, seed, precision, the kind of
// optimizer) is engine/train/checkpoint/resume.h's.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/train/checkpoint/safetensors.h"
#include "engine/train/option_change.h"
#include "engine/train/trainer.h"
#include "tools/cli/flags/training_options.h"

namespace snug::proto {
class Network;
}

namespace snug::core::cli {

// What --resume-with may name, for its help.
std::string NamesToResumeWith();

// Checks what --resume-with was given. Names may have underscores, as fields of a model file have.
absl::StatusOr<std::set<std::string>> ParseResumeWith(const std::vector<std::string>& given);

class KeptOptions {
 public:
  // `data` before the trainer takes them. Of the network it keeps what no flags say: its layers (kept_layers.h), how
  // many updates it has, and what these say, as "update-2-objective" and "update-2-adam-beta1".
  static KeptOptions Of(const TrainingOptions& given, const TrainingData& data, const proto::Network& network);
  void SetBatch(int64_t samples);
  void SetBatch(const std::string& samples);

  // Nothing where the checkpoint keeps none, as those of older versions and of the library.
  static absl::StatusOr<std::optional<KeptOptions>> From(const checkpoint::Metadata& metadata);
  std::string ToJson() const;
  static constexpr const char* kKey = "options";  // in the metadata

  // What an option was, by its flag without dashes. Nothing: nothing was said of it, or it is one of those left out.
  std::optional<std::string> ValueOf(const std::string& option) const;

  // What differs from here to `later`.
  std::vector<OptionChange> ChangesTo(const KeptOptions& later, int64_t step) const;

  // Whether it is known which data the training is evaluated with. They are kept where something goes by evaluations:
  // the best state, or a plateau.
  bool HasEvaluation() const;
  // Whether evaluations that something goes by are of so many batches, which are of other samples where these have
  // another size.
  bool EvaluatesSomeBatches() const;
  // The files that an option is about, where it is about samples; otherwise nothing. Options that were read from a
  // checkpoint know none.
  std::string FilesOf(const std::string& option) const;

 private:
  void KeepUpdates(const proto::Network& network, double learning_rate);
  void LeaveOut();

  // By their flags, without dashes. Left out are those that nothing is said of, and those that the samples tell.
  std::map<std::string, std::string> values_;
  std::map<std::string, std::string> files_;  // by option
};

// Which of the names of --resume-with stands for an option. Empty: it may change without being named, as the length of
// a training may; where the schedule goes by that, it is a change all the same.
std::string NameToResumeWith(const std::string& option);

// Whether samples come in another order, or in batches of others, where this option is another. Where samples alone are
// others, as one that was mended, they have the places of those before.
bool ChangesOrder(const std::string& option);

// Whether a training keeps other tensors beside its parameters because of this change: averages, or a momentum.
bool ChangesTensors(const OptionChange& change);

// Whether evaluations are of other samples or parameters where this option is another, so that their numbers cannot be
// compared.
bool ChangesEvaluation(const std::string& option);

}  // namespace snug::core::cli
