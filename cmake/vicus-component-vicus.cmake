# The target vicus::vicus, a shared library with headers for C11 and C++17. `_vicus_prefix` is where it is installed.
if(NOT TARGET vicus::vicus)
  add_library(vicus::vicus SHARED IMPORTED GLOBAL)
  set_target_properties(vicus::vicus PROPERTIES
    IMPORTED_LOCATION "${_vicus_prefix}/lib/libvicus.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_vicus_include}")
endif()
