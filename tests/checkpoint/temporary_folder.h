// A folder that goes with the test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace snug::core::checkpoint {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    folder_ = testing::TempDir() + "/snug_checkpoint_XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr) << folder_;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  const std::string& path() const { return folder_; }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
};

}  // namespace snug::core::checkpoint
