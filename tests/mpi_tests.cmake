# Unit tests on several ranks, included by tests/CMakeLists.txt after maniple_unit_tests: suites whose name
# ends in Mpi are collective. On 2 and 3 ranks all of them run; here follow larger numbers and failures.
foreach(ranks 4 7)
  add_test(NAME unit_mpi_${ranks}
    COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:maniple_unit_tests>
            --gtest_filter=CollectivesMpi.*:CheckpointMpi.*:FullDiskMpi.*:StopMpi.*:ResultsMpi.*-*.LongTrajectories*
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(unit_mpi_${ranks} PROPERTIES LABELS "unit" TIMEOUT 300 PROCESSORS 2
    ENVIRONMENT "${MANIPLE_TEST_ENVIRONMENT}")
endforeach()

# A failing rank ends the whole job within seconds, with its exit code and one message.
add_executable(maniple_failure_program "${CMAKE_CURRENT_LIST_DIR}/unit/parallel/failure_program.cpp")
target_link_libraries(maniple_failure_program PRIVATE maniple_core)
set_target_properties(maniple_failure_program PROPERTIES BUILD_RPATH "${MANIPLE_MUJOCO_LIBRARY_DIR}")
foreach(case all:2 late:1 root:2 last:1 upper:2 none:0)
  string(REPLACE ":" ";" case "${case}")
  list(GET case 0 how)
  list(GET case 1 code)
  if(code EQUAL 0)
    set(messages 0)
  else()
    set(messages 1)
  endif()
  add_test(NAME failure_${how}
    COMMAND sh -c "out=$(timeout 30 \"$0\" \"$1\" 3 \"$2\" ${how} 2>&1); code=$?; echo \"$out\"; \
echo \"exit code $code\"; test $code -eq ${code} && test $(echo \"$out\" | grep -c 'maniple: error:') -eq ${messages}"
            ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} $<TARGET_FILE:maniple_failure_program>)
  set_tests_properties(failure_${how} PROPERTIES LABELS "unit;fast" TIMEOUT 60 PROCESSORS 2
    ENVIRONMENT "${MANIPLE_TEST_ENVIRONMENT}")
endforeach()
