// Tests what a `fused` node may have as members.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ops/fused_chain.h"
#include "ops/kernels/fused/source.h"
#include "ops/registry.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

// Says whether an op was made by Elementwise or Broadcasting (ops/kit/elementwise.h): its output may lie on any input.
bool IsElementwise(const OpDef& op) {
  if (op.outputs.size() != 1 || op.inputs.empty() || op.plain() == nullptr || op.plain()->prepare != nullptr ||
      op.inputs.back().variadic)
    return false;
  if (op.aliases.size() != op.inputs.size() || op.traits.layout != LayoutRule::kAgnostic) return false;
  return std::all_of(op.aliases.begin(), op.aliases.end(),
                     [](const Alias& alias) { return alias.kind == Alias::Kind::kMayShare && alias.output == 0; });
}

TEST(Fused, EveryElementwiseOpMayBeAMember) {
  std::string missing;
  int count = 0;
  for (const OpDef* op : OpRegistry::Builtin().all()) {
    if (!IsElementwise(*op)) continue;
    ++count;
    if (op->elementwise.expression == nullptr) missing += " " + std::string(op->name);
  }
  EXPECT_EQ(missing, "");
  EXPECT_GT(count, 35);
}

FusedMemberSpec Member(absl::string_view op, std::vector<int> operands, Options options = {}) {
  return {&OpRegistry::Builtin().Get(op), std::move(options), std::move(operands)};
}

TEST(Fused, OptionsNameTheirMembersAndAreEqualWhereTheseAre) {
  const auto chain = [](const char* scale, int operand) {
    return FusedOptions({Member("mul", {0, 1}), Member("scale", {operand}, proto::ParseOptions<proto::Scale>(scale))});
  };
  EXPECT_EQ(chain("factor: 2", 2).text(), "mul(0, 1); scale(2) {factor: 2}");
  EXPECT_TRUE(chain("factor: 2", 2) == chain("factor: 2", 2));
  EXPECT_FALSE(chain("factor: 2", 2) == chain("factor: 3", 2));
  EXPECT_FALSE(chain("factor: 2", 2) == chain("factor: 2", 1));
}

// An op that a program brings, in a registry of its own, is a member like any other.
TEST(Fused, AMemberMayBeAnOpOfAnotherRegistry) {
  OpDef brought = OpRegistry::Builtin().Get("neg");
  brought.name = "brought";
  OpRegistry registry = OpRegistry::Builtin();
  ASSERT_TRUE(registry.AddAll("the program", {brought}).ok());
  NodeTypes types{.inputs = {{DType::kFloat32, {3}, {}}}, .present = {true}};
  types.options = FusedOptions({{&registry.Get("brought"), {}, {0}}, Member("relu", {1})});
  const absl::StatusOr<FusedChain> chain = ReadFusedChain(types);
  ASSERT_TRUE(chain.ok()) << chain.status();
  EXPECT_EQ(WriteFusedSource(*chain).name, "brought, relu");
}

// This has a whole source in it, so that somebody reads one.
TEST(Fused, SourceIsOneLoop) {
  NodeTypes types;
  types.inputs = {{DType::kFloat32, {2, 3, 4}, {}}, {DType::kFloat32, {3, 1}, {}}, {DType::kFloat32, {2, 3, 4}, {}}};
  types.present = {true, true, true};
  types.options = FusedOptions({Member("mul", {0, 1}), Member("add", {3, 2})});
  const FusedSource source = WriteFusedSource(ReadFusedChain(types).value());
  EXPECT_EQ(source.name, "mul, add");
  EXPECT_EQ(source.pack, 4);
  EXPECT_EQ(source.packed, std::vector<bool>({true, false, true}));
  EXPECT_EQ(source.text, R"(// mul, add
#include "ops/kernels/fused/prelude.h"

namespace snug::core {

struct Arguments {
  const void* x[3];
  void* y;
  int64_t n;
  uint64_t zero;
};

template <int kPack>
__device__ inline void Run(const Arguments& a) {
  SNUG_FUSED_FOR(i, a.n / kPack) {
    const auto p0 = Load<float, kPack>(a.x[0], i);
    const auto p2 = Load<float, kPack>(a.x[2], i);
    CudaPack<float, kPack> y;
    for (int j = 0; j < kPack; ++j) {
      const auto e = static_cast<uint32_t>(i * kPack + j);
      const float g0 = static_cast<const float*>(a.x[1])[e / 4 % 3];
      const float v0 = Keep(Apply<float>(functions::Mul{}, p0.values[j], g0), a.zero);
      const float v1 = Apply<float>(functions::Add{}, v0, p2.values[j]);
      y.values[j] = v1;
    }
    Store(y, a.y, i);
  }
}

}  // namespace snug::core

extern "C" __global__ void snug_fused_packed(const snug::core::Arguments a) { snug::core::Run<4>(a); }
extern "C" __global__ void snug_fused_single(const snug::core::Arguments a) { snug::core::Run<1>(a); }
)");
}

TEST(Fused, SourceWithoutBroadcastingKnowsNoSizes) {
  const auto source_of = [](const Shape& shape) {
    NodeTypes types;
    types.inputs = {{DType::kBFloat16, shape, {}}, {DType::kBFloat16, shape, {}}};
    types.present = {true, true};
    types.options = FusedOptions({Member("relu_grad", {0, 1}), Member("add_n", {2, 1, 0})});
    return WriteFusedSource(ReadFusedChain(types).value()).text;
  };
  EXPECT_EQ(source_of({4, 5}), source_of({2, 7, 3}));
}

}  // namespace
}  // namespace snug::core
