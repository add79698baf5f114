# What Debian's policy wants beside the installed files, and where. CPack runs this when they lie in a folder for each
# component, before it makes packages of them.
function(compressed file)  # as Debian has manual pages and changelogs: without a time, and without a name in it
  execute_process(COMMAND gzip -9nf ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # now, or SOURCE_DATE_EPOCH
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX})
  set(documents ${root}/share/doc/${package})
  file(WRITE ${documents}/copyright
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Snug

Files: *
Copyright: 2026 The Snug authors
License: Apache-2.0
 Licensed under the Apache License, Version 2.0 (the \"License\"); you may not
 use this file except in compliance with the License.
 .
 Unless required by applicable law or agreed to in writing, software
 distributed under the License is distributed on an \"AS IS\" BASIS, WITHOUT
 WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
 License for the specific language governing permissions and limitations under
 the License.
 .
 On Debian systems the License is in /usr/share/common-licenses/Apache-2.0.
")
  file(WRITE ${documents}/changelog.Debian
"snug (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Built from the sources of version ${CPACK_PACKAGE_VERSION}; their repository has the history.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  compressed(${documents}/changelog.Debian)
  if(component STREQUAL command)
    compressed(${root}/share/man/man1/snug.1)
    file(RENAME ${root}/share/zsh/site-functions ${root}/share/zsh/vendor-completions)  # where Debian's zsh looks
  endif()
  # Whatever umask this runs with. (Not by CHMOD_RECURSE: links lead to what is in another component.)
  file(GLOB_RECURSE texts ${root}/share/*)
  file(CHMOD ${texts} FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  file(GLOB_RECURSE folders LIST_DIRECTORIES true ${root}/*)
  foreach(folder IN LISTS folders ITEMS ${root})
    if(IS_DIRECTORY ${folder} AND NOT IS_SYMLINK ${folder})
      file(CHMOD ${folder} DIRECTORY_PERMISSIONS ${CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS})
    endif()
  endforeach()
endforeach()
