// Acting and learning of a small policy by launches over tiles, against one thread of the host that takes the
// tiles in another order.
#include <fmt/format.h>

#include <cstring>

#include "kernels/nn/ppo_loss.hpp"
#include "src/base/to_device.hpp"
#include "src/driver/self_test.hpp"
#include "src/learning/policy.hpp"
#include "src/learning/policy_network.hpp"

namespace maniple {
namespace {

constexpr std::int64_t kPolicyTiles = 3;
constexpr int kPolicySteps = 2;
constexpr std::int64_t kPolicyEnvs = kPolicyTiles * kTileWidth - 5;  // the last tile is padded

// The inputs of both sides.
struct SmallPolicy {
  Network network = make_network(PolicyConfig(), {.observations = 7, .critic_observations = 0, .actions = 3},
                                 std::int64_t{1} << 30);
  SampleLayout layout{network.sizes};
  TileScratch scratch = make_scratch(network, layout, 1);
  std::size_t block_elements(int steps) const {
    return static_cast<std::size_t>(steps * kPolicyTiles * layout.elements * kTileWidth);
  }
};

std::vector<float> random_weights(std::size_t count, std::uint32_t draw, float size) {
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i)
    numbers[i] =
        size * (2 * uniform01<float>(random_block(2, RandomPurpose::parameters, i, 0, draw).word[0]) - 1);
  return numbers;
}

// Arrays of one side, aligned as packs are: in device memory, or in the host's for code that runs there.
template <class Element>
class Memory {
 public:
  Memory(const std::vector<Element>& elements, bool on_device)
      : host_(to_device<Kokkos::HostSpace>("maniple::self_test::learning", elements)) {
    if (on_device) device_ = Kokkos::create_mirror_view_and_copy(MemorySpace(), host_);
  }
  Element* data() { return device_.data() != nullptr ? device_.data() : host_.data(); }
  std::vector<Element> read() {
    if (device_.data() != nullptr) Kokkos::deep_copy(host_, device_);
    return {host_.data(), host_.data() + host_.size()};
  }
  // As the tiles of a launch, of this many elements.
  TiledView<Element> tiles(int elements) {
    TiledView<Element> view;
    view.data = Kokkos::View<Element*, MemorySpace>(data(), host_.size());
    view.tiles = kPolicyTiles;
    view.elements = elements;
    return view;
  }

