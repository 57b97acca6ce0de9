#include "src/driver/episode_recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "src/base/counted.hpp"
#include "src/base/log.hpp"
#include "src/io/demonstration_layout.hpp"
#include "src/simulation/recorded_fields.hpp"

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

void EpisodeRecorder::end_episode(Course& course, double episode_return) {
  Episode& episode = course.running;
  const OutputConfig& output = config_.output;
  const std::int64_t steps = episode.steps();
  if (course.invalid)
    left_out_[bad_states].add(steps);
  else if (output.dataset_success && !episode.success)
    left_out_[no_success].add(steps);
  else if (episode_return < output.dataset_min_return)
    left_out_[low_return].add(steps);
  else if (output.dataset_episodes > 0 &&
           static_cast<std::int64_t>(course.passed.size()) >= output.dataset_episodes)
    left_out_[beyond].add(steps);
  else
    course.passed.push_back(std::move(episode));
  episode = {};
  course.invalid = false;
}

void EpisodeRecorder::end_unfinished() {
  for (Course& course : courses_) {
    Episode& episode = course.running;
    if (episode.steps() == 0) continue;
    if (!config_.output.dataset_unfinished) {
      left_out_[unfinished].add(episode.steps());
      episode = {};
      continue;
    }
    episode.truncated = true;
    end_episode(course, std::accumulate(episode.rewards.begin(), episode.rewards.end(), 0.0));
  }
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
    if (counts_ && !counts_(global, course.number)) {
      left_out_[uncounted].steps += begun_ ? 1 : 0;
      continue;
    }
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
    end_episode(course, number("episode_return", env));
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
    for (std::int64_t i = keep; i < static_cast<std::int64_t>(mine.size()); ++i)
      left_out_[beyond].add(mine[static_cast<std::size_t>(i)].steps());
    mine.resize(static_cast<std::size_t>(keep));
  }
  return mine;
}

std::string EpisodeRecorder::unfinished_remedy() const {
  const std::int64_t most = simulation_.max_episode_steps();
  return fmt::format(
      "; output.dataset_unfinished=true writes these as truncated ones{}",
      most > 0 ? fmt::format(", simulation.steps={} lets an episode of each environment end", most) : "");
}

void EpisodeRecorder::write(Session& session) {
  end_unfinished();
  const std::vector<Episode> episodes = chosen(session);
  Count written{static_cast<std::int64_t>(episodes.size()), 0};
  for (const Episode& episode : episodes) written.steps += episode.steps();
  std::vector<std::int64_t> sums{written.episodes, written.steps};
  for (const Count& count : left_out_) sums.insert(sums.end(), {count.episodes, count.steps});
  session.collectives().sum(sums.data(), sums.size());
  const bool evaluates = counts_ != nullptr;
  const std::array<const char*, kReasons> reasons{
      "with bad states",
      "without success",
      "with a return below output.dataset_min_return",
      "beyond output.dataset_episodes",
      "of episodes beyond evaluation.episodes",
      evaluates ? "that did not come to their end" : "that the end of the rollout cuts off"};
  std::string left_out;
  std::int64_t samples_left = 0;
  for (std::size_t reason = 0; reason < kReasons; ++reason) {
    const Count count{sums[2 + 2 * reason], sums[3 + 2 * reason]};
    if (count.steps == 0) continue;
    samples_left += count.steps;
    left_out += fmt::format("{}{} {}", left_out.empty() ? "" : ", ",
                            reason == uncounted ? counted(count.steps, "sample")
                                                : fmt::format("{} ({})", counted(count.episodes, "episode"),
                                                              counted(count.steps, "sample")),
                            reasons[reason]);
  }
  if (samples_left > 0)
    left_out = fmt::format("left out of the data set: {} of {}: {}", counted(samples_left, "sample"),
                           samples_left + sums[1], left_out);
  if (sums[0] == 0)
    throw Error("output.dataset: no episode to write" +
                (left_out.empty() ? std::string(": the run has no control step") : "; " + left_out) +
                (evaluates || sums[2 + 2 * unfinished] == 0 ? "" : unfinished_remedy()));
  const std::string path = write_episodes(config_.output.directory, format_, episodes, session.collectives());
  if (!left_out.empty()) info(left_out);
  if (const std::int64_t cut = sums[2 + 2 * unfinished]; cut > 0 && !evaluates)
    warn(fmt::format(
        "output.dataset: {} of {} left out because the rollout ends in them, so that long ones are "
        "rarer in the data set than in the task: output.dataset_unfinished=true writes them as "
        "truncated ones, more simulation.steps make them few",
        cut, counted(cut + sums[0], "episode")));
  info(fmt::format("data set: {} ({}, {})", path, counted(sums[0], "episode"), counted(sums[1], "sample")));
}

std::size_t recorder_bytes(const Config& config, int observations, int actions, std::int64_t envs) {
  if (config.output.dataset == DatasetLayout::none) return 0;
  const std::size_t real = config.simulation.precision == Precision::fp64 ? sizeof(double) : sizeof(float);
  const auto step = static_cast<std::size_t>(observations + actions) * real + sizeof(double);
  return static_cast<std::size_t>(envs) * static_cast<std::size_t>(config.simulation.steps) * step;
}

}  // namespace maniple
