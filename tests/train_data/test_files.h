// Files that a test writes into a folder of its own, and what Datasets made of them read.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/str_replace.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "engine/train/data/dataset.h"

namespace snug::core {

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class FileTest : public testing::Test {
 protected:
  FileTest() : folder_(testing::TempDir() + "/snug_train_data_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }

  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(PathOf(name), std::ios::binary) << bytes;
    return PathOf(name);
  }
  std::string WriteGzipped(const std::string& name, const std::string& bytes) const {
    gzFile file = gzopen(PathOf(name).c_str(), "wb");
    EXPECT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())), static_cast<int>(bytes.size()));
    gzclose(file);
    return PathOf(name);
  }
  // The message, without the folder's name.
  template <class T>
  std::string ErrorOf(const absl::StatusOr<T>& value) const {
    return ErrorOf(value.status());
  }
  std::string ErrorOf(const absl::Status& status) const {
    return absl::StrReplaceAll(std::string(status.message()), {{folder_ + "/", ""}, {folder_, "FOLDER"}});
  }

 private:
  std::string folder_;
};

// The bytes of each field of one sample.
class Sample {
 public:
  Sample(const Dataset& dataset, int64_t index) {
    std::vector<std::byte*> pointers;
    for (const DataField& field : dataset.fields()) {
      fields_.emplace_back(static_cast<size_t>(field.type.size_bytes() + 7) / 8);
    }
    for (auto& field : fields_) pointers.push_back(reinterpret_cast<std::byte*>(field.data()));
    status_ = dataset.Read(index, pointers);
    for (const DataField& field : dataset.fields()) elements_.push_back(field.type.num_elements());
  }
  const absl::Status& status() const { return status_; }
  template <class T>
  std::vector<T> Field(size_t i) const {
    EXPECT_TRUE(status_.ok()) << status_.message();
    const T* data = reinterpret_cast<const T*>(fields_[i].data());
    return {data, data + elements_[i]};
  }

 private:
  std::vector<std::vector<uint64_t>> fields_;  // words: aligned for every element type
  std::vector<int64_t> elements_;
  absl::Status status_;
};

// Big-endian, as IDX has its numbers.
inline std::string BigEndian32(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

}  // namespace snug::core
