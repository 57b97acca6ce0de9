# Unit tests on several ranks: suites whose name ends in Mpi are collective. Included by
# tests/CMakeLists.txt after maniple_unit_tests exists; each entry is filter and number of ranks.
set(MANIPLE_MPI_TESTS
  "*Mpi.*|2"
  "*Mpi.*|3"
  "CollectivesMpi.*:CheckpointMpi.*|4"
  "CollectivesMpi.*:CheckpointMpi.*:ResultsMpi.Trajectory*:ResultsMpi.Stopped*|7")
