#include "proto/loader/syntax.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <utility>

#include "proto/text_loader.h"

namespace snug::core::loader {
namespace {

using google::protobuf::io::Tokenizer;

// Wraps protobuf's tokenizer: positions count from one, its complaints go to our list, and the next token can be looked
// at. For that the tokenizer runs one token ahead: its previous() is our current token.
class Tokens : private google::protobuf::io::ErrorCollector {
 public:
  Tokens(absl::string_view text, ErrorList* errors)
      : errors_(errors), stream_(text.data(), static_cast<int>(text.size())), tokenizer_(&stream_, this) {
    tokenizer_.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
    tokenizer_.set_allow_f_after_float(true);
    tokenizer_.Next();
    tokenizer_.Next();
  }

  bool AtEnd() { return type() == Tokenizer::TYPE_END; }
  bool Is(char symbol) { return type() == Tokenizer::TYPE_SYMBOL && text()[0] == symbol; }
  bool NextIs(char symbol) {
    return tokenizer_.current().type == Tokenizer::TYPE_SYMBOL && tokenizer_.current().text[0] == symbol;
  }
  bool IsIdentifier() { return type() == Tokenizer::TYPE_IDENTIFIER; }
  Tokenizer::TokenType type() { return tokenizer_.previous().type; }
  const std::string& text() { return tokenizer_.previous().text; }
  SourcePos pos() { return {tokenizer_.previous().line + 1, tokenizer_.previous().column + 1, -1}; }

  void Next() { tokenizer_.Next(); }
  // Returns the token as a message should show it.
  std::string Quoted() {
    if (AtEnd()) return "the end of the file";
    const std::string& text = this->text();
    if (type() == Tokenizer::TYPE_STRING) return text.size() > 42 ? absl::StrCat(text.substr(0, 40), "...") : text;
    return absl::StrCat("\"", text.substr(0, 40), text.size() > 40 ? "...\"" : "\"");
  }

 private:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    std::string text = message;
    if (!text.empty() && text.back() == '.') text.pop_back();
    if (text.size() > 1 && absl::ascii_islower(static_cast<unsigned char>(text[1]))) {
      text[0] = absl::ascii_tolower(static_cast<unsigned char>(text[0]));
    }
    errors_->AddSyntax({line + 1, column + 1, -1}, std::move(text));
  }

  ErrorList* errors_;
  google::protobuf::io::ArrayInputStream stream_;
  Tokenizer tokenizer_;
};

class Parser {
 public:
  Parser(absl::string_view text, const LoadOptions& options, ErrorList* errors)
      : options_(options), errors_(errors), tokens_(text, errors) {}

  Value File() {
    Value file;
    file.kind = Value::Kind::kMessage;
    file.pos = {1, 1, -1};
    file.complete = Fields(&file.fields, '\0');
    if (!tokens_.AtEnd() && !stopped_) {
      ClosedTooOften();
    }
    return file;
  }

 private:
  // A field that is still open at the current token.
  struct Open {
    std::string name;
    SourcePos pos;
  };

  bool TryConsume(char symbol) {
    if (!tokens_.Is(symbol)) return false;
    Advance();
    return true;
  }

  void Advance() {
    last_line_ = tokens_.pos().line;
    tokens_.Next();
  }

  void Error(std::string message) { errors_->AddSyntax(tokens_.pos(), std::move(message)); }

  // Reports a brace that closes nothing. The brace too many may be another one: the last that closed a field on a line
  // further down, but not at the line's beginning.
  void ClosedTooOften() {
    const int line = tokens_.pos().line;
    if (!odd_close_.pos.known()) {
      return InDoubt(tokens_.pos(), 0,
                     absl::StrCat("expected a field, found ", tokens_.Quoted(), " that closes nothing"));
    }
    InDoubt(odd_close_.pos, 0,
            absl::StrCat("a brace too many: this one closes \"", odd_close_.name.substr(0, 40),
                         "\", and the one at line ", line, " closes nothing"));
  }

