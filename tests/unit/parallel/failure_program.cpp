// A program that fails in the way its argument names: started under mpirun by tests/CMakeLists.txt, which
// checks the exit code, the single message, and that the program ends.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "src/base/activity.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/session.hpp"

int main(int argc, char** argv) {
  using namespace maniple;
  return run_guarded([&] {
    Session session(argc, argv);
    const std::string how = argc > 1 ? argv[1] : "";
    const int rank = session.rank(), last = session.size() - 1;
    if (how == "all") throw InputError("seen by all ranks");
    if (how == "late") std::this_thread::sleep_for(std::chrono::milliseconds(100 * rank));
    if (how == "late") throw Error("seen by all ranks");
    if (how == "root") run_on_root(session.collectives(), [] { throw InputError("seen by rank 0"); });
    // the others wait in a collective operation that never completes
    if (how == "last" && rank == last) throw Error("seen by one rank");
    if (how == "upper" && rank > 0) throw InputError("seen by some ranks");
    // nothing fails, and nothing goes on; the other cases must not meet this time-out while mpirun ends them
    if (how == "stopped" || how == "stuck") session.watchdog().set_timeout(1);
    note_done("iteration", 7);
    session.collectives().barrier();
    if (how == "stopped" && rank == last) raise(SIGSTOP);
    const ActivityStage stage("update");
    while (how == "stuck" && rank == last) pause();
    session.collectives().barrier();
    return 0;
  });
}
