// The physics of a batch against that of single environments on the host.
#include <fmt/format.h>

#include <cstring>

#include "kernels/base/philox.hpp"
#include "kernels/model/field_info.hpp"
#include "kernels/physics/batch.hpp"
#include "kernels/physics/regroup.hpp"
#include "kernels/physics/step.hpp"
#include "src/driver/self_test.hpp"
#include "src/simulation/tile_rows.hpp"
#include "src/tasks/compile/device_model.hpp"

namespace maniple {

// (kernels/physics/step_scalar_*.cpp, or batch_*.cpp where all lanes are scalars)
extern template bool step<float>(const Model<float>&, const State<float>&, const Data<float>&, StepRequest);
extern template bool step<double>(const Model<double>&, const State<double>&, const Data<double>&,
                                  StepRequest);

namespace {

constexpr std::int64_t kStepTiles = 2;

// Around the model's default: positions a little, velocities and controls much; near the ground, so that
// there are contacts from the first steps on.
template <class T>
void fill_randomly(const ImportedModel& model, T* tiles) {
  const std::vector<FieldInfo> fields = state_fields(model.sizes);
  const int elements = state_elements(model.sizes);
  for (std::int64_t env = 0; env < kStepTiles * kTileWidth; ++env) {
    T* const state = tiles + env / kTileWidth * elements * kTileWidth + env % kTileWidth;
    for (const FieldInfo& field : fields)
      for (int i = 0; i < field.size; ++i) {
        const PhiloxBlock random = random_block(1, RandomPurpose::reset, static_cast<std::uint64_t>(env), 0,
                                                static_cast<std::uint32_t>(field.first + i));
        const double number = 2 * uniform01<double>(random.word[0]) - 1;
        const std::string name = field.name;
        double value = 0;
        if (name == "qpos") value = model.qpos0[static_cast<std::size_t>(i)] + 0.05 * number;
        if (name == "qvel" || name == "ctrl") value = number;
        if (name == "model_values") value = model.model_values[static_cast<std::size_t>(i)];
        state[(field.first + i) * kTileWidth] = static_cast<T>(value);
      }
  }
}

template <class T>
PhysicsBatch<T> batch_of(const Model<T>& model) {
  PhysicsBatch<T> batch;
  batch.model = model;
  batch.envs = kStepTiles * kTileWidth;
  batch.state = TiledView<T>("maniple::self_test::state", kStepTiles, state_elements(model));
  const int elements = static_cast<int>(data_elements(model));
  const int workers = Scratch<Lanes<T>>::workers_for(elements, kStepTiles * kTileWidth);
  batch.scratch = Scratch<Lanes<T>>("maniple::self_test::scratch", elements, workers);
  batch.bad_states = TiledView<std::int32_t>("maniple::self_test::bad_states", kStepTiles, 2);
  batch.dropped_contacts = TiledView<std::int32_t>("maniple::self_test::dropped_contacts", kStepTiles, 2);
  if (regroups(model))
    batch.regroup_scratch =
        Scratch<Lanes<T>>("maniple::self_test::regroup_scratch", regroup_elements<Lanes<T>>(model), workers);
  return batch;
}

}  // namespace

template <class T>
std::string step_difference(const ImportedModel& launched, const ImportedModel& host) {
  const DeviceModel<T> model(launched);
  const DeviceModel<T, Kokkos::HostSpace> host_model(host);
  const PhysicsBatch<T> batch = batch_of(model.model());
  const std::vector<FieldInfo> fields = state_fields(host.sizes);
  const int elements = state_elements(host.sizes);
  std::vector<T> tiles(static_cast<std::size_t>(kStepTiles * elements * kTileWidth)),
      scratch(static_cast<std::size_t>(data_elements(host.sizes)));
  fill_randomly(host, tiles.data());
  {
    const HostTiles<T> first(batch.state);
    std::copy(tiles.begin(), tiles.end(), first.data());
    first.to_device();
  }
  for (int step_number = 1; step_number <= kSelfTestSteps; ++step_number) {
    step_batch(batch, 1, step_number);
    const HostTiles<T> found(batch.state);
    for (std::int64_t env = 0; env < kStepTiles * kTileWidth; ++env) {
      T* const tile = tiles.data() + env / kTileWidth * elements * kTileWidth;
      const int lane = static_cast<int>(env % kTileWidth);
      step<T>(host_model.model(), state_of_tile<T>(host.sizes, tile, lane),
              data_of_scratch<T>(host.sizes, scratch.data(), 1), StepRequest{});
      for (const FieldInfo& field : fields)
        for (int i = 0; i < field.size; ++i) {
          const T &expected = tile[(field.first + i) * kTileWidth + lane],
                  &value = found.env(env)[(field.first + i) * kTileWidth];
          if (std::memcmp(&expected, &value, sizeof(T)) != 0)
            return fmt::format("{}[{}] of environment {} after step {} is {:.9g}, on the host {:.9g}",
                               field.name, i, env, step_number, value, expected);
        }
    }
  }
  return "";
}

template std::string step_difference<float>(const ImportedModel&, const ImportedModel&);
template std::string step_difference<double>(const ImportedModel&, const ImportedModel&);

}  // namespace maniple