  // The braces do not match, so from here on it is unknown what belongs where, and nothing more is read. If line
  // `since` or a later one has a mistake of syntax, that may be the cause, and nothing new is reported.
  void InDoubt(SourcePos pos, int32_t since, std::string message) {
    stopped_ = true;
    const int32_t cause = errors_->last_syntax_line();
    if (cause > 0 && cause >= since) return errors_->DoubtAfter({std::min(cause, pos.line), 0, -1});
    errors_->AddSyntax(pos, std::move(message));
    errors_->DoubtAfter(pos);
  }

  bool Done() {
    if (errors_->full()) stopped_ = true;
    return stopped_ || tokens_.AtEnd();
  }

  bool CountValue() {
    if (++num_values_ <= options_.max_values) return true;
    Error(absl::StrCat("the file has more than ", options_.max_values, " values"));
    errors_->DoubtAfter(tokens_.pos());
    stopped_ = true;
    return false;
  }

  // Reads fields up to `close` or the end of the file. Returns false when some could not be read.
  bool Fields(std::vector<Field>* fields, char close) {
    bool complete = true;
    while (!Done()) {
      if (tokens_.Is('}') || tokens_.Is('>')) {
        if (close == '\0' || tokens_.Is(close)) return complete;
        Error(absl::StrCat("expected \"", std::string(1, close), "\", found ", tokens_.Quoted()));
        return complete;
      }
      if (tokens_.Is(';') || tokens_.Is(',')) {
        Error(absl::StrCat("expected a field, found ", tokens_.Quoted()));
        complete = false;
        Advance();
        continue;
      }
      if (BraceIsMissing()) return complete;
      if (!CountValue()) return false;
      Field field;
      const bool named = ParseField(&field);
      if (!named || field.value.kind == Value::Kind::kBroken) {
        Skip(field.pos.line);
        complete = false;
      }
      if (named) fields->push_back(std::move(field));
      if (tokens_.Is(';') || tokens_.Is(',')) Advance();
    }
    return complete;
  }

  // Reads one field. Returns false when not even its name could be read; a value that cannot be read is left broken.
  bool ParseField(Field* field) {
    field->pos = tokens_.pos();
    if (TryConsume('[')) {
      field->extension = true;
      while (tokens_.IsIdentifier() || tokens_.Is('.') || tokens_.Is('/')) {
        field->name += tokens_.text();
        Advance();
      }
      if (field->name.empty() || !tokens_.Is(']')) {
        Error(absl::StrCat("expected the name of an extension and \"]\", found ", tokens_.Quoted()));
        return false;
      }
      Advance();
    } else if (tokens_.IsIdentifier()) {
      field->name = tokens_.text();
      Advance();
    } else {
      Error(absl::StrCat("expected the name of a field, found ", tokens_.Quoted()));
      return false;
    }
    const bool colon = TryConsume(':');
    const bool message = tokens_.Is('{') || tokens_.Is('<');
    if (!colon && !message) {
      // The error stands on the line of the name, even if the next token is on a later one.
      const SourcePos pos = tokens_.pos().line == field->pos.line ? tokens_.pos() : field->pos;
      errors_->AddSyntax(pos, absl::StrCat("expected \":\" or \"{\" after \"", field->name.substr(0, 40), "\", found ",
                                           tokens_.Quoted()));
      return false;
    }
    open_.push_back({field->name, field->pos});
    if (!ParseValue(&field->value)) field->value.kind = Value::Kind::kBroken;
    open_.pop_back();
    return true;
  }

  bool ParseValue(Value* value) {
    value->pos = tokens_.pos();
    if (depth_ >= options_.max_depth) {
      Error(absl::StrCat("nested more than ", options_.max_depth, " deep"));
      return false;
    }
    ++depth_;
    bool ok = true;
    if (tokens_.Is('{') || tokens_.Is('<')) {
      ParseMessage(value);
    } else if (tokens_.Is('[')) {
      ok = ParseList(value);
    } else {
      operators_ = 0;
      ok = ParseSum(value);
    }
    --depth_;
    return ok;
  }

