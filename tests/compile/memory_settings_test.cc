// What files, flags and programs say of memory: every option of the proto takes effect, who comes first, and errors
// that say where.
#include "engine/compile/memory/memory_settings.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "proto/text_loader.h"

namespace snug::core {
namespace {

using google::protobuf::FieldDescriptor;
using testing::HasSubstr;

std::string Text(const std::string& value) { return absl::StrCat("\"", value, "\""); }
std::string Text(double value) { return absl::StrCat(value); }
std::string Text(int64_t value) { return absl::StrCat(value); }
std::string Text(bool value) { return value ? "true" : "false"; }

std::map<std::string, std::string> OptionsByName(const DynamicMemoryOptions& options) {
  std::map<std::string, std::string> texts;
  ForEachOption(options, [&](const char* name, const auto& value) { texts[name] = Text(value); });
  return texts;
}

// Another value than the default, as a model file has it.
std::string OtherValue(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return Text(std::string("buddy"));
    case FieldDescriptor::CPPTYPE_BOOL:
      return Text(!field.default_value_bool());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Text(field.default_value_double() == 0.25 ? 0.5 : 0.25);
    default:
      return Text(int64_t{field.default_value_int64() + 1});
  }
}

std::string DefaultOf(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return Text(field.default_value_string());
    case FieldDescriptor::CPPTYPE_BOOL:
      return Text(field.default_value_bool());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Text(field.default_value_double());
    default:
      return Text(int64_t{field.default_value_int64()});
  }
}

LoadedNetwork Loaded(const std::string& memory) {
  absl::StatusOr<LoadedNetwork> loaded =
      LoadNetworkText(absl::StrCat("training { memory { ", memory, " } }"), "net.pbtxt", {.needs_layers = false});
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return *std::move(loaded);
}

MemorySource InFile(const LoadedNetwork& file) {
  return {&file.network.training().memory(), OptionPlaces::InFile(file.source_map)};
}
MemorySource OnCommandLine(const LoadedNetwork& flags) {
  return {&flags.network.training().memory(), OptionPlaces::OnCommandLine()};
}

TEST(MemorySettings, EveryFieldOfTheProtoIsAnOptionWithThatDefault) {
  const std::map<std::string, std::string> defaults = OptionsByName(DynamicMemoryOptions());
  std::map<std::string, std::string> fields;
  const google::protobuf::Descriptor& type = *proto::Memory::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    if (type.field(i)->name() == "strategy") {
      EXPECT_EQ(type.field(i)->default_value_string(), MemoryOptions().strategy);
    } else if (type.field(i)->name() != "memory_limit") {
      fields[type.field(i)->name()] = DefaultOf(*type.field(i));
    }
  }
  EXPECT_EQ(fields, defaults);
}

TEST(MemorySettings, EveryOptionOfAFileTakesEffectAndNoOtherChanges) {
  const std::map<std::string, std::string> defaults = OptionsByName(DynamicMemoryOptions());
  for (const auto& [name, value] : defaults) {
    const FieldDescriptor* const field = proto::Memory::descriptor()->FindFieldByName(name);
    ASSERT_NE(field, nullptr) << name;
    const LoadedNetwork file = Loaded(absl::StrCat("strategy: 'dynamic' ", name, ": ", OtherValue(*field)));
    const absl::StatusOr<MemoryOptions> options = SettleMemory({InFile(file)});
    ASSERT_TRUE(options.ok()) << options.status().message();
    std::map<std::string, std::string> expected = defaults;
    expected[name] = OtherValue(*field);
    EXPECT_EQ(OptionsByName(options->dynamic), expected);
    EXPECT_EQ(options->strategy, "dynamic");
  }
}

TEST(MemorySettings, WhatComesFirstCountsOptionByOption) {
  const LoadedNetwork flags = Loaded("gc_fraction: 0.5 memory_limit: '1MB'");
  const LoadedNetwork file = Loaded("strategy: 'dynamic' allocator: 'buddy' gc_fraction: 0.25 memory_limit: '2GB'");
  const absl::StatusOr<MemoryOptions> options = SettleMemory({OnCommandLine(flags), InFile(file)});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->strategy, "dynamic");
  EXPECT_EQ(options->memory_limit, 1'000'000);
  EXPECT_EQ(options->dynamic.allocator.allocator, "buddy");
  EXPECT_EQ(options->dynamic.garbage.gc_fraction, 0.5);
}

TEST(MemorySettings, OptionsForAnotherStrategyThanTheOneChosenFirstAreNoMistake) {
  const LoadedNetwork planned = Loaded("strategy: 'best'"), dynamic = Loaded("strategy: 'dynamic' inplace: false");
  const absl::StatusOr<MemoryOptions> options = SettleMemory({OnCommandLine(planned), InFile(dynamic)});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->strategy, "best");
}

TEST(MemorySettings, PlannedMemoryHasNoAllocator) {
  const LoadedNetwork alone = Loaded("\n  inplace: false");
  EXPECT_EQ(
      SettleMemory({InFile(alone)}).status().message(),
      "net.pbtxt:2:12: training.memory.inplace: expected training.memory.strategy: \"dynamic\" beside it: planned "
      "memory has no allocator");
  const LoadedNetwork none = Loaded("");
  EXPECT_EQ(SettleMemory({OnCommandLine(alone), InFile(none)}).status().message(),
            "--inplace: expected --memory=dynamic beside it: planned memory has no allocator");
  EXPECT_EQ(SettleMemory({{OnCommandLine(alone).memory, OptionPlaces::InProgram()}}).status().message(),
            "option \"inplace\": expected memory = \"dynamic\" beside it: planned memory has no allocator");
  // A file's strategy that does not go with a flag: the flag is at fault.
  const LoadedNetwork best = Loaded("strategy: 'best'");
  EXPECT_THAT(std::string(SettleMemory({OnCommandLine(alone), InFile(best)}).status().message()),
              HasSubstr("--inplace: expected"));
}

TEST(MemorySettings, ValuesThatMakeNoSenseAreLocatedEvenWhereTheyDoNotCount) {
  const LoadedNetwork first = Loaded("strategy: 'dynamic' gc_fraction: 1");
  for (const auto& [text, message] : std::map<std::string, std::string>{
           {"allocator: 'slab'",
            "12: training.memory.allocator: expected auto_growth, prealloc, buddy or system, found \"slab\""},
           {"gc_fraction: 1.5", "14: training.memory.gc_fraction: expected a share from 0 to 1, found 1.5"},
           {"gc_threshold_gb: 2e6",
            "18: training.memory.gc_threshold_gb: expected a finite number of at most 1000000, found 2e+06"},
           {"initial_mb: -1", "13: training.memory.initial_mb: expected 0 to "},
           {"retry_ms: -1", "11: training.memory.retry_ms: expected 0 to 86400000, found -1"},
           {"memory_limit: 'lots'", "15: training.memory.memory_limit: expected a number of bytes"},
           {"memory_limit: '0.4B'", "15: training.memory.memory_limit: expected a number of bytes"},
           {"strategy: 'bets'",
            "11: training.memory.strategy: unknown memory strategy \"bets\"; did you mean \"best\"?"},
       }) {
    const LoadedNetwork file = Loaded("\n" + text);
    EXPECT_THAT(std::string(SettleMemory({OnCommandLine(first), InFile(file)}).status().message()),
                testing::StartsWith("net.pbtxt:2:" + message));
  }
}

}  // namespace
}  // namespace snug::core
