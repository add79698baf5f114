# Beside the installed command: what it prints for shells and for man, in the places where these look. SNUG is the command,
# DATA_DIR and MAN_DIR are folders in the prefix.
set(root $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX})
function(install_text path)  # further arguments: those of the command
  get_filename_component(folder ${root}/${path} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  message(STATUS "Installing: ${root}/${path}")
  execute_process(COMMAND ${SNUG} ${ARGN} OUTPUT_FILE ${root}/${path} RESULT_VARIABLE failed)
  if(failed)
    file(REMOVE ${root}/${path})
    message(FATAL_ERROR "${SNUG} ${ARGN}: ${failed}")
  endif()
  file(CHMOD ${root}/${path} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)  # as install() has them
endfunction()
install_text(${DATA_DIR}/bash-completion/completions/snug completion bash)
install_text(${DATA_DIR}/zsh/site-functions/_snug completion zsh)
install_text(${DATA_DIR}/fish/vendor_completions.d/snug.fish completion fish)
install_text(${MAN_DIR}/man1/snug.1 man)
