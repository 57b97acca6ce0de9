// The pairs of shapes between which the kernels compute contacts. One list: the import refuses whatever is
// not in it, the contact capacity is sized by it, and the collision kernels have one function for each row.
#pragma once

#include "kernels/model/model.hpp"

namespace maniple {

// Values of mjtGeom, the lower first, and how many contacts they have at most (mj_maxContact).
struct ShapePair {
  int type1, type2, contacts;
};
inline constexpr ShapePair kShapePairs[] = {{geom_plane, geom_sphere, 1},    {geom_plane, geom_capsule, 2},
                                            {geom_plane, geom_ellipsoid, 1}, {geom_plane, geom_cylinder, 4},
                                            {geom_plane, geom_box, 4},       {geom_sphere, geom_sphere, 1},
                                            {geom_sphere, geom_capsule, 1},  {geom_capsule, geom_capsule, 2}};
inline constexpr int kNumShapePairs = sizeof(kShapePairs) / sizeof(kShapePairs[0]);

// The place of two shapes in the list, the lower type first; -1: they have no contacts here.
constexpr int shape_pair(int type1, int type2) {
  for (int i = 0; i < kNumShapePairs; ++i)
    if (kShapePairs[i].type1 == type1 && kShapePairs[i].type2 == type2) return i;
  return -1;
}

// Contacts of any two shapes, at most.
constexpr int most_contacts_of_shapes() {
  int most = 0;
  for (const ShapePair& pair : kShapePairs) most = pair.contacts > most ? pair.contacts : most;
  return most;
}
inline constexpr int kMostShapeContacts = most_contacts_of_shapes();

}  // namespace maniple
