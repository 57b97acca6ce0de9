# Provides maniple_python, the module _maniple of the Python package in tools/maniple. nanobind and the Python that it
# is built for are those of .venv, or of the build that pip runs.
set(MANIPLE_WITH_PYTHON OFF)
if(NOT MANIPLE_PYTHON_PACKAGE STREQUAL "OFF" AND NOT MANIPLE_KOKKOS_CUDA AND NOT MANIPLE_SANITIZE)
  if(NOT Python_EXECUTABLE AND EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/.venv/bin/python")
    set(Python_EXECUTABLE "${CMAKE_CURRENT_SOURCE_DIR}/.venv/bin/python")
  endif()
  find_package(Python 3.11 QUIET COMPONENTS Interpreter Development.Module)
  if(Python_FOUND)
    execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
      OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    find_package(nanobind CONFIG QUIET)
    set(MANIPLE_WITH_PYTHON ${nanobind_FOUND})
  endif()
endif()
if(MANIPLE_PYTHON_PACKAGE STREQUAL "ON" AND NOT MANIPLE_WITH_PYTHON)
  message(FATAL_ERROR "MANIPLE_PYTHON_PACKAGE=ON needs the headers of Python 3.11 or newer, nanobind (tools/setup.sh installs "
    "it into .venv) and a build for CPUs without sanitizers")
endif()
if(MANIPLE_WITH_PYTHON)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/python/*.cpp")
  nanobind_add_module(maniple_python NB_STATIC NOMINSIZE NOSTRIP ${sources})
  set_target_properties(maniple_python PROPERTIES OUTPUT_NAME _maniple BUILD_RPATH "${MANIPLE_MUJOCO_LIBRARY_DIR}"
    INSTALL_RPATH "$ORIGIN/../mujoco" LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/python")
  target_link_libraries(maniple_python PRIVATE maniple_core)
  # of a wheel: the module, and the decks with their models beside it
  install(TARGETS maniple_python LIBRARY DESTINATION maniple COMPONENT python)
  install(DIRECTORY inputs/ DESTINATION maniple/inputs COMPONENT python)
endif()
