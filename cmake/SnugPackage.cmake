# Debian packages of what is installed, one for each component: `cpack -G DEB` in a build folder writes them to packages/
# there. What they depend on is what dpkg-shlibdeps finds, so they are for the release of Debian that they were built on.
set(SNUG_PACKAGE_MAINTAINER "The Snug authors <snug@localhost>" CACHE STRING "Who answers for the packages: Name <address>")
set(SNUG_PACKAGE_RELEASE 1 CACHE STRING "Which packages of this version these are: what follows the version, as Debian has it")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME snug)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT ${SNUG_PACKAGE_MAINTAINER})
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_COMPONENTS_ALL command library development)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS library)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_THREADS 0)  # as many as there are processors, for xz
set(CPACK_DEBIAN_PACKAGE_RELEASE ${SNUG_PACKAGE_RELEASE})
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")  # within a soname later versions serve what earlier ones did
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME snug)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMMAND_DESCRIPTION "trains neural networks, with every byte of memory planned
A network is a text file. The command snug trains it, evaluates it, predicts
with it, and says before the first step where every byte of its memory lies
and when.
.
This package has the command, its manual page, completions for bash, zsh and
fish, and model files of well-known networks.")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libsnug${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "training of neural networks in planned memory, shared library
libsnug trains and runs networks within other programs, with every byte of
their memory planned before the first step.
.
This package has the shared library that such programs need.")
# The policy's way to tell the loader of a new library, beside the scripts that CPack writes.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/debian/triggers CONTENT "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/debian/triggers)

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libsnug-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "training of neural networks in planned memory, development files
libsnug trains and runs networks within other programs, with every byte of
their memory planned before the first step.
.
This package has the headers for C++20 and C, the static library, a CMake
package and a pkg-config file.")

set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/SnugDebianFiles.cmake)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
include(CPack)
