// The verbs of the program. Each reads its configuration, builds what it needs and returns an exit
// code; errors leave as exceptions and meet the one handler in main.
#pragma once

#include "src/base/error.hpp"
#include "src/config/config.hpp"
#include "src/driver/command_line.hpp"
#include "src/parallel/session.hpp"

namespace maniple {

// Loads the deck and dispatches.
ExitCode run_verb(const CommandLine& command, Session& session);

ExitCode train(const Config& config, Session& session);
ExitCode rollout(const Config& config, Session& session);
ExitCode evaluate_policy(const Config& config, Session& session);
ExitCode bench(const Config& config, Session& session);
ExitCode validate(const Config& config, Session& session);

}  // namespace maniple
