#include "tests/testing/tables_network.h"

#include <absl/strings/str_cat.h>

#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::test {

std::string TablesNetwork(int64_t words) {
  return absl::StrCat("input { name: \"words\" shape { dim: 5 } dtype: INT32 max_value: ", words, " }", R"(
    input { name: "first" shape { dim: 1 } dtype: INT32 max_value: 40 }
    input { name: "none"  shape { dim: 2 } dtype: INT32 max_value: 1 }
    input { name: "y" shape { dim: 9 } }
    layer { name: "table"  input: "words" embedding { entries: 4000 width: 33 } }
    layer { name: "again"  input: "first" embedding { entries: 4000 width: 33 } param { name: "weight" tie: "table.weight" } }
    layer { name: "single" input: "none"  embedding { entries: 1 width: 33 } }
    layer { name: "all"    input: ["table", "again", "single"] concat { axis: 1 } }
    layer { name: "flat"   input: "all"   flatten {} }
    layer { name: "out"    input: "flat"  dense { units: 9 } }
    layer { name: "loss"   input: "out" input: "y" mean_squared_error {} }
    objective: "loss"
  )");
}

proto::Optimizer TablesOptimizer(absl::string_view text) {
  return proto::ParseOptions<proto::Optimizer>(absl::StrCat("learning_rate: 0.05 ", text).c_str())
      .Get<proto::Optimizer>();
}

}  // namespace snug::core::test
