# The target vicus::omp, an OpenMP runtime in place of the compiler's own. `_vicus_prefix` is where it is installed.
# What links it is compiled with -fopenmp, and linked without: that would load the compiler's library as well.
if(NOT TARGET vicus::omp)
  add_library(vicus::omp SHARED IMPORTED GLOBAL)
  set_target_properties(vicus::omp PROPERTIES
    IMPORTED_LOCATION "${_vicus_prefix}/lib/libvicus_omp.so"
    IMPORTED_SONAME "libvicus_omp.so"
    INTERFACE_COMPILE_OPTIONS "-fopenmp")
endif()
