// maniple doctor: is this machine, launch and file system fit for a run?
#pragma once

#include <string>

#include "src/config/config.hpp"
#include "src/parallel/session.hpp"

namespace maniple {

// Collective; rank 0 prints. Ranks, hosts, devices, cores and threads; latency and bandwidth between
// ranks; write, commit, lock and read test in output.directory; versions (`model_library`: MuJoCo's).
// Returns 0, or 1 after naming what is broken.
int doctor(Session& session, const Config& config, const std::string& model_library = "");

// What the placement of ranks makes slow: cores that several ranks of a host share, more host threads
// than cores. One line each.
std::vector<std::string> placement_warnings(const std::vector<RankPlace>& places);

}  // namespace maniple
