# Provides Kokkos::kokkos from an installed Kokkos (3.4 to 5.x; Kokkos_ROOT names one) or, with
# MANIPLE_FETCH_KOKKOS, from a release that is downloaded and built with the Kokkos_ENABLE_* and
# Kokkos_ARCH_* options given to this configuration. Sets MANIPLE_KOKKOS_CUDA.
if(MANIPLE_FETCH_KOKKOS)
  include(FetchContent)
  FetchContent_Declare(Kokkos
    GIT_REPOSITORY https://github.com/kokkos/kokkos.git
    GIT_TAG ${MANIPLE_KOKKOS_TAG}
    GIT_SHALLOW ON)
  FetchContent_MakeAvailable(Kokkos)
  set(Kokkos_VERSION ${MANIPLE_KOKKOS_TAG})
else()
  find_package(Kokkos 3.4 REQUIRED)
endif()

# Which back ends it has: releases report it in Kokkos_DEVICES, Trilinos in KokkosCore's own list.
set(MANIPLE_KOKKOS_CUDA OFF)
if(Kokkos_ENABLE_CUDA OR "CUDA" IN_LIST Kokkos_DEVICES OR "Cuda" IN_LIST Kokkos_DEVICES)
  set(MANIPLE_KOKKOS_CUDA ON)
endif()

# Debian's package names an include directory that its files are not in.
find_path(KOKKOS_HEADER_DIR Kokkos_Core.hpp PATH_SUFFIXES trilinos)
mark_as_advanced(KOKKOS_HEADER_DIR)
if(NOT MANIPLE_FETCH_KOKKOS)
  foreach(target Kokkos::kokkos trilinos_kokkoscore trilinos_kokkoscontainers trilinos_kokkosalgorithms kokkoscore)
    if(TARGET ${target})
      get_target_property(directories ${target} INTERFACE_INCLUDE_DIRECTORIES)
      set(missing FALSE)
      foreach(directory IN LISTS directories)
        if(directory MATCHES "^/" AND NOT EXISTS "${directory}/Kokkos_Core.hpp")
          set(missing TRUE)
        endif()
      endforeach()
      if(missing AND KOKKOS_HEADER_DIR)
        set_target_properties(${target} PROPERTIES
          INTERFACE_INCLUDE_DIRECTORIES "${KOKKOS_HEADER_DIR}"
          INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${KOKKOS_HEADER_DIR}")
      endif()
    endif()
  endforeach()
endif()
