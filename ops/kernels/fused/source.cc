#include "ops/kernels/fused/source.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/substitute.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ops/kernels/reduce/reduce.h"
#include "ops/kit/cuda/reduce_spread.h"
#include "ops/kit/expression.h"

namespace snug::core {
namespace {

constexpr int64_t kPackBytes = 16;
// Below so many elements 32 bits are enough for the divisions, which makes them much cheaper.
constexpr int64_t kMost32Bits = int64_t{1} << 31;

// The kernel of a chain without a reduction. $0 are the members, $1 is the number of inputs, $2 and $4 are statements,
// $3 is the output's type, $5 the last member's number, $6 the number of elements in a pack, $7 and $8 are the entries'
// names.
constexpr char kText[] = R"(// $0
#include "ops/kernels/fused/prelude.h"

namespace snug::core {

struct Arguments {
  const void* x[$1];
  void* y;
  int64_t n;
  uint64_t zero;
};

template <int kPack>
__device__ inline void Run(const Arguments& a) {
  SNUG_FUSED_FOR(i, a.n / kPack) {
$2    CudaPack<$3, kPack> y;
    for (int j = 0; j < kPack; ++j) {
$4      y.values[j] = v$5;
    }
    Store(y, a.y, i);
  }
}

}  // namespace snug::core

extern "C" __global__ void $7(const snug::core::Arguments a) { snug::core::Run<$6>(a); }
extern "C" __global__ void $8(const snug::core::Arguments a) { snug::core::Run<1>(a); }
)";

// The kernel of a chain with a reduction. $0 are the members, $1 is the number of inputs, $2 and $3 are statements, $4
// is the type of elements and output, $5 the number of the last value before the reduction, $6 what Shape says, $7
// SumOp or MaxOp.
constexpr char kReduceText[] = R"(// $0
#include "ops/kernels/fused/reduce.h"

namespace snug::core {

struct Arguments {
  const void* x[$1];
  void* y;
  double* partials;
  uint64_t zero;
};

using T = $4;
using Op = $7;

struct Element {
  const Arguments& a;
  template <int kPack>
  __device__ CudaPack<T, kPack> Pack(int64_t i) const {
$2    CudaPack<T, kPack> y;
    for (int j = 0; j < kPack; ++j) {
$3      y.values[j] = v$5;
    }
    return y;
  }
};

struct Shape {
$6};

}  // namespace snug::core
)";

// An entry that reduces. $0 is its name, $1 whether packs are read at once.
constexpr char kReduceEntryText[] = R"(
extern "C" __global__ void $0(const snug::core::Arguments a) {
  using namespace snug::core;
  ReduceElements<Op, $1, T, Shape>(Element{a}, a.y, a.partials);
}
)";
constexpr char kCombineText[] = R"(
extern "C" __global__ void $0(const snug::core::Arguments a) {
  snug::core::CombineParts<snug::core::Op, snug::core::T, snug::core::Shape>(a.y, a.partials);
}
)";

// Writes where the operand's element for the output's element e lies.
std::string OffsetText(const Axes& axes) {
  std::vector<std::string> terms;
  int64_t inside = 1;  // how many elements of the output one step along the axis passes
  for (int i = axes.rank - 1; i >= 0; --i) {
    const auto axis = static_cast<size_t>(i);
    if (axes.strides[axis] != 0) {
      std::string term = inside == 1 ? "e" : absl::StrCat("e / ", inside);
      if (i > 0) absl::StrAppend(&term, " % ", axes.dims[axis]);
      if (axes.strides[axis] != 1) absl::StrAppend(&term, " * ", axes.strides[axis]);
      terms.push_back(std::move(term));
    }
    inside *= axes.dims[axis];
  }
  return terms.empty() ? "0" : absl::StrJoin(terms, " + ");
}

class Writer {
 public:
  explicit Writer(const FusedChain& chain) : chain_(chain) {
    source_.packed.assign(static_cast<size_t>(chain.num_inputs()), false);
  }

  FusedSource Write() {
    std::vector<absl::string_view> names;
    for (const FusedMember& member : chain_.members) names.push_back(member.op->name);
    source_.name = absl::StrJoin(names, ", ");
    for (size_t m = 0; m < chain_.elementwise(); ++m) WriteMember(static_cast<int>(m));
    if (chain_.reduces()) {
      source_.text = ReduceText();
      return std::move(source_);
    }
    int64_t widest = SizeOf(chain_.output().dtype);
    for (int i = 0; i < chain_.num_inputs(); ++i) {
      if (source_.packed[static_cast<size_t>(i)]) widest = std::max(widest, SizeOf(chain_.type(i).dtype));
    }
    source_.pack = static_cast<int>(kPackBytes / widest);
    source_.text = Text();
    return std::move(source_);
  }

 private:
  void WriteMember(int m) {
    const FusedMember& member = chain_.members[static_cast<size_t>(m)];
    std::vector<std::string> operands;
    for (size_t o = 0; o < member.operands.size(); ++o) operands.push_back(Operand(member, static_cast<int>(o)));
    std::string value = member.op->elementwise.expression(member.types, absl::StrJoin(operands, ", "));
    const bool stored = m + 1 == static_cast<int>(chain_.members.size());
    if (!stored) value = absl::StrCat("Keep(", value, ", a.zero)");
    absl::StrAppend(&elements_, "      const ", CppName(member.types.output(0).dtype), " v", m, " = ", value, ";\n");
  }

