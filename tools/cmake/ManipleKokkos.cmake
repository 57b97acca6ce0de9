# Provides Kokkos::kokkos from an installed Kokkos (3.4 to 5.x; Kokkos_ROOT names one) or, with
# MANIPLE_FETCH_KOKKOS, from a release that is downloaded and built with the Kokkos_ENABLE_* and
# Kokkos_ARCH_* options given to this configuration. Sets MANIPLE_KOKKOS_CUDA, and for a GPU of compute capability
# 9.0 MANIPLE_CUDA_ARCHITECTURE to 90.
set(nvidia_architectures "KEPLER|MAXWELL|PASCAL|VOLTA|TURING|AMPERE|ADA|HOPPER|BLACKWELL")

# Device code is nvcc's: Kokkos' launcher hands it what includes Kokkos, and g++ the rest. Clang as CUDA compiler
# takes other flags, and refuses the newest toolkits.
function(maniple_check_cuda_compiler)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "A CUDA build is compiled by nvcc, with g++ for the host; ${CMAKE_CXX_COMPILER} is clang. Name no "
      "compiler (unset CXX), or g++: -DCMAKE_CXX_COMPILER=g++. Kokkos' launcher then calls nvcc. (In a fresh build folder.)")
  endif()
endfunction()

if(MANIPLE_FETCH_KOKKOS)
  if(Kokkos_ENABLE_CUDA)
    maniple_check_cuda_compiler()
    get_cmake_property(variables CACHE_VARIABLES)
    list(FILTER variables INCLUDE REGEX "^Kokkos_ARCH_(${nvidia_architectures})")
    foreach(variable IN LISTS variables)
      if(${variable})
        string(REPLACE "Kokkos_ARCH_" "" architecture "${variable}")
      endif()
    endforeach()
    if(NOT architecture)
      # the devices of this machine say what they are: "9.0" by device
      execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
        OUTPUT_VARIABLE capabilities OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      string(REGEX MATCHALL "[0-9]+\\.[0-9]+" capabilities "${capabilities}")
      list(REMOVE_DUPLICATES capabilities)
      string(REPLACE "." "" capability "${capabilities}")
      set(names 60:PASCAL60 61:PASCAL61 70:VOLTA70 72:VOLTA72 75:TURING75 80:AMPERE80 86:AMPERE86 87:AMPERE87 89:ADA89
        90:HOPPER90 100:BLACKWELL100 103:BLACKWELL103 120:BLACKWELL120)
      list(FILTER names INCLUDE REGEX "^${capability}:")
      if(NOT names)
        message(FATAL_ERROR "Which GPU is this build for? This machine's nvidia-smi says '${capabilities}'. Name one "
          "architecture, e.g. -DKokkos_ARCH_HOPPER90=ON for H100 and H200, -DKokkos_ARCH_AMPERE80=ON for A100")
      endif()
      string(REGEX REPLACE "^.*:" "" architecture "${names}")
      message(STATUS "Maniple: building for this machine's GPU, Kokkos_ARCH_${architecture}")
      set(Kokkos_ARCH_${architecture} ON CACHE BOOL "Architecture of this machine's GPU")
    endif()
  endif()
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
  maniple_check_cuda_compiler()
  if(NOT MANIPLE_FETCH_KOKKOS)
    string(REGEX MATCH "(${nvidia_architectures})[0-9]+" architecture "${Kokkos_ARCH}")
  endif()
  string(REGEX REPLACE "[^0-9]" "" MANIPLE_CUDA_ARCHITECTURE "${architecture}")
  if(NOT MANIPLE_CUDA_ARCHITECTURE)
    message(FATAL_ERROR "Kokkos in ${Kokkos_DIR} was built with CUDA for no architecture of a GPU (Kokkos_ARCH: "
      "'${Kokkos_ARCH}'). Build it for yours, e.g. with -DKokkos_ARCH_HOPPER90=ON for H100 and H200")
  endif()
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

# A View that nobody has given memory yet ends programs that g++ 12 compiles with the View that Kokkos has since 4.6
# (kokkos#7464), long before they could say why.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13 AND NOT MANIPLE_FETCH_KOKKOS)
  set(advice "Configure Kokkos with -DKokkos_ENABLE_IMPL_VIEW_LEGACY=ON, or take g++ 13, clang, or another release of Kokkos")
  if(MANIPLE_KOKKOS_CUDA)
    # (nvcc compiles it, and no device need be here to try it on)
    find_file(kokkos_configuration KokkosCore_config.h HINTS "${Kokkos_DIR}/../../../include" NO_CACHE)
    if(kokkos_configuration)
      file(STRINGS "${kokkos_configuration}" legacy REGEX "^#define KOKKOS_ENABLE_IMPL_VIEW_LEGACY")
    endif()
    if(NOT legacy AND Kokkos_VERSION VERSION_GREATER_EQUAL 4.6 AND Kokkos_VERSION VERSION_LESS 4.7)
      message(FATAL_ERROR "g++ ${CMAKE_CXX_COMPILER_VERSION} miscompiles the View of Kokkos ${Kokkos_VERSION}. ${advice}")
    endif()
  elseif(NOT DEFINED MANIPLE_KOKKOS_VIEW_RUNS)
    file(WRITE "${CMAKE_BINARY_DIR}/kokkos_view.cpp"
      "#include <Kokkos_Core.hpp>\nint main() { Kokkos::View<double*> view, copy = view; return copy.size() == 0 ? 0 : 1; }\n")
    try_run(status compiles "${CMAKE_BINARY_DIR}/kokkos_view" "${CMAKE_BINARY_DIR}/kokkos_view.cpp"
      LINK_LIBRARIES Kokkos::kokkos CXX_STANDARD 20 COMPILE_OUTPUT_VARIABLE output)
    if(NOT compiles)
      message(FATAL_ERROR "A program with Kokkos ${Kokkos_VERSION} does not compile:\n${output}")
    elseif(NOT status EQUAL 0)
      message(FATAL_ERROR "A program with Kokkos ${Kokkos_VERSION} fails at its first View (${status}): g++ "
        "${CMAKE_CXX_COMPILER_VERSION} miscompiles it. ${advice}")
    endif()
    set(MANIPLE_KOKKOS_VIEW_RUNS ON CACHE INTERNAL "Whether a program with a Kokkos View runs")
  endif()
endif()
