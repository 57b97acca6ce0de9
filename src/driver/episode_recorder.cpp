#include "src/driver/episode_recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/base/counted.hpp"
#include "src/base/log.hpp"
#include "src/io/demonstration_layout.hpp"

namespace maniple {

EpisodeRecorder::EpisodeRecorder(const Config& config, const Simulation& simulation, Counts counts)
    : config_(config), simulation_(simulation), counts_(std::move(counts)) {
  const OutputConfig& output = config.output;
  if (!output.overwrite && dataset_exists(output.dataset, output.directory))
    throw InputError(config.where_of("output.dataset"), "output.dataset",
                     "found " + dataset_file(output.dataset, output.directory) + ", which is there already",
                     "another output.directory, or output.overwrite: true to replace it");
  format_.layout = output.dataset;
  format_.task = config.task.name.empty() ? "task" : config.task.name;
  format_.double_precision = config.simulation.precision == Precision::fp64;
  format_.actions = simulation.num_actions();
  format_.has_success = simulation.success().elements > 0;
  const std::vector<std::string> keys = observation_keys(config.task);
  for (std::size_t i = 0; i < keys.size(); ++i)
    format_.observations.emplace_back(keys[i], simulation.observation_widths()[i]);
  real_bytes_ = format_.double_precision ? sizeof(double) : sizeof(float);
  observation_bytes_ = static_cast<std::size_t>(simulation.num_observations()) * real_bytes_;
  action_bytes_ = static_cast<std::size_t>(format_.actions) * real_bytes_;
  for (const char* const field : kDatasetFields) fields_.push_back({field, {}});
  courses_.resize(static_cast<std::size_t>(simulation.partition().envs()));
}

const std::byte* EpisodeRecorder::row(const std::string& field, std::int64_t env, std::size_t bytes) {
  const auto found =
      std::find_if(fields_.begin(), fields_.end(), [&](const auto& pair) { return pair.first == field; });
  return found->second.data() + static_cast<std::size_t>(env) * bytes;
}

double EpisodeRecorder::number(const std::string& field, std::int64_t env) {
  const std::byte* const bytes = row(field, env, real_bytes_);
  if (format_.double_precision) {
    double value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  float value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<double>(value);
}

void EpisodeRecorder::watch() {
  for (auto& [name, rows] : fields_)
    if (name != "success" || format_.has_success) simulation_.read_field(name, rows);
  const auto append = [](std::vector<std::byte>& to, const std::byte* from, std::size_t bytes) {
    to.insert(to.end(), from, from + bytes);
  };
  const Partition& partition = simulation_.partition();
  for (std::int64_t env = 0; env < partition.envs(); ++env) {
    Course& course = courses_[static_cast<std::size_t>(env)];
    const std::int64_t global = partition.first_env() + env;
    if (counts_ && !counts_(global, course.number)) continue;
    const std::byte* const observation = row("observation", env, observation_bytes_);
    if (!begun_) {
      append(course.running.observations, observation, observation_bytes_);
      continue;
    }
    Episode& episode = course.running;
    append(episode.actions, row("action", env, action_bytes_), action_bytes_);
    episode.rewards.push_back(number("reward", env));
    course.invalid = course.invalid || number("invalid", env) != 0;
    if (format_.has_success) episode.success = episode.success || number("success", env) != 0;
    episode.terminated = number("terminated", env) != 0;
    episode.truncated = number("truncated", env) != 0;
    const bool over = episode.terminated || episode.truncated;
    append(episode.observations, over ? row("final_observation", env, observation_bytes_) : observation,
           observation_bytes_);
    if (!over) continue;
    ++whole_;
    const bool poor = number("episode_return", env) < config_.output.dataset_min_return;
    const bool failed = config_.output.dataset_success && !episode.success;
    if (course.invalid)
      ++invalid_;
    else if (failed)
      ++failed_;
    else if (poor)
      ++poor_;
    else if (const std::int64_t most = config_.output.dataset_episodes;
             most == 0 || static_cast<std::int64_t>(course.passed.size()) < most)
      course.passed.push_back(std::move(episode));
    episode = {};
    course.invalid = false;
    ++course.number;
    append(episode.observations, observation, observation_bytes_);
  }
  begun_ = true;
}

std::vector<Episode> EpisodeRecorder::chosen(Session& session) {
  std::vector<Episode> mine;
  for (Course& course : courses_) {
    for (Episode& episode : course.passed) mine.push_back(std::move(episode));
    course = {};
  }
  std::vector<std::int64_t> counts(static_cast<std::size_t>(session.size()), 0);
  counts[static_cast<std::size_t>(session.rank())] = static_cast<std::int64_t>(mine.size());
  session.collectives().sum(counts.data(), counts.size());
  std::int64_t before = 0;
  for (int rank = 0; rank < session.rank(); ++rank) before += counts[static_cast<std::size_t>(rank)];
  if (const std::int64_t most = config_.output.dataset_episodes; most > 0) {
    const auto keep = std::clamp<std::int64_t>(most - before, 0, static_cast<std::int64_t>(mine.size()));
    mine.resize(static_cast<std::size_t>(keep));
  }
  return mine;
}

void EpisodeRecorder::write(Session& session) {
  const std::vector<Episode> episodes = chosen(session);
  std::int64_t steps = 0;
  for (const Episode& episode : episodes) steps += episode.steps();
  std::int64_t sums[] = {static_cast<std::int64_t>(episodes.size()), steps, whole_, invalid_, failed_, poor_};
  session.collectives().sum(sums, std::size(sums));
  const std::string left_out = fmt::format(
      "{} of {} whole episodes left out: {} with bad states, {} without success, {} with a return "
      "below output.dataset_min_return, {} beyond output.dataset_episodes",
      sums[2] - sums[0], sums[2], sums[3], sums[4], sums[5], sums[2] - sums[0] - sums[3] - sums[4] - sums[5]);
  if (sums[0] == 0)
    throw Error("output.dataset: no episode to write: " +
                (sums[2] > 0 ? left_out : std::string("none came to its end in this run")));
  const std::string path = write_episodes(config_.output.directory, format_, episodes, session.collectives());
  if (sums[2] > sums[0]) info(left_out);
  info(fmt::format("data set: {} ({}, {})", path, counted(sums[0], "episode"), counted(sums[1], "sample")));
}

std::size_t recorder_bytes(const Config& config, int observations, int actions, std::int64_t envs) {
  if (config.output.dataset == DatasetLayout::none) return 0;
  const std::size_t real = config.simulation.precision == Precision::fp64 ? sizeof(double) : sizeof(float);
  const auto step = static_cast<std::size_t>(observations + actions) * real + sizeof(double);
  return static_cast<std::size_t>(envs) * static_cast<std::size_t>(config.simulation.steps) * step;
}

}  // namespace maniple
