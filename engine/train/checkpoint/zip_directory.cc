#include "engine/train/checkpoint/zip_directory.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "engine/base/status.h"

namespace snug::core::checkpoint {
namespace {

// The records, by APPNOTE.TXT of PKWARE, with the places of their fields.
constexpr uint32_t kLocalMagic = 0x04034b50, kCentralMagic = 0x02014b50, kEndMagic = 0x06054b50;
constexpr uint32_t kEnd64Magic = 0x06064b50, kLocator64Magic = 0x07064b50;
constexpr int64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr int64_t kMaxCommentBytes = 65535;
constexpr uint64_t kMaxDirectoryBytes = 100'000'000;  // a million members
constexpr uint16_t kExtra64 = 1;
constexpr uint16_t kEncrypted = 1;

absl::Status Error(int64_t position, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("zip archive: byte ", position, ": ", message));
}

template <class Number>
Number At(absl::string_view bytes, int64_t position) {
  Number number;
  std::memcpy(&number, bytes.data() + position, sizeof(number));
  return number;
}

absl::StatusOr<std::string> ReadText(const ReadableFile& file, int64_t position, int64_t bytes) {
  if (position < 0 || bytes < 0 || position > file.size_bytes() - bytes) {
    return Error(position,
                 absl::StrCat("expected ", bytes, " bytes, the file has ", file.size_bytes(), ": it is cut short"));
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  SNUG_RETURN_IF_ERROR(file.Read(position, {reinterpret_cast<std::byte*>(text.data()), text.size()}));
  return text;
}

struct Directory {
  uint64_t members = 0, bytes = 0, begin = 0;
};

// The record at the end, behind which there may be a comment.
absl::StatusOr<Directory> FindDirectory(const ReadableFile& file) {
  const int64_t size = file.size_bytes();
  const int64_t tail_bytes = std::min(size, kEndBytes + kMaxCommentBytes);
  SNUG_ASSIGN_OR_RETURN(const std::string tail, ReadText(file, size - tail_bytes, tail_bytes));
  for (int64_t at = tail_bytes - kEndBytes; at >= 0; --at) {
    if (At<uint32_t>(tail, at) != kEndMagic || at + kEndBytes + At<uint16_t>(tail, at + 20) != tail_bytes) continue;
    const int64_t position = size - tail_bytes + at;
    if (At<uint16_t>(tail, at + 4) != 0 && At<uint16_t>(tail, at + 4) != 0xFFFF) {
      return Error(position + 4, "expected an archive in one file, found one of several");
    }
    Directory found{At<uint16_t>(tail, at + 10), At<uint32_t>(tail, at + 12), At<uint32_t>(tail, at + 16)};
    const int64_t locator_at = position - kLocator64Bytes;
    if (locator_at < 0) return found;
    SNUG_ASSIGN_OR_RETURN(const std::string locator, ReadText(file, locator_at, kLocator64Bytes));
    if (At<uint32_t>(locator, 0) != kLocator64Magic) return found;
    const auto end64_at = At<int64_t>(locator, 8);
    SNUG_ASSIGN_OR_RETURN(const std::string end64, ReadText(file, end64_at, kEnd64Bytes));
    if (At<uint32_t>(end64, 0) != kEnd64Magic) return Error(end64_at, "expected the zip64 record of the archive's end");
    return Directory{At<uint64_t>(end64, 32), At<uint64_t>(end64, 40), At<uint64_t>(end64, 48)};
  }
  return Error(size, "expected a zip archive's directory before the end of the file: the file is cut short");
}

// Sizes and places that need more than 32 bits stand in the zip64 part of a record's extra fields, in this sequence.
absl::Status TakeExtra64(absl::string_view extra, int64_t position, const std::array<uint64_t*, 3>& fields) {
  const auto is_open = [](const uint64_t* field) { return *field == 0xFFFFFFFF; };
  if (std::none_of(fields.begin(), fields.end(), is_open)) return absl::OkStatus();
  for (size_t at = 0; at + 4 <= extra.size();) {
    const auto kind = At<uint16_t>(extra, static_cast<int64_t>(at));
    const size_t bytes = At<uint16_t>(extra, static_cast<int64_t>(at) + 2);
    if (bytes > extra.size() - at - 4) break;
    absl::string_view part = extra.substr(at + 4, bytes);
    at += 4 + bytes;
    if (kind != kExtra64) continue;
    for (uint64_t* const field : fields) {
      if (!is_open(field)) continue;
      if (part.size() < sizeof(uint64_t)) return Error(position, "expected a size of 8 bytes in the zip64 fields");
      *field = At<uint64_t>(part, 0);
      part.remove_prefix(sizeof(uint64_t));
    }
    return absl::OkStatus();
  }
  return Error(position, "expected zip64 fields, because a size of this member is 2^32 - 1");
}

// Finds where the bytes of a member begin: its own header has a name and extra fields of other lengths than the
// directory.
absl::StatusOr<int64_t> DataBegin(const ReadableFile& file, int64_t header, const std::string& name) {
  SNUG_ASSIGN_OR_RETURN(const std::string local, ReadText(file, header, kLocalBytes));
  if (At<uint32_t>(local, 0) != kLocalMagic) {
    return Error(header, absl::StrCat("expected the header of the member \"", absl::CHexEscape(name), "\""));
  }
  SNUG_ASSIGN_OR_RETURN(const std::string found, ReadText(file, header + kLocalBytes, At<uint16_t>(local, 26)));
  if (found != name) {
    return Error(header + kLocalBytes,
                 absl::StrCat("expected the member \"", absl::CHexEscape(name), "\", as the directory has it, found \"",
                              absl::CHexEscape(found), "\""));
  }
  return header + kLocalBytes + At<uint16_t>(local, 26) + At<uint16_t>(local, 28);
}

// Takes the record that `records` begins with, and removes it from there.
absl::StatusOr<ZipMember> TakeMember(const ReadableFile& file, absl::string_view* records, int64_t position) {
  if (static_cast<int64_t>(records->size()) < kCentralBytes || At<uint32_t>(*records, 0) != kCentralMagic) {
    return Error(position, "expected a record of the directory");
  }
  const int64_t name_bytes = At<uint16_t>(*records, 28), extra_bytes = At<uint16_t>(*records, 30);
  const int64_t bytes = kCentralBytes + name_bytes + extra_bytes + At<uint16_t>(*records, 32);
  if (bytes > static_cast<int64_t>(records->size())) return Error(position, "the record reaches past the directory");
  const absl::string_view record = records->substr(0, static_cast<size_t>(bytes));
  ZipMember member{.name = std::string(record.substr(kCentralBytes, static_cast<size_t>(name_bytes))),
                   .crc32 = At<uint32_t>(record, 16)};
  const std::string place = absl::StrCat("member \"", absl::CHexEscape(member.name), "\": ");
  if ((At<uint16_t>(record, 8) & kEncrypted) != 0) return Error(position + 8, absl::StrCat(place, "it is encrypted"));
  if (const auto method = At<uint16_t>(record, 10); method != 0) {
    return Error(position + 10, absl::StrCat(place,
                                             "expected bytes as they are, as torch.save stores them, found "
                                             "compression method ",
                                             method));
  }
  uint64_t packed = At<uint32_t>(record, 20), size = At<uint32_t>(record, 24), header = At<uint32_t>(record, 42);
  SNUG_RETURN_IF_ERROR(
      TakeExtra64(record.substr(static_cast<size_t>(kCentralBytes + name_bytes), static_cast<size_t>(extra_bytes)),
                  position, {&size, &packed, &header}));
  if (packed != size)
    return Error(position + 20, absl::StrCat(place, "its two sizes, ", packed, " and ", size, ", differ"));
  const auto limit = static_cast<uint64_t>(file.size_bytes());
  if (header > limit) return Error(position + 42, absl::StrCat(place, "expected within the file, found at ", header));
  SNUG_ASSIGN_OR_RETURN(member.begin, DataBegin(file, static_cast<int64_t>(header), member.name));
  if (static_cast<uint64_t>(member.begin) > limit || size > limit - static_cast<uint64_t>(member.begin)) {
    return Error(member.begin, absl::StrCat(place, "expected ", size, " bytes, the file has ", limit));
  }
  member.end = member.begin + static_cast<int64_t>(size);
  records->remove_prefix(static_cast<size_t>(bytes));
  return member;
}

absl::Status CheckSeparate(const std::vector<ZipMember>& members) {
  for (size_t i = 1; i < members.size(); ++i) {
    if (members[i].begin < members[i - 1].end) {
      return Error(members[i].begin, absl::StrCat("members \"", absl::CHexEscape(members[i - 1].name), "\" and \"",
                                                  absl::CHexEscape(members[i].name), "\" overlap"));
    }
  }
  return absl::OkStatus();
}

// Eight tables, so that eight bytes are taken at a time: tables[k] advances a byte by k more zero bytes.
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;
constexpr CrcTables MakeCrcTables() {
  constexpr uint32_t kPolynomial = 0xEDB88320;
  CrcTables tables = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][i] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t i = 0; i < 256; ++i) tables[k][i] = (tables[k - 1][i] >> 8) ^ tables[0][tables[k - 1][i] & 0xFF];
  }
  return tables;
}

}  // namespace

absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(const ReadableFile& file) {
  SNUG_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(file));
  const auto size = static_cast<uint64_t>(file.size_bytes());
  if (directory.begin > size || directory.bytes > size - directory.begin) {
    return Error(file.size_bytes(), absl::StrCat("the directory, ", directory.bytes, " bytes at byte ", directory.begin,
                                                 ", does not lie in the file, which has ", size));
  }
  const auto begin = static_cast<int64_t>(directory.begin);
  if (directory.bytes > kMaxDirectoryBytes) {
    return Error(
        begin, absl::StrCat("expected a directory of at most ", kMaxDirectoryBytes, " bytes, found ", directory.bytes));
  }
  SNUG_ASSIGN_OR_RETURN(const std::string text, ReadText(file, begin, static_cast<int64_t>(directory.bytes)));
  absl::string_view records = text;
  std::vector<ZipMember> members;
  while (!records.empty()) {
    const int64_t position = begin + static_cast<int64_t>(text.size() - records.size());
    SNUG_ASSIGN_OR_RETURN(ZipMember member, TakeMember(file, &records, position));
    members.push_back(std::move(member));
  }
  if (members.size() != directory.members) {
    return Error(begin, absl::StrCat("expected ", directory.members, " members, found ", members.size()));
  }
  std::sort(members.begin(), members.end(), [](const ZipMember& a, const ZipMember& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  SNUG_RETURN_IF_ERROR(CheckSeparate(members));
  if (!members.empty() && members.back().end > begin) {
    return Error(begin,
                 absl::StrCat("the directory and the member \"", absl::CHexEscape(members.back().name), "\" overlap"));
  }
  return members;
}

uint32_t Crc32(absl::Span<const std::byte> bytes, uint32_t crc32) {
  static constexpr CrcTables kTables = MakeCrcTables();
  uint32_t crc = ~crc32;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    std::array<uint32_t, 2> words;
    std::memcpy(words.data(), bytes.data(), sizeof(words));
    words[0] ^= crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][(words[i / 4] >> (8 * (i % 4))) & 0xFF];
  }
  for (const std::byte byte : bytes) crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint32_t>(byte)) & 0xFF];
  return ~crc;
}

}  // namespace snug::core::checkpoint
