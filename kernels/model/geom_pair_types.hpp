// The types of geoms between which the kernels compute contacts, one row each (MuJoCo's mjCOLLISIONFUNC and
// mj_maxContact). The import refuses whatever is not in the table, sizes the contact capacity by it and gives
// each geom pair of a model its row; the collision kernels call the function of the row.
#pragma once

#include "kernels/model/model.hpp"

namespace maniple {

// The function gets both geoms' poses, the margin and where the contacts go: see collision_primitive.hpp.
//  lower type  higher type  most contacts  function
#define MANIPLE_GEOM_PAIR_TYPES(ROW)        \
  ROW(plane, sphere, 1, plane_sphere)       \
  ROW(plane, capsule, 2, plane_capsule)     \
  ROW(plane, ellipsoid, 1, plane_ellipsoid) \
  ROW(plane, cylinder, 4, plane_cylinder)   \
  ROW(plane, box, 4, plane_box)             \
  ROW(sphere, sphere, 1, sphere_sphere)     \
  ROW(sphere, capsule, 1, sphere_capsule)   \
  ROW(sphere, cylinder, 1, sphere_cylinder) \
  ROW(sphere, box, 1, sphere_box)           \
  ROW(capsule, capsule, 2, capsule_capsule) \
  ROW(capsule, box, 2, capsule_box)         \
  ROW(box, box, 8, box_box)

// Pairs that convex_convex() of collision_convex.hpp computes.
//  lower type  higher type  most contacts
#define MANIPLE_CONVEX_PAIR_TYPES(ROW) \
  ROW(sphere, ellipsoid, 1)            \
  ROW(capsule, ellipsoid, 1)           \
  ROW(capsule, cylinder, 2)            \
  ROW(ellipsoid, ellipsoid, 1)         \
  ROW(ellipsoid, cylinder, 1)          \
  ROW(ellipsoid, box, 1)               \
  ROW(cylinder, cylinder, 4)           \
  ROW(cylinder, box, 4)                \
  ROW(plane, mesh, 4)                  \
  ROW(sphere, mesh, 1)                 \
  ROW(capsule, mesh, 2)                \
  ROW(ellipsoid, mesh, 1)              \
  ROW(cylinder, mesh, 4)               \
  ROW(box, mesh, 4)                    \
  ROW(mesh, mesh, 4)

// Pairs that hfield_convex() of collision_hfield.hpp computes: a height field, and this type.
#define MANIPLE_HFIELD_PAIR_TYPES(ROW) \
  ROW(hfield, sphere, 50)              \
  ROW(hfield, capsule, 50)             \
  ROW(hfield, ellipsoid, 50)           \
  ROW(hfield, cylinder, 50)            \
  ROW(hfield, box, 50)                 \
  ROW(hfield, mesh, 50)

// A row of the tables: values of mjtGeom, the lower first, and how many contacts they have at most.
struct GeomPairTypes {
  int type1, type2, most_contacts;
};
#define MANIPLE_ROW(type1, type2, most_contacts, ...) {geom_##type1, geom_##type2, most_contacts},
inline constexpr GeomPairTypes kGeomPairTypes[] = {MANIPLE_GEOM_PAIR_TYPES(
    MANIPLE_ROW) MANIPLE_CONVEX_PAIR_TYPES(MANIPLE_ROW) MANIPLE_HFIELD_PAIR_TYPES(MANIPLE_ROW)};
#undef MANIPLE_ROW
inline constexpr int kNumGeomPairTypes = sizeof(kGeomPairTypes) / sizeof(kGeomPairTypes[0]);

// The row of two types, the lower first; -1: they have no contacts here.
constexpr int geom_pair_types(int type1, int type2) {
  for (int i = 0; i < kNumGeomPairTypes; ++i)
    if (kGeomPairTypes[i].type1 == type1 && kGeomPairTypes[i].type2 == type2) return i;
  return -1;
}

// Corners that a face of a mesh's hull has at most.
inline constexpr int kMostMeshFaceCorners = 128;

// Iterations of EPA that there is room for, whatever ccd_iterations says.
inline constexpr int kMostEpaIterations = 50;

// The first rows of the second and the third table.
#define MANIPLE_ROW(...) +1
inline constexpr int kFirstConvexPairTypes = 0 MANIPLE_GEOM_PAIR_TYPES(MANIPLE_ROW);
inline constexpr int kFirstHfieldPairTypes = kFirstConvexPairTypes MANIPLE_CONVEX_PAIR_TYPES(MANIPLE_ROW);
#undef MANIPLE_ROW

// Contacts of any two geoms of the first `rows` rows, at most.
constexpr int most_geom_pair_contacts(int rows) {
  int most = 0;
  for (int i = 0; i < rows; ++i)
    most = kGeomPairTypes[i].most_contacts > most ? kGeomPairTypes[i].most_contacts : most;
  return most;
}
inline constexpr int kMostConvexContacts = most_geom_pair_contacts(kFirstHfieldPairTypes);
inline constexpr int kMostGeomPairContacts = most_geom_pair_contacts(kNumGeomPairTypes);

constexpr bool geom_pair_types_are_valid() {
  for (int i = 0; i < kNumGeomPairTypes; ++i) {
    const GeomPairTypes& row = kGeomPairTypes[i];
    if (row.type1 > row.type2 || row.most_contacts < 1 || geom_pair_types(row.type1, row.type2) != i)
      return false;
  }
  return true;
}
static_assert(geom_pair_types_are_valid(), "two types have one row, the lower first, and some contact");

}  // namespace maniple
