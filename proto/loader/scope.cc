#include "proto/loader/scope.h"

#include <absl/strings/ascii.h>
#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>
#include <google/protobuf/io/tokenizer.h>

#include <cmath>
#include <limits>

#include "engine/base/text/suggest.h"

namespace snug::core::loader {
namespace {

using google::protobuf::io::Tokenizer;

// Strings made from arguments are names and the like, never data.
constexpr size_t kLongestString = 4096;

class Evaluator {
 public:
  Evaluator(const Scope& scope, ErrorList* errors) : scope_(scope), errors_(errors) {}

  std::optional<Scalar> Run(const Value& value) {
    switch (value.kind) {
      case Value::Kind::kInteger:
        return Integer(value);
      case Value::Kind::kFloat:
        return Scalar{.kind = Scalar::Kind::kNumber, .number = Tokenizer::ParseFloat(value.text)};
      case Value::Kind::kIdentifier:
        return Scalar{.kind = Scalar::Kind::kIdentifier, .text = value.text};
      case Value::Kind::kString:
        return String(value);
      case Value::Kind::kArgument:
        return Argument(value.text, value.pos);
      case Value::Kind::kNegate:
        return Negate(value);
      case Value::Kind::kBinary:
        return Binary(value);
      case Value::Kind::kList:
        return List(value);
      case Value::Kind::kMessage:
        return Fail(value.pos, "expected a value, found a message { }");
      case Value::Kind::kBroken:
        return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  std::nullopt_t Fail(SourcePos pos, std::string message) {
    errors_->Add(scope_.Place(pos), std::move(message));
    return std::nullopt;
  }

  std::optional<Scalar> Integer(const Value& value) {
    uint64_t number = 0;
    if (Tokenizer::ParseInteger(value.text, std::numeric_limits<int64_t>::max(), &number)) {
      return Scalar{.kind = Scalar::Kind::kInteger, .integer = static_cast<int64_t>(number)};
    }
    const bool decimal = value.text.size() > 1 && value.text[0] != '0';
    if (!decimal)
      return Fail(value.pos,
                  absl::StrCat(value.text.substr(0, 40), " is out of range: the largest integer is 2^63 - 1"));
    return Scalar{.kind = Scalar::Kind::kHuge, .number = Tokenizer::ParseFloat(value.text), .text = value.text};
  }

  std::optional<Scalar> Argument(absl::string_view name, SourcePos pos) {
    if (const Scalar* found = scope_.Find(name)) return *found;
    Suggester suggester(name);
    bool any = false;
    for (const Scope* scope = &scope_; scope != nullptr; scope = scope->outer) {
      for (const auto& [binding, unused] : scope->bindings) {
        suggester.Consider(binding);
        any = true;
      }
    }
    const absl::string_view shown = name.substr(0, 40);
    if (!any) return Fail(pos, absl::StrCat("there is no argument \"$", shown, "\" outside of blocks and repeats"));
    return Fail(pos,
                absl::StrCat("unknown argument \"$", shown, "\"",
                             suggester.found() ? absl::StrCat("; did you mean \"$", suggester.best(), "\"?") : ""));
  }

  std::optional<Scalar> Negate(const Value& value) {
    std::optional<Scalar> operand = Run(value.items[0]);
    if (!operand) return std::nullopt;
    switch (operand->kind) {
      case Scalar::Kind::kInteger:
        operand->number = -operand->number;
        operand->integer = -operand->integer;  // the least integer cannot occur: there is no way to write it except as
                                               // this
        return operand;
      case Scalar::Kind::kHuge:
        if (operand->text == "9223372036854775808") {
          return Scalar{.kind = Scalar::Kind::kInteger, .integer = std::numeric_limits<int64_t>::min()};
        }
        operand->text = "-" + operand->text;
        operand->number = -operand->number;
        return operand;
      case Scalar::Kind::kNumber:
        operand->number = -operand->number;
        return operand;
      case Scalar::Kind::kIdentifier:
        if (auto number = NamedNumber(operand->text)) {
          return Scalar{.kind = Scalar::Kind::kNumber, .number = -*number};
        }
        break;
      default:
        break;
    }
    return Fail(value.pos, absl::StrCat("expected a number after \"-\", found ", operand->ToString()));
  }

  static std::optional<double> NamedNumber(absl::string_view name) {
    const std::string lower = absl::AsciiStrToLower(name);
    if (lower == "inf" || lower == "infinity") return std::numeric_limits<double>::infinity();
    if (lower == "nan") return std::numeric_limits<double>::quiet_NaN();
    return std::nullopt;
  }

  std::optional<Scalar> Binary(const Value& value) {
    const std::optional<Scalar> a = Run(value.items[0]);
    const std::optional<Scalar> b = Run(value.items[1]);
    if (!a || !b) return std::nullopt;
    for (const auto& [operand, node] : {std::pair(&*a, &value.items[0]), std::pair(&*b, &value.items[1])}) {
      if (!operand->IsNumeric()) {
        return Fail(node->pos, absl::StrCat("expected a number beside \"", std::string(1, value.op), "\", found ",
                                            operand->ToString()));
      }
    }
    if (a->kind == Scalar::Kind::kInteger && b->kind == Scalar::Kind::kInteger) {
      return IntegerBinary(value, a->integer, b->integer);
    }
    const double x = a->AsNumber();
    const double y = b->AsNumber();
    switch (value.op) {
      case '+':
        return Scalar{.kind = Scalar::Kind::kNumber, .number = x + y};
      case '-':
        return Scalar{.kind = Scalar::Kind::kNumber, .number = x - y};
      case '*':
        return Scalar{.kind = Scalar::Kind::kNumber, .number = x * y};
      case '/':
        if (y == 0) return Fail(value.pos, "division by zero");
        return Scalar{.kind = Scalar::Kind::kNumber, .number = x / y};
      default:
        return Fail(value.pos, "\"%\" is for integers");
    }
  }

  std::optional<Scalar> IntegerBinary(const Value& value, int64_t a, int64_t b) {
    int64_t result = 0;
    bool overflow = false;
    switch (value.op) {
      case '+':
        overflow = __builtin_add_overflow(a, b, &result);
        break;
      case '-':
        overflow = __builtin_sub_overflow(a, b, &result);
        break;
      case '*':
        overflow = __builtin_mul_overflow(a, b, &result);
        break;
      default:
        if (b == 0) return Fail(value.pos, "division by zero");
        overflow = a == std::numeric_limits<int64_t>::min() && b == -1;
        if (overflow) break;
        result = value.op == '/' ? a / b : a % b;
        if (value.op == '/' && a % b != 0) {
          return Fail(value.pos, absl::StrCat(a, " / ", b, " is not a whole number; write ", b,
                                              ".0 for a division with a fraction"));
        }
    }
    // The least integer is refused too, because it has no negative.
    if (overflow || result == std::numeric_limits<int64_t>::min()) {
      return Fail(value.pos, absl::StrCat(a, " ", std::string(1, value.op), " ", b, " does not fit into 64 bits"));
    }
    return Scalar{.kind = Scalar::Kind::kInteger, .integer = result};
  }

  std::optional<Scalar> List(const Value& value) {
    Scalar list{.kind = Scalar::Kind::kList};
    bool ok = true;
    for (const Value& item : value.items) {
      std::optional<Scalar> scalar = Run(item);
      ok = ok && scalar.has_value();
      if (!scalar) continue;
      if (scalar->kind == Scalar::Kind::kList) {
        return Fail(item.pos, "expected a value, found a list inside a list");
      }
      list.items.push_back(*std::move(scalar));
    }
    if (!ok) return std::nullopt;
    return list;
  }

  std::optional<Scalar> String(const Value& value) {
    Scalar result{.kind = Scalar::Kind::kString};
    // "$input" alone stands for what $input stands for, so that references work with and without quotes.
    if (value.items.empty()) {
      if (const auto name = LoneArgument(value.text)) {
        std::optional<Scalar> argument = Argument(*name, value.pos);
        if (!argument) return std::nullopt;
        if (argument->kind == Scalar::Kind::kReference) return argument;
      }
    }
    if (!Append(value.text, value.pos, &result.text)) return std::nullopt;
    for (const Value& piece : value.items) {
      if (!Append(piece.text, piece.pos, &result.text)) return std::nullopt;
    }
    return result;
  }

  // Returns the name in `"$name"` or `"${name}"`; the quotes are part of the text.
  static std::optional<absl::string_view> LoneArgument(absl::string_view quoted) {
    if (quoted.size() < 4 || quoted[1] != '$' || quoted.back() != quoted.front()) return std::nullopt;
    absl::string_view name = quoted.substr(2, quoted.size() - 3);
    if (name.front() == '{' && name.back() == '}') name = name.substr(1, name.size() - 2);
    if (!Tokenizer::IsIdentifier(std::string(name))) return std::nullopt;
    return name;
  }

  // Appends a string token, which is in its quotes, with each $name and ${name} replaced. (The tokenizer has refused
  // "\$"; a dollar that is meant as one is written "\044".)
  bool Append(absl::string_view quoted, SourcePos pos, std::string* out) {
    if (quoted.find('$') == absl::string_view::npos) {
      Tokenizer::ParseStringAppend(std::string(quoted), out);
      return true;
    }
    const char quote = quoted.front();
    absl::string_view rest = quoted.substr(1);
    if (!rest.empty() && rest.back() == quote) rest.remove_suffix(1);
    while (!rest.empty()) {
      const size_t dollar = std::min(rest.find('$'), rest.size());
      const std::string plain = absl::StrCat(std::string(1, quote), rest.substr(0, dollar), std::string(1, quote));
      Tokenizer::ParseStringAppend(plain, out);
      rest.remove_prefix(dollar);
      if (rest.empty()) break;
      rest.remove_prefix(1);
      const bool braces = !rest.empty() && rest.front() == '{';
      if (braces) rest.remove_prefix(1);
      size_t length = 0;
      while (length < rest.size() &&
             (absl::ascii_isalnum(static_cast<unsigned char>(rest[length])) || rest[length] == '_')) {
        ++length;
      }
      const absl::string_view name = rest.substr(0, length);
      rest.remove_prefix(length);
      if (name.empty() || (braces && (rest.empty() || rest.front() != '}'))) {
        Fail(pos, "expected $name or ${name} after \"$\" in a string (\"\\044\" is the character itself)");
        return false;
      }
      if (braces) rest.remove_prefix(1);
      const std::optional<Scalar> argument = Argument(name, pos);
      if (!argument) return false;
      if (argument->kind == Scalar::Kind::kReference || argument->kind == Scalar::Kind::kList) {
        Fail(pos,
             absl::StrCat("\"$", name, "\" stands for ", argument->kind == Scalar::Kind::kList ? "a list" : "an input",
                          ": it cannot be part of a string"));
        return false;
      }
      const bool text = argument->kind == Scalar::Kind::kString;
      out->append(text ? argument->text : argument->ToString());
      if (out->size() > kLongestString) {
        Fail(pos, absl::StrCat("the string becomes longer than ", kLongestString, " characters"));
        return false;
      }
    }
    return true;
  }

  const Scope& scope_;
  ErrorList* errors_;
};

}  // namespace

std::string Scalar::ToString() const {
  switch (kind) {
    case Kind::kInteger:
      return absl::StrCat(integer);
    case Kind::kNumber:
      return absl::StrCat(number);
    case Kind::kString: {
      const bool cut = text.size() > 40;
      return absl::StrCat("\"", absl::CHexEscape(absl::string_view(text).substr(0, 40)), cut ? "...\"" : "\"");
    }
    case Kind::kReference:
      return absl::StrCat("the input \"", text, "\"");
    case Kind::kList:
      return "a list";
    case Kind::kHuge:
    case Kind::kIdentifier:
      return text.size() > 40 ? absl::StrCat(text.substr(0, 40), "...") : text;
  }
  return "";
}

const Scalar* Scope::Find(absl::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
    for (const auto& [binding, value] : scope->bindings) {
      if (absl::string_view(binding) == name) return &value;
    }
  }
  return nullptr;
}

std::optional<Scalar> Evaluate(const Value& value, const Scope& scope, ErrorList* errors) {
  return Evaluator(scope, errors).Run(value);
}

}  // namespace snug::core::loader
