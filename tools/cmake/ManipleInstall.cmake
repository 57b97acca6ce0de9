# Files of `cmake --install build --prefix PREFIX`: the program with the library of MuJoCo, decks and models, job
# scripts and Python tools. All paths among them are relative, so that PREFIX may be moved afterwards:
#   bin/maniple  lib/maniple/libmujoco.so.3.17.0  share/maniple/{inputs,jobs,tools}  share/modulefiles/maniple/0.1.0
set(data share/maniple)
# (directories of modules and Spack stay in the program; those of this checkout and of its .venv do not)
set_target_properties(maniple PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/maniple" INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS maniple RUNTIME DESTINATION bin)
install(FILES "${MANIPLE_MUJOCO_LIBRARY_DIR}/libmujoco.so.${MANIPLE_MUJOCO_VERSION}" DESTINATION lib/maniple)
install(DIRECTORY inputs DESTINATION ${data})
install(DIRECTORY jobs DESTINATION ${data} USE_SOURCE_PERMISSIONS PATTERN "*.md" EXCLUDE)
install(FILES LICENSE DESTINATION ${data})
install(DIRECTORY tools DESTINATION ${data} FILES_MATCHING
  PATTERN "*.py" PATTERN "py.typed" PATTERN "replay_page/*" PATTERN "requirements.txt" PATTERN "common.sh"
  PATTERN "__pycache__" EXCLUDE PATTERN "cmake" EXCLUDE PATTERN "images" EXCLUDE)
configure_file("${CMAKE_CURRENT_LIST_DIR}/modulefile.in" "${CMAKE_BINARY_DIR}/modulefile" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/modulefile" DESTINATION share/modulefiles/maniple RENAME "${PROJECT_VERSION}")
