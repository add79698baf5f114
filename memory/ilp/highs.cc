// HiGHS through its C interface.
#include "memory/ilp/highs.h"

#include <interfaces/highs_c_api.h>

#include <memory>
#include <utility>
#include <vector>

namespace snug::memory {
namespace {

constexpr double kFeasible = 1e-4;  // HiGHS promises 1e-6 of its own form of the program

struct Watch {
  const IlpOptions* options = nullptr;
  IlpProgress progress;
  int64_t work = 0;
  bool out_of_work = false;
};

void OnEvent(int type, const char*, const HighsCallbackDataOut* out, HighsCallbackDataIn* in, void* data) {
  Watch& watch = *static_cast<Watch*>(data);
  watch.work = out->mip_total_lp_iterations;
  if (type == kHighsCallbackMipInterrupt) {
    watch.out_of_work = watch.options->work > 0 && watch.work >= watch.options->work;
    in->user_interrupt = watch.out_of_work ? 1 : 0;
    return;
  }
  IlpProgress& progress = watch.progress;
  const bool better = out->mip_primal_bound < progress.objective;
  const bool tighter = out->mip_dual_bound > progress.bound;
  if (!better && !tighter) return;
  if (better) progress.objective = out->mip_primal_bound;
  if (tighter) progress.bound = out->mip_dual_bound;
  if (type == kHighsCallbackMipImprovingSolution && out->mip_solution != nullptr) {
    progress.values = absl::MakeConstSpan(out->mip_solution, static_cast<size_t>(out->mip_solution_size));
  }
  if (watch.options->on_progress) watch.options->on_progress(progress);
  progress.values = {};
}

bool Load(const IlpModel& model, void* highs) {
  const std::vector<HighsInt> begin(model.row_begin().begin(), model.row_begin().end());
  const std::vector<HighsInt> columns(model.columns().begin(), model.columns().end());
  std::vector<HighsInt> types;
  for (const bool integer : model.integer()) types.push_back(integer ? kHighsVarTypeInteger : kHighsVarTypeContinuous);
  return Highs_passMip(highs, model.variables(), model.constraints(), static_cast<HighsInt>(model.terms()),
                       kHighsMatrixFormatRowwise, kHighsObjSenseMinimize, 0, model.cost().data(), model.lower().data(),
                       model.upper().data(), model.row_lower().data(), model.row_upper().data(), begin.data(),
                       columns.data(), model.factors().data(), types.data()) != kHighsStatusError;
}

}  // namespace

absl::StatusOr<IlpResult> SolveByHighs(const IlpModel& model, const IlpOptions& options) {
  const std::unique_ptr<void, decltype(&Highs_destroy)> highs(Highs_create(), &Highs_destroy);
  Highs_setBoolOptionValue(highs.get(), "output_flag", 0);
  Highs_setIntOptionValue(highs.get(), "threads", 1);
  Highs_setDoubleOptionValue(highs.get(), "mip_rel_gap", 0);
  Highs_setDoubleOptionValue(highs.get(), "mip_abs_gap", options.step * 0.999);
  if (!Load(model, highs.get())) return absl::InternalError("HiGHS refuses the integer linear program");
  if (!options.start.empty()) Highs_setSolution(highs.get(), options.start.data(), nullptr, nullptr, nullptr);
  Watch watch{.options = &options};
  Highs_setCallback(highs.get(), OnEvent, &watch);
  for (const HighsInt event :
       {kHighsCallbackMipImprovingSolution, kHighsCallbackMipLogging, kHighsCallbackMipInterrupt}) {
    Highs_startCallback(highs.get(), event);
  }
  if (Highs_run(highs.get()) == kHighsStatusError) return absl::InternalError("HiGHS failed");

  IlpResult result;
  const HighsInt status = Highs_getModelStatus(highs.get());
  result.work = watch.work;
  Highs_getDoubleInfoValue(highs.get(), "mip_dual_bound", &result.bound);
  std::vector<double> values(static_cast<size_t>(model.variables()));
  std::vector<double> rows(static_cast<size_t>(model.constraints()));
  Highs_getSolution(highs.get(), values.data(), nullptr, rows.data(), nullptr);
  if (model.Satisfies(values, kFeasible)) {
    result.objective = model.Objective(values);
    result.values = std::move(values);
  }
  if (status == kHighsModelStatusOptimal && !result.values.empty()) {
    result.status = IlpStatus::kOptimal;
    result.bound = result.objective;
  } else if (status == kHighsModelStatusInfeasible) {
    result.status = IlpStatus::kInfeasible;
  }
  return result;
}

}  // namespace snug::memory