 private:
  Kokkos::View<Element*, Kokkos::HostSpace> host_;
  Kokkos::View<Element*, MemorySpace> device_;
};

// The tiles of a body, launched on the device or by this thread, the last one first.
template <class Body>
void run_policy_tiles(const char* name, bool on_device, const Body& body) {
  if (on_device) {
    for_tiles(name, kPolicyTiles, tile_workers(kPolicyTiles), body);
    Kokkos::fence();
    return;
  }
  for (std::int64_t tile = kPolicyTiles - 1; tile >= 0; --tile) body(TileTeam(), tile, 0);
}

// What a rollout keeps of one step of each environment; without draws, of environments that stand `turn`
// lanes further.
std::vector<float> act(const SmallPolicy& policy, const std::vector<float>& parameters, bool on_device,
                       int turn) {
  const int observations = policy.network.sizes.observations, actions = policy.network.sizes.actions;
  const std::vector<float> observed =
      random_weights(static_cast<std::size_t>(kPolicyTiles * observations * kTileWidth), 1, 3);
  std::vector<float> turned = observed;
  for (std::size_t i = 0; i < observed.size(); ++i)
    turned[i / kTileWidth * kTileWidth + (i + static_cast<std::size_t>(turn)) % kTileWidth] = observed[i];
  const auto workers = static_cast<std::size_t>(tile_workers(kPolicyTiles));
  Memory<float> weights(parameters, on_device), observation(turned, on_device),
      action(std::vector<float>(static_cast<std::size_t>(kPolicyTiles * actions * kTileWidth)), on_device),
      memory(std::vector<float>(workers * static_cast<std::size_t>(policy.scratch.elements)), on_device),
      blocks(std::vector<float>(policy.block_elements(1)), on_device);
  Act<float, LaneDense> act;
  act.network = policy.network;
  act.layout = policy.layout;
  act.scratch = policy.scratch;
  act.parameters = weights.data();
  act.memory = memory.data();
  act.observation = observation.tiles(observations);
  act.action = action.tiles(actions);
  act.blocks = blocks.data();
  act.deterministic = turn > 0;
  act.envs = kPolicyEnvs;
  run_policy_tiles("maniple::self_test::act", on_device, act);
  std::vector<float> kept = blocks.read();
  const std::vector<float> chosen = action.read();
  kept.insert(kept.end(), chosen.begin(), chosen.end());
  std::vector<float> back = kept;
  for (std::size_t i = 0; i < kept.size(); ++i)
    back[i] = kept[i / kTileWidth * kTileWidth + (i + static_cast<std::size_t>(turn)) % kTileWidth];
  return back;
}

std::vector<double> learn(const SmallPolicy& policy, const std::vector<float>& parameters, bool on_device) {
  const SampleLayout& layout = policy.layout;
  std::vector<float> samples = random_weights(policy.block_elements(kPolicySteps), 2, 1);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const int element = static_cast<int>(i / kTileWidth) % layout.elements;
    if (element == layout.weight) samples[i] = 1;
    if (element == layout.log_prob) samples[i] -= 3;
  }
  std::vector<std::int32_t> orders(static_cast<std::size_t>(kPolicyTiles) * kPolicySteps);
  for (std::int64_t tile = 0; tile < kPolicyTiles; ++tile)
    minibatch_order(1, tile, 0, 0, kPolicySteps, orders.data() + tile * kPolicySteps);
  const auto workers = static_cast<std::size_t>(tile_workers(kPolicyTiles));
  const auto count = static_cast<std::size_t>(minibatch_totals(policy.network, kNumLossMetrics));
  Memory<float> weights(parameters, on_device), blocks(samples, on_device),
      memory(std::vector<float>(workers * static_cast<std::size_t>(policy.scratch.elements)), on_device),
      reference(std::vector<float>(
                    static_cast<std::size_t>(kPolicyTiles * kPolicySteps * policy.network.own_deviations())),
                on_device);
  Memory<std::int32_t> order(orders, on_device);
  Memory<double> totals(
      std::vector<double>(static_cast<std::size_t>(totals_workers(static_cast<int>(workers))) * count),
      on_device);
  TrainMinibatch<float, LaneDense, PpoLoss<float>> train;
  train.network = policy.network;
  train.scratch = policy.scratch;
  train.loss.layout = layout;
  train.loss.settings.entropy_coef = 0.01;
  train.loss.settings.bounds_coef = 0.1;
  train.loss.settings.learned_std = true;
  train.loss.reference_log_std = reference.data();
  train.loss.tiles = kPolicyTiles;
  train.parameters = weights.data();
  train.memory = memory.data();
  train.blocks = blocks.data();
  train.order = order.data();
  train.tiles = kPolicyTiles;
  train.envs = kPolicyEnvs;
  train.deal.num_tiles = kPolicyTiles;
  train.deal.horizon = kPolicySteps;
  train.scale = 1.0 / static_cast<double>(kPolicyEnvs * kPolicySteps);
  train.totals = totals.data();
  run_policy_tiles("maniple::self_test::train_minibatch", on_device, train);
  const std::vector<double> parts = totals.read();
  std::vector<double> sums(count, 0.0);
  for (std::size_t i = 0; i < parts.size(); ++i) sums[i % count] += parts[i];
  return sums;
}

template <class Number>
std::string difference_of(const std::vector<Number>& launched, const std::vector<Number>& host,
                          const std::string& what) {
  for (std::size_t i = 0; i < host.size(); ++i)
    if (std::memcmp(&launched[i], &host[i], sizeof(Number)) != 0)
      return fmt::format("{} {} is {:.9g}, on the host {:.9g}", what, i, launched[i], host[i]);
  return "";
}

}  // namespace

std::vector<float> self_test_parameters() {
  return random_weights(static_cast<std::size_t>(SmallPolicy().network.parameters), 0, 0.3f);
}

std::string act_difference(const std::vector<float>& launched, const std::vector<float>& host) {
  const SmallPolicy policy;
  const std::string drawn =
      difference_of(act(policy, launched, true, 0), act(policy, host, false, 0), "with draws, number");
  if (!drawn.empty()) return drawn;
  constexpr int turn = 7;
  return difference_of(act(policy, launched, true, turn), act(policy, host, false, turn + 6),
                       "without draws, number");
}

std::string minibatch_difference(const std::vector<float>& launched, const std::vector<float>& host) {
  const SmallPolicy policy;
  return difference_of(learn(policy, launched, true), learn(policy, host, false), "total");
}

}  // namespace maniple
