#include "engine/train/data/npy_header.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <algorithm>

#include "engine/base/status.h"

namespace snug::core {
namespace {

constexpr absl::string_view kMagic = "\x93NUMPY";
constexpr absl::string_view kTypes[] = {"f4", "f8", "i1", "u1", "i2", "u2", "i4", "i8", "b1"};

// The header is a Python dictionary, as repr() writes it: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  HeaderParser(const FileBytes& file, int64_t begin, int64_t end)
      : file_(file), text_(file.text().substr(0, static_cast<size_t>(end))), at_(static_cast<size_t>(begin)) {}

  absl::Status Parse(NpyHeader& header) {
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    SNUG_RETURN_IF_ERROR(Expect("{"));
    while (!Accept("}")) {
      SNUG_ASSIGN_OR_RETURN(const absl::string_view key, String());
      SNUG_RETURN_IF_ERROR(Expect(":"));
      if (key == "descr") {
        has_descr = true;
        SNUG_RETURN_IF_ERROR(Descr(header));
      } else if (key == "fortran_order") {
        has_order = true;
        SNUG_RETURN_IF_ERROR(Order());
      } else if (key == "shape") {
        has_shape = true;
        SNUG_RETURN_IF_ERROR(Dimensions(header));
      } else {
        return Error(absl::StrCat("expected 'descr', 'fortran_order' or 'shape', found '", key, "'"));
      }
      if (!Accept(",") && !Peek("}")) return Error("expected \",\" or \"}\"");
    }
    if (!has_descr || !has_order || !has_shape) {
      return Error(absl::StrCat("the header ends without '",
                                !has_descr   ? "descr"
                                : !has_order ? "fortran_order"
                                             : "shape",
                                "'"));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Error(absl::string_view message) const {
    return file_.Error(static_cast<int64_t>(at_), absl::StrCat(".npy header: ", message));
  }
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool Peek(absl::string_view token) {
    SkipSpace();
    return text_.substr(at_, token.size()) == token;
  }
  bool Accept(absl::string_view token) {
    if (!Peek(token)) return false;
    at_ += token.size();
    return true;
  }
  absl::Status Expect(absl::string_view token) {
    return Accept(token) ? absl::OkStatus() : Error(absl::StrCat("expected \"", token, "\""));
  }

  absl::StatusOr<absl::string_view> String() {
    if (!Peek("'") && !Peek("\"")) return Error("expected a string in quotes");
    const char quote = text_[at_];
    const size_t end = text_.find(quote, at_ + 1);
    if (end == absl::string_view::npos) return Error("expected a closing quote");
    const absl::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value;
  }

  absl::Status Descr(NpyHeader& header) {
    if (Peek("["))
      return Error(
          "expected numbers of one type, found records (a structured dtype): save each field as its own array");
    const size_t begin = at_;
    SNUG_ASSIGN_OR_RETURN(absl::string_view type, String());
    const absl::string_view written = type;
    const char order = type.empty() ? ' ' : type[0];
    if (order == '<' || order == '>' || order == '|' || order == '=') type.remove_prefix(1);
    if (std::find(std::begin(kTypes), std::end(kTypes), type) == std::end(kTypes)) {
      at_ = begin;
      return Error(absl::StrCat("element type '", written,
                                "': expected little-endian f4, f8, i1, u1, i2, u2, i4, i8 or b1: ",
                                "convert it with array.astype(numpy.float32)"));
    }
    header.kind = type[0];
    header.item_bytes = type[1] - '0';
    if (order == '>' && header.item_bytes > 1) {
      at_ = begin;
      return Error(
          absl::StrCat("element type '", written, "' is big-endian: convert it with array.astype('<", type, "')"));
    }
    return absl::OkStatus();
  }

  absl::Status Order() {
    if (Accept("False")) return absl::OkStatus();
    if (Peek("True")) {
      return Error("the array is in Fortran order, expected C order: save numpy.ascontiguousarray(array)");
    }
    return Error("expected True or False");
  }

  absl::Status Dimensions(NpyHeader& header) {
    std::vector<int64_t> dims;
    SNUG_RETURN_IF_ERROR(Expect("("));
    while (!Accept(")")) {
      SkipSpace();
      size_t end = at_;
      while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9') ++end;
      int64_t dim = 0;
      if (!absl::SimpleAtoi(text_.substr(at_, end - at_), &dim)) return Error("expected a dimension");
      at_ = end;
      dims.push_back(dim);
      if (!Accept(",") && !Peek(")")) return Error("expected \",\" or \")\"");
    }
    if (dims.empty())
      return Error("expected an array whose first axis counts samples, found a single number (shape ())");
    const absl::StatusOr<Shape> shape = MakeShape(dims);
    if (!shape.ok()) return Error(shape.status().message());
    header.shape = *shape;
    return absl::OkStatus();
  }

  const FileBytes& file_;
  absl::string_view text_;
  size_t at_;
};

}  // namespace

absl::StatusOr<NpyHeader> ReadNpyHeader(const FileBytes& file) {
  constexpr int64_t kShortest = 10;
  if (file.size() < kShortest) {
    return file.Error(file.size(),
                      absl::StrCat("the file ends here, expected a .npy header of at least ", kShortest, " bytes"));
  }
  if (file.text().substr(0, kMagic.size()) != kMagic) {
    return file.Error(
        0, absl::StrCat("expected a .npy file, which begins with \\x93NUMPY, found something else",
                        file.text().substr(0, 2) == "PK" ? " (an .npz archive: save one array with numpy.save)" : ""));
  }
  const uint8_t* bytes = file.bytes().data();
  const int major = bytes[6];
  if (major < 1 || major > 3) {
    return file.Error(6, absl::StrCat("expected version 1, 2 or 3 of the .npy format, found ", major));
  }
  int64_t length = bytes[8] | bytes[9] << 8;
  int64_t begin = kShortest;
  if (major > 1) {
    begin += 2;
    if (file.size() < begin) return file.Error(file.size(), "the file ends here, in the .npy header: it was cut short");
    length |= int64_t{bytes[10]} << 16 | int64_t{bytes[11]} << 24;
  }
  if (file.size() < begin + length) {
    return file.Error(file.size(), absl::StrCat("the file ends here, expected a .npy header of ", begin + length,
                                                " bytes: it was cut short"));
  }
  NpyHeader header;
  SNUG_RETURN_IF_ERROR(HeaderParser(file, begin, begin + length).Parse(header));
  header.data_begin = begin + length;
  SNUG_RETURN_IF_ERROR(
      file.CheckSize(header.data_begin + header.shape.num_elements() * header.item_bytes,
                     absl::StrCat("a header, then ", header.shape.ToString(), " of ", header.type_name())));
  return header;
}

}  // namespace snug::core
