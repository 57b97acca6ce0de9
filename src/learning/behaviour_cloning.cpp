#include "src/learning/behaviour_cloning.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/log.hpp"
#include "src/learning/imitation_data.hpp"

namespace maniple {
namespace {

CloningLoss loss_of(ImitationLoss loss) {
  switch (loss) {
    case ImitationLoss::l2:
      return CloningLoss::l2;
    case ImitationLoss::l1:
      return CloningLoss::l1;
    case ImitationLoss::smooth_l1:
      return CloningLoss::smooth_l1;
    case ImitationLoss::gaussian:
      return CloningLoss::gaussian;
    case ImitationLoss::gmm:
      return CloningLoss::gmm;
  }
  return CloningLoss::l2;
}

PolicySizes sizes_of(const Config& config, const DemonstrationContents& contents) {
  PolicySizes sizes;
  sizes.observations = contents.observation_width * config.data.frame_stack;
  sizes.actions = contents.action_width;
  return sizes;
}

}  // namespace

LearnerMemory BehaviourCloning::memory(const Config& config, const EnvironmentSizes& sizes) {
  PolicySizes own;
  own.observations = sizes.observations;
  own.actions = sizes.actions;
  const Network network = make_network(config, own);
  const std::int64_t tiles = sizes.tiles;
  const int workers = tile_workers(tiles);
  LearnerMemory memory = Optimizer::memory(config.learning, network.parameters, kNumCloningMetrics, workers);
  memory.network_bytes += policy_bytes(
      network, make_scratch(network, SampleLayout(network.sizes), window_shape(config).sequence), workers);
  memory.batch_bytes += sizeof(float) *
                        static_cast<std::size_t>(window_shape(config).sequence * tiles * kTileWidth *
                                                 (config.data.prefetch + 2)) *
                        static_cast<std::size_t>(DemonstratedLayout(network.sizes).elements);
  memory.snapshot_bytes += sizeof(float) * static_cast<std::size_t>(network.parameters);
  return memory;
}

BehaviourCloning::BehaviourCloning(const Demonstrations& demonstrations, const Config& config,
                                   Collectives& collectives)
    : demonstrations_(demonstrations),
      config_(config),
      collectives_(collectives),
      shape_(window_shape(config)),
      windows_(config, demonstrations.contents(), shape_),
      sampler_(make_sampler(config, windows_)),
      policy_(config, sizes_of(config, demonstrations.contents())),
      layout_(policy_.network().sizes),
      workers_(tile_workers(most_tiles_of_batch(config, collectives.size()))),
      sum_(collectives, workers_, clock_),
      optimizer_(config.learning, policy_.network().parameters, kNumCloningMetrics, workers_),
      blocks_("maniple::demonstrated_blocks",
              static_cast<std::size_t>(shape_.sequence * most_tiles_of_batch(config, collectives.size()) *
                                       layout_.elements * kTileWidth)),
      first_states_(policy_.fresh_states(most_tiles_of_batch(config, collectives.size()))),
      order_("maniple::demonstrated_order",
             static_cast<std::size_t>(most_tiles_of_batch(config, collectives.size()))),
      checksum_(demonstrations.checksum()),
      batch_size_(config.learning.batch_size),
      places_(sampler_.samples_per_epoch()) {
  info(epoch_text(config, demonstrations.contents(), sampler_, collectives.size()));
  policy_.set_units(units_of(config, demonstrations));
  for (const char* stage : {"loader", "update", "communication"}) clock_.add(stage, 0.0);
}

IterationReport BehaviourCloning::iterate(const std::function<void()>& between_steps) {
  const LearningConfig& learning = config_.learning;
  if (!loader_)
    loader_ = std::make_unique<BatchLoader>(BatchLoader::Input{.demonstrations = demonstrations_,
                                                               .windows = windows_,
                                                               .sampler = sampler_,
                                                               .units = policy_.units(),
                                                               .layout = layout_,
                                                               .shape = shape_,
                                                               .rank = collectives_.rank(),
                                                               .ranks = collectives_.size(),
                                                               .parts = learning.accumulate},
                                            step_, learning.steps, config_.data.prefetch);
  Sums sums;
  const double waited = clock_.seconds("loader");
  optimizer_.anneal(iteration_);
  const std::int64_t end = std::min(learning.steps, (iteration_ + 1) * learning.report_every);
  with_dense(policy_.uses_library(), [&](auto dense) {
    TrainMinibatch<float, decltype(dense), CloneActions<float>> train;
    train.network = policy_.network();
    train.scratch = policy_.scratch();
    train.loss = {
        .layout = layout_, .kind = loss_of(learning.loss), .squash_actions = config_.policy.squash_actions};
    train.parameters = policy_.parameters().data();
    train.memory = policy_.memory(workers_);
    train.blocks = blocks_.data();
    train.order = order_.data();
    train.first_state = first_states_;
    train.deal.steps = shape_.sequence;
    train.exact = learning.reduction == Reduction::exact;
    for (; step_ < end; ++step_) {
      train.totals = optimizer_.clear_totals();
      for (std::int64_t part = 0; part < learning.accumulate; ++part) {
        LoadedBatch batch = [&] {
          const StageClock::Region region(clock_, "loader");
          return loader_->next();
        }();
        {
          const StageClock::Region region(clock_, "update");
          using Host = Kokkos::View<const float*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
          Kokkos::deep_copy(Kokkos::subview(blocks_, std::make_pair(std::size_t{0}, batch.blocks.size())),
                            Host(batch.blocks.data(), batch.blocks.size()));
          train.tiles = batch.partition.tiles;
          train.envs = batch.partition.envs();
          train.first_tile = batch.partition.first_tile;
          train.deal.num_tiles = batch.partition.num_tiles;
          train.scale = 1.0 / static_cast<double>(batch.batch.samples * shape_.sequence);
          for_tiles("maniple::clone_actions", train.tiles, workers_, train);
        }
        loader_->give_back(std::move(batch));
      }
      between_steps();
      const std::vector<double> metrics = optimizer_.sum_totals(sum_);
      const StageClock::Region region(clock_, "update");
      optimizer_.anneal_update(step_);
      const std::optional<double> norm = optimizer_.step(policy_.parameters());
      ++sums.updates;
      sums.loss += metrics[kCloningLoss];
      sums.squared_error += metrics[kSquaredError];
      sums.gradient_norm += norm.value_or(0);
      sums.skipped += norm ? 0 : 1;
    }
  });
  ++iteration_;
  auto nanoseconds = static_cast<std::int64_t>(1e9 * (clock_.seconds("loader") - waited));
  collectives_.max(&nanoseconds, 1);
  sums.waited = 1e-9 * static_cast<double>(nanoseconds);
  if (sums.skipped > 0)
    warn(fmt::format("{} of {} updates of iteration {} made no step: their sums are not finite or too large",
                     sums.skipped, sums.updates, iteration_));
  return report(sums);
}

IterationReport BehaviourCloning::report(const Sums& sums) const {
  IterationReport result;
  const auto add = [&](const std::string& name, const std::string& unit, const std::string& description,
                       double value, bool reproducible = true) {
    result.values.push_back({name, unit, description, value, reproducible});
  };
  const double updates = std::max(1.0, static_cast<double>(sums.updates));
  const double epoch = static_cast<double>(step_) / static_cast<double>(sampler_.batches_per_epoch());
  result.summary = fmt::format("loss {:.5g}  epoch {:.2f}", sums.loss / updates, epoch);
  add("iteration", "1", "iterations done", static_cast<double>(iteration_));
  add("updates", "1", "updates done", static_cast<double>(step_));
  add("epoch", "1", "passes over the data done", epoch);
  add("loss", "1", "of actions as the network gives them, mean over the iteration's updates",
      sums.loss / updates);
  add("squared_error", "1", "of these actions, mean over their components", sums.squared_error / updates);
  add("gradient_norm", "1", "before clipping, mean over the steps made",
      sums.gradient_norm / std::max(1.0, static_cast<double>(sums.updates - sums.skipped)));
  add("learning_rate", "1", "at the end", optimizer_.learning_rate());
  add("skipped_minibatches", "1", "updates without a step: sums not finite or too large to be exact",
      static_cast<double>(sums.skipped));
  add("loader_wait", "s",
      "in which the updates of the iteration waited for data, on the rank that waited longest", sums.waited,
      false);
  return result;
}

IterationReport BehaviourCloning::report_names() const {
  IterationReport names = report(Sums());
  for (auto& value : names.values) value.value = 0;
  return names;
}

Learner::Work BehaviourCloning::work_per_iteration() const {
  return {static_cast<double>(config_.learning.report_every * config_.learning.batch_size), "samples"};
}

void BehaviourCloning::describe(Archive& archive) {
  policy_.describe(archive);
  optimizer_.describe(archive, "imitation");
  archive.replicated("imitation/updates", &step_, 1, "1", "updates done");
  archive.replicated("imitation/iteration", &iteration_, 1, "1", "iterations done");
  archive.replicated("imitation/data_checksum", &checksum_, 1, "1", "of the demonstrations");
  archive.replicated("imitation/batch_size", &batch_size_, 1, "samples", "of an update");
  archive.replicated("imitation/epoch_samples", &places_, 1, "samples", "of an epoch");
}

void BehaviourCloning::restored() {
  check_position(config_, {checksum_, batch_size_, places_},
                 {demonstrations_.checksum(), config_.learning.batch_size, sampler_.samples_per_epoch()});
  policy_.restored();
  optimizer_.restored();
}

void BehaviourCloning::describe_learned(Archive& archive, bool to_go_on) {
  policy_.describe(archive);
  if (to_go_on) optimizer_.describe_moments(archive, "imitation");
}

void BehaviourCloning::warm_started(const std::vector<std::string>&) {
  policy_.restored();
  optimizer_.restored();
}

}  // namespace maniple
