// Two bidirectional layers of LSTM and of GRU as loops, over ten steps, beside PyTorch's loss and gradients in double
// (tests/golden/sequences).
#include <absl/strings/str_cat.h>
#include <absl/strings/substitute.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/control/control_run.h"
#include "tests/testing/source_path.h"

namespace snug::core::test {
namespace {

constexpr char kLstm[] = R"(
block { name: "cell" input: "x_in" input: "h_in" input: "c_in"
  layer { name: "ih" input: "$x_in" dense { units: 12 } }
  layer { name: "hh" input: "$h_in" dense { units: 12 } }
  layer { name: "sum" input: "ih" input: "hh" add {} }
  layer { name: "gates" input: "sum" split { parts: 4 } }
  layer { name: "i" input: "gates" sigmoid {} }
  layer { name: "f" input: "gates:1" sigmoid {} }
  layer { name: "g" input: "gates:2" tanh {} }
  layer { name: "o" input: "gates:3" sigmoid {} }
  layer { name: "kept" input: "f" input: "$c_in" mul {} }
  layer { name: "added" input: "i" input: "g" mul {} }
  layer { name: "c" input: "kept" input: "added" add {} }
  layer { name: "bounded" input: "c" tanh {} }
  layer { name: "h" input: "o" input: "bounded" mul {} }
  output: "h" output: "c" }
)";

constexpr char kGru[] = R"(
block { name: "cell" input: "x_in" input: "h_in"
  layer { name: "ih" input: "$x_in" dense { units: 9 } }
  layer { name: "hh" input: "$h_in" dense { units: 9 } }
  layer { name: "from_x" input: "ih" split { parts: 3 } }
  layer { name: "from_h" input: "hh" split { parts: 3 } }
  layer { name: "r_sum" input: "from_x" input: "from_h" add {} }
  layer { name: "r" input: "r_sum" sigmoid {} }
  layer { name: "z_sum" input: "from_x:1" input: "from_h:1" add {} }
  layer { name: "z" input: "z_sum" sigmoid {} }
  layer { name: "reset" input: "r" input: "from_h:2" mul {} }
  layer { name: "n_sum" input: "from_x:2" input: "reset" add {} }
  layer { name: "n" input: "n_sum" tanh {} }
  layer { name: "change" input: "$h_in" input: "n" sub {} }
  layer { name: "kept" input: "z" input: "change" mul {} }
  layer { name: "h" input: "n" input: "kept" add {} }
  output: "h" }
)";

struct Sequences {
  std::string text;
  std::vector<std::string> inputs;
};

Sequences MakeSequences(const std::string& kind) {
  const bool lstm = kind == "lstm";
  const std::vector<std::string> states = lstm ? std::vector<std::string>{"h", "c"} : std::vector<std::string>{"h"};
  Sequences made;
  made.text = absl::StrCat("batch: 2\n", lstm ? kLstm : kGru, "input { name: \"x\" shape { dim: [10, 2] } }\n");
  made.inputs = {"x"};
  std::string loops, squares, sums, below = "x";
  for (int layer = 0; layer < 2; ++layer) {
    for (const char* direction : {"f", "b"}) {
      const std::string name = absl::StrCat("l", layer, direction);
      std::string first, carries;
      for (const std::string& state : states) {
        const std::string input = absl::StrCat(state, layer, direction);
        absl::SubstituteAndAppend(&made.text, "input { name: \"$0\" shape { dim: 3 } }\n", input);
        made.inputs.push_back(input);
        absl::SubstituteAndAppend(&first, " input: \"$0\"", input);
        absl::SubstituteAndAppend(&carries, " carry { input: \"$0_in\" output: \"$0\" }", state);
      }
      const std::string reverse = direction[0] == 'b' ? " reverse: true" : "";
      absl::SubstituteAndAppend(
          &loops,
          "layer { name: \"$0\" input: \"$1\"$2 loop { body: \"cell\" scan { input: \"x_in\"$4 }$3 "
          "collect { output: \"h\"$4 } } }\n",
          name, below, first, carries, reverse);
      for (size_t s = 0; s < states.size(); ++s) {
        absl::SubstituteAndAppend(&squares, "layer { name: \"$0_$1\" input: \"$0:$1\" square {} }\n", name, s);
        absl::SubstituteAndAppend(&squares, "layer { name: \"$0_$1_sum\" input: \"$0_$1\" reduce_sum {} }\n", name, s);
        absl::SubstituteAndAppend(&sums, "objective: \"$0_$1_sum\"\n", name, s);
      }
    }
    below = absl::StrCat("y", layer);
    absl::SubstituteAndAppend(&loops,
                              "layer { name: \"$0\" input: \"l$1f:$2\" input: \"l$1b:$2\" concat { axis: -1 } }\n",
                              below, layer, states.size());
  }
  absl::SubstituteAndAppend(&squares, "layer { name: \"y\" input: \"$0\" square {} }\n", below);
  absl::StrAppend(&squares, "layer { name: \"y_sum\" input: \"y\" reduce_sum {} }\n");
  absl::StrAppend(&made.text, loops, squares, sums, "objective: \"y_sum\"\n");
  return made;
}

struct Golden {
  double loss = 0;
  std::vector<std::pair<std::string, Numbers>> gradients;  // in the golden's sequence
};

Golden ReadGolden(const std::string& kind) {
  Golden golden;
  std::ifstream file(SourcePath(absl::StrCat("tests/golden/sequences/", kind, ".golden")));
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what, name;
    words >> what;
    if (what == "loss") words >> golden.loss;
    if (what != "gradient") continue;
    words >> name;
    Numbers numbers;
    for (double number = 0; words >> number;) numbers.push_back(number);
    golden.gradients.emplace_back(name, numbers);
  }
  return golden;
}

class SequencesTest : public testing::TestWithParam<const char*> {};

TEST_P(SequencesTest, LossAndGradientsArePyTorchs) {
  const Golden golden = ReadGolden(GetParam());
  ASSERT_FALSE(golden.gradients.empty());
  const Sequences sequences = MakeSequences(GetParam());
  CompileOptions options = InDouble();
  for (const auto& [name, numbers] : golden.gradients) options.gradients.push_back(name);
  auto session = MakeUnfed(sequences.text, options);
  ASSERT_TRUE(session.ok()) << session.status().message() << sequences.text;
  for (size_t k = 0; k < golden.gradients.size(); ++k) {
    const auto& [name, gradient] = golden.gradients[k];
    Numbers values(gradient.size());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 0.5 * std::sin(static_cast<double>(k) + 0.7 * static_cast<double>(i));
    }
    const bool is_input = k < sequences.inputs.size();
    ASSERT_TRUE(is_input ? (*session)->Feed(name, values).ok() : (*session)->SetVariable(name, values).ok()) << name;
  }
  ASSERT_TRUE((*session)->Run().ok());
  double loss = 0;
  for (const Output& output : (*session)->compiled().graph.outputs) {
    if (output.name.find("_sum") != std::string::npos) loss += *(*session)->FetchScalar(output.name);
  }
  EXPECT_NEAR(loss, golden.loss, 1e-9 * golden.loss);
  for (const auto& [name, gradient] : golden.gradients) {
    const Numbers found = *(*session)->Fetch(absl::StrCat("d(", name, ")"));
    double largest = 0;
    for (const double number : gradient) largest = std::max(largest, std::abs(number));
    ASSERT_EQ(found.size(), gradient.size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], gradient[i], 1e-9 * std::max(1.0, largest)) << name << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Control, SequencesTest, testing::Values("lstm", "gru"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace snug::core::test
