# Provides maniple_mujoco: headers and library of MuJoCo 3.17.0, which compiles models and is the
# tests' oracle. They come with its Python wheel, which tools/setup.sh installs into .venv.
set(MANIPLE_MUJOCO_VERSION 3.17.0)
if(MANIPLE_MUJOCO_DIR)
  set(mujoco_dir "${MANIPLE_MUJOCO_DIR}")
else()
  file(GLOB mujoco_candidates "${CMAKE_CURRENT_SOURCE_DIR}/.venv/lib/python3*/site-packages/mujoco")
  set(mujoco_dir "")
  foreach(candidate IN LISTS mujoco_candidates)
    if(EXISTS "${candidate}/libmujoco.so.${MANIPLE_MUJOCO_VERSION}")
      set(mujoco_dir "${candidate}")
    endif()
  endforeach()
  if(NOT mujoco_dir AND SKBUILD)  # pip's environment has it
    execute_process(COMMAND "${Python_EXECUTABLE}" -c
      "import importlib.util; print(*importlib.util.find_spec('mujoco').submodule_search_locations)"
      OUTPUT_VARIABLE mujoco_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
if(NOT mujoco_dir OR NOT EXISTS "${mujoco_dir}/libmujoco.so.${MANIPLE_MUJOCO_VERSION}")
  message(FATAL_ERROR "MuJoCo ${MANIPLE_MUJOCO_VERSION} is not in .venv (found: '${mujoco_dir}'). Run tools/setup.sh, or set "
    "MANIPLE_MUJOCO_DIR to the directory of the installed Python package mujoco==${MANIPLE_MUJOCO_VERSION}")
endif()
set(MANIPLE_MUJOCO_LIBRARY_DIR "${mujoco_dir}")
add_library(maniple_mujoco SHARED IMPORTED)
set_target_properties(maniple_mujoco PROPERTIES
  IMPORTED_LOCATION "${mujoco_dir}/libmujoco.so.${MANIPLE_MUJOCO_VERSION}"
  IMPORTED_SONAME "libmujoco.so.${MANIPLE_MUJOCO_VERSION}"
  INTERFACE_INCLUDE_DIRECTORIES "${mujoco_dir}/include"
  INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${mujoco_dir}/include")
