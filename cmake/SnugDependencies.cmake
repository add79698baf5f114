# Libraries of others. Debian 12's are the floor; newer ones work.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(ZLIB REQUIRED)  # instance files come gzipped
find_package(Protobuf CONFIG QUIET)  # protobuf >= 22 brings its Abseil along this way
if(NOT Protobuf_FOUND)
  find_package(Protobuf REQUIRED)
endif()

if(NOT SNUG_SANITIZE STREQUAL "thread")
  find_package(OpenMP COMPONENTS CXX)
endif()

if(NOT SNUG_ONEDNN STREQUAL "OFF")
  # Not by its CMake package: Debian's insists on OpenCL's headers, which nothing here needs.
  find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
  find_library(DNNL_LIBRARY dnnl)
  if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY)
    add_library(DNNL::dnnl UNKNOWN IMPORTED)
    set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
  endif()
  if(TARGET DNNL::dnnl)
    set(SNUG_HAS_ONEDNN TRUE)
  elseif(SNUG_ONEDNN STREQUAL "ON")
    message(FATAL_ERROR "SNUG_ONEDNN=ON, but oneDNN was not found (Debian: libdnnl-dev)")
  endif()
endif()

if(SNUG_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(SNUG_BUILD_BENCHMARKS)
  find_package(benchmark QUIET)
endif()

message(STATUS "snug: oneDNN ${SNUG_HAS_ONEDNN}, OpenMP ${OpenMP_CXX_FOUND}, ccache ${SNUG_CCACHE}")
