// Open MPI's shared memory between the ranks of a host lies in files of /dev/shm, which stay, and take the
// host's memory, when a whole run is killed with its launcher.
#pragma once

#include <string>

namespace maniple {

// Removes such files of this user on this host that no process has mapped and that are a minute old: a run
// that just starts makes its file before it maps it. Never throws.
void remove_abandoned_segments(const std::string& directory = "/dev/shm");

}  // namespace maniple
