// What updates do with slots in bfloat16 and in 8 bits: what they do with slots in float32, rounded.
#include "tests/ops/narrow_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::test {

Options ParseUpdate(const std::string& text) { return proto::ParseOptions<proto::Update>(text.c_str()); }

namespace {

constexpr DType kNarrow[] = {DType::kBFloat16, DType::kUint8};
const Shape kShape = {5, 2051};  // several pieces of work, and no whole block at the end

std::string NameOf(const UpdateCase& c, DType parameter, DType kept) {
  return absl::StrCat(c.op, " {", c.options, "} ", Name(parameter), " ", Name(kept));
}

// How far a number may be from the one that it was rounded from.
double Gap(DType kept, bool squares, float number, float largest_in_block) {
  if (kept == DType::kBFloat16) return std::abs(static_cast<double>(number)) * 0x1p-7;
  const double least = std::ldexp(static_cast<double>(largest_in_block), squares ? -30 : -16);
  return std::max(std::abs(static_cast<double>(number)) / 8, least);
}

TEST(NarrowState, IsUpdatedLikeFloat32AndRounded) {
  const int64_t n = kShape.num_elements();
  for (const UpdateCase& c : UpdateCases()) {
    for (const DType parameter : {DType::kFloat32, DType::kBFloat16}) {
      for (const DType kept : kNarrow) {
        SCOPED_TRACE(NameOf(c, parameter, kept));
        const UpdateNode node = MakeUpdate(c, parameter, kept, kShape);
        const auto found = node.Run(KernelChoice::kPlain, 1);
        const auto expected = Widened(c, node).Run(KernelChoice::kPlain, 1);
        ASSERT_TRUE(found.ok()) << found.status();
        ASSERT_TRUE(expected.ok()) << expected.status();
        const double tolerance = parameter == DType::kFloat32 ? 1e-6 : 0x1p-7;
        if (c.op == "lamb_direction") {
          EXPECT_EQ(FindDifference(kShape, found->outputs[0].ToDoubles(), expected->outputs[0].ToDoubles(), 1e-6),
                    std::nullopt);
        } else {
          EXPECT_EQ(
              FindDifference(kShape, Mutated(*found, 0).ToDoubles(), Mutated(*expected, 0).ToDoubles(), tolerance),
              std::nullopt);
        }
        for (size_t s = 0; s < node.slots.size(); ++s) {
          const bool squares = (c.squares >> s & 1) != 0;
          const std::vector<float> rounded = NumbersOf(Mutated(*found, node.slots[s]), squares, n);
          const std::vector<float> exact = NumbersOf(Mutated(*expected, node.slots[s]), squares, n);
          int changed = 0;
          for (size_t i = 0; i < rounded.size(); ++i) {
            ASSERT_LE(std::abs(static_cast<double>(rounded[i] - exact[i])), Gap(kept, squares, exact[i], 4))
                << "slot " << s << ", element " << i << ": " << rounded[i] << " for " << exact[i];
            changed += rounded[i] != exact[i] ? 1 : 0;
          }
          EXPECT_GT(changed, 0) << "a test of rounding needs numbers that are rounded";
        }
      }
    }
  }
}

TEST(NarrowState, TheBitsDependOnTheStepAndNotOnThreads) {
  for (const UpdateCase& c : UpdateCases()) {
    for (const DType kept : kNarrow) {
      SCOPED_TRACE(NameOf(c, DType::kFloat32, kept));
      const UpdateNode node = MakeUpdate(c, DType::kFloat32, kept, kShape);
      const auto one = node.Run(KernelChoice::kPlain, 1);
      ASSERT_TRUE(one.ok()) << one.status();
      for (const int threads : {2, 3, 7}) {
        const auto several = node.Run(KernelChoice::kPlain, threads);
        ASSERT_TRUE(several.ok()) << several.status();
        for (const auto& [input, tensor] : one->mutated) {
          EXPECT_EQ(FindBitDifference(tensor, Mutated(*several, input)), std::nullopt) << input;
        }
      }
      const auto later = MakeUpdate(c, DType::kFloat32, kept, kShape, /*step=*/10).Run(KernelChoice::kPlain, 1);
      ASSERT_TRUE(later.ok()) << later.status();
      for (const int slot : node.slots) {
        EXPECT_NE(FindBitDifference(Mutated(*one, slot), Mutated(*later, slot)), std::nullopt) << slot;
      }
    }
  }
}

TEST(NarrowState, NothingChangesWhereTheGateIsClosed) {
  for (const UpdateCase& c : UpdateCases()) {
    for (const DType kept : kNarrow) {
      SCOPED_TRACE(NameOf(c, DType::kFloat32, kept));
      UpdateNode node = MakeUpdate(c, DType::kFloat32, kept, {3, 131});
      // No rounding makes such a scale, so nothing that reads it and writes it leaves it.
      for (const int slot : node.slots) {
        if (kept == DType::kUint8) static_cast<uint8_t*>(node.inputs[static_cast<size_t>(slot)].data())[0] = 1;
      }
      node.inputs[static_cast<size_t>(node.gate)].Set(0, 0);
      const auto run = node.Run(KernelChoice::kPlain, 2);
      ASSERT_TRUE(run.ok()) << run.status();
      for (const auto& [input, tensor] : run->mutated) {
        EXPECT_EQ(FindBitDifference(tensor, node.inputs[static_cast<size_t>(input)]), std::nullopt) << input;
      }
    }
  }
}

TEST(NarrowState, WrongTypesAreRefusedByName) {
  const UpdateNode node = MakeUpdate(UpdateCases()[0], DType::kFloat32, DType::kUint8, {4, 100});
  const auto error = [&](auto change) {
    NodeTypes types = node.types;
    change(types);
    return std::string(InferTypes(*node.op, &types).message());
  };
  using testing::HasSubstr;
  EXPECT_THAT(error([](NodeTypes& types) { types.inputs[1].shape = {400}; }),
              HasSubstr("input 1 \"velocity\" [400]: expected shape [416]"));
  EXPECT_THAT(error([](NodeTypes& types) { types.inputs[0] = types.inputs[1]; }),
              HasSubstr("input 0 \"param\" [416]: expected a floating-point type, found uint8"));
  EXPECT_THAT(error([](NodeTypes& types) { types.present[5] = false; }),
              HasSubstr("is uint8, which is rounded stochastically: expected input 5 \"rounding\", found none"));
  EXPECT_THAT(error([](NodeTypes& types) {
                for (const size_t i : {0U, 2U, 3U}) types.inputs[i].dtype = DType::kFloat64;
              }),
              HasSubstr("input 1 \"velocity\""));
}

}  // namespace
}  // namespace snug::core::test
