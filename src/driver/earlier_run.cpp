#include "src/driver/earlier_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "src/base/counted.hpp"
#include "src/io/final_values.hpp"
#include "src/io/isolated.hpp"
#include "src/io/results.hpp"
#include "src/io/seal.hpp"

namespace maniple {
namespace {

namespace fs = std::filesystem;

// The directories right below one that have results, as an ensemble's has.
std::set<std::string> runs_below(const fs::path& directory) {
  std::error_code ignored;
  std::set<std::string> runs;
  for (const auto& entry : fs::directory_iterator(directory, ignored))
    if (fs::is_regular_file(entry.path() / kResultsFile, ignored)) runs.insert(entry.path().string());
  return runs;
}

// The run, or checkpoint, whose policy acted in an evaluation, from its deck.
std::string evaluated_in(const std::string& deck) {
  std::smatch found;
  const std::regex line("\n  checkpoint: \"?([^\"\n]*)");
  return std::regex_search(deck, found, line) ? found[1].str() : "";
}

}  // namespace

std::string results_of(const std::string& run) {
  std::error_code ignored;
  if (!fs::is_directory(run, ignored)) return run;
  const fs::path results = fs::path(run) / kResultsFile, evaluation = fs::path(run) / kEvaluationFile;
  return (fs::is_regular_file(results, ignored) || !fs::is_regular_file(evaluation, ignored) ? results
                                                                                             : evaluation)
      .string();
}

bool names_a_run(const std::string& argument) {
  std::error_code ignored;
  return fs::is_directory(argument, ignored) || fs::path(argument).extension() == ".h5";
}

std::string text_of_run(const std::string& run, const std::string& name) {
  std::error_code ignored;
  const std::string path = results_of(run);
  if (!fs::is_regular_file(path, ignored)) {
    constexpr std::size_t kMostNamed = 20;
    const std::set<std::string> runs = runs_below(run);
    const auto named = static_cast<std::ptrdiff_t>(std::min(kMostNamed, runs.size()));
    if (!runs.empty())
      throw InputError(SourceLocation{run}, "",
                       "the directory of " + counted(runs.size(), "run") + ", without results of its own",
                       fmt::format("the directory of one of them: {}{}",
                                   fmt::join(runs.begin(), std::next(runs.begin(), named), ", "),
                                   runs.size() > kMostNamed ? " ..." : ""));
    throw InputError(SourceLocation{path}, "", "no such file", "the directory of a run with results");
  }
  try {
    check_seal(path);
    return run_isolated(path, [&] { return text_in_results(path, name); });
  } catch (const MachineFault&) {
    throw;
  } catch (const Error& error) {
    throw InputError(SourceLocation{path}, "", "cannot be read", reason_of(error, path));
  }
}

std::optional<EarlierRun> take_earlier_run(const Verb& verb, std::vector<std::string>& decks) {
  const auto found = std::find_if(decks.begin(), decks.end(), names_a_run);
  if (found == decks.end()) return {};
  EarlierRun run{.results = results_of(*found)};
  const std::string directory = fs::path(run.results).parent_path().string();
  run.deck = text_of_run(*found, "run/resolved");
  if (run.deck.empty())
    throw InputError(SourceLocation{run.results}, "", "no deck of a run in the file",
                     "results of train, imitate or rollout, which contain the deck");
  const bool takes_policy = std::any_of(verb.of_run.begin(), verb.of_run.end(), [](const std::string& given) {
    return given.starts_with("control.checkpoint=");
  });
  if (takes_policy && fs::path(run.results).filename() == kEvaluationFile)
    throw InputError(SourceLocation{run.results}, "", "an evaluation, which has no policy of its own",
                     "the run that it is of, " + evaluated_in(run.deck));
  decks.erase(found);
  if (const auto second = std::find_if(decks.begin(), decks.end(), names_a_run); second != decks.end())
    throw InputError(SourceLocation{}, verb.name, "found the runs " + directory + " and " + *second,
                     "allowed: one run, decks over it, and key.path=value");
  for (const char* const key : verb.not_of_run) run.without.emplace_back(key);
  for (std::string assignment : verb.of_run) {
    if (const auto place = assignment.find("RUN"); place != std::string::npos)
      assignment.replace(place, 3, directory.empty() ? "." : directory);
    run.overrides.push_back(assignment);
  }
  return run;
}

}  // namespace maniple
