// One line per lane type for which the physics is compiled.
#pragma once

#include "kernels/physics/step_inl.hpp"

#define MANIPLE_INSTANTIATE_PHYSICS(V)                                                                 \
  template void forward<V>(const Model<ScalarOf<V>>&, const State<V>&, const Data<V>&, bool);          \
  template void forward_kinematics<V>(const Model<ScalarOf<V>>&, const State<V>&, const Data<V>&);     \
  template void set_const<V>(const Model<ScalarOf<V>>&, const State<V>&, const Data<V>&);              \
  template MaskOf<V> step<V>(const Model<ScalarOf<V>>&, const State<V>&, const Data<V>&, StepRequest); \
  template void reset_to_default<V>(const Model<ScalarOf<V>>&, const State<V>&, MaskOf<V>);
