# The CMake package `vicus`: find_package(vicus [VERSION] [COMPONENTS NAME...]).
#
# Each component is a file `vicus-component-NAME.cmake` beside this one, and defines the target vicus::NAME:
#   vicus             the library, with vicus.h for C11 and vicus.hpp for C++17
#   locality_queues   the headers vicus/locality_queues.hpp and vicus/locality_queues/*.hpp, which need C++17 and no library
#   omp               libvicus_omp.so, an OpenMP runtime in place of the compiler's own
#   qthreads          libvicus_qthreads.so, with the headers of Qthreads
# Without names, all components that are installed are found. The package can be moved as a whole: paths are relative to this file.
get_filename_component(_vicus_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(_vicus_include "${_vicus_prefix}/include")

set(_vicus_wanted ${vicus_FIND_COMPONENTS})
if(NOT _vicus_wanted)
  file(GLOB _vicus_files RELATIVE "${CMAKE_CURRENT_LIST_DIR}" "${CMAKE_CURRENT_LIST_DIR}/vicus-component-*.cmake")
  foreach(_vicus_file IN LISTS _vicus_files)
    string(REGEX REPLACE "^vicus-component-(.*)\\.cmake$" "\\1" _vicus_name "${_vicus_file}")
    list(APPEND _vicus_wanted "${_vicus_name}")
  endforeach()
endif()

foreach(_vicus_name IN LISTS _vicus_wanted)
  set(_vicus_file "${CMAKE_CURRENT_LIST_DIR}/vicus-component-${_vicus_name}.cmake")
  if(EXISTS "${_vicus_file}")
    include("${_vicus_file}")
    set(vicus_${_vicus_name}_FOUND TRUE)
  elseif(vicus_FIND_REQUIRED_${_vicus_name})
    set(vicus_FOUND FALSE)
    set(vicus_NOT_FOUND_MESSAGE "the component ${_vicus_name} of Vicus is not installed below ${_vicus_prefix}")
  endif()
endforeach()

unset(_vicus_prefix)
unset(_vicus_include)
unset(_vicus_wanted)
unset(_vicus_files)
unset(_vicus_file)
unset(_vicus_name)