  void ParseMessage(Value* value) {
    value->kind = Value::Kind::kMessage;
    const char close = tokens_.Is('{') ? '}' : '>';
    Advance();
    value->complete = Fields(&value->fields, close);
    if (missing_braces_ > 0) {  // already reported, where the next thing began
      --missing_braces_;
      value->complete = false;
    } else if (tokens_.AtEnd() && !stopped_) {
      const Open& open = open_.back();
      InDoubt(open.pos, open.pos.line,
              absl::StrCat("\"", open.name.substr(0, 40), "\" is never closed: expected \"", std::string(1, close),
                           "\" before the end of the file"));
    } else if (!stopped_) {
      const SourcePos pos = tokens_.pos();
      if (pos.line > open_.back().pos.line && pos.line == last_line_) odd_close_ = {open_.back().name, pos};
      Advance();
    }
  }

  bool ParseList(Value* value) {
    value->kind = Value::Kind::kList;
    Advance();
    if (TryConsume(']')) return true;
    while (!Done()) {
      if (!CountValue()) return false;
      value->items.emplace_back();
      if (!ParseValue(&value->items.back())) return false;
      if (missing_braces_ > 0) return true;
      if (TryConsume(']')) return true;
      if (!TryConsume(',')) break;
    }
    Error(absl::StrCat("expected \",\" or \"]\" in a list, found ", tokens_.Quoted()));
    return false;
  }

  // Parses a + b - c.
  bool ParseSum(Value* value) {
    if (!ParseProduct(value)) return false;
    while (tokens_.Is('+') || tokens_.Is('-')) {
      if (!ParseRight(value, &Parser::ParseProduct)) return false;
    }
    return true;
  }

  // Parses a * b / c % d.
  bool ParseProduct(Value* value) {
    if (!ParseUnary(value)) return false;
    while (tokens_.Is('*') || tokens_.Is('/') || tokens_.Is('%')) {
      if (!ParseRight(value, &Parser::ParseUnary)) return false;
    }
    return true;
  }

  // Parses the rest of `left op right`, once `left` is read.
  bool ParseRight(Value* left, bool (Parser::*parse_right)(Value*)) {
    if (++operators_ > kMostOperators) {
      Error(absl::StrCat("the expression has more than ", kMostOperators, " operators"));
      return false;
    }
    Value binary;
    binary.kind = Value::Kind::kBinary;
    binary.pos = left->pos;
    binary.op = tokens_.text()[0];
    Advance();
    Value right;
    if (!(this->*parse_right)(&right)) return false;
    binary.items.push_back(std::move(*left));
    binary.items.push_back(std::move(right));
    *left = std::move(binary);
    return true;
  }

  bool ParseUnary(Value* value) {
    value->pos = tokens_.pos();
    if (tokens_.Is('-') || tokens_.Is('(')) {
      if (depth_ >= options_.max_depth) {
        Error(absl::StrCat("nested more than ", options_.max_depth, " deep"));
        return false;
      }
      const bool negate = tokens_.Is('-');
      Advance();
      ++depth_;
      bool ok = true;
      if (negate) {
        value->kind = Value::Kind::kNegate;
        value->items.emplace_back();
        ok = ParseUnary(&value->items.back());
      } else {
        ok = ParseSum(value);
        if (ok && !TryConsume(')')) {
          Error(absl::StrCat("expected \")\", found ", tokens_.Quoted()));
          ok = false;
        }
      }
      --depth_;
      return ok;
    }
    return ParseAtom(value);
  }

  bool ParseAtom(Value* value) {
    value->pos = tokens_.pos();
    switch (tokens_.type()) {
      case Tokenizer::TYPE_INTEGER:
        value->kind = Value::Kind::kInteger;
        break;
      case Tokenizer::TYPE_FLOAT:
        value->kind = Value::Kind::kFloat;
        break;
      case Tokenizer::TYPE_IDENTIFIER:
        value->kind = Value::Kind::kIdentifier;
        break;
      case Tokenizer::TYPE_STRING:
        if (tokens_.text().size() < 2 || tokens_.text().back() != tokens_.text().front()) return false;  // reported
        value->kind = Value::Kind::kString;
        value->text = tokens_.text();
        for (Advance(); tokens_.type() == Tokenizer::TYPE_STRING; Advance()) {
          if (!CountValue()) return false;
          Value piece;
          piece.kind = Value::Kind::kString;
          piece.pos = tokens_.pos();
          piece.text = tokens_.text();
          value->items.push_back(std::move(piece));
        }
        return true;
      default:
        if (!tokens_.Is('$')) {
          Error(absl::StrCat("expected a value, found ", tokens_.Quoted()));
          return false;
        }
        Advance();
        if (!tokens_.IsIdentifier()) {
          Error(absl::StrCat("expected the name of an argument after \"$\", found ", tokens_.Quoted()));
          return false;
        }
        value->kind = Value::Kind::kArgument;
        break;
    }
    value->text = tokens_.text();
    Advance();
    return true;
  }

