// The table of members comes from their files, so that it is complete after a resume, too.
#include "src/driver/ensemble.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <stop_token>
#include <thread>

#include "src/base/activity.hpp"
#include "src/base/counted.hpp"
#include "src/base/log.hpp"
#include "src/driver/stop.hpp"
#include "src/io/commit.hpp"
#include "src/io/final_values.hpp"
#include "src/io/results.hpp"
#include "src/io/run_directory.hpp"
#include "src/learning/evaluation.hpp"
#include "src/parallel/failure.hpp"

namespace maniple {
namespace {

namespace fs = std::filesystem;

enum class Ending { done, stopped_early, not_started, failed, refused };
constexpr std::array kTextsOfEndings{"done", "stopped early", "not started", "failed", "refused"};

// How a member ended.
struct Outcome {
  Ending ending = Ending::not_started;
  std::string message;                                 // of an error
  std::vector<std::pair<std::string, double>> values;  // the last one of each series in its results
};

// One line for gather_text().
std::string to_text(std::size_t member, const Outcome& outcome) {
  std::string text = fmt::format("{} {} {}", member, static_cast<int>(outcome.ending), outcome.values.size());
  for (const auto& [name, value] : outcome.values) text += fmt::format(" {} {}", name, value);
  std::string message = outcome.message;
  std::replace(message.begin(), message.end(), '\n', ' ');
  return text + " " + message + "\n";
}
void read_outcomes(const std::string& text, std::vector<Outcome>& outcomes) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::size_t member = 0, count = 0;
    int ending = 0;
    words >> member >> ending >> count;
    Outcome& outcome = outcomes.at(member);
    outcome.ending = static_cast<Ending>(ending);
    for (std::size_t i = 0; i < count; ++i) {
      std::string name, value;
      words >> name >> value;
      outcome.values.emplace_back(name, std::strtod(value.c_str(), nullptr));  // (streams read no nan)
    }
    words.get();
    std::getline(words, outcome.message);
  }
}

// The series whose last value represents a member in the table.
const char* headline_of(const Verb& verb) {
  return verb.results == std::string(kEvaluationFile) ? "mean_return" : "episode_return_100";
}

std::optional<double> value_of(const Outcome& outcome, const std::string& name) {
  for (const auto& [known, value] : outcome.values)
    if (known == name) return value;
  return std::nullopt;
}

// An error of one rank, which its member's other ranks may not share: then they wait for it in a collective
// operation, and the job ends with the watchdog when the other members have ended. Unless the ranks have
// agreed within the patience, that is until this object goes, the error is said by the rank itself.
class LoneError {
 public:
  explicit LoneError(const std::string& message)
      : thread_([this, message](const std::stop_token& agreed) {
          std::unique_lock lock(mutex_);
          if (!condition_.wait_for(lock, agreed, kPatience, [] { return false; }) && !agreed.stop_requested())
            fmt::print(stderr, "maniple: error: {}\n", message);
        }) {}

 private:
  static constexpr std::chrono::seconds kPatience{1};
  std::mutex mutex_;
  std::condition_variable_any condition_;
  std::jthread thread_;
};

// The members that this rank takes: every `groups`-th one.
class Group {
 public:
  Group(const Verb& verb, const std::vector<Member>& members, std::size_t first, std::size_t groups,
        Session& session)
      : verb_(verb), members_(members), first_(first), groups_(groups), session_(session) {}

  // The outcomes, as text, on the group's first rank; "" on the others.
  std::string run() {
    std::string outcomes;
    for (std::size_t i = first_; i < members_.size(); i += groups_) {
      const Outcome outcome = run_member(i);
      if (session_.rank() == 0) outcomes += to_text(i, outcome);
    }
    return outcomes;
  }

