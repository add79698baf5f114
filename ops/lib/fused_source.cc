#include "ops/lib/fused_source.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/substitute.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ops/lib/fused_functions.h"

namespace snug {
namespace {

constexpr int64_t kPackBytes = 16;
constexpr int64_t kMost32Bits = int64_t{1} << 31;  // divisions of 32 bits are much cheaper

// $0 the members, $1 how many inputs, $2 and $4 statements, $3 the output's type, $5 the last member, $6 elements in a
// pack, $7 and $8 the entries.
constexpr char kText[] = R"(// $0
#include "ops/lib/fused_prelude.h"

namespace snug {

struct Arguments {
  const void* x[$1];
  void* y;
  int64_t n;
  uint64_t zero;
};

template <int kPack>
__device__ inline void Run(const Arguments& a) {
  SNUG_FUSED_FOR(i, a.n / kPack) {
$2    Pack<$3, kPack> y;
    for (int j = 0; j < kPack; ++j) {
$4      y.values[j] = v$5;
    }
    static_cast<Pack<$3, kPack>*>(a.y)[i] = y;
  }
}

}  // namespace snug

extern "C" __global__ void $7(const snug::Arguments a) { snug::Run<$6>(a); }
extern "C" __global__ void $8(const snug::Arguments a) { snug::Run<1>(a); }
)";

// Where the operand's element for the output's element e lies.
std::string OffsetText(const Axes& axes) {
  std::vector<std::string> terms;
  int64_t inside = 1;  // elements of the output in one step along the axis
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
    int64_t widest = SizeOf(chain_.output().dtype);
    std::vector<absl::string_view> names;
    for (size_t m = 0; m < chain_.members.size(); ++m) {
      const FusedMember& member = chain_.members[m];
      names.push_back(member.op->name);
      WriteMember(static_cast<int>(m));
    }
    for (int i = 0; i < chain_.num_inputs(); ++i) {
      if (source_.packed[static_cast<size_t>(i)]) widest = std::max(widest, SizeOf(chain_.type(i).dtype));
    }
    source_.name = absl::StrJoin(names, ", ");
    source_.pack = static_cast<int>(kPackBytes / widest);
    source_.text = Text();
    return std::move(source_);
  }

 private:
  void WriteMember(int m) {
    const FusedMember& member = chain_.members[static_cast<size_t>(m)];
    std::vector<std::string> operands;
    for (size_t o = 0; o < member.operands.size(); ++o) operands.push_back(Operand(member, static_cast<int>(o)));
    std::string value = FusedExpression(member.op->name, member.types, absl::StrJoin(operands, ", "));
    const bool last = m + 1 == static_cast<int>(chain_.members.size());
    if (!last) value = absl::StrCat("Keep(", value, ", a.zero)");
    absl::StrAppend(&elements_, "      const ", CppName(member.types.output(0).dtype), " v", m, " = ", value, ";\n");
  }

  // The name of what holds it; loads it before its first use.
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

  std::string Text() const {
    const char* const index = chain_.output().num_elements() < kMost32Bits ? "uint32_t" : "uint64_t";
    const std::string number =
        gathered_.empty() ? "" : absl::StrCat("      const auto e = static_cast<", index, ">(i * kPack + j);\n");
    return absl::Substitute(kText, source_.name, chain_.num_inputs(), packs_, CppName(chain_.output().dtype),
                            number + elements_, chain_.members.size() - 1, source_.pack, kFusedPacked, kFusedSingle);
  }

  const FusedChain& chain_;
  FusedSource source_;
  std::map<std::pair<int, std::string>, std::string> gathered_;  // (input, offset) -> its name
  std::string packs_, elements_;                                 // statements
};

}  // namespace

FusedSource WriteFusedSource(const FusedChain& chain) { return Writer(chain).Write(); }

}  // namespace snug