  // Tells whether a brace is missing before the current token, because it begins a layer (or the like) inside something
  // that cannot hold one. If so, closes all that is open up to what can hold it.
  bool BraceIsMissing() {
    if (missing_braces_ > 0) return true;
    const std::string& name = tokens_.text();
    if (open_.empty() || !tokens_.IsIdentifier()) return false;
    size_t holders = 0;  // how many of the outermost open fields can hold layers
    while (holders < open_.size() && (open_[holders].name == "block" || open_[holders].name == "repeat")) ++holders;
    if (holders == open_.size()) return false;
    const std::string& outermost = open_[holders].name;
    if (outermost != "layer" && outermost != "input" && outermost != "optimizer" && outermost != "update") {
      return false;
    }
    const bool of_updates_too = name == "objective" || name == "optimizer";
    const bool top_level = (of_updates_too && outermost != "update") || name == "output" || name == "batch" ||
                           (name == "update" && tokens_.NextIs('{'));
    const bool begins_line = last_line_ < tokens_.pos().line;
    const bool at_margin = begins_line && tokens_.pos().column <= open_[holders].pos.column;
    const bool statement = (name == "layer" || name == "repeat" || name == "block" || (name == "input" && at_margin)) &&
                           tokens_.NextIs('{');
    if (!statement && !(top_level && at_margin)) return false;
    if (errors_->last_syntax_line() < open_.back().pos.line) {  // an earlier mistake in there would be the cause
      const Open& open = open_.back();
      errors_->AddSyntax(
          open.pos, absl::StrCat("\"", open.name.substr(0, 40), "\" is never closed: expected \"}\" before \"", name,
                                 "\" at line ", tokens_.pos().line));
    }
    missing_braces_ = open_.size() - holders;
    return true;
  }

  // Skips, after an error in `line`, to the end of what encloses it or to a later line that begins with a name.
  void Skip(int32_t line) {
    int depth = 0;
    while (!Done() && missing_braces_ == 0) {
      const bool close = tokens_.Is('}') || tokens_.Is('>');
      if (depth == 0) {
        if (close && !open_.empty()) return;
        if (tokens_.IsIdentifier() && tokens_.pos().line > line) return;
      }
      if (tokens_.Is('{')) ++depth;
      if (tokens_.Is('}') && depth > 0) --depth;
      Advance();
    }
  }

  static constexpr int kMostOperators = 100;

  const LoadOptions& options_;
  ErrorList* errors_;
  Tokens tokens_;
  std::vector<Open> open_;
  Open odd_close_;             // the last field whose brace closed it from the middle of a later line, and where
  int32_t last_line_ = 0;      // the line of the token before the current one
  size_t missing_braces_ = 0;  // so many messages end here although no brace says so
  int64_t num_values_ = 0;
  int depth_ = 0;
  int operators_ = 0;  // counts the operators in the current value
  bool stopped_ = false;
};

}  // namespace

const char* Value::Describe() const {
  switch (kind) {
    case Kind::kInteger:
      return "an integer";
    case Kind::kFloat:
      return "a number";
    case Kind::kString:
      return "a string";
    case Kind::kIdentifier:
      return "a name";
    case Kind::kMessage:
      return "a message { }";
    case Kind::kList:
      return "a list";
    default:
      return "an expression";
  }
}

Value ParseSyntax(absl::string_view text, const LoadOptions& options, ErrorList* errors) {
  return Parser(text, options, errors).File();
}

}  // namespace snug::core::loader