 private:
  Outcome run_member(std::size_t index) {
    const Member& member = members_[index];
    Outcome outcome;
    if (job_stops()) return outcome;
    note_start(static_cast<std::int64_t>(index));
    open_log(session_.rank(), "", true, verb_.results ? member.name : "");
    if (!verb_.results) info("member " + member.name);
    ExitCode code = ExitCode::done;
    try {
      // what the member leaves undone in its communicator, when it fails, ends with it
      Session own(session_, 0);
      if (index != first_) own.others_have_memory();
      std::optional<LoneError> lone;
      run_together(session_.collectives(), [&] {
        try {
          code = run_configured(verb_, member.config, own, member.name);
        } catch (const std::exception& error) {
          if (own.size() > 1)
            lone.emplace(fmt::format("{}: rank {}: {}", member.name, own.rank(), error.what()));
          throw;
        }
      });
      outcome.ending = code == ExitCode::stopped_early ? Ending::stopped_early
                       : code == ExitCode::done        ? Ending::done
                                                       : Ending::failed;
      if (outcome.ending == Ending::failed) outcome.message = "see its messages";
    } catch (const InputError& error) {
      outcome = {Ending::refused, error.what(), {}};
    } catch (const std::exception& error) {
      outcome = {Ending::failed, error.what(), {}};
    }
    if (outcome.ending == Ending::failed || outcome.ending == Ending::refused) {
      record("error", {{"text", outcome.message}});
      warn(fmt::format("{}: {}", kTextsOfEndings[static_cast<std::size_t>(outcome.ending)], outcome.message));
    }
    close_log();
    return with_values(std::move(outcome), member);
  }

  Outcome with_values(Outcome outcome, const Member& member) const {
    const bool has_values = outcome.ending == Ending::done || outcome.ending == Ending::stopped_early;
    if (!verb_.results || !has_values || session_.rank() != 0) return outcome;
    const std::string path = member.config.output.directory + "/" + verb_.results;
    std::error_code none;
    try {
      if (fs::exists(path, none)) outcome.values = final_values(path);
    } catch (const Error& error) {
      warn(error.what());
    }
    return outcome;
  }

  const Verb& verb_;
  const std::vector<Member>& members_;
  const std::size_t first_, groups_;
  Session& session_;
};

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + "\"";
}

// CSV of RFC 4180: a row for each member, with its keys' values and the last value of each series.
std::string table_of(const std::vector<Member>& members, const std::vector<Outcome>& outcomes) {
  std::vector<std::string> series;
  for (const Outcome& outcome : outcomes)
    for (const auto& [name, value] : outcome.values)
      if (std::find(series.begin(), series.end(), name) == series.end()) series.push_back(name);
  std::string text = "member";
  for (const auto& [key, value] : members.front().values) text += "," + key;
  text += ",ending,message";
  for (const std::string& name : series) text += "," + name;
  text += "\n";
  for (std::size_t i = 0; i < members.size(); ++i) {
    text += quoted(members[i].name);
    for (const auto& [key, value] : members[i].values) text += "," + quoted(value);
    text += fmt::format(",{},{}", kTextsOfEndings[static_cast<std::size_t>(outcomes[i].ending)],
                        quoted(outcomes[i].message));
    for (const std::string& name : series) {
      const std::optional<double> value = value_of(outcomes[i], name);
      text += !value ? "," : std::isnan(*value) ? ",nan" : fmt::format(",{}", *value);
    }
    text += "\n";
  }
  return text;
}

// Members that differ in their seed alone, as one: "learning.gamma=0.99", or "" where nothing else varies.
std::string settings_of(const Member& member) {
  std::string text;
  for (const auto& [key, value] : member.values)
    if (key != "batch.seed") text += (text.empty() ? "" : ", ") + key + "=" + value;
  return text;
}

void print_table(const Verb& verb, const std::vector<Member>& members, const std::vector<Outcome>& outcomes) {
  const std::string headline = headline_of(verb);
  std::size_t width = 0;
  for (const Member& member : members) width = std::max(width, member.name.size());
  std::vector<std::string> order;
  std::map<std::string, std::vector<double>> by_settings;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::optional<double> value = value_of(outcomes[i], headline);
    info(fmt::format("{:<{}}  {:<13}{}", members[i].name, width,
                     kTextsOfEndings[static_cast<std::size_t>(outcomes[i].ending)],
                     value && !std::isnan(*value) ? fmt::format("  {} {:.4g}", headline, *value) : ""));
    const std::string settings = settings_of(members[i]);
    if (by_settings.count(settings) == 0) order.push_back(settings);
    if (value && !std::isnan(*value)) by_settings[settings].push_back(*value);
  }
  for (const std::string& settings : order) {
    const std::vector<double>& values = by_settings[settings];
    if (values.size() < 2) continue;
    const Summary summary = summary_of(values);
    info(fmt::format("{}{}{} {:.4g} +- {:.2g} (95 %, {} seeds)", settings, settings.empty() ? "" : ": ",
                     headline, summary.mean, summary.confidence, values.size()));
  }
}

