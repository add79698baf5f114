# How our targets are compiled: in groups, and with headers that are read once.

# Most of the time that a build takes goes into reading the same headers for hundreds of small files: with SNUG_UNITY
# several files of a target are compiled as one. Names in anonymous namespaces are therefore unique within a target.
# Without it a file that changes is compiled alone: quicker for who works on it.
option(SNUG_UNITY "Compile several files as one: a build from nothing takes a third of the time" ON)
if(SNUG_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # In a group it takes every file for a header, in which a type that is defined in one place only may not have members of
  # an anonymous namespace's types.
  snug_cxx_options(-Wno-subobject-linkage)
endif()
function(snug_group target size)  # further arguments: files that are compiled alone, as they take long or need to
  if(SNUG_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE BATCH UNITY_BUILD_BATCH_SIZE ${size})
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# What nearly every file includes is compiled once for all of them. A file still includes what it uses: clang-tidy reads
# it without this.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cc CONTENT "// Written by CMake: precompiled headers need a file to belong to.\n")
function(snug_precompiled name)  # further arguments: headers, beside the usual ones
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/precompiled.cc)
  target_link_libraries(${name} PRIVATE snug_options absl::statusor absl::strings)
  if(OpenMP_CXX_FOUND)
    target_link_libraries(${name} PRIVATE OpenMP::OpenMP_CXX)  # it needs the options of those that read it
  endif()
  target_precompile_headers(${name} PRIVATE
    <algorithm> <functional> <map> <memory> <string> <vector> <absl/status/statusor.h> <absl/strings/str_cat.h> ${ARGN})
endfunction()
snug_precompiled(snug_precompiled_headers)

# What runs once or seldom is worth less of the compiler's time than kernels, executors and planners. Not below 2 where
# numbers are worked out: -O1 contracts no multiplication with an addition, and inline functions of kernels may be taken
# from any object.
function(snug_optimise target level)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O${level}>)
endfunction()

# The .cc files of folders, sorted. What calls a library that this build is without is left out; such files, or their
# folders, have its name.
function(snug_sources out)  # further arguments: folders, seen from the CMakeLists.txt; they may be patterns
  list(TRANSFORM ARGN APPEND /*.cc)
  file(GLOB sources RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS ${ARGN})
  if(NOT SNUG_HAS_CUDA)
    list(FILTER sources EXCLUDE REGEX "cuda|cudnn|cublas")
  endif()
  if(NOT SNUG_HAS_ONEDNN)
    list(FILTER sources EXCLUDE REGEX "onednn")
  endif()
  if(NOT SNUG_HAS_CBC)
    list(FILTER sources EXCLUDE REGEX "(^|/)cbc")
  endif()
  list(SORT sources)
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# Every library of ours: its name, SELDOM for what no step runs, and then the FOLDERS whose files it consists of, so that a
# new file needs no line; further SOURCES, the libraries it stands on, how many files are a group, and which files are
# compiled ALONE.
function(snug_library name)
  cmake_parse_arguments(ARG "SELDOM" "GROUP" "FOLDERS;SOURCES;DEPS;ALONE" ${ARGN})
  set(sources "")
  if(ARG_FOLDERS)
    snug_sources(sources ${ARG_FOLDERS})
  endif()
  add_library(${name} STATIC ${sources} ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC snug_options ${ARG_DEPS})
  target_precompile_headers(${name} REUSE_FROM snug_precompiled_headers)
  if(ARG_SELDOM)
    snug_optimise(${name} 2)
  endif()
  if(ARG_GROUP)
    snug_group(${name} ${ARG_GROUP} ${ARG_ALONE})
  endif()
endfunction()
