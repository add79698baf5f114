#include "engine/train/checkpoint/torch_file.h"

#include <absl/strings/escaping.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "engine/base/status.h"
#include "engine/base/text/utf8.h"

namespace snug::core::checkpoint {
namespace {

using Kind = PickleObject::Kind;

constexpr int64_t kMaxPickleBytes = 100'000'000;  // as of the header of a safetensors file
constexpr int64_t kChecksumChunkBytes = int64_t{1} << 20;
constexpr uint32_t kNoChecksum = 0;  // of all members, after torch.serialization.set_crc32_options(False)
constexpr size_t kMaxNamed = 10;     // names in a note
constexpr size_t kMaxShown = 100;    // bytes of each
// Wrappers stand around each other, two or three at most; a name that repeats theirs a million times is none of theirs.
constexpr int kMaxWrappers = 4;
constexpr absl::string_view kPickleName = "data.pkl";
constexpr absl::string_view kAdvice = "in PyTorch, torch.save(model.state_dict(), FILE) writes a state_dict";

// Where trainings keep the state dict beside other things. The first that is there counts.
constexpr absl::string_view kStateDictKeys[] = {"state_dict", "model_state_dict", "model"};
constexpr absl::string_view kWrappers[] = {"module.", "_orig_mod."};

absl::Status ErrorAt(int64_t position, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("byte ", position, ": ", message));
}
std::string Quoted(absl::string_view name) { return absl::StrCat("\"", absl::Utf8SafeCEscape(name), "\""); }

// Names for a note: the first of them, shortened, as a pickle may repeat a long one at the cost of some bytes.
class NameList {
 public:
  void Add(std::optional<absl::string_view> name) {
    if (++count_ > kMaxNamed) return;
    const absl::string_view all = name.value_or("(a key that is no text)");
    names_.push_back(absl::StrCat(Quoted(all.substr(0, kMaxShown)), all.size() > kMaxShown ? "..." : ""));
  }
  bool empty() const { return count_ == 0; }
  std::string ToString() const {
    return absl::StrCat(absl::StrJoin(names_, ", "),
                        count_ > kMaxNamed ? absl::StrCat(" and ", count_ - kMaxNamed, " more") : "");
  }

 private:
  size_t count_ = 0;
  std::vector<std::string> names_;
};

// The key of a dict's entry, if it is a text.
std::optional<absl::string_view> KeyAt(const Pickle& pickle, const PickleObject& dict, size_t i) {
  const PickleObject& key = pickle.object(dict.items[i]);
  if (key.kind != Kind::kText) return std::nullopt;
  return key.text;
}

// The dict within `root` that is the state dict: its position among the items, or nothing where `root` is it.
std::optional<size_t> FindInner(const Pickle& pickle, const PickleObject& root) {
  for (const absl::string_view wanted : kStateDictKeys) {
    for (size_t i = 0; i < root.items.size(); i += 2) {
      if (KeyAt(pickle, root, i) == wanted && pickle.object(root.items[i + 1]).kind == Kind::kDict) return i + 1;
    }
  }
  return std::nullopt;
}

// How many elements of its storage a tensor reaches to, or nothing if they are 2^63 or more.
std::optional<int64_t> ElementsReached(const PickleTensor& tensor) {
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) return tensor.offset;
  int64_t last = tensor.offset;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    int64_t step = 0;
    if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &step)) return std::nullopt;
    if (__builtin_add_overflow(last, step, &last)) return std::nullopt;
  }
  int64_t count = 0;
  if (__builtin_add_overflow(last, 1, &count)) return std::nullopt;
  return count;
}

bool IsRowMajor(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

// Copies elements row-major. None of the sizes is 0.
void Gather(const std::byte* from, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
            int64_t element, absl::Span<std::byte> to) {
  std::vector<int64_t> index(shape.size(), 0);
  int64_t at = 0;
  for (int64_t done = 0; done < static_cast<int64_t>(to.size()); done += element) {
    std::memcpy(to.data() + done, from + at * element, static_cast<size_t>(element));
    for (size_t i = shape.size(); i-- > 0;) {
      at += strides[i];
      if (++index[i] < shape[i]) break;
      at -= strides[i] * shape[i];
      index[i] = 0;
    }
  }
}

}  // namespace

absl::StatusOr<TorchFile> TorchFile::Open(std::unique_ptr<ReadableFile> opened, const std::string& path) {
  TorchFile file(path, std::move(opened));
  if (const absl::Status status = file.Read(); !status.ok()) return Annotate(status, path);
  return file;
}

absl::StatusOr<std::string> TorchFile::Content(const ZipMember& member, int64_t max_bytes) const {
  if (member.end - member.begin > max_bytes) {
    return ErrorAt(member.begin, absl::StrCat(Quoted(member.name), ": expected at most ", max_bytes, " bytes, found ",
                                              member.end - member.begin));
  }
  std::string content(static_cast<size_t>(member.end - member.begin), '\0');
  SNUG_RETURN_IF_ERROR(file_->Read(member.begin, {reinterpret_cast<std::byte*>(content.data()), content.size()}));
  return content;
}

