#include "tests/control/random_nest.h"

#include <absl/strings/str_cat.h>

#include <random>
#include <utility>

namespace snug::core::test {
namespace {

constexpr int kBatch = 3, kWidth = 2, kSlices = 3;

// Values are [batch, width] everywhere, but for integers, what is scanned and what is collected.
class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) { nest_.may_spoil = seed % 2 == 0; }

  RandomNest Make() {
    const auto input = [&](const std::string& name, int64_t per_sample, const std::string& fields) {
      absl::StrAppend(&top_, "input { name: \"", name, "\" ", fields, " }\n");
      for (int64_t i = 0; i < per_sample; ++i) nest_.feeds[name].push_back(Real(-1, 1));
    };
    absl::StrAppend(&top_, "batch: ", kBatch, "\n");
    input("x0", kBatch * kWidth, absl::StrCat("shape { dim: ", kWidth, " }"));
    input("x1", kBatch * kWidth, absl::StrCat("shape { dim: ", kWidth, " }"));
    input("s", kBatch * kSlices * kWidth, absl::StrCat("shape { dim: [", kSlices, ", ", kWidth, "] }"));
    const auto integers = [&](const std::string& name, int n, const std::string& fields, int end) {
      absl::StrAppend(&top_, "input { name: \"", name, "\" dtype: INT32 max_value: ", end, " ", fields, " }\n");
      for (int i = 0; i < n; ++i) nest_.feeds[name].push_back(Below(end));
    };
    integers("n", 1, "no_batch: true", 4);  // 0 to 3 rounds
    integers("ns", kBatch, "", 4);
    integers("k", 1, "no_batch: true", 3);  // one of three branches
    integers("ks", kBatch, "", 3);
    Body body{.floats = {"x0", "x1"}, .dollar = "", .scanned = "s", .integers = {"n", "ns", "k", "ks"}};
    const int statements = 2 + Below(3);
    for (int i = 0; i < statements; ++i) Statement(&body, /*depth=*/0, /*control=*/i == 0 || Chance(50));
    std::string sum = body.floats.back();
    absl::StrAppend(&body.text, "layer { name: \"squared\" input: \"", sum, "\" square {} }\n",
                    "layer { name: \"loss\" input: \"squared\" reduce_sum {} }\n");
    nest_.text = absl::StrCat(top_, blocks_, body.text, "objective: \"loss\"\noutput: \"", sum, "\"\n");
    return std::move(nest_);
  }

 private:
  struct Body {
    std::vector<std::string> floats;  // names of values, without the dollar of inputs
    std::string dollar;               // "$" where names of the first `inputs` floats are inputs of a block
    size_t inputs = 0;
    std::string scanned;  // only at the top
    std::vector<std::string>
        integers;  // the count of one number, of one a sample, and selectors alike; "" where absent
    std::string text = {};
    int layers = 0;
  };

  int Below(int end) { return static_cast<int>(random_() % static_cast<uint64_t>(end)); }
  bool Chance(int percent) { return Below(100) < percent; }
  double Real(double low, double high) { return low + (high - low) * (Below(1 << 20) + 0.5) / (1 << 20); }
  std::string Number(double low, double high) { return absl::StrCat(Real(low, high)); }

  std::string Ref(const Body& body, size_t i) {
    return absl::StrCat("input: \"", i < body.inputs ? body.dollar : "", body.floats[i], "\"");
  }
  std::string Any(const Body& body) {
    return Ref(body, static_cast<size_t>(Below(static_cast<int>(body.floats.size()))));
  }
  std::string NewName(Body* body) { return absl::StrCat("v", body->layers++); }

  void Layer(Body* body, const std::string& inputs, const std::string& op) {
    const std::string name = NewName(body);
    absl::StrAppend(&body->text, "layer { name: \"", name, "\" ", inputs, " ", op, " }\n");
    body->floats.push_back(name);
  }

  void Plain(Body* body) {
    switch (Below(7)) {
      case 0:
        return Layer(body, Any(*body), "tanh {}");
      case 1:
        return Layer(body, Any(*body) + " " + Any(*body), "mul {}");
      case 2:
        return Layer(body, Any(*body) + " " + Any(*body), "add {}");
      case 3:
        return Layer(body, Any(*body),
                     absl::StrCat("scale { factor: ", Number(-0.9, 0.9), " offset: ", Number(-0.5, 0.5), " }"));
      case 4:
        return Layer(body, Any(*body), absl::StrCat("dense { units: ", kWidth, " }"));
      case 5:
        return Layer(body, Any(*body), "sigmoid {}");
      default:
        return Layer(body, Any(*body) + " " + Any(*body), "sub {}");
    }
  }

  void Statement(Body* body, int depth, bool control) {
    if (!control || depth >= 3) return Plain(body);
    return Chance(60) ? Loop(body, depth) : Branch(body, depth);
  }

