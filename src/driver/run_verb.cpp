// From a verb's name to its function.
#include <functional>
#include <map>
#include <optional>

#include "src/base/log.hpp"
#include "src/config/deck.hpp"
#include "src/driver/doctor.hpp"
#include "src/driver/verbs.hpp"
#include "src/io/commit.hpp"
#include "src/io/run_directory.hpp"
#include "src/parallel/failure.hpp"
#include "src/parallel/retry.hpp"

namespace maniple {

ExitCode run_verb(const CommandLine& command, Session& session) {
  static const std::map<std::string, std::function<ExitCode(const Config&, Session&)>> verbs{
      {"train", train},
      {"rollout", rollout},
      {"evaluate", evaluate_policy},
      {"bench", bench},
      {"validate", validate},
      {"doctor", [](const Config& config, Session& s) { return static_cast<ExitCode>(doctor(s, config)); }},
  };
  // doctor looks at the machine and needs no robot
  const Config config = load_config(command.decks, command.overrides, command.verb != "doctor");
  session.watchdog().set_timeout(config.run.hang_timeout);
  set_retries(config.run.retries);
  const bool writes = command.verb != "validate" && command.verb != "doctor";
  // bench only measures: its one file is replaced
  std::optional<RunDirectory> directory;
  if (writes && command.verb != "bench")
    directory.emplace(
        RunDirectory::Claim{config.output.directory, command.verb, config.learning.resume == "auto",
                            config.output.overwrite, config.where_of("output.directory")},
        session.collectives());
  open_log(session.rank(), writes ? config.output.directory : "");
  const ExitCode code = verbs.at(command.verb)(config, session);
  if (!config.run.status_file.empty())
    run_on_root(session.collectives(), [&] {
      write_text_file(config.run.status_file, std::to_string(static_cast<int>(code)) + "\n");
    });
  close_log();
  return code;
}

}  // namespace maniple