absl::Status TorchFile::Read() {
  SNUG_ASSIGN_OR_RETURN(members_, ReadZipDirectory(*file_));
  Members members;
  const ZipMember* found = nullptr;
  for (const ZipMember& member : members_) {
    if (!members.emplace(member.name, &member).second) {
      return ErrorAt(member.begin, absl::StrCat("member ", Quoted(member.name), " is there twice"));
    }
    const size_t slash = member.name.find('/');
    if (slash != std::string::npos && member.name.substr(slash + 1) == kPickleName) {
      if (found != nullptr) return ErrorAt(member.begin, absl::StrCat("a second ", kPickleName));
      found = &member;
    }
  }
  if (found == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("expected an archive of torch.save, with a member NAME/",
                                                   kPickleName, "; found none in this zip archive"));
  }
  const std::string folder = found->name.substr(0, found->name.size() - kPickleName.size());
  if (const auto constants = members.find(folder + "constants.pkl"); constants != members.end()) {
    return ErrorAt(constants->second->begin,
                   absl::StrCat("is a program of TorchScript (torch.jit.save), which Snug does not read; ", kAdvice));
  }
  if (const auto order = members.find(folder + "byteorder"); order != members.end()) {
    SNUG_ASSIGN_OR_RETURN(const std::string content, Content(*order->second, 16));
    if (content != "little") {
      return ErrorAt(order->second->begin, absl::StrCat("byteorder: expected little, found ", Quoted(content)));
    }
  }
  if (found->crc32 == kNoChecksum) notes_.push_back("it was saved without checksums: damage to it is not seen");
  SNUG_ASSIGN_OR_RETURN(const std::string text, Content(*found, kMaxPickleBytes));
  SNUG_ASSIGN_OR_RETURN(const Pickle pickle, ReadPickle(text, found->begin));
  if (pickle.end != static_cast<int64_t>(text.size())) {
    return ErrorAt(found->begin + pickle.end, absl::StrCat("expected the end of ", kPickleName));
  }
  const PickleObject& root = pickle.root_object();
  if (root.kind != Kind::kDict) return ErrorAt(found->begin, absl::StrCat("expected a dict of tensors; ", kAdvice));
  const std::optional<size_t> inner = FindInner(pickle, root);
  if (inner.has_value()) {
    NameList left;
    for (size_t i = 0; i < root.items.size(); i += 2) {
      if (i + 1 != *inner) left.Add(KeyAt(pickle, root, i));
    }
    notes_.push_back(absl::StrCat("the state_dict under ", Quoted(*KeyAt(pickle, root, *inner - 1)), " is taken",
                                  left.empty() ? "" : absl::StrCat(", and left out: ", left.ToString())));
  }
  const PickleObject& dict = inner.has_value() ? pickle.object(root.items[*inner]) : root;
  SNUG_RETURN_IF_ERROR(AddTensors(pickle, dict, folder, members));
  if (tensors_.empty()) {
    return ErrorAt(found->begin, absl::StrCat("expected a dict of tensors, found a dict with none; ", kAdvice));
  }
  RemoveWrappers();
  for (size_t i = 0; i < tensors_.size(); ++i) by_name_[tensors_[i].name] = i;
  return absl::OkStatus();
}

absl::Status TorchFile::AddTensors(const Pickle& pickle, const PickleObject& dict, const std::string& folder,
                                   const Members& members) {
  NameList left;
  std::set<absl::string_view> names;
  for (size_t i = 0; i < dict.items.size(); i += 2) {
    const std::optional<absl::string_view> name = KeyAt(pickle, dict, i);
    const PickleObject& value = pickle.object(dict.items[i + 1]);
    if (value.kind != Kind::kTensor) {
      left.Add(name);
      continue;
    }
    const PickleTensor& tensor = pickle.tensors[static_cast<size_t>(value.integer)];
    if (!name.has_value()) return ErrorAt(tensor.position, "expected a text as the name of this tensor");
    if (!IsUtf8(*name)) {
      return ErrorAt(tensor.position, absl::StrCat("tensor \"", absl::CHexEscape(*name), "\": expected UTF-8"));
    }
    if (!names.insert(*name).second) {
      return ErrorAt(tensor.position, absl::StrCat("tensor ", Quoted(*name), " stands twice in the dict"));
    }
    const PickleStorage& storage = pickle.storages[tensor.storage];
    const auto member = members.find(absl::StrCat(folder, "data/", storage.key));
    if (member == members.end()) {
      return ErrorAt(storage.position, absl::StrCat("tensor ", Quoted(*name), ": the archive has no member \"", folder,
                                                    "data/", absl::CHexEscape(storage.key), "\" with its elements"));
    }
    SNUG_RETURN_IF_ERROR(AddTensor(std::string(*name), pickle, tensor, *member->second));
  }
  if (!left.empty()) notes_.push_back(absl::StrCat("not tensors, and left out: ", left.ToString()));
  return absl::OkStatus();
}

