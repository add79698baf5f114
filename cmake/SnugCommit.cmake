# Writes OUT, the C++ source that says which commit of the repository SOURCE is built (tools/commit.h): COMMIT where that is
# given, else what git says. Without git, or where SOURCE is no repository (an unpacked archive), it says nothing. Run at
# every build, by cmake -P; a file that is right already stays as it is, so that nothing is compiled again.
set(commit "${COMMIT}")
if(commit STREQUAL "")
  find_program(GIT git)
  if(GIT)
    # An archive that was unpacked within a repository of something else has no commit of that.
    get_filename_component(parent ${SOURCE} DIRECTORY)
    execute_process(
      COMMAND ${CMAKE_COMMAND} -E env GIT_CEILING_DIRECTORIES=${parent}
        ${GIT} --no-optional-locks -C ${SOURCE} describe --always --abbrev=12 --exclude=* --dirty=-dirty
      OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(failed)
      set(commit "")
    endif()
  endif()
endif()
if(NOT commit MATCHES "^[0-9A-Za-z._+-]*$")
  message(FATAL_ERROR "SNUG_COMMIT: expected letters, digits and ._+-, found \"${commit}\"")
endif()
string(REGEX REPLACE "^([0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f])[0-9a-f]+$"
  "\\1" commit "${commit}")
file(CONFIGURE OUTPUT ${OUT} CONTENT [[// Written by cmake/SnugCommit.cmake.
#include "tools/commit.h"

namespace snug::core::cli {

const char* SourceCommit() { return "@commit@"; }

}  // namespace snug::core::cli
]] @ONLY)
