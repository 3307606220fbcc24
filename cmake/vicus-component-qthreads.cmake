# The target vicus::qthreads, the interface of Qthreads: `#include <qthread/qthread.h>` or `<qthread.h>`. `_vicus_prefix` is where it is installed.
if(NOT TARGET vicus::qthreads)
  add_library(vicus::qthreads SHARED IMPORTED GLOBAL)
  set_target_properties(vicus::qthreads PROPERTIES
    IMPORTED_LOCATION "${_vicus_prefix}/lib/libvicus_qthreads.so"
    IMPORTED_SONAME "libvicus_qthreads.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_vicus_include}/qthreads-compat")
endif()