// Says who failed, and throws where anybody did.
void refuse_failures(const std::vector<Member>& members, const std::vector<Outcome>& outcomes) {
  std::vector<std::string> messages;
  std::map<std::string, std::string> names;  // by message
  std::size_t failed = 0;
  bool all_refused = true;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (outcomes[i].ending != Ending::failed && outcomes[i].ending != Ending::refused) continue;
    ++failed;
    all_refused &= outcomes[i].ending == Ending::refused;
    const std::string& message = outcomes[i].message;
    if (names.count(message) == 0) messages.push_back(message);
    names[message] += (names[message].empty() ? "" : ", ") + members[i].name;
  }
  if (failed == 0) return;
  std::string text = fmt::format("{} of {} members of the ensemble failed: ", failed, members.size());
  for (const std::string& message : messages)
    text += (message == messages.front() ? "" : "; ") + names[message] + ": " + message;
  if (all_refused) throw InputError(text);
  throw Error(text);
}

// "2", or "2 or 3": how many of them a group has.
std::string divided(std::size_t ranks, std::size_t groups) {
  return ranks % groups == 0 ? std::to_string(ranks / groups)
                             : fmt::format("{} or {}", ranks / groups, ranks / groups + 1);
}

}  // namespace

ExitCode run_ensemble(const Verb& verb, std::vector<Member> members, Session& session) {
  // (a verb without results takes no time, and its output no turns)
  const std::size_t ranks = static_cast<std::size_t>(session.size()),
                    groups = verb.results ? std::min(ranks, members.size()) : 1;
  const Config& first = members.front().config;
  const std::string root = fs::path(first.output.directory).parent_path().string();
  const std::string table =
      verb.results ? root + "/ensemble_" + fs::path(verb.results).stem().string() + ".csv" : "";
  std::string keys;
  for (const auto& [key, value] : members.front().values) keys += (keys.empty() ? "" : ", ") + key;
  open_log(session.rank(), "");
  info(fmt::format(
      "ensemble of {} over {}: {}", counted(members.size(), "member"), keys,
      groups == members.size()
          ? fmt::format("all at the same time, each on {}",
                        ranks == groups ? "a rank of its own"
                                        : fmt::format("{} of {} ranks", divided(ranks, groups), ranks))
      : groups > 1 ? fmt::format("{} at a time, each on a rank of its own", groups)
                   : "one after the other"));
  std::vector<std::string> made;
  run_on_root(session.collectives(), [&] {
    made = missing_directories(root);
    for (const Member& member : members) {
      if (!verb.results) break;
      try {
        RunDirectory::check(claim_of(verb, member.config));
      } catch (const InputError&) {
        throw;
      } catch (const Error&) {
        // what is wrong there is that member's own matter
      }
    }
    std::error_code unknown;
    if (verb.results && !first.output.overwrite && first.learning.resume != Resume::automatic &&
        fs::exists(table, unknown))
      throw InputError(first.where_of("output.directory"), "output.directory",
                       "found " + table + " of an earlier ensemble",
                       "allowed: another directory, or output.overwrite=true to replace it");
  });
  if (groups > 1)
    for (Member& member : members)
      if (member.config.run.progress != ProgressStyle::none)
        member.config.run.progress = ProgressStyle::plain;

  // neighbouring ranks work on the same member
  const std::size_t group = static_cast<std::size_t>(session.rank()) * groups / ranks;
  std::string mine;
  {
    Session part(session, static_cast<int>(group));
    mine = Group(verb, members, group, groups, part).run();
  }
  note_start(-1);
  const ActivityStage stage("waiting for members");
  std::vector<Outcome> outcomes(members.size());
  for (const std::string& text : session.collectives().gather_text(mine)) read_outcomes(text, outcomes);

  open_log(session.rank(), "");
  const bool all_refused = std::all_of(outcomes.begin(), outcomes.end(), [](const Outcome& outcome) {
    return outcome.ending == Ending::refused;
  });
  std::error_code ignored;
  if (all_refused)
    for (const std::string& path : made) fs::remove(path, ignored);  // (not while anything is in it)
  if (verb.results && !all_refused) {
    print_table(verb, members, outcomes);
    run_on_root(session.collectives(), [&] {
      make_directory(root);
      write_text_file(table, table_of(members, outcomes));
      info("summary: " + table);
    });
  }
  refuse_failures(members, outcomes);
  const bool complete = std::all_of(outcomes.begin(), outcomes.end(),
                                    [](const Outcome& outcome) { return outcome.ending == Ending::done; });
  return complete ? ExitCode::done : ExitCode::stopped_early;
}

}  // namespace maniple
