// Archives and pickles as torch.save writes them, or nearly: tests spoil one thing at a time.
#pragma once

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "engine/train/checkpoint/zip_directory.h"

namespace snug::core::checkpoint {

template <class Number>
std::string BytesOf(Number number) {
  std::string bytes(sizeof(number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

struct ArchiveMember {
  std::string name, content;
  uint16_t method = 0, flags = 0;
};

// Without zip64 records, or with them for every size and place.
inline std::string MakeArchive(const std::vector<ArchiveMember>& members, bool zip64 = false) {
  std::string file, directory;
  for (const ArchiveMember& member : members) {
    const auto size = static_cast<uint64_t>(member.content.size());
    const uint64_t header = file.size();
    const uint32_t crc = Crc32({reinterpret_cast<const std::byte*>(member.content.data()), member.content.size()});
    const auto small = [&](uint64_t number) { return BytesOf(zip64 ? ~uint32_t{0} : static_cast<uint32_t>(number)); };
    const std::string extra =
        zip64 ? BytesOf(uint16_t{1}) + BytesOf(uint16_t{24}) + BytesOf(size) + BytesOf(size) + BytesOf(header) : "";
    const std::string shared = BytesOf(uint16_t{0}) + BytesOf(member.flags) + BytesOf(member.method) +
                               BytesOf(uint32_t{0}) + BytesOf(crc) + small(size) + small(size) +
                               BytesOf(static_cast<uint16_t>(member.name.size()));
    absl::StrAppend(&file, "PK\x03\x04", shared, BytesOf(uint16_t{3}), member.name, "FB.", member.content);
    absl::StrAppend(&directory, "PK\x01\x02", BytesOf(uint16_t{0}), shared,
                    BytesOf(static_cast<uint16_t>(extra.size())), std::string(10, '\0'), small(header), member.name,
                    extra);
  }
  const uint64_t begin = file.size(), bytes = directory.size(), count = members.size();
  file += directory;
  if (zip64) {
    const uint64_t end64 = file.size();
    file += "PK\x06\x06" + BytesOf(uint64_t{44}) + std::string(12, '\0') + BytesOf(count) + BytesOf(count) +
            BytesOf(bytes) + BytesOf(begin);
    file += "PK\x06\x07" + BytesOf(uint32_t{0}) + BytesOf(end64) + BytesOf(uint32_t{1});
  }
  const auto small_count = static_cast<uint16_t>(zip64 ? 0xFFFF : count);
  return file + "PK\x05\x06" + std::string(4, '\0') + BytesOf(small_count) + BytesOf(small_count) +
         BytesOf(zip64 ? ~uint32_t{0} : static_cast<uint32_t>(bytes)) +
         BytesOf(zip64 ? ~uint32_t{0} : static_cast<uint32_t>(begin)) + BytesOf(uint16_t{0});
}

// Parts of a pickle.
inline std::string PickledText(absl::string_view text) {
  return absl::StrCat("X", BytesOf(static_cast<uint32_t>(text.size())), text);
}
inline std::string PickledNumber(int64_t number) {
  const std::string length(1, '\x08');
  return absl::StrCat("\x8a", length, BytesOf(number));
}
inline std::string PickledTuple(const std::vector<int64_t>& numbers) {
  std::string tuple = "(";
  for (const int64_t number : numbers) tuple += PickledNumber(number);
  return tuple + "t";
}
inline std::string PickledTensor(const std::string& key, int64_t elements, int64_t offset,
                                 const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  return absl::StrCat("ctorch._utils\n_rebuild_tensor_v2\n((", PickledText("storage"), "ctorch\nFloatStorage\n",
                      PickledText(key), PickledText("cpu"), PickledNumber(elements), "tQ", PickledNumber(offset),
                      PickledTuple(shape), PickledTuple(strides), "\x89}tR");
}
inline std::string PickledDict(const std::vector<std::string>& keys_and_values) {
  return absl::StrCat("}(", absl::StrJoin(keys_and_values, ""), "u");
}
inline std::string Pickled(const std::string& object) { return absl::StrCat("\x80\x02", object, "."); }

}  // namespace snug::core::checkpoint
