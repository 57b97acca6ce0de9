// The launches of batch_under_test.hpp for every type of lanes that a test asks for.
#include "kernels/physics/step.hpp"
#include "tests/reference/batch_under_test.hpp"

namespace maniple {
namespace {

// Runs body(model, state, data, pack) for every pack.
template <class V, class Body>
void for_each_pack_of_tile(const Model<ScalarOf<V>>& model, ScalarOf<V>* states, ScalarOf<V>* scratch,
                           const Body& body) {
  const int elements = data_elements(model);
  Kokkos::parallel_for(
      Kokkos::RangePolicy<ExecutionSpace>(0, kEnvs / lane_width<V>), MANIPLE_LAMBDA(int pack) {
        body(model, state_of_tile<V>(model, states, pack * lane_width<V>),
             data_of_scratch<V>(model, reinterpret_cast<V*>(scratch) + pack * elements, 1), pack);
      });
  Kokkos::fence();
}

}  // namespace

template <class V>
void launch_forward(const Model<ScalarOf<V>>& model, ScalarOf<V>* states, ScalarOf<V>* scratch,
                    bool inverse) {
  for_each_pack_of_tile<V>(
      model, states, scratch,
      MANIPLE_LAMBDA(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int) {
        forward(m, s, d, inverse);
      });
}

template <class V>
void launch_kinematics(const Model<ScalarOf<V>>& model, ScalarOf<V>* states, ScalarOf<V>* scratch) {
  for_each_pack_of_tile<V>(
      model, states, scratch,
      MANIPLE_LAMBDA(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int) {
        forward_kinematics(m, s, d);
      });
}

template <class V>
void launch_set_const(const Model<ScalarOf<V>>& model, ScalarOf<V>* states, ScalarOf<V>* scratch) {
  for_each_pack_of_tile<V>(
      model, states, scratch,
      MANIPLE_LAMBDA(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int) {
        set_const(m, s, d);
      });
}

template <class V>
void launch_step(const Model<ScalarOf<V>>& model, ScalarOf<V>* states, ScalarOf<V>* scratch, bool all_fields,
                 int* bad) {
  for_each_pack_of_tile<V>(
      model, states, scratch,
      MANIPLE_LAMBDA(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d, int pack) {
        const MaskOf<V> reset = step(m, s, d, {.all_fields = all_fields, .contacts_known = false});
        for (int lane = 0; lane < lane_width<V>; ++lane)
          bad[pack * lane_width<V> + lane] = get_lane(reset, lane);
      });
}

#define MANIPLE_INSTANTIATE_LAUNCHES(V)                                                         \
  template void launch_forward<V>(const Model<ScalarOf<V>>&, ScalarOf<V>*, ScalarOf<V>*, bool); \
  template void launch_kinematics<V>(const Model<ScalarOf<V>>&, ScalarOf<V>*, ScalarOf<V>*);    \
  template void launch_set_const<V>(const Model<ScalarOf<V>>&, ScalarOf<V>*, ScalarOf<V>*);     \
  template void launch_step<V>(const Model<ScalarOf<V>>&, ScalarOf<V>*, ScalarOf<V>*, bool, int*);

MANIPLE_INSTANTIATE_LAUNCHES(Lanes<float>)
MANIPLE_INSTANTIATE_LAUNCHES(Lanes<double>)
#ifndef MANIPLE_SCALAR_LANES
MANIPLE_INSTANTIATE_LAUNCHES(double)
#endif

}  // namespace maniple
