// A Judgement for a terminal, and as JSON.
#pragma once

#include <string>

#include "engine/base/text/json.h"
#include "engine/train/judgement/judge.h"
#include "tools/cli/judge/class_names.h"

namespace snug::core::cli {

// A line for each class, what was taken for what, and means. Of many classes the worst are shown, and the most frequent
// confusions.
std::string JudgementText(const Judgement& judgement, const ClassNames& names);

// Writes an object that has all of it, but the curve and the worst samples.
void WriteJudgement(const Judgement& judgement, const ClassNames& names, Json& json);

}  // namespace snug::core::cli
