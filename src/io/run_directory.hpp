// A run's directory belongs to one run at a time, and results of
// an earlier run there are replaced only when the user says so.
#pragma once

#include <string>
#include <vector>

#include "src/base/error.hpp"
#include "src/parallel/collectives.hpp"

namespace maniple {

class RunDirectory {
 public:
  struct Claim {
    std::string directory;
    std::string verb;              // who holds it
    std::string results;           // the file that the verb writes
    bool has_checkpoints = false;  // beside it
    bool continues = false;        // from checkpoints that are there
    bool overwrite = false;        // what is there may be replaced
    SourceLocation where;          // of output.directory
  };

  // What the constructor would refuse now of what is there already: InputError. Makes and takes nothing.
  static void check(const Claim& claim);

  // Collective. Makes the directory and holds <directory>/run.lock until the destructor: a symbolic link
  // whose target says who holds it, because that is made at once with all that it says, on network file
  // systems too. The lock of a process of this host that is no more, or of an earlier start of the same
  // job, is taken over. InputError, which says who or what is there: another run holds the lock, or the
  // claim would replace results without permission, or why the directory cannot be made.
  RunDirectory(const Claim& claim, Collectives& collectives);
  ~RunDirectory();
  // The run is refused: where nothing but its log and lock has come since, they go, and with them the
  // directories that it made.
  void withdraw();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

 private:
  std::string directory_, lock_, holder_;  // on rank 0; "": not held
  std::vector<std::string> made_;          // directories that were not there, the outermost last
  bool had_log_ = false;
};

// Removes the lock that this process holds, if any: for a handler of a signal that ends the process, which
// calls no destructor.
void release_lock_at_signal();

// Of a directory and those that it is in the ones that do not exist, the outermost last.
std::vector<std::string> missing_directories(const std::string& directory);

}  // namespace maniple
