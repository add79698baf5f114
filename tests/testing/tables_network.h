// A network of two tables: one that two layers look up, and one of a row.
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>

namespace snug::proto {
class Optimizer;
}

namespace snug::core::test {

// `words`: how many rows of the large table the first layer may look up; of few, many come several times in a step.
std::string TablesNetwork(int64_t words);

// An optimizer, "sgd {}" for example, with a learning rate.
proto::Optimizer TablesOptimizer(absl::string_view text);

}  // namespace snug::core::test
