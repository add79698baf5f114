#include "engine/train/tensorboard/record_file.h"

#include <absl/strings/str_cat.h>

#include <array>
#include <cerrno>

#include "engine/base/status.h"

namespace snug::core::tensorboard {
namespace {

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  constexpr uint32_t kPolynomial = 0x82F63B78;  // bits reflected
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ kPolynomial : crc >> 1;
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

template <class T>
absl::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

uint32_t MaskedCrc32c(absl::string_view bytes) {
  constexpr uint32_t kMaskDelta = 0xA282EAD8;
  const uint32_t crc = Crc32c(bytes);
  return (crc >> 15 | crc << 17) + kMaskDelta;
}

std::string FramedRecord(absl::string_view record) {
  const uint64_t length = record.size();
  return absl::StrCat(BytesOf(length), BytesOf(MaskedCrc32c(BytesOf(length))), record, BytesOf(MaskedCrc32c(record)));
}

absl::StatusOr<std::unique_ptr<RecordFile>> RecordFile::Create(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "wbx");
  if (file == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be written"));
  return std::unique_ptr<RecordFile>(new RecordFile(path, file));
}

RecordFile::~RecordFile() { std::fclose(file_); }

absl::Status RecordFile::Write(absl::string_view record) {
  const std::string framed = FramedRecord(record);
  errno = 0;
  const bool written = std::fwrite(framed.data(), 1, framed.size(), file_) == framed.size();
  if (written && std::fflush(file_) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat(path_, ": cannot be written"));
}

}  // namespace snug::core::tensorboard
