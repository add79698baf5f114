// What a field takes, as a message to the user says it.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

namespace snug {

// `an integer`, `a string`, `one of A, B`.
std::string Expected(const google::protobuf::FieldDescriptor* field);

}  // namespace snug
