// The self-tests in the first second of a run: on a device on which this program has not passed them yet, so
// that a driver, a compiler or a card that computes otherwise is found out before hours of it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/driver/self_test.hpp"
#include "src/parallel/session.hpp"

namespace maniple {

// The devices that passed, a line each, in a file that all runs of a user share.
class TestedDevices {
 public:
  explicit TestedDevices(std::filesystem::path file) : file_(std::move(file)) {}
  // $XDG_CACHE_HOME/maniple/tested_devices, or below ~/.cache; "" where neither is known.
  static std::filesystem::path file_of_user();

  bool has(const std::string& device) const;
  // Nothing is kept where the file cannot be written: the next run tests again.
  void add(const std::string& device) const;

 private:
  std::filesystem::path file_;
};

// Runs `tests` on the ranks whose `device` is not among the tested ones ("": none has to be; `always`: on all
// ranks). Collective. Throws Error with the first differences, the same on every rank.
void test_new_device(const std::string& device, bool always, const TestedDevices& tested,
                     const std::function<std::vector<SelfTest>()>& tests, Session& session);

// The same with the device of this rank, as run.self_test asks.
void test_new_device(const Config& config, Session& session);

}  // namespace maniple
