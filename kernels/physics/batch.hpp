// Launches of the physics over all environments of a rank: the only functions through which host code
// steps a batch. Packs of environments are stepped in the scratch of their worker.
#pragma once

#include <cstdint>

#include "kernels/base/scratch.hpp"
#include "kernels/base/tiles.hpp"
#include "kernels/model/data.hpp"
#include "kernels/model/model.hpp"
#include "kernels/physics/contact_queries.hpp"
#include "kernels/physics/stage_times.hpp"

namespace maniple {

// A run of elements copied from the scratch of Data to the exported tiles after a step.
struct ExportRange {
  int from = 0;  // element of Data
  int size = 0;
  int to = 0;  // element of the exported tile
};

// What a launch works on; T is the precision.
template <class T>
struct PhysicsBatch {
  Model<T> model;
  std::int64_t envs = 0;  // of this rank, whose last pack is padded
  TiledView<T> state;     // MANIPLE_STATE_FIELDS
  TiledView<T> exported;  // fields of Data that files ask for
  Kokkos::View<ExportRange*, MemorySpace> exports;
  Scratch<Lanes<T>> scratch;  // data_elements
  // Counts, and the control step of the last one, [2]: resets of bad states, and contacts beyond the
  // capacity.
  TiledView<std::int32_t> bad_states, dropped_contacts;
  Scratch<Lanes<T>> regroup_scratch;  // regroup_elements, where environments are regrouped (regroup.hpp)
  // What is asked about the contacts of the last `contact_steps` physics steps of a control step, and the
  // answers, the last step first: [query][physics step][ContactAnswer].
  ContactQueries contact_queries;
  int contact_steps = 0;
  TiledView<T> contact_answers;
  Scratch<Lanes<T>> contact_answer_scratch;  // ContactQueries::answers
  // One of each worker while steps are timed, else empty.
  Kokkos::View<StageTimes*, MemorySpace> stage_times;
};

// `substeps` of mj_step with the control held in the state.
template <class T>
void step_batch(const PhysicsBatch<T>& batch, int substeps, std::int32_t control_step);
// reset_to_default for all environments.
template <class T>
void default_state_batch(const PhysicsBatch<T>& batch);
// mj_forward, `inverse` as in step.hpp: fills the exported fields for the current state.
template <class T>
void forward_batch(const PhysicsBatch<T>& batch, bool inverse);
// Controls uniform in their range ([-1, 1] where unlimited): Philox(seed, control; environment, step, draw).
template <class T>
void random_control_batch(const PhysicsBatch<T>& batch, std::uint32_t seed, std::int64_t first_env,
                          std::int64_t control_step);

}  // namespace maniple
