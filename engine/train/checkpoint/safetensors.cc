#include "engine/train/checkpoint/safetensors.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/utf8.h"
#include "engine/train/checkpoint/digest.h"
#include "engine/train/checkpoint/json_reader.h"

namespace snug::core::checkpoint {
namespace {

int64_t SizeBytes(const TensorBytes& tensor) { return static_cast<int64_t>(tensor.bytes.size()); }
int64_t SizeBytes(const TensorEntry& tensor) { return tensor.size_bytes(); }

template <class Tensor>
absl::StatusOr<Header> LayOut(const std::vector<Tensor>& tensors, const Metadata& metadata) {
  for (const auto& [key, value] : metadata) {
    if (!IsUtf8(key) || !IsUtf8(value)) {
      return absl::InvalidArgumentError(absl::StrCat("metadata \"", absl::CHexEscape(key), "\": expected UTF-8"));
    }
  }
  Header header{.metadata = metadata};
  int64_t end = 0;
  for (const Tensor& tensor : tensors) {
    if (!IsUtf8(tensor.name)) {
      return absl::InvalidArgumentError(absl::StrCat("tensor \"", absl::CHexEscape(tensor.name), "\": expected UTF-8"));
    }
    const std::string place = absl::StrCat("tensor \"", absl::Utf8SafeCEscape(tensor.name), "\"");
    if (tensor.name == kMetadataKey) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": the name is the format's own"));
    }
    TensorEntry entry{.name = tensor.name, .type = tensor.type, .shape = tensor.shape, .begin = end};
    const std::optional<int64_t> bytes = TensorBytesOf(tensor.type, tensor.shape);
    if (bytes != SizeBytes(tensor)) {
      return absl::InvalidArgumentError(absl::StrCat(place, " ", entry.TypeText(), ": expected ", bytes.value_or(-1),
                                                     " bytes, found ", SizeBytes(tensor)));
    }
    entry.end = end += *bytes;
    header.tensors.push_back(std::move(entry));
  }
  return header;
}

template <class Tensor>
absl::Status CheckNamesDiffer(const std::vector<Tensor>& tensors) {
  std::vector<std::string> names;
  for (const Tensor& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tensor \"", *twice, "\": expected once, found twice"));
}

constexpr size_t kMaxDimensions = 64;

absl::Status Error(absl::string_view name, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("tensor \"", absl::Utf8SafeCEscape(name), "\": ", message));
}

class Parser {
 public:
  explicit Parser(absl::string_view text) : json_(text, kLengthBytes) {}

  absl::StatusOr<Header> Parse() {
    SNUG_RETURN_IF_ERROR(json_.BeginObject());
    std::string key;
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json_.NextKey(&key));
      if (!more) break;
      if (!names_.insert(key).second) return Error(key, "stands twice in the header");
      if (key == kMetadataKey) {
        SNUG_RETURN_IF_ERROR(ParseMetadata());
      } else {
        SNUG_RETURN_IF_ERROR(Annotate(ParseTensor(key), absl::StrCat("tensor \"", absl::Utf8SafeCEscape(key), "\"")));
      }
    }
    SNUG_RETURN_IF_ERROR(json_.End());
    return std::move(header_);
  }

 private:
  absl::Status ParseMetadata() {
    SNUG_RETURN_IF_ERROR(json_.BeginObject());
    std::string key;
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json_.NextKey(&key));
      if (!more) return absl::OkStatus();
      SNUG_ASSIGN_OR_RETURN(std::string value, json_.String());
      if (!header_.metadata.emplace(key, std::move(value)).second) {
        return absl::InvalidArgumentError(absl::StrCat("metadata \"", absl::Utf8SafeCEscape(key), "\" stands twice"));
      }
    }
  }

  absl::Status ParseTensor(const std::string& name) {
    TensorEntry tensor{.name = name};
    std::vector<int64_t> offsets;
    std::set<std::string> seen;
    SNUG_RETURN_IF_ERROR(json_.BeginObject());
    std::string key;
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json_.NextKey(&key));
      if (!more) break;
      if (!seen.insert(key).second) return json_.Expected(absl::StrCat("no second \"", key, "\" before this"));
      if (key == "dtype") {
        SNUG_ASSIGN_OR_RETURN(const std::string type, json_.String());
        const std::optional<ElementType> known = ElementTypeFromName(type);
        if (!known.has_value()) {
          return absl::InvalidArgumentError(absl::StrCat("dtype: expected one of ", ElementTypeNames(), ", found \"",
                                                         absl::Utf8SafeCEscape(type), "\""));
        }
        tensor.type = *known;
      } else if (key == "shape") {
        SNUG_RETURN_IF_ERROR(Integers(kMaxDimensions, &tensor.shape));
      } else if (key == "data_offsets") {
        SNUG_RETURN_IF_ERROR(Integers(2, &offsets));
      } else {
        return absl::InvalidArgumentError(
            absl::StrCat("expected dtype, shape and data_offsets, found \"", absl::Utf8SafeCEscape(key), "\""));
      }
    }
    if (seen.size() != 3) {
      return absl::InvalidArgumentError(absl::StrCat("expected dtype, shape and data_offsets, found ",
                                                     seen.empty() ? "none" : "only ", absl::StrJoin(seen, " and ")));
    }
    if (offsets.size() != 2 || offsets[0] > offsets[1]) {
      return absl::InvalidArgumentError(
          absl::StrCat("data_offsets: expected [begin, end], found [", absl::StrJoin(offsets, ", "), "]"));
    }
    tensor.begin = offsets[0];
    tensor.end = offsets[1];
    const std::optional<int64_t> bytes = TensorBytesOf(tensor.type, tensor.shape);
    if (bytes != tensor.size_bytes()) {
      return absl::InvalidArgumentError(
          absl::StrCat("data_offsets: expected ", bytes.has_value() ? absl::StrCat(*bytes) : "2^63 or more",
                       " bytes for ", tensor.TypeText(), ", found ", tensor.size_bytes()));
    }
    header_.tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  }

  absl::Status Integers(size_t max, std::vector<int64_t>* out) {
    SNUG_RETURN_IF_ERROR(json_.BeginArray());
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json_.NextElement());
      if (!more) return absl::OkStatus();
      if (out->size() == max) return json_.Expected(absl::StrCat("at most ", max, " numbers"));
      SNUG_ASSIGN_OR_RETURN(const int64_t value, json_.Integer());
      out->push_back(value);
    }
  }

  JsonReader json_;
  Header header_;
  std::set<std::string> names_;
};

