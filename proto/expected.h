// Describes what a field takes, in words for the user.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

namespace snug::core {

// Returns `an integer`, `a string`, `one of A, B`.
std::string Expected(const google::protobuf::FieldDescriptor* field);

}  // namespace snug::core
