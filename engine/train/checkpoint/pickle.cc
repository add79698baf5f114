#include "engine/train/checkpoint/pickle.h"

#include <absl/strings/escaping.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/base/status.h"

namespace snug::core::checkpoint {
namespace {

using Kind = PickleObject::Kind;

constexpr size_t kMaxTensorRank = 16;
constexpr size_t kMaxTensors = size_t{1} << 18;
constexpr size_t kMaxKeyBytes = 255;  // of a storage's name, which PyTorch counts
constexpr size_t kMaxArguments = 16;
constexpr size_t kMaxObjects = 4'000'000;  // some hundred times as many as a large network's state dict has

constexpr absl::string_view kOrderedDict = "collections.OrderedDict";
constexpr absl::string_view kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr absl::string_view kRebuildOtherTypes = "torch._utils._rebuild_tensor_v3";  // of types without a storage class
constexpr absl::string_view kRebuildParameter = "torch._utils._rebuild_parameter";

struct StorageClass {
  absl::string_view name;
  ElementType type;
};
constexpr StorageClass kStorageClasses[] = {
    {"torch.FloatStorage", ElementType::kF32}, {"torch.DoubleStorage", ElementType::kF64},
    {"torch.HalfStorage", ElementType::kF16},  {"torch.BFloat16Storage", ElementType::kBF16},
    {"torch.LongStorage", ElementType::kI64},  {"torch.IntStorage", ElementType::kI32},
    {"torch.ShortStorage", ElementType::kI16}, {"torch.CharStorage", ElementType::kI8},
    {"torch.ByteStorage", ElementType::kU8},   {"torch.BoolStorage", ElementType::kBool},
};

const StorageClass* FindStorageClass(absl::string_view name) {
  const auto* const found = std::find_if(std::begin(kStorageClasses), std::end(kStorageClasses),
                                         [&](const StorageClass& c) { return c.name == name; });
  return found == std::end(kStorageClasses) ? nullptr : found;
}

// The names that a pickle may use. Returns the one that is meant, which lives as long as the program.
std::optional<absl::string_view> KnownName(absl::string_view name) {
  for (const absl::string_view known : {kOrderedDict, kRebuildTensor, kRebuildParameter}) {
    if (name == known) return known;
  }
  const StorageClass* const storage = FindStorageClass(name);
  if (storage == nullptr) return std::nullopt;
  return storage->name;
}

absl::string_view Name(Kind kind) {
  static constexpr absl::string_view kNames[] = {"None",   "a truth", "a number", "a number",  "a text",  "a tuple",
                                                 "a list", "a dict",  "a name",   "a storage", "a tensor"};
  return kNames[static_cast<size_t>(kind)];
}

class Reader {
 public:
  Reader(absl::string_view text, int64_t base) : text_(text), base_(base) {}

  absl::StatusOr<Pickle> Read() {
    for (;;) {
      at_ = next_;
      SNUG_ASSIGN_OR_RETURN(const auto op, Number<uint8_t>());
      if (op == '.') break;
      SNUG_RETURN_IF_ERROR(Do(op));
      if (pickle_.objects.size() > kMaxObjects) {
        return Error(absl::StrCat("expected at most ", kMaxObjects, " objects, which no state_dict needs"));
      }
    }
    if (!marks_.empty() || stack_.size() != 1) {
      return Error(absl::StrCat("expected one object at the end, found ", stack_.size()));
    }
    pickle_.root = stack_.back();
    pickle_.end = static_cast<int64_t>(next_);
    return std::move(pickle_);
  }

 private:
  int64_t position() const { return base_ + static_cast<int64_t>(at_); }
  absl::Status Error(absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat("byte ", position(), ": ", message));
  }
  absl::Status Refuse(absl::string_view what) const {
    return Error(absl::StrCat("this file wants to ", what,
                              ", which Snug does not do: of a pickle it reads a state_dict alone; in PyTorch, "
                              "torch.save(model.state_dict(), FILE) writes one"));
  }