// Sorts the tensors by their places, and refuses holes, overlaps, and data that is more or less than theirs.
absl::Status CheckCoverage(std::vector<TensorEntry>& tensors, int64_t data_bytes) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  int64_t end = 0;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.begin != end) {
      return Error(tensor.name,
                   absl::StrCat("expected at byte ", end, " of the data, where the one before it ends, found at ",
                                tensor.begin, ": there may be no ", tensor.begin < end ? "overlap" : "hole"));
    }
    end = tensor.end;
  }
  if (end == data_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("expected ", end, " bytes of data after the header, found ",
                                                 data_bytes, end > data_bytes ? ": the file is cut short" : ""));
}

}  // namespace

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(FileSystem& files, const std::string& path) {
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> opened, files.Open(path));
  return Open(std::move(opened), path);
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(std::unique_ptr<ReadableFile> opened, const std::string& path) {
  SafetensorsFile file(path, std::move(opened));
  SNUG_RETURN_IF_ERROR(file.ReadHeader());
  return file;
}

absl::Status SafetensorsFile::ReadHeader() {
  const int64_t size = file_->size_bytes();
  if (size < kLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": expected a safetensors file, at least ", kLengthBytes, " bytes, found ", size));
  }
  uint64_t length = 0;
  SNUG_RETURN_IF_ERROR(file_->Read(0, {reinterpret_cast<std::byte*>(&length), sizeof(length)}));
  if (length > static_cast<uint64_t>(kMaxHeaderBytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": byte 0: expected the length of a safetensors header, at most ", kMaxHeaderBytes, ", found ", length));
  }
  data_offset_ = kLengthBytes + static_cast<int64_t>(length);
  if (data_offset_ > size) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": expected ", length, " bytes of header, found ",
                                                   size - kLengthBytes, ": the file is cut short"));
  }
  std::string text(length, '\0');
  SNUG_RETURN_IF_ERROR(file_->Read(kLengthBytes, {reinterpret_cast<std::byte*>(text.data()), text.size()}));
  absl::StatusOr<Header> header = ParseHeader(text, size - data_offset_);
  if (!header.ok()) return Annotate(header.status(), path_);
  header_ = *std::move(header);
  for (size_t i = 0; i < header_.tensors.size(); ++i) by_name_[header_.tensors[i].name] = i;
  return absl::OkStatus();
}

const TensorEntry* SafetensorsFile::Find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &header_.tensors[found->second];
}

absl::Status SafetensorsFile::Read(const TensorEntry& tensor, absl::Span<std::byte> bytes, int64_t offset) const {
  SNUG_CHECK(offset + static_cast<int64_t>(bytes.size()) <= tensor.size_bytes());
  return file_->Read(data_offset_ + tensor.begin + offset, bytes);
}

