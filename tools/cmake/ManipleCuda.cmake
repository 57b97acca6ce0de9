# The object libraries maniple_cuda (src/parallel/cuda) and maniple_nccl (src/parallel/nccl): compiled wherever
# the CUDA toolkit, and NCCL, are found, so that they cannot rot, and part of maniple_core only where Kokkos runs
# on CUDA. MANIPLE_HAVE_NCCL is defined where NCCL is linked: without it, ranks of a CUDA build talk through MPI.
set(MANIPLE_NCCL "AUTO" CACHE STRING "Sums over GPUs by NCCL: ON, OFF, or AUTO (if it is found)")
find_package(CUDAToolkit QUIET)
if(MANIPLE_KOKKOS_CUDA AND NOT CUDAToolkit_FOUND)
  message(FATAL_ERROR "Kokkos was built with CUDA, but the CUDA toolkit was not found; set CUDAToolkit_ROOT, or put nvcc "
    "into PATH")
endif()

# maniple_device_part(FOLDER INCLUDE_DIRECTORIES LIBRARIES...): maniple_FOLDER, and where it belongs
function(maniple_device_part folder directories)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/parallel/${folder}/*.cpp")
  add_library(maniple_${folder} OBJECT ${sources})
  # (no device code: not by way of Kokkos' compiler)
  target_link_libraries(maniple_${folder} PRIVATE maniple_flags maniple_mpi)
  target_include_directories(maniple_${folder} SYSTEM PRIVATE ${directories})
  add_dependencies(maniple_core maniple_${folder})
  if(MANIPLE_KOKKOS_CUDA)
    target_sources(maniple_core PRIVATE $<TARGET_OBJECTS:maniple_${folder}>)
    target_link_libraries(maniple_core PUBLIC ${ARGN})
  endif()
endfunction()

# Whether the device code of each file of kernels is linked for itself (a Kokkos of relocatable code links all at once).
set(MANIPLE_LINK_KERNELS OFF)
if(MANIPLE_KOKKOS_CUDA AND NOT Kokkos_ENABLE_CUDA_RELOCATABLE_DEVICE_CODE)
  set(MANIPLE_LINK_KERNELS ON)
endif()
# maniple_add_kernels(NAME NEEDS SOURCES...): the library NAME of files that launch the physics, compiled with what the
# target NEEDS gives to its users. Where nvcc makes a whole program of such a file, each kernel gets its own copy of
# all functions that it calls, and ptxas takes many minutes and gigabytes; of relocatable code, it compiles each function
# once, in a minute altogether. The device code of a file is then linked at once, and hidden from nvcc when it links the
# executable: Kokkos' constant memory and locks are one for each file, as they are in whole programs, and a device has no
# room for all of them in one module.
function(maniple_add_kernels library needs)
  if(NOT MANIPLE_LINK_KERNELS)
    add_library(${library} OBJECT ${ARGN})
    target_link_libraries(${library} PRIVATE ${needs})
    return()
  endif()
  add_library(${library} STATIC)
  target_link_libraries(${library} PUBLIC ${needs})
  set_target_properties(${library} PROPERTIES LINKER_LANGUAGE CXX)
  foreach(source IN LISTS ARGN)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE name)
    string(REGEX REPLACE "[/.]" "_" name "${name}")
    add_library(${name} OBJECT "${source}")
    target_link_libraries(${name} PRIVATE ${needs})
    # (Kokkos refuses relocatable code, of which one part could not tell another's locks and constants from its own)
    target_compile_options(${name} PRIVATE -rdc=true -U__CUDACC_RDC__)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}.o")
    add_custom_command(OUTPUT "${object}"
      COMMAND "${CUDAToolkit_NVCC_EXECUTABLE}" -ccbin "${CMAKE_CXX_COMPILER}" -arch=sm_${MANIPLE_CUDA_ARCHITECTURE}
        -Xcompiler=-fPIC -dlink $<TARGET_OBJECTS:${name}> -o "${object}.link.o"
      COMMAND "${CMAKE_LINKER}" -r $<TARGET_OBJECTS:${name}> "${object}.link.o" -o "${object}"
      COMMAND "${CMAKE_OBJCOPY}" --rename-section __nv_relfatbin=.nv_linked_relfatbin --wildcard
        "--localize-symbol=*kokkos_impl_cuda*" "--localize-symbol=*CUDA_SPACE_ATOMIC_LOCKS*" "${object}"
      DEPENDS ${name} $<TARGET_OBJECTS:${name}> VERBATIM COMMENT "Linking the device code of ${name}")
    target_sources(${library} PRIVATE "${object}")
  endforeach()
endfunction()

# maniple_join_folders(TARGET): with MANIPLE_JOIN_FOLDERS, and always in a CUDA build, compiles the target's files folder
# by folder: of the time of one, the headers are most, Kokkos' alone ten seconds of nvcc. So files of a folder give
# different things different names, also where they are their own, or have a namespace each. Every build writes the same
# joined files into the folder joined_folders, so that tests/regress/repository/test_folders.py can see clashes without nvcc.
file(REMOVE_RECURSE "${PROJECT_BINARY_DIR}/joined_folders")
function(maniple_join_folders target)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH path)
    cmake_path(GET path FILENAME folder)
    get_property(alone SOURCE "${source}" PROPERTY SKIP_UNITY_BUILD_INCLUSION)
    if(NOT folder OR alone)
      continue()
    endif()
    set_property(SOURCE "${source}" PROPERTY UNITY_GROUP "${folder}")
    file(APPEND "${PROJECT_BINARY_DIR}/joined_folders/${target}_${folder}.cpp" "#include \"${source}\"\n")
  endforeach()
  if(MANIPLE_KOKKOS_CUDA OR MANIPLE_JOIN_FOLDERS)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # (types of a file of its own are no types of a header, though the file is included)
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endif()
  endif()
endfunction()

# maniple_compiled_files(RESULT TARGET REGEX): the files that the compiler is given of those sources of a target, joined
# before, whose paths match.
function(maniple_compiled_files result target regex)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "${regex}")
  set(files "")
  foreach(source IN LISTS sources)
    get_property(folder SOURCE "${source}" PROPERTY UNITY_GROUP)
    if(folder AND (MANIPLE_KOKKOS_CUDA OR MANIPLE_JOIN_FOLDERS))
      list(APPEND files "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/Unity/unity_${folder}_cxx.cxx")
    else()
      list(APPEND files "${source}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES files)
  set(${result} ${files} PARENT_SCOPE)
endfunction()

# maniple_optimise(FILES...): compiles what runs long, kernels first of all, with -O3; the rest has -O1, with which it takes
# two thirds of the time to compile. All files that launch the same kernels belong here: the linker takes one of the copies. With sanitizers it is -O1 and what CMAKE_CXX_FLAGS_DEBUG says.
function(maniple_optimise)
  if(NOT MANIPLE_KOKKOS_CUDA)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS $<IF:$<CONFIG:Debug>,-O1,-O3>)
  endif()
  if(MANIPLE_SANITIZE)
    # (precompiled headers are of the optimisation of the others)
    set_property(SOURCE ${ARGN} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

set(MANIPLE_NCCL_STATE "no")
# these files alone, so that the other choice compiles nothing else again
set(nccl_users src/parallel/session.cpp src/driver/doctor.cpp)
set_property(SOURCE ${nccl_users} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
if(MANIPLE_KOKKOS_CUDA)
  set_property(SOURCE src/parallel/session.cpp APPEND PROPERTY COMPILE_DEFINITIONS
    MANIPLE_CUDA_ARCHITECTURE=${MANIPLE_CUDA_ARCHITECTURE})
  # (src/parallel/cuda/driver.cpp takes the place of the driver's library, which is not everywhere)
  target_link_options(maniple_core PUBLIC LINKER:--as-needed)
endif()
if(CUDAToolkit_FOUND)
  maniple_device_part(cuda "${CUDAToolkit_INCLUDE_DIRS}" CUDA::cudart)

  set(nccl_hints ${CUDAToolkit_INCLUDE_DIRS} $ENV{NCCL_HOME}/include ${NCCL_ROOT}/include)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${nccl_hints})
  find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} $ENV{NCCL_HOME}/lib ${NCCL_ROOT}/lib)
  mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
  if(NCCL_INCLUDE_DIR AND MANIPLE_NCCL)
    set(MANIPLE_NCCL_STATE compiled)
    if(MANIPLE_KOKKOS_CUDA AND NOT NCCL_LIBRARY)
      message(FATAL_ERROR "nccl.h is in ${NCCL_INCLUDE_DIR}, but libnccl was not found; set NCCL_ROOT, or MANIPLE_NCCL=OFF")
    endif()
    maniple_device_part(nccl "${NCCL_INCLUDE_DIR};${CUDAToolkit_INCLUDE_DIRS}" ${NCCL_LIBRARY})
    if(MANIPLE_KOKKOS_CUDA)
      set(MANIPLE_NCCL_STATE linked)
      set_property(SOURCE ${nccl_users} APPEND PROPERTY COMPILE_DEFINITIONS MANIPLE_HAVE_NCCL)
    endif()
  elseif(MANIPLE_NCCL STREQUAL "ON")
    message(FATAL_ERROR "MANIPLE_NCCL is ON, but nccl.h was not found; set NCCL_ROOT")
  elseif(MANIPLE_KOKKOS_CUDA)
    message(STATUS "Maniple: without NCCL, ranks will talk through MPI and host memory")
  endif()
endif()