absl::Status TorchFile::AddTensor(std::string name, const Pickle& pickle, const PickleTensor& tensor,
                                  const ZipMember& member) {
  const PickleStorage& storage = pickle.storages[tensor.storage];
  const std::string place = absl::StrCat("tensor ", Quoted(name), ": ");
  int64_t storage_bytes = 0;
  if (__builtin_mul_overflow(storage.elements, SizeOf(storage.type), &storage_bytes) ||
      storage_bytes > member.end - member.begin) {
    return ErrorAt(storage.position,
                   absl::StrCat(place, "its storage has ", storage.elements, " elements of ", Name(storage.type),
                                ", and the member ", Quoted(member.name), " ", member.end - member.begin, " bytes"));
  }
  const std::optional<int64_t> reached = ElementsReached(tensor);
  if (!reached.has_value() || *reached > storage.elements) {
    return ErrorAt(tensor.position,
                   absl::StrCat(place, "shape [", absl::StrJoin(tensor.shape, ", "), "] with strides [",
                                absl::StrJoin(tensor.strides, ", "), "] from element ", tensor.offset,
                                " on reaches past its storage of ", storage.elements, " elements"));
  }
  const std::optional<int64_t> bytes = TensorBytesOf(storage.type, tensor.shape);
  if (!bytes.has_value()) return ErrorAt(tensor.position, absl::StrCat(place, "has 2^63 bytes or more"));
  tensors_.push_back({.name = std::move(name), .type = storage.type, .shape = tensor.shape, .begin = 0, .end = *bytes});
  layouts_.push_back({member.begin + tensor.offset * SizeOf(storage.type), tensor.strides});
  return absl::OkStatus();
}

void TorchFile::RemoveWrappers() {
  bool again = true;
  for (int round = 0; again && round < kMaxWrappers; ++round) {
    again = false;
    for (const absl::string_view wrapper : kWrappers) {
      const bool all = std::all_of(tensors_.begin(), tensors_.end(), [&](const TensorEntry& tensor) {
        return tensor.name.size() > wrapper.size() && absl::StartsWith(tensor.name, wrapper);
      });
      if (!all) continue;
      for (TensorEntry& tensor : tensors_) tensor.name.erase(0, wrapper.size());
      notes_.push_back(absl::StrCat("all names begin with \"", wrapper, "\", of a wrapper of the module: removed"));
      again = true;
    }
  }
}

const TensorEntry* TorchFile::Find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

absl::Status TorchFile::ReadWhole(const TensorEntry& tensor, absl::Span<std::byte> bytes) const {
  SNUG_CHECK(static_cast<int64_t>(bytes.size()) == tensor.size_bytes());
  if (bytes.empty()) return absl::OkStatus();
  const Layout& layout = layouts_[static_cast<size_t>(&tensor - tensors_.data())];
  if (IsRowMajor(tensor.shape, layout.strides)) return file_->Read(layout.begin, bytes);
  // All that lies from the first to the last of its elements, which is a part of the file.
  int64_t elements = 1;
  for (size_t i = 0; i < tensor.shape.size(); ++i) elements += (tensor.shape[i] - 1) * layout.strides[i];
  const int64_t element = SizeOf(tensor.type);
  std::vector<std::byte> spread(static_cast<size_t>(elements * element));
  SNUG_RETURN_IF_ERROR(file_->Read(layout.begin, absl::MakeSpan(spread)));
  Gather(spread.data(), tensor.shape, layout.strides, element, bytes);
  return absl::OkStatus();
}

absl::Status TorchFile::VerifyChecksums() const {
  std::vector<std::byte> chunk;
  for (const ZipMember& member : members_) {
    uint32_t crc = 0;
    for (int64_t at = member.begin; at < member.end; at += static_cast<int64_t>(chunk.size())) {
      chunk.resize(static_cast<size_t>(std::min(kChecksumChunkBytes, member.end - at)));
      SNUG_RETURN_IF_ERROR(file_->Read(at, absl::MakeSpan(chunk)));
      crc = Crc32(chunk, crc);
    }
    if (crc == member.crc32 || member.crc32 == kNoChecksum) continue;
    return absl::DataLossError(absl::StrCat(path_, ": byte ", member.begin, ": ", Quoted(member.name),
                                            " does not have the checksum of the directory: ", "expected CRC-32 ",
                                            absl::Hex(member.crc32, absl::kZeroPad8), ", found ",
                                            absl::Hex(crc, absl::kZeroPad8), "; the file is damaged"));
  }
  return absl::OkStatus();
}

}  // namespace snug::core::checkpoint
