// The same calls that results and checkpoints use, on a throw-away file.
#include "src/io/measure.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <vector>

#include "src/base/error.hpp"
#include "src/io/commit.hpp"
#include "src/io/hdf5.hpp"
#include "src/io/shared_file.hpp"
#include "src/parallel/failure.hpp"

namespace maniple {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string type_of_file_system(const std::string& directory) {
  struct statfs status {};
  if (statfs(directory.c_str(), &status) != 0) return "unknown";
  switch (static_cast<unsigned long>(status.f_type)) {
    case 0xEF53:
      return "ext4";
    case 0x01021994:
      return "tmpfs";
    case 0x6969:
      return "nfs";
    case 0x0BD00BD0:
      return "lustre";
    case 0x47504653:
      return "gpfs";
    case 0x58465342:
      return "xfs";
    case 0x9123683E:
      return "btrfs";
    case 0x794C7630:
      return "overlayfs";
    case 0x19830326:
      return "beegfs";
  }
  char text[32];
  std::snprintf(text, sizeof text, "type 0x%lx", static_cast<unsigned long>(status.f_type));
  return text;
}

}  // namespace

bool is_memory(const std::string& directory) {
  return type_of_file_system(directory) == "tmpfs";
}

namespace {

bool lock_works(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR);
  if (fd < 0) return false;
  const bool works = flock(fd, LOCK_EX | LOCK_NB) == 0;
  close(fd);
  return works;
}

}  // namespace

FileSystemReport measure_file_system(const std::string& directory, std::int64_t bytes_per_rank,
                                     Collectives& collectives) {
  FileSystemReport report;
  const std::string path = directory + "/doctor.h5";
  const std::string temporary = broadcast_text(collectives, temporary_name(path));
  const auto rank = static_cast<hsize_t>(collectives.rank()),
             ranks = static_cast<hsize_t>(collectives.size());
  const auto count = static_cast<hsize_t>(bytes_per_rank) / sizeof(double);
  std::vector<double> numbers(count);
  for (hsize_t i = 0; i < count; ++i) numbers[i] = static_cast<double>(rank * count + i);
  try {
    run_on_root(collectives, [&] {
      make_directory(directory);
      unlink(temporary.c_str());
    });
    const double start = now();
    std::int64_t address = 0;
    run_on_root(collectives, [&] {
      hdf5::File file =
          hdf5::create_file(temporary, file_bytes(bytes_per_rank * static_cast<std::int64_t>(ranks), 1));
      address = hdf5::address_of(hdf5::create_dataset(file, "numbers", ElementType::float64, {ranks * count},
                                                      "1", "test of the file system"),
                                 temporary);
      hdf5::close(file, temporary);
    });
    collectives.broadcast(&address, sizeof address, 0);
    run_together(collectives, [&] {
      const SharedFile file(temporary, true);
      const std::size_t bytes = count * sizeof(double);
      file.write(numbers.data(), bytes, address + static_cast<std::int64_t>(rank * bytes));
      file.sync();
    });
    run_on_root(collectives, [&] { commit_file(temporary, path); });
    report.write_seconds = now() - start;

    // the neighbour's part, so that caches of the writer do not answer where ranks are on several hosts
    const hsize_t other = (rank + 1) % ranks;
    const double read_start = now();
    run_together(collectives, [&] {
      std::vector<double> read(count);
      const hdf5::File file = hdf5::open_file(path, false);
      const hdf5::Dataset dataset = hdf5::open_dataset(file, "numbers");
      hdf5::read_box(dataset, H5T_NATIVE_DOUBLE, {other * count}, {count}, read.data(), path);
      for (hsize_t i = 0; i < count; ++i)
        if (read[i] != static_cast<double>(other * count + i))
          throw Error(path + ": rank " + std::to_string(rank) + " reads other numbers than rank " +
                      std::to_string(other) + " wrote");
    });
    report.read_seconds = now() - read_start;
    run_on_root(collectives, [&] {
      report.locks = lock_works(path);
      report.type = type_of_file_system(directory);
      std::error_code ignored;
      report.free_bytes = static_cast<double>(std::filesystem::space(directory, ignored).available);
      if (unlink(path.c_str()) != 0) throw Error(path + ": cannot be removed");
    });
  } catch (...) {
    if (collectives.rank() == 0) {
      unlink(temporary.c_str());
      unlink(path.c_str());
    }
    throw;
  }
  report.bytes = static_cast<double>(bytes_per_rank) * collectives.size();
  return report;
}

}  // namespace maniple
