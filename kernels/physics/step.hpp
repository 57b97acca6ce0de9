// The physics of one pack of environments: forward dynamics and one time step (mj_forward, mj_step).
// On a CPU each is compiled once per lane type, in step_*.cpp, with all stages inside; on a GPU the
// definitions come with the kernel that calls them. A team of threads (kernels/base/team.hpp) may run step()
// unless it is asked for all fields; the others are for one thread.
#pragma once

#include "kernels/model/data.hpp"

namespace maniple {

// All stages up to the accelerations and sensors: mj_forward. With `inverse` qacc is afterwards that of the
// warm start, and qfrc_inverse is of it, as mj_inverse has them.
template <class V>
MANIPLE_STAGE void forward(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                           bool inverse = false);

// Poses, velocities and actuator lengths of the current state, for readers of derived quantities: the
// position and velocity stages of mj_forward without inertia, forces or sensors of forces.
template <class V>
MANIPLE_STAGE void forward_kinematics(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d);

// What a time step is asked for.
struct StepRequest {
  // Sensors as well, and every other field as the last evaluation of the dynamics leaves it, which takes
  // longer. Otherwise poses and velocities need forward_kinematics, and sensors forward.
  bool all_fields = false;
  // The contacts of the state, and contact_dropped, are in Data already.
  bool contacts_known = false;
};

// One time step: mj_step. Environments whose position, velocity or acceleration is not finite or exceeds
// 1e10 are put back to qpos0 as MuJoCo does, before or within this step; the returned mask names them.
// With the model's autoreset flag off they are named but left as they are. Of `d` it leaves forces,
// accelerations and actuators as mj_step does. Contacts beyond the model's capacity are left out and counted
// in contact_dropped, over all evaluations of the step.
template <class V>
MANIPLE_STAGE MaskOf<V> step(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                             StepRequest request = {});

// After changes of what each environment has of the model for itself (MANIPLE_VARYING_FIELDS): what follows
// from it, mj_setConst. Leaves Data undefined.
template <class V>
MANIPLE_STAGE void set_const(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d);

// qpos0, and zero for everything else but model_values, in the environments of `which`: mj_resetData.
template <class V>
MANIPLE_STAGE void reset_to_default(const Model<ScalarOf<V>>& m, const State<V>& s, MaskOf<V> which);

}  // namespace maniple

#ifdef MANIPLE_SCALAR_LANES
#include "kernels/physics/step_inl.hpp"
#endif
