// A network from text that is right.
#pragma once

#include <absl/strings/string_view.h>
#include <gtest/gtest.h>

#include <utility>

#include "proto/text_loader.h"

namespace snug::core {

inline LoadedNetwork Load(absl::string_view text) {
  absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "net.pbtxt");
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded.ok() ? *std::move(loaded) : LoadedNetwork();
}

}  // namespace snug::core