  // Returns the name of what holds the operand, which is loaded before its first use.
  std::string Operand(const FusedMember& member, int operand) {
    const int value = member.operands[static_cast<size_t>(operand)];
    if (value >= chain_.num_inputs()) return absl::StrCat("v", value - chain_.num_inputs());
    const BroadcastView view = ViewOfOperand(member, operand);
    return view.contiguous() ? InPack(value) : Gathered(value, OffsetText(view.axes()));
  }

  std::string InPack(int input) {
    if (!source_.packed[static_cast<size_t>(input)]) {
      source_.packed[static_cast<size_t>(input)] = true;
      absl::StrAppend(&packs_, "    const auto p", input, " = Load<", CppName(chain_.type(input).dtype),
                      ", kPack>(a.x[", input, "], i);\n");
    }
    return absl::StrCat("p", input, ".values[j]");
  }

  std::string Gathered(int input, const std::string& offset) {
    const auto [found, is_new] = gathered_.try_emplace({input, offset}, absl::StrCat("g", gathered_.size()));
    if (is_new) {
      const absl::string_view type = CppName(chain_.type(input).dtype);
      absl::StrAppend(&elements_, "      const ", type, " ", found->second, " = static_cast<const ", type, "*>(a.x[",
                      input, "])[", offset, "];\n");
    }
    return found->second;
  }

  // Returns the type of an element's or an output's number.
  const char* Index() const { return chain_.elements().num_elements() < kMost32Bits ? "uint32_t" : "uint64_t"; }

  std::string Elements() const {
    const std::string number =
        gathered_.empty() ? "" : absl::StrCat("      const auto e = static_cast<", Index(), ">(i * kPack + j);\n");
    return number + elements_;
  }

  std::string Text() const {
    return absl::Substitute(kText, source_.name, chain_.num_inputs(), packs_, CppName(chain_.output().dtype),
                            Elements(), chain_.members.size() - 1, source_.pack, kFusedPacked, kFusedSingle);
  }

  std::string ReduceText() {
    const FusedMember& last = chain_.members.back();
    const FusedReduction reduction = last.op->reduction(last.types);
    const CudaReduceSpread spread(reduction.plan, chain_.output().dtype);
    source_.pack = spread.pack;
    source_.reduce = {.blocks = spread.blocks,
                      .parts = spread.parts,
                      .combine_blocks = spread.combine_blocks(),
                      .workspace_bytes = spread.WorkspaceBytes()};
    std::string text = absl::Substitute(kReduceText, source_.name, chain_.num_inputs(), packs_, Elements(),
                                        CppName(chain_.output().dtype), chain_.elementwise() - 1,
                                        ShapeText(reduction, spread), reduction.largest ? "MaxOp" : "SumOp");
    absl::StrAppend(&text, absl::Substitute(kReduceEntryText, kFusedPacked, "true"));
    if (spread.pack > 1) absl::StrAppend(&text, absl::Substitute(kReduceEntryText, kFusedSingle, "false"));
    if (spread.parts > 1) absl::StrAppend(&text, absl::Substitute(kCombineText, kFusedCombine));
    return text;
  }

  std::string ShapeText(const FusedReduction& reduction, const CudaReduceSpread& spread) const {
    const auto flag = [](bool value) { return value ? "true" : "false"; };
    const auto offset = [this](const char* name, const Axes& axes) {
      return absl::StrCat("  __device__ inline int64_t ", name, "(int64_t i) const {\n    const auto e = static_cast<",
                          Index(), ">(i);\n    return ", OffsetText(axes), ";\n  }\n");
    };
    return absl::StrCat(
        "  static constexpr bool kColumns = ", flag(spread.columns), ", like_outputs = ", flag(spread.like_outputs),
        ";\n  static constexpr int kPack = ", spread.pack, ", parts = ", spread.parts,
        ", across_bits = ", spread.across_bits, ", team_bits = ", spread.team_bits,
        ", combine_bits = ", spread.combine_bits, ";\n  static constexpr int64_t outputs = ", spread.outputs,
        ", reduced = ", reduction.plan.reduced_x.count(), ", steps_in_part = ", spread.steps_in_part,
        ";\n  static constexpr double factor = ", absl::StrFormat("%a", reduction.factor), ";\n",
        offset("KeptX", reduction.plan.kept_x), offset("ReducedX", reduction.plan.reduced_x),
        offset("KeptY", reduction.plan.kept_y));
  }

  const FusedChain& chain_;
  FusedSource source_;
  std::map<std::pair<int, std::string>, std::string> gathered_;  // (input, offset) -> its name
  std::string packs_, elements_;                                 // statements, before and inside the loop over a pack
};

}  // namespace

FusedSource WriteFusedSource(const FusedChain& chain) { return Writer(chain).Write(); }

}  // namespace snug::core
