// Newton's method in double precision for single environments of a single-precision model: those with a
// contact of almost no friction. The edges of its pyramid are almost parallel and very stiff (1/(2
// friction^2) times as stiff as other rows), so that rounding an acceleration to a float already changes
// forces by more than their size. It is the solver of primal_solver.hpp over the lane value Wide.
#pragma once

#include "kernels/physics/solver/primal_solver.hpp"

namespace maniple {

// The lanes with a row that is too stiff for V.
template <class V>
MANIPLE_FUNCTION MaskOf<V> needs_wide(const Model<ScalarOf<V>>& m, const Data<V>& d, const ActiveRows& rows) {
  MaskOf<V> stiff(false);
  if (sizeof(ScalarOf<V>) == 8 || m.nwide == 0) return stiff;
  RowFamilies::for_each<V>(
      m, d, rows, [&](const auto& family) MANIPLE_INLINE_LAMBDA { stiff = stiff || family.is_stiff(); });
  return stiff;
}

// qacc of the environments of `lanes`, and jar of their rows, from the rows and the warm start.
template <class V>
MANIPLE_STAGE void solve_wide(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d,
                              const ActiveRows& rows, MaskOf<V> lanes, V scale) {
  const int nv = m.nv;
  const Data<Wide> x = wide_data(m, d.wide);
  d.team.once([&] {
    for_each_lane(lanes, [&](int lane) {
      const auto at = [&](const V& value) { return Wide(get_lane(value, lane)); };
      copy_to_wide(d.qM, lane, x.qM, 0, m.nM);
      copy_to_wide(d.qacc_smooth, lane, x.qacc_smooth, 0, nv);
      copy_to_wide(d.qacc_smooth, lane, x.qacc, 0, nv);
      copy_to_wide(d.qfrc_smooth, lane, x.qfrc_smooth, 0, nv);
      for (int i = 0; i < nv; ++i) x.search[i] = at(s.qacc_warmstart[i]) - x.qacc_smooth[i];
      ActiveRows own;
      RowFamilies::for_each<V>(m, d, rows, [&]<class Rows>(const Rows& family) {
        own.counts[RowFamilies::number<Rows>] = family.to_wide(x, lane);
      });
      solve_over<TreeDofs<Wide>>(m, x, own, true, at(scale), Wide(m.tolerance));
      copy_from_wide(x.qacc, d.qacc, lane, 0, nv);
      RowFamilies::for_each<V>(m, d, rows, [&]<class Rows>(const Rows& family) {
        family.from_wide(x, own.counts[RowFamilies::number<Rows>], lane);
      });
    });
  });
}

}  // namespace maniple
