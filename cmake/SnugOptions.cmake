# Language, warnings, sanitizers, ccache: everything that is the same for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(SNUG_CCACHE ccache)
if(SNUG_CCACHE)
  # Without these two ccache stores nothing that was compiled with precompiled headers. What the user has set stays.
  set(sloppiness pch_defines,time_macros)
  if(NOT "$ENV{CCACHE_SLOPPINESS}" STREQUAL "")
    string(PREPEND sloppiness $ENV{CCACHE_SLOPPINESS},)
  endif()
  # Paths count from the source folder on, so that another clone finds what this one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=${sloppiness}
    CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${SNUG_CCACHE})
endif()

add_library(snug_options INTERFACE)
target_include_directories(snug_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
function(snug_cxx_options)
  target_compile_options(snug_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${ARGN}>")
endfunction()
snug_cxx_options(
  -Wall -Wextra -Wpedantic -Wno-unknown-pragmas -Wno-missing-field-initializers
  # Kernels set no errno and read no floating-point exception flags; selects and roots then vectorise. Results stay IEEE.
  -fno-math-errno -fno-trapping-math)
if(SNUG_WERROR)
  snug_cxx_options(-Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # From -O2 on it contracts multiplications with additions. At -O1 it has to as well: loops and their ends would
  # otherwise have other last bits, and so would one thread and two.
  snug_cxx_options($<$<CONFIG:Debug>:-fexpensive-optimizations>)
  # GCC 12 reports overflows inside std::vector and std::string that are not there (GCC bugs 105329, 105651).
  snug_cxx_options(-Wno-restrict -Wno-stringop-overflow -Wno-array-bounds -Wno-psabi)
else()
  # A loop that is marked as independent and cannot be vectorised, as at -O1, is no mistake.
  snug_cxx_options(-Wno-pass-failed)
endif()

# Two of UBSan's checks, for null pointers and for accesses beyond an object of known size, take a third of the compiler's
# time, and most of what they would find ends in ASan's hands too.
option(SNUG_SANITIZE_POINTERS "UBSan's checks of null pointers and object sizes" ON)
if(SNUG_SANITIZE STREQUAL "address")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined;-fno-sanitize-recover=undefined;-fno-omit-frame-pointer>")
  if(NOT SNUG_SANITIZE_POINTERS)
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null,object-size>")
  endif()
  add_link_options(-fsanitize=address,undefined)
elseif(SNUG_SANITIZE STREQUAL "thread")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=thread>)
  add_link_options(-fsanitize=thread)
  add_compile_definitions(SNUG_STD_THREADS)  # OpenMP's runtime is not instrumented
elseif(SNUG_SANITIZE)
  message(FATAL_ERROR "SNUG_SANITIZE: expected address or thread, found ${SNUG_SANITIZE}")
endif()

# With ASan and UBSan g++ takes twice as long at -O1 as at -O0, which tests and generated messages do not give back.
set(SNUG_UNOPTIMISED_UNDER_ASAN "")
if(SNUG_SANITIZE STREQUAL "address" AND NOT SNUG_BUILD_FUZZERS)
  set(SNUG_UNOPTIMISED_UNDER_ASAN -O0)
endif()

if(SNUG_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "SNUG_BUILD_FUZZERS needs clang: use the preset fuzz")
  endif()
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()