  // Takes so many bytes of the text.
  absl::StatusOr<absl::string_view> Take(uint64_t bytes) {
    if (bytes > text_.size() - next_) {
      return Error(
          absl::StrCat("expected ", bytes, " bytes more, found ", text_.size() - next_, ": the pickle is cut short"));
    }
    const absl::string_view taken = text_.substr(next_, static_cast<size_t>(bytes));
    next_ += static_cast<size_t>(bytes);
    return taken;
  }
  template <class T>
  absl::StatusOr<T> Number() {
    SNUG_ASSIGN_OR_RETURN(const absl::string_view bytes, Take(sizeof(T)));
    T number;
    std::memcpy(&number, bytes.data(), sizeof(number));
    return number;
  }
  absl::StatusOr<absl::string_view> Line() {
    const size_t end = text_.find('\n', next_);
    if (end == absl::string_view::npos) return Error("expected a line: the pickle is cut short");
    SNUG_ASSIGN_OR_RETURN(const absl::string_view line, Take(end + 1 - next_));
    return line.substr(0, line.size() - 1);
  }

  PickleObject& object(int32_t index) { return pickle_.objects[static_cast<size_t>(index)]; }
  absl::Status Push(PickleObject object) {
    pickle_.objects.push_back(std::move(object));
    stack_.push_back(static_cast<int32_t>(pickle_.objects.size() - 1));
    return absl::OkStatus();
  }
  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }  // what lies below is behind a mark
  absl::StatusOr<int32_t> Pop() {
    if (stack_.size() == Floor()) return Error("expected an object on the stack, found none");
    const int32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  absl::StatusOr<std::vector<int32_t>> Pop(size_t count) {
    if (stack_.size() - Floor() < count) return Error(absl::StrCat("expected ", count, " objects on the stack"));
    std::vector<int32_t> items(stack_.end() - static_cast<long>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  absl::StatusOr<std::vector<int32_t>> PopToMark() {
    if (marks_.empty()) return Error("expected a mark on the stack, found none");
    SNUG_ASSIGN_OR_RETURN(std::vector<int32_t> items, Pop(stack_.size() - marks_.back()));
    marks_.pop_back();
    return items;
  }

  template <class Length>
  absl::Status Text() {
    SNUG_ASSIGN_OR_RETURN(const Length bytes, Number<Length>());
    SNUG_ASSIGN_OR_RETURN(const absl::string_view text, Take(bytes));
    return Push({.kind = Kind::kText, .text = text});
  }
  template <class T>
  absl::Status Integer() {
    SNUG_ASSIGN_OR_RETURN(const T number, Number<T>());
    return Push({.kind = Kind::kInteger, .integer = static_cast<int64_t>(number)});
  }
  template <class Length>
  absl::Status Long() {
    SNUG_ASSIGN_OR_RETURN(const Length bytes, Number<Length>());
    SNUG_ASSIGN_OR_RETURN(const absl::string_view digits, Take(bytes));
    if (digits.empty()) return Push({.kind = Kind::kInteger});
    if (digits.size() <= sizeof(int64_t)) {
      int64_t number =
          static_cast<signed char>(digits.back()) < 0 ? -1 : 0;  // the sign, in the bytes that are left out
      std::memcpy(&number, digits.data(), digits.size());
      return Push({.kind = Kind::kInteger, .integer = number});
    }
    return Push({.kind = Kind::kFloat});  // a random seed, for example; no size of anything is as large
  }
  absl::Status Tuple(absl::StatusOr<std::vector<int32_t>> items) {
    if (!items.ok()) return items.status();
    return Push({.kind = Kind::kTuple, .items = *std::move(items)});
  }

  absl::Status Global(absl::string_view module, absl::string_view name) {
    const std::string full = absl::StrCat(module, ".", name);
    if (const std::optional<absl::string_view> known = KnownName(full)) {
      return Push({.kind = Kind::kGlobal, .text = *known});
    }
    if (module == "torch" && absl::EndsWith(name, "Storage")) {
      return Error(absl::StrCat("tensors of ", absl::CHexEscape(full), " have elements that Snug does not know"));
    }
    if (full == kRebuildOtherTypes) {
      return Error(absl::StrCat(full,
                                ": tensors of float8, or unsigned of 16 bits and more, are not read: convert them "
                                "in PyTorch before torch.save, to float32 for example"));
    }
    return Refuse(absl::StrCat("run ", absl::CHexEscape(full)));
  }

  absl::Status Do(uint8_t op);
  absl::Status Remember(uint64_t slot) {
    if (stack_.size() == Floor()) return Error("expected an object to remember, found none");
    memo_[slot] = stack_.back();
    return absl::OkStatus();
  }
  template <class Slot>
  absl::Status PutAt() {
    SNUG_ASSIGN_OR_RETURN(const Slot slot, Number<Slot>());
    return Remember(slot);
  }
  template <class Slot>
  absl::Status GetFrom() {
    SNUG_ASSIGN_OR_RETURN(const Slot slot, Number<Slot>());
    return Recall(slot);
  }
  absl::Status Recall(uint64_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end())
      return Error(absl::StrCat("expected an object in slot ", slot, " of the memo, found none"));
    stack_.push_back(found->second);
    return absl::OkStatus();
  }
  absl::Status Add(Kind kind, const std::vector<int32_t>& items) {
    if (stack_.size() == Floor()) return Error(absl::StrCat("expected ", Name(kind), " on the stack, found none"));
    PickleObject& to = object(stack_.back());
    if (to.kind != kind) return Error(absl::StrCat("expected ", Name(kind), " to add to, found ", Name(to.kind)));
    if (kind == Kind::kDict && items.size() % 2 != 0) return Error("expected a value for each key of a dict");
    to.items.insert(to.items.end(), items.begin(), items.end());
    return absl::OkStatus();
  }
  absl::Status Call();
  absl::Status Build();
  absl::Status Storage();
  absl::Status Tensor(const std::vector<int32_t>& arguments);
  absl::Status CheckFlags(const PickleObject& metadata);
  absl::StatusOr<std::vector<int64_t>> Sizes(int32_t index, absl::string_view what);

  absl::string_view text_;
  int64_t base_;
  size_t at_ = 0, next_ = 0;  // of the operation, and behind what was read of it
  Pickle pickle_;
  std::vector<int32_t> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::unordered_map<uint64_t, int32_t> memo_;
  std::unordered_map<std::string, size_t> storages_;  // by key
};

// A function that is called: its arguments are kept, and it is not run.
absl::Status Reader::Call() {
  SNUG_ASSIGN_OR_RETURN(const std::vector<int32_t> call, Pop(2));
  const PickleObject& function = object(call[0]);
  if (function.kind != Kind::kGlobal) {
    return Error(absl::StrCat("expected a function to call, found ", Name(function.kind)));
  }
  if (object(call[1]).kind != Kind::kTuple) {
    return Error(absl::StrCat("expected a tuple of arguments, found ", Name(object(call[1]).kind)));
  }
  // They are copied, so a tuple of a million that is called again and again would take for ever.
  if (object(call[1]).items.size() > kMaxArguments) {
    return Error(absl::StrCat(function.text, ": expected at most ", kMaxArguments, " arguments, found ",
                              object(call[1]).items.size()));
  }
  const std::vector<int32_t> arguments = object(call[1]).items;
  if (function.text == kRebuildTensor) return Tensor(arguments);
  if (function.text == kRebuildParameter) {
    if (arguments.size() != 3 || object(arguments[0]).kind != Kind::kTensor) {
      return Error(absl::StrCat(kRebuildParameter, ": expected a tensor and two arguments more"));
    }
    stack_.push_back(arguments[0]);
    return absl::OkStatus();
  }
  if (function.text == kOrderedDict) {
    if (!arguments.empty()) return Error(absl::StrCat(kOrderedDict, ": expected no arguments"));
    return Push({.kind = Kind::kDict});
  }
  return Refuse(absl::StrCat("run ", function.text));
}

// The attributes of a module's state dict (the versions of its parts) say nothing that is needed.
absl::Status Reader::Build() {
  SNUG_ASSIGN_OR_RETURN(const std::vector<int32_t> parts, Pop(2));
  if (object(parts[0]).kind != Kind::kDict || object(parts[1]).kind != Kind::kDict) {
    return Error(absl::StrCat("expected attributes for a dict, found ", Name(object(parts[1]).kind), " for ",
                              Name(object(parts[0]).kind)));
  }
  stack_.push_back(parts[0]);
  return absl::OkStatus();
}

// A persistent id: ("storage", torch.FloatStorage, key, device, elements).
absl::Status Reader::Storage() {
  SNUG_ASSIGN_OR_RETURN(const int32_t id, Pop());
  const std::vector<int32_t>& parts = object(id).items;
  const auto is = [&](size_t i, Kind kind) { return object(parts[i]).kind == kind; };
  const bool fits = object(id).kind == Kind::kTuple && (parts.size() == 5 || parts.size() == 6) && is(0, Kind::kText) &&
                    object(parts[0]).text == "storage" && is(1, Kind::kGlobal) && is(2, Kind::kText) &&
                    is(4, Kind::kInteger);
  const StorageClass* const found = fits ? FindStorageClass(object(parts[1]).text) : nullptr;
  if (found == nullptr) {
    return Error("expected a persistent id (\"storage\", torch.FloatStorage or the like, key, device, elements)");
  }
  if (parts.size() == 6 && !is(5, Kind::kNone)) {
    return Error("the storage is a part of another, as PyTorch wrote before 0.4: load it there, and save it anew");
  }
  const PickleStorage storage{
      .type = found->type, .key = object(parts[2]).text, .elements = object(parts[4]).integer, .position = position()};
  if (storage.elements < 0) return Error(absl::StrCat("a storage of ", storage.elements, " elements"));
  if (storage.key.size() > kMaxKeyBytes) {
    return Error(
        absl::StrCat("expected a storage's name of at most ", kMaxKeyBytes, " bytes, found ", storage.key.size()));
  }
  const auto [known, is_new] = storages_.emplace(std::string(storage.key), pickle_.storages.size());
  if (is_new) {
    pickle_.storages.push_back(storage);
  } else if (const PickleStorage& before = pickle_.storages[known->second];
             before.type != storage.type || before.elements != storage.elements) {
    return Error(absl::StrCat("storage \"", absl::CHexEscape(storage.key), "\": expected ", before.elements,
                              " elements of ", checkpoint::Name(before.type), ", as at byte ", before.position,
                              ", found ", storage.elements, " of ", checkpoint::Name(storage.type)));
  }
  return Push({.kind = Kind::kStorage, .integer = static_cast<int64_t>(known->second)});
}

absl::StatusOr<std::vector<int64_t>> Reader::Sizes(int32_t index, absl::string_view what) {
  const PickleObject& tuple = object(index);
  if (tuple.kind != Kind::kTuple || tuple.items.size() > kMaxTensorRank) {
    return Error(absl::StrCat(what, ": expected a tuple of at most ", kMaxTensorRank, " numbers, found ",
                              Name(tuple.kind), " of ", tuple.items.size()));
  }
  std::vector<int64_t> sizes;
  for (const int32_t item : tuple.items) {
    const PickleObject& size = object(item);
    if (size.kind != Kind::kInteger || size.integer < 0) {
      return Error(absl::StrCat(what, ": expected numbers of 0 and more, found ", Name(size.kind),
                                size.kind == Kind::kInteger ? absl::StrCat(" ", size.integer) : ""));
    }
    sizes.push_back(size.integer);
  }
  return sizes;
}

// A view that PyTorch negates or conjugates as it reads it has other bytes than elements.
absl::Status Reader::CheckFlags(const PickleObject& metadata) {
  for (size_t i = 0; i + 1 < metadata.items.size(); i += 2) {
    const PickleObject &key = object(metadata.items[i]), &value = object(metadata.items[i + 1]);
    const bool is_flag = key.kind == Kind::kText && (key.text == "neg" || key.text == "conj");
    if (!is_flag || (value.kind == Kind::kBool && value.integer == 0)) continue;
    return Error(absl::StrCat("expected a tensor whose bytes are its elements, found one with the flag \"", key.text,
                              "\": save tensor.resolve_", key.text, "() in its place"));
  }
  return absl::OkStatus();
}

// (storage, offset, shape, strides, requires_grad, backward_hooks), and metadata behind these.
absl::Status Reader::Tensor(const std::vector<int32_t>& arguments) {
  if (arguments.size() < 4 || object(arguments[0]).kind != Kind::kStorage ||
      object(arguments[1]).kind != Kind::kInteger) {
    return Error(absl::StrCat(kRebuildTensor, ": expected a storage, an offset, a shape and strides"));
  }
  PickleTensor tensor{.storage = static_cast<size_t>(object(arguments[0]).integer),
                      .offset = object(arguments[1]).integer,
                      .position = position()};
  if (tensor.offset < 0) return Error(absl::StrCat("expected an offset of 0 and more, found ", tensor.offset));
  SNUG_ASSIGN_OR_RETURN(tensor.shape, Sizes(arguments[2], "shape"));
  SNUG_ASSIGN_OR_RETURN(tensor.strides, Sizes(arguments[3], "strides"));
  if (tensor.shape.size() != tensor.strides.size()) {
    return Error(absl::StrCat("expected a stride for each of ", tensor.shape.size(), " dimensions, found ",
                              tensor.strides.size()));
  }
  if (arguments.size() > 6 && object(arguments[6]).kind == Kind::kDict) {
    SNUG_RETURN_IF_ERROR(CheckFlags(object(arguments[6])));
  }
  if (pickle_.tensors.size() == kMaxTensors) {
    return Error(absl::StrCat("expected at most ", kMaxTensors, " tensors, which no state_dict needs"));
  }
  pickle_.tensors.push_back(std::move(tensor));
  return Push({.kind = Kind::kTensor, .integer = static_cast<int64_t>(pickle_.tensors.size() - 1)});
}

// The operations by the letters of Python's pickletools.
absl::Status Reader::Do(uint8_t op) {
  switch (op) {
    case 0x80: {  // PROTO
      SNUG_ASSIGN_OR_RETURN(const auto version, Number<uint8_t>());
      if (version >= 2 && version <= 5) return absl::OkStatus();
      return Error(absl::StrCat("expected a pickle of protocol 2 to 5, found ", version));
    }
    case 0x95:  // FRAME, whose length helps only who reads the file piecemeal
      return internal::ToStatus(Number<uint64_t>());
    case '(':  // MARK
      marks_.push_back(stack_.size());
      return absl::OkStatus();
    case 'N':  // NONE
      return Push({.kind = Kind::kNone});
    case 0x88:  // NEWTRUE
    case 0x89:  // NEWFALSE
      return Push({.kind = Kind::kBool, .integer = op == 0x88});
    case 'J':  // BININT
      return Integer<int32_t>();
    case 'K':  // BININT1
      return Integer<uint8_t>();
    case 'M':  // BININT2
      return Integer<uint16_t>();
    case 0x8A:  // LONG1
      return Long<uint8_t>();
    case 'G':  // BINFLOAT: no state dict's tensor depends on it
      SNUG_RETURN_IF_ERROR(Take(sizeof(double)));
      return Push({.kind = Kind::kFloat});
    case 'X':  // BINUNICODE
    case 'T':  // BINSTRING, a text of Python 2
      return Text<uint32_t>();
    case 0x8C:  // SHORT_BINUNICODE
    case 'U':   // SHORT_BINSTRING
      return Text<uint8_t>();
    case 0x8D:  // BINUNICODE8
      return Text<uint64_t>();
    case ')':  // EMPTY_TUPLE
      return Push({.kind = Kind::kTuple});
    case 't':  // TUPLE
      return Tuple(PopToMark());
    case 0x85:  // TUPLE1
    case 0x86:  // TUPLE2
    case 0x87:  // TUPLE3
      return Tuple(Pop(op - size_t{0x84}));
    case ']':  // EMPTY_LIST
      return Push({.kind = Kind::kList});
    case 'a':    // APPEND
    case 's':    // SETITEM
    case 'e':    // APPENDS
    case 'u': {  // SETITEMS
      const bool many = op == 'e' || op == 'u';
      const bool dict = op == 's' || op == 'u';
      SNUG_ASSIGN_OR_RETURN(const std::vector<int32_t> items, many ? PopToMark() : Pop(dict ? 2 : 1));
      return Add(dict ? Kind::kDict : Kind::kList, items);
    }
    case '}':  // EMPTY_DICT
      return Push({.kind = Kind::kDict});
    case 'c': {  // GLOBAL
      SNUG_ASSIGN_OR_RETURN(const absl::string_view module, Line());
      SNUG_ASSIGN_OR_RETURN(const absl::string_view name, Line());
      return Global(module, name);
    }
    case 0x93: {  // STACK_GLOBAL
      SNUG_ASSIGN_OR_RETURN(const std::vector<int32_t> names, Pop(2));
      if (object(names[0]).kind != Kind::kText || object(names[1]).kind != Kind::kText) {
        return Error("expected a module and a name, as texts");
      }
      return Global(object(names[0]).text, object(names[1]).text);
    }
    case 'R':  // REDUCE
      return Call();
    case 'b':  // BUILD
      return Build();
    case 'Q':  // BINPERSID
      return Storage();
    case 'q':  // BINPUT
      return PutAt<uint8_t>();
    case 'r':  // LONG_BINPUT
      return PutAt<uint32_t>();
    case 0x94:  // MEMOIZE
      return Remember(memo_.size());
    case 'h':  // BINGET
      return GetFrom<uint8_t>();
    case 'j':  // LONG_BINGET
      return GetFrom<uint32_t>();
    default:
      return Refuse(absl::StrCat("do the pickle operation 0x", absl::Hex(op, absl::kZeroPad2)));
  }
}

}  // namespace

absl::StatusOr<Pickle> ReadPickle(absl::string_view text, int64_t base) { return Reader(text, base).Read(); }

}  // namespace snug::core::checkpoint
