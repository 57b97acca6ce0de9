// The end of a parallel program after an error: one message, the same exit code for the launcher, and no rank
// left waiting in a collective operation.
//
// Two cases. Where all ranks can talk, they agree: run_together() and run_on_root() turn an error of any
// rank into the same exception on every rank, and the program unwinds in order. Where a rank fails by
// itself while others may be inside a collective operation, run_guarded() calls fail_all_ranks().
#pragma once

#include <functional>
#include <string>

#include "src/base/error.hpp"
#include "src/parallel/collectives.hpp"

namespace maniple {

// Collective. Runs `work` on every rank; when it throws on any of them, every rank throws the error of
// the lowest such rank (InputError, FileError and TransientError stay what they are).
void run_together(Collectives& collectives, const std::function<void()>& work);

// Collective. The same with `work` on rank 0 only; the others wait for its verdict.
void run_on_root(Collectives& collectives, const std::function<void()>& work);

// Collective. Rank 0's text on every rank.
std::string broadcast_text(Collectives& collectives, const std::string& text);

// Runs `body` and returns what it returns. An exception ends the program on all ranks through
// fail_all_ranks(): exit code 2 for InputError, 1 for anything else.
int run_guarded(const std::function<int()>& body);

// Ends the program on all ranks with `code`. Of the ranks that fail within half a second the lowest
// prints; when every rank failed they leave in order, otherwise MPI_Abort ends the others.
[[noreturn]] void fail_all_ranks(const std::string& message, ExitCode code);

// The same from a thread that may not call MPI, in a program whose main thread hangs: prints, calls `last`
// (which tells the other ranks), and leaves with `code`, for which a launcher ends the others.
[[noreturn]] void fail_without_mpi(const std::string& message, ExitCode code,
                                   const std::function<void()>& last);

// From here on fail_all_ranks() leaves without MPI_Finalize: a library that ends itself in there is in a
// state that it would not survive (HDF5 after a close that failed on a full disk).
void leave_without_finalize();

// Called by Session: opens and closes the communicator over which failing ranks find each other.
void open_failure_channel();
void close_failure_channel();

}  // namespace maniple