absl::Status SafetensorsFile::VerifyDigest(bool required) const {
  const auto expected = header_.metadata.find(std::string(kDigestKey));
  if (expected == header_.metadata.end()) {
    if (!required) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(path_, ": expected a checkpoint, found no \"", kDigestKey, "\" in its metadata"));
  }
  const auto read = [this](const TensorEntry& tensor, int64_t offset, absl::Span<std::byte> bytes) {
    return Read(tensor, bytes, offset);
  };
  SNUG_ASSIGN_OR_RETURN(const std::string found, DigestOf(header_.tensors, read, header_.metadata));
  if (found == expected->second) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path_, ": its content does not have the checksum of its metadata: expected ",
                                          kDigestKey, " ", expected->second, ", found ", found,
                                          "; it is damaged, or another program has changed it"));
}

namespace {

// Brings the tensors into the sequence of the file, and writes what stands before their bytes.
template <class Tensor>
absl::Status Begin(std::vector<Tensor>& tensors, const Metadata& metadata, WritableFile& file) {
  std::sort(tensors.begin(), tensors.end(), [](const Tensor& a, const Tensor& b) {
    return std::tuple(-SizeOf(a.type), absl::string_view(a.name)) <
           std::tuple(-SizeOf(b.type), absl::string_view(b.name));
  });
  SNUG_RETURN_IF_ERROR(CheckNamesDiffer(tensors));
  SNUG_ASSIGN_OR_RETURN(const Header header, LayOut(tensors, metadata));
  const std::string head = FormatHeader(header);
  if (static_cast<int64_t>(head.size()) - kLengthBytes > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header takes ", head.size(), " bytes, expected at most ", kMaxHeaderBytes));
  }
  return file.Append({reinterpret_cast<const std::byte*>(head.data()), head.size()});
}

}  // namespace

absl::Status WriteSafetensors(std::vector<TensorBytes> tensors, const Metadata& metadata, WritableFile& file) {
  SNUG_RETURN_IF_ERROR(Begin(tensors, metadata, file));
  for (const TensorBytes& tensor : tensors) SNUG_RETURN_IF_ERROR(file.Append(tensor.bytes));
  return absl::OkStatus();
}

absl::Status WriteSafetensors(const std::vector<TensorEntry>& tensors, const MakeBytes& make, const Metadata& metadata,
                              WritableFile& file) {
  std::vector<TensorEntry> sorted = tensors;
  SNUG_RETURN_IF_ERROR(Begin(sorted, metadata, file));
  std::vector<std::byte> chunk;
  for (const TensorEntry& tensor : sorted) {
    for (int64_t done = 0; done < tensor.size_bytes(); done += static_cast<int64_t>(chunk.size())) {
      chunk.resize(static_cast<size_t>(std::min(kChunkBytes, tensor.size_bytes() - done)));
      SNUG_RETURN_IF_ERROR(make(tensor, done, absl::MakeSpan(chunk)));
      SNUG_RETURN_IF_ERROR(file.Append(chunk));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Header> ParseHeader(absl::string_view text, int64_t data_bytes) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = Utf8Length(text.substr(at));
    if (length == 0) {
      return absl::InvalidArgumentError(absl::StrCat("header: byte ", kLengthBytes + static_cast<int64_t>(at),
                                                     ": expected UTF-8, found byte 0x",
                                                     absl::Hex(static_cast<unsigned char>(text[at]), absl::kZeroPad2)));
    }
    at += length;
  }
  absl::StatusOr<Header> header = Parser(text).Parse();
  if (!header.ok()) return Annotate(header.status(), "header");
  SNUG_RETURN_IF_ERROR(CheckCoverage(header->tensors, data_bytes));
  return header;
}

std::string FormatHeader(const Header& header) {
  std::string json = "{";
  if (!header.metadata.empty()) {
    absl::StrAppend(&json, JsonQuoted(kMetadataKey), ":{");
    for (const auto& [key, value] : header.metadata) {
      absl::StrAppend(&json, json.back() == '{' ? "" : ",", JsonQuoted(key), ":", JsonQuoted(value));
    }
    json += '}';
  }
  for (const TensorEntry& tensor : header.tensors) {
    absl::StrAppend(&json, json.size() == 1 ? "" : ",", JsonQuoted(tensor.name), ":{\"dtype\":\"", Name(tensor.type),
                    "\",\"shape\":[", absl::StrJoin(tensor.shape, ","), "],\"data_offsets\":[", tensor.begin, ",",
                    tensor.end, "]}");
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string out(kLengthBytes, '\0');
  const uint64_t length = json.size();
  std::memcpy(out.data(), &length, sizeof(length));
  return out + json;
}

}  // namespace snug::core::checkpoint
