// Maniple: batched robot simulation and policy training as an MPI program. The steps of every run.
#include <optional>

#include "src/driver/command_line.hpp"
#include "src/driver/stop.hpp"
#include "src/driver/verbs.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/session.hpp"

int main(int argc, char** argv) {
  // 1 what is asked for; help, version and verbs that only print need no MPI and are answered here
  const maniple::CommandLine command = maniple::parse_command_line(argc, argv);
  if (command.finished) return command.exit_code;

  // 2 signals that ask a run to end in order are noted from here on, or named where a verb just ends; an
  // error ends every rank with one message and the same exit code
  std::optional<maniple::StopSignals> signals;
  if (command.verb->ends_in_order)
    signals.emplace();
  else
    maniple::tell_ending_signals(command.verb->name, maniple::speaks());
  return maniple::run_guarded([&] {
    // 3 MPI, Kokkos and this rank's device, until the end of the program
    maniple::Session session(argc, argv, command.verb->computes);
    // 4 the verb: reads its deck, builds what it needs, runs, writes; guarded while MPI still lives
    return maniple::run_guarded(
        [&] { return static_cast<int>(run_verb(*command.verb, command.decks, command.overrides, session)); });
  });
}
