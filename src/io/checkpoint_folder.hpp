// The folder <run>/checkpoints: its checkpoints, those of the run's history, and those to delete.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace maniple {

inline constexpr const char* kCheckpointEnding = ".h5";
inline constexpr const char* kSupersededEnding = ".h5.superseded";  // of a history that the run has left

// Steps of the checkpoints in a directory, newest first; only complete names "<step><ending>".
std::vector<std::int64_t> checkpoint_steps_in(const std::string& directory,
                                              const std::string& ending = kCheckpointEnding);

// Rank 0. Steps of the checkpoints of a run's directory, newest first. Error when the directory is there and
// cannot be listed: nothing may start again because a file system failed to answer.
std::vector<std::int64_t> checkpoint_steps(const std::string& directory);

std::string checkpoint_file(const std::string& directory, std::int64_t step,
                            const std::string& ending = kCheckpointEnding);

// Rank 0, after a commit: newer steps belong to a history that this run has left (it started again, or
// fell back from bad files), so they step aside: no later start may go on from them.
void set_newer_aside(const std::string& directory, std::int64_t step);

// What goes wrong about the checkpoints that are there does not make the new one worse. In a destructor, and
// on rank 0 alone: nothing may escape.
void tidy_checkpoints(const std::string& directory, const std::function<void()>& work);

// Rank 0, when the newest has been read back: of all steps the last `keep` stay, and `keep_superseded` of
// those that stepped aside.
void prune_checkpoints(const std::string& directory, std::int64_t keep, std::int64_t keep_superseded);

}  // namespace maniple
