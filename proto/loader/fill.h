// Puts values into messages by reflection, and remembers where each was written.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>

#include "proto/loader/error_list.h"
#include "proto/loader/scope.h"
#include "proto/loader/syntax.h"
#include "proto/source_map.h"

namespace snug::core::loader {

class Filler {
 public:
  // `budget_bytes` is what may be put into messages in all; there is one error when it is used up.
  Filler(ErrorList* errors, int64_t budget_bytes) : errors_(errors), budget_(budget_bytes) {}

  // Puts one field as written (several entries, if it is a list) into the message, and its place into the node's
  // children.
  void Fill(const Field& field, const Scope& scope, google::protobuf::Message* message, SourceNode* node);
  // Puts in all fields of a value that is a message.
  void FillAll(const Value& value, const Scope& scope, google::protobuf::Message* message, SourceNode* node);

  // Returns the field (or extension) of that name, or null.
  static const google::protobuf::FieldDescriptor* Find(const Field& field, const google::protobuf::Message& message);
  // Returns the field of `message` that was probably meant, or null when none is near.
  static const google::protobuf::FieldDescriptor* Nearest(absl::string_view name,
                                                          const google::protobuf::Message& message);

  // Tells, and reports, whether a field that may stand only once is there already.
  bool IsDuplicate(const Field& field, const google::protobuf::FieldDescriptor* descriptor, const Scope& scope,
                   const SourceNode& node);
  // Takes bytes from the budget. Returns false when it is used up and everything should stop.
  bool Charge(int64_t bytes, SourcePos pos);
  bool exhausted() const { return budget_ < 0; }

 private:
  using Descriptor = google::protobuf::FieldDescriptor;

  void Unknown(const Field& field, const Scope& scope, google::protobuf::Message* message, SourceNode* node);
  void FillMessage(const Value& value, const Descriptor* descriptor, const Scope& scope,
                   google::protobuf::Message* message, SourceNode* node);
  void FillScalar(const Value& value, const Descriptor* descriptor, const Scope& scope,
                  google::protobuf::Message* message, SourceNode* node);
  // Returns false, and reports it, when the value has the wrong type or range.
  bool Store(const Scalar& scalar, SourcePos pos, const Descriptor* descriptor, google::protobuf::Message* message);

  ErrorList* errors_;
  int64_t budget_;
};

}  // namespace snug::core::loader
