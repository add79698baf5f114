#include "proto/network_writer.h"

#include <absl/strings/escaping.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <vector>

#include "proto/network.pb.h"

namespace snug::core {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr size_t kLineWidth = 120;

std::string Quoted(const std::string& text) {
  // A plain "$" would begin an argument's name.
  return absl::StrCat("\"", absl::StrReplaceAll(absl::Utf8SafeCEscape(text), {{"$", "\\044"}}), "\"");
}

// Returns the shortest digits that read back as the same number.
template <class T>
std::string Number(T value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return std::string(buffer.data(), end);
}

// Writes the k-th entry of a field, or the field itself (k = -1).
std::string Scalar(const Message& m, const FieldDescriptor* f, int k) {
  const auto* r = m.GetReflection();
#define SNUG_GET(Type) (k < 0 ? r->Get##Type(m, f) : r->GetRepeated##Type(m, f, k))
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(SNUG_GET(Int32));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(SNUG_GET(Int64));
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(SNUG_GET(UInt32));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(SNUG_GET(UInt64));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Number(SNUG_GET(Double));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Number(SNUG_GET(Float));
    case FieldDescriptor::CPPTYPE_BOOL:
      return SNUG_GET(Bool) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return std::string(SNUG_GET(Enum)->name());
    case FieldDescriptor::CPPTYPE_STRING:
      return Quoted(SNUG_GET(String));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
#undef SNUG_GET
  return "";
}

std::string Name(const FieldDescriptor* field) {
  return field->is_extension() ? absl::StrCat("[", field->full_name(), "]") : std::string(field->name());
}

// An item is its `head`, and then either nothing or the fields of a message.
struct Item {
  const FieldDescriptor* field;
  std::string head;                  // `dim: [3, 4]`, `shape`
  const Message* message = nullptr;  // the message that follows in braces, if any
};

// Returns a message's fields, in the order of their numbers.
std::vector<Item> Items(const Message& message) {
  const auto* r = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  r->ListFields(message, &fields);
  std::vector<Item> items;
  for (const FieldDescriptor* field : fields) {
    const std::string name = Name(field);
    const int size = field->is_repeated() ? r->FieldSize(message, field) : 1;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      for (int k = 0; k < size; ++k) {
        items.push_back(
            {field, name,
             field->is_repeated() ? &r->GetRepeatedMessage(message, field, k) : &r->GetMessage(message, field)});
      }
    } else if (!field->is_repeated()) {
      items.push_back({field, absl::StrCat(name, ": ", Scalar(message, field, -1))});
    } else if (size == 1 || field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      for (int k = 0; k < size; ++k) items.push_back({field, absl::StrCat(name, ": ", Scalar(message, field, k))});
    } else {
      std::vector<std::string> entries;
      for (int k = 0; k < size; ++k) entries.push_back(Scalar(message, field, k));
      items.push_back({field, absl::StrCat(name, ": [", absl::StrJoin(entries, ", "), "]")});
    }
  }
  return items;
}

// Writes an item on one line.
std::string Inline(const Item& item) {
  if (item.message == nullptr) return item.head;
  std::string text = absl::StrCat(item.head, " {");
  for (const Item& inner : Items(*item.message)) absl::StrAppend(&text, " ", Inline(inner));
  absl::StrAppend(&text, text.back() == '{' ? "}" : " }");
  return text;
}

// Writes an item on one line where it fits, and on several where it does not.
void Write(const Item& item, size_t indent, std::string* out) {
  const std::string spaces(indent, ' ');
  const std::string line = Inline(item);
  if (item.message == nullptr || indent + line.size() <= kLineWidth) {
    absl::StrAppend(out, spaces, line, "\n");
    return;
  }
  absl::StrAppend(out, spaces, item.head, " {\n");
  for (const Item& inner : Items(*item.message)) Write(inner, indent + 2, out);
  absl::StrAppend(out, spaces, "}\n");
}

// Fields of the network in the same group stand together; blank lines separate groups.
int Group(const FieldDescriptor* field) {
  switch (field->number()) {
    case proto::Network::kNameFieldNumber:
    case proto::Network::kBatchFieldNumber:
      return 0;
    case proto::Network::kObjectiveFieldNumber:
    case proto::Network::kOutputFieldNumber:
      return 1;
    default:
      return 1 + field->number();
  }
}

}  // namespace

std::string WriteNetworkText(const proto::Network& network) {
  std::string text;
  const FieldDescriptor* previous = nullptr;
  for (const Item& item : Items(network)) {
    if (previous != nullptr && Group(previous) != Group(item.field)) text += "\n";
    Write(item, 0, &text);
    previous = item.field;
  }
  return text;
}

std::string WriteNetworkBinary(const proto::Network& network) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  network.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

absl::Status SaveNetworkFile(const proto::Network& network, const std::string& path) {
  const std::string content = absl::EndsWith(path, ".pb") ? WriteNetworkBinary(network) : WriteNetworkText(network);
  const auto failed = [&] { return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be written")); };
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return failed();
  absl::Status status;
  if (std::fwrite(content.data(), 1, content.size(), file) != content.size()) status = failed();
  if (std::fclose(file) != 0 && status.ok()) status = failed();
  return status;
}

}  // namespace snug::core
