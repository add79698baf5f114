// What the shared library shows. Everything public lives in the inline namespace `snug::v0`: that part of its symbols'
// names changes when the binary interface does, and nothing else of the library has it.
#pragma once

#define SNUG_API __attribute__((visibility("default")))
