// Maniple: batched robot simulation and policy training as an MPI program. The steps of every run.
#include <exception>

#include "src/driver/command_line.hpp"
#include "src/driver/verbs.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/session.hpp"

int main(int argc, char** argv) {
  // 1 what is asked for; help, version and schema need no MPI
  const maniple::CommandLine command = maniple::parse_command_line(argc, argv);
  if (command.finished) return command.exit_code;
  try {
    // 2 MPI, Kokkos and this rank's device, until the end of the program
    maniple::Session session(argc, argv);
    try {
      // 3 the verb: reads its deck, builds what it needs, runs, writes, cleans up
      return static_cast<int>(maniple::run_verb(command, session));
    } catch (const maniple::InputError& error) {
      // 4 one message, the same exit code on every rank
      maniple::fail_all_ranks(error.what(), maniple::ExitCode::bad_input);
    } catch (const std::exception& error) {
      maniple::fail_all_ranks(error.what(), maniple::ExitCode::error);
    }
  } catch (const std::exception& error) {
    maniple::fail_all_ranks(error.what(), maniple::ExitCode::error);
  }
}
