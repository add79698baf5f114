# Makes libsnug.a (OUT) of OBJECTS and what they need of ARCHIVES: one object whose global names are those that SHARED
# exports. Beside it needed.txt, the shared libraries that SHARED is linked with, a line each.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE out ERROR_VARIABLE error)
  if(failed)
    message(FATAL_ERROR "${ARGN}: ${error}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

get_filename_component(directory ${OUT} DIRECTORY)

run(${NM} -D --defined-only ${SHARED})
string(REGEX MATCHALL "[A-Za-z] (_Z|snug_)[^@\n]*" exported "${out}")
list(TRANSFORM exported REPLACE "^. " "")
string(JOIN "\n" exported ${exported})
file(WRITE ${directory}/exported.txt "${exported}\n")

# Without groups: the program's own copy of an inline function does not replace ours, whose name is local by then.
run(${COMPILER} -r -nostdlib -Wl,--force-group-allocation -o ${directory}/snug.o ${OBJECTS}
  -Wl,--start-group ${ARCHIVES} -Wl,--end-group)
# objcopy leaves GNU's "unique" symbols (inline variables) global, unless they are weak.
run(${NM} --defined-only ${directory}/snug.o)
string(REGEX MATCHALL " u [^\n]*" unique "${out}")
list(TRANSFORM unique REPLACE "^ u " "")
string(JOIN "\n" unique ${unique})
file(WRITE ${directory}/unique.txt "${unique}\n")
run(${OBJCOPY} --weaken-symbols=${directory}/unique.txt ${directory}/snug.o)
run(${OBJCOPY} --keep-global-symbols=${directory}/exported.txt ${directory}/snug.o)
file(REMOVE ${OUT})
run(${AR} rcs ${OUT} ${directory}/snug.o)

run(${READELF} -d ${SHARED})
string(REGEX MATCHALL "NEEDED[^\n]*" needed "${out}")
list(TRANSFORM needed REPLACE ".*\\[(.*)\\]" "\\1")
list(FILTER needed EXCLUDE REGEX "^(libc|libm|libstdc\\+\\+|libgcc_s|ld-linux.*)\\.so")
string(JOIN "\n" needed ${needed})
file(WRITE ${directory}/needed.txt "${needed}\n")