  // Writes a block of two inputs, and two outputs "o0" and "o1"; `more` adds to it. Returns its name.
  template <class More>
  std::string Block(const std::vector<std::string>& integers, const std::string& extra_inputs, int depth,
                    const More& more) {
    const std::string name = absl::StrCat("b", blocks_made_++);
    Body body{.floats = {"p", "q"}, .dollar = "$", .inputs = 2, .scanned = "", .integers = integers};
    const int statements = 1 + Below(3);
    for (int i = 0; i < statements; ++i) Statement(&body, depth + 1, Chance(35));
    const std::string outputs = more(&body);
    // The first output is new; the second may be an input as it is, so that carries can change places.
    const std::string second = Chance(30) ? "$p" : body.floats.back();
    Layer(&body, Ref(body, body.floats.size() - 1), "tanh {}");
    absl::StrAppend(&blocks_, "block { name: \"", name, "\" input: \"p\" input: \"q\"", extra_inputs, "\n", body.text,
                    "output: \"", body.floats.back(), "\" output: \"", second, "\"", outputs, " }\n");
    first_output_ = body.floats.back();
    second_output_ = second[0] == '$' ? second.substr(1) : second;
    return name;
  }

  static std::string Integer(const Body& body, int i) {
    return absl::StrCat("input: \"", body.dollar, body.integers[static_cast<size_t>(i)], "\"");
  }

  // Integers that bodies are given too: those of the network, under the same names.
  static std::string IntegerInputs(const Body& body) {
    std::string text;
    for (const std::string& name : body.integers) absl::StrAppend(&text, " input: \"", name, "\"");
    return text;
  }
  static std::string GivenIntegers(const Body& body) {
    std::string text;
    for (size_t i = 0; i < body.integers.size(); ++i) absl::StrAppend(&text, " ", Integer(body, static_cast<int>(i)));
    return text;
  }

  void Loop(Body* body, int depth) {
    const bool scans = !body->scanned.empty() && Chance(40);
    const bool counted = Chance(40);
    const bool conditional = !counted && Chance(50);
    const bool by_sample = Chance(50);
    std::string options;
    const std::string block = Block(body->integers, IntegerInputs(*body), depth, [&](Body* inner) -> std::string {
      if (!conditional) return "";
      // Holds while what is carried is large.
      absl::StrAppend(&inner->text, "layer { name: \"size\" ", Ref(*inner, 0), " square {} }\n",
                      "layer { name: \"sum\" input: \"size\" reduce_sum { ", by_sample ? "axis: 1" : "", " } }\n",
                      "layer { name: \"over\" input: \"sum\" scale { offset: ", Number(-0.6, 0), " } }\n",
                      "layer { name: \"go\" input: \"over\" relu {} }\n");
      return " output: \"go\"";
    });
    const std::string first = first_output_, second = second_output_;
    const bool one_carry = Chance(30);
    absl::StrAppend(&options, "body: \"", block, "\" carry { input: \"p\" output: \"", first, "\" }");
    std::string q = Any(*body);
    if (scans) {
      q = absl::StrCat("input: \"", body->scanned, "\"");
      absl::StrAppend(&options, " scan { input: \"q\" ", Chance(50) ? "reverse: true " : "", "}");
    } else {
      absl::StrAppend(&options, " times: ", 1 + Below(4));
      if (!one_carry) absl::StrAppend(&options, " carry { input: \"q\" output: \"", second, "\" }");
    }
    const bool collects = Chance(40);
    if (collects)
      absl::StrAppend(&options, " collect { output: \"", first, "\" ", Chance(50) ? "reverse: true " : "", "}");
    if (counted) absl::StrAppend(&options, " counted: true");
    if (conditional) absl::StrAppend(&options, " condition: \"go\"");
    if ((counted || conditional) && (!nest_.may_spoil || Chance(50))) absl::StrAppend(&options, " stop_at_bound: true");
    const std::string count = counted ? " " + Integer(*body, by_sample ? 1 : 0) : "";
    Layer(body, absl::StrCat(Any(*body), " ", q, GivenIntegers(*body), count), absl::StrCat("loop { ", options, " }"));
    const std::string loop = body->floats.back();
    int output = 1;
    if (!scans && !one_carry) body->floats.push_back(absl::StrCat(loop, ":", output++));
    if (collects) Layer(body, absl::StrCat("input: \"", loop, ":", output, "\""), "reduce_mean { axis: 1 }");
  }

  void Branch(Body* body, int depth) {
    std::string bodies, names;
    const int branches = nest_.may_spoil ? 2 + Below(2) : 3;
    for (int k = 0; k < branches; ++k) {
      absl::StrAppend(&bodies, " body: \"",
                      Block(body->integers, IntegerInputs(*body), depth, [](Body*) { return std::string(); }), "\"");
    }
    Layer(body, absl::StrCat(Integer(*body, 2 + Below(2)), " ", Any(*body), " ", Any(*body), GivenIntegers(*body)),
          absl::StrCat("branch {", bodies, " }"));
    body->floats.push_back(body->floats.back() + ":1");
  }

  std::mt19937_64 random_;
  RandomNest nest_;
  std::string top_, blocks_;
  int blocks_made_ = 0;
  std::string first_output_, second_output_;
};

}  // namespace

RandomNest MakeRandomNest(uint64_t seed) { return Generator(seed).Make(); }

}  // namespace snug::core::test
