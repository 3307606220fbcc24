# The target vicus::locality_queues, of headers alone. `_vicus_include` is the folder that has `vicus/`.
if(NOT TARGET vicus::locality_queues)
  add_library(vicus::locality_queues INTERFACE IMPORTED GLOBAL)
  set_target_properties(vicus::locality_queues PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_vicus_include}"
    INTERFACE_COMPILE_FEATURES cxx_std_17)
endif()
