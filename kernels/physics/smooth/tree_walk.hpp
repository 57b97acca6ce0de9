// The order in which a team visits the bodies of a robot: level by level, because the bodies of one level do
// not need each other. One thread alone takes all of them as one level, in MuJoCo's order or against it.
#pragma once

#include "kernels/model/data.hpp"

namespace maniple {

// The bodies but the world, for example from the roots to the leaves:
//   for (int level = 0; level < levels.count; ++level)
//     for (const int k : d.team.share(levels.size(level))) visit(levels.body(level, k));
template <class V>
struct BodyLevels {
  const Model<ScalarOf<V>>& m;
  bool alone;
  int count;

  MANIPLE_FUNCTION BodyLevels(const Model<ScalarOf<V>>& model, const Data<V>& d)
      : m(model), alone(d.team.size() == 1), count(alone ? 1 : m.nlevel) {}

  // Bodies of a level.
  MANIPLE_FUNCTION int size(int level) const { return alone ? m.nbody - 1 : m.level_bodynum[level]; }
  // Body number k of a level, on the way from the roots to the leaves and on the way back.
  MANIPLE_FUNCTION int body(int level, int k) const {
    return alone ? 1 + k : m.level_body[m.level_bodyadr[level] + k];
  }
  MANIPLE_FUNCTION int body_back(int level, int k) const {
    return alone ? m.nbody - 1 - k : m.level_body[m.level_bodyadr[level] + k];
  }
};

}  // namespace maniple
