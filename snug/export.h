// Marks what the shared library exports. Everything public lives in the inline namespace `snug::v0`: that part of the
// symbols' names changes when the binary interface does, and nothing else in the library has it.
#pragma once

#define SNUG_API __attribute__((visibility("default")))
