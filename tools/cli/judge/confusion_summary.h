// What an evaluation of a training took for what, as its run folder keeps it.
#pragma once

#include <optional>

#include "engine/train/trainer.h"
#include "tools/runs/confusion_record.h"

namespace snug::core::cli {

// Nothing where the training judges no classes.
std::optional<runs::ConfusionRecord> SummaryOf(const Trainer& trainer, const Trainer::EvaluationReport& report);

}  // namespace snug::core::cli
