// A device is the card, its driver and this build of the program: each of them may change the bits.
#include "src/driver/new_device.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "src/base/counted.hpp"
#include "src/base/error.hpp"
#include "src/base/log.hpp"
#include "src/base/version.hpp"
#include "src/driver/setup.hpp"
#include "src/parallel/cuda/devices.hpp"

namespace maniple {

namespace {

// "" where kernels run on the host: their tests come with the build.
std::string device_of([[maybe_unused]] const RankPlace& place) {
#ifdef KOKKOS_ENABLE_CUDA
  std::error_code ignored;
  const auto built = std::filesystem::last_write_time("/proc/self/exe", ignored).time_since_epoch().count();
  return fmt::format("{} {}, driver {}, maniple {} of {}", place.device.name, place.device.uuid,
                     cuda_driver_version(), kVersion, built);
#else
  return "";
#endif
}

}  // namespace

std::filesystem::path TestedDevices::file_of_user() {
  for (const auto& [variable, folder] : {std::pair{"XDG_CACHE_HOME", ""}, std::pair{"HOME", ".cache"}})
    if (const char* const value = std::getenv(variable); value && *value != '\0')
      return std::filesystem::path(value) / folder / "maniple" / "tested_devices";
  return {};
}

bool TestedDevices::has(const std::string& device) const {
  std::ifstream file(file_);
  for (std::string line; std::getline(file, line);)
    if (line == device) return true;
  return false;
}

void TestedDevices::add(const std::string& device) const {
  if (file_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(file_.parent_path(), ignored);
  // (one small write: ranks and runs that add at a time leave whole lines)
  std::ofstream(file_, std::ios::app) << device + "\n" << std::flush;
}

void test_new_device(const std::string& device, bool always, const TestedDevices& tested,
                     const std::function<std::vector<SelfTest>()>& tests, Session& session) {
  const bool is_new = always || (!device.empty() && !tested.has(device));
  std::vector<std::string> differences;
  std::size_t passed = 0;
  if (is_new)
    for (const SelfTest& test : tests()) {
      if (test.difference.empty())
        ++passed;
      else
        differences.push_back(fmt::format("rank {}: {}: {}", session.rank(), test.what, test.difference));
    }
  const std::vector<std::string> all = gather_lines(differences, session);
  if (!all.empty())
    throw Error(
        fmt::format("run.self_test: kernels on {} and on the host give different bits; {}{}; "
                    "run.self_test=never skips the test",
                    session.execution_space(), all.front(),
                    all.size() > 1 ? fmt::format(" (and {} more)", all.size() - 1) : ""));
  if (!is_new) return;
  if (!device.empty()) tested.add(device);
  if (session.rank() == 0)
    info(fmt::format("self-test: {} on {} against the host, the same bits", counted(passed, "comparison"),
                     session.execution_space()));
}

void test_new_device(const Config& config, Session& session) {
  if (config.run.self_test == SelfTestTime::never) return;
  test_new_device(device_of(session.place()), config.run.self_test == SelfTestTime::always,
                  TestedDevices(TestedDevices::file_of_user()), run_self_tests, session);
}

}  // namespace maniple
