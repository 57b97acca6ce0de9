// The rate of checkpoints compared with a plain MPI-IO write of the same bytes, in pairs: reservation,
// checksum, seal and rename on one side; open, write, MPI_File_sync and close on the other. The work of
// threads beside a run, reading back and pruning, is waited for here and timed on its own.
//
//   ninja -C build maniple_checkpoint_rate && mpirun -n 2 build/maniple_checkpoint_rate DIRECTORY [MB]
//   [pairs]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include "src/io/checkpoint_writer.hpp"
#include "src/parallel/mpi_access.hpp"

namespace maniple {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void plain_write(const std::string& path, const std::vector<float>& numbers, std::int64_t position) {
  MPI_File file = MPI_FILE_NULL;
  check_mpi(
      MPI_File_open(MPI_COMM_WORLD, path.c_str(), MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file),
      "open");
  check_mpi(MPI_File_write_at_all(file, position, numbers.data(), static_cast<int>(numbers.size()), MPI_FLOAT,
                                  MPI_STATUS_IGNORE),
            "write");
  check_mpi(MPI_File_sync(file), "sync");
  check_mpi(MPI_File_close(&file), "close");
}

int run(const std::string& directory, std::int64_t megabytes, int pairs) {
  const std::unique_ptr<Collectives> world = make_mpi_collectives(MPI_COMM_WORLD);
  constexpr std::int64_t kFields = 12, kElements = 16;
  const std::int64_t envs = megabytes * 1'000'000 / (4 * kFields * kElements);
  const Partition partition(envs, world->rank(), world->size());
  std::vector<std::vector<float>> fields(kFields);
  Archive archive;
  for (std::int64_t f = 0; f < kFields; ++f) {
    std::vector<float>& field = fields[static_cast<std::size_t>(f)];
    field.resize(static_cast<std::size_t>(partition.tiles * kTileWidth * kElements));
    for (std::size_t i = 0; i < field.size(); ++i)
      field[i] = static_cast<float>((i * 2654435761u + static_cast<std::size_t>(f)) % 1000003);
    archive.per_env("state/field" + std::to_string(f), field.data(), kElements, 0, kElements, "1", "numbers");
  }
  CheckpointIdentity identity;
  identity.num_envs = envs;
  const std::vector<float> plain(static_cast<std::size_t>(partition.envs() * kFields * kElements), 1.5f);
  std::vector<double> ratios;
  for (int pair = 0; pair <= pairs; ++pair) {  // the first pair warms up
    world->barrier();
    const double start = now();
    plain_write(directory + "/plain", plain, partition.first_env() * kFields * kElements * 4);
    world->barrier();
    const double middle = now();
    std::optional<CheckpointWriter> writer(std::in_place, directory, 1, false, *world);
    writer->write(pair, identity, archive, partition);
    world->barrier();
    const double end = now();
    writer->settle();
    writer.reset();
    world->barrier();
    const double settled = now();
    if (world->rank() == 0) {
      std::filesystem::remove(directory + "/plain");
      std::printf("plain %.3f s, checkpoint %.3f s and %.3f s beside the run: %.0f %%\n", middle - start,
                  end - middle, settled - end, 100 * (middle - start) / (end - middle));
    }
    if (pair > 0) ratios.push_back((middle - start) / (end - middle));
  }
  std::sort(ratios.begin(), ratios.end());
  if (world->rank() == 0)
    std::printf("median of %d pairs: %.0f %% of a plain MPI-IO write of %ld MB\n", pairs,
                100 * ratios[ratios.size() / 2], static_cast<long>(megabytes));
  return 0;
}

}  // namespace
}  // namespace maniple

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int code = maniple::run(argc > 1 ? argv[1] : ".", argc > 2 ? std::atol(argv[2]) : 117,
                                argc > 3 ? std::atoi(argv[3]) : 7);
  MPI_Finalize();
  return code;
}
