#include "engine/train/data/synthetic.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "engine/base/text/suggest.h"
#include "engine/train/data/synthetic/tasks.h"

namespace snug::core {

absl::Span<const SyntheticTask> SyntheticTasks() {
  static constexpr SyntheticTask kTasks[] = {
      {"digits", "drawn digits with noise, image [1, 28, 28], 10 classes", 60000, 10000, MakeDigits},
      {"textures", "ten kinds of coloured pattern, image [3, 32, 32], 10 classes", 50000, 10000, MakeTextures},
      {"spiral", "points on three arms of a spiral, point [2], 3 classes", 3000, 1000, MakeSpiral},
      {"copy", "sixteen tokens, a separator, and the same again, tokens [32], vocabulary 32", 20000, 1000, MakeCopy},
  };
  return kTasks;
}

absl::StatusOr<std::shared_ptr<const Dataset>> MakeSynthetic(absl::string_view task, const SyntheticOptions& options) {
  Suggester suggester(task);
  for (const SyntheticTask& known : SyntheticTasks()) {
    suggester.Consider(known.name);
    if (known.name != task) continue;
    SyntheticOptions complete = options;
    if (options.samples == 0) complete.samples = options.held_back ? known.held_back_samples : known.samples;
    if (complete.samples < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("samples of \"", task, "\": expected at least 1, found ", complete.samples));
    }
    return std::shared_ptr<const Dataset>(known.make(complete));
  }
  const auto name = [](std::string* out, const SyntheticTask& known) { absl::StrAppend(out, known.name); };
  return absl::NotFoundError(absl::StrCat("no built-in data \"", task, "\": expected one of ",
                                          absl::StrJoin(SyntheticTasks(), ", ", name), suggester.Question()));
}

}  // namespace snug::core
