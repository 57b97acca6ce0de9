// The pairs of geoms that may touch, in the order in which MuJoCo lists their contacts (mj_collision). The
// list depends on the model alone. A template, because libmujoco's mjModel and our Model have the same
// members, and a model is inspected before it is imported. Host only.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/model/model.hpp"

namespace maniple {

struct GeomPair {
  int geom1, geom2;  // of the lower and the higher type
  int pair;          // number of the explicit pair; -1: from contype and conaffinity
};

// The geoms of a body, or one geom: what a distance sensor names as its object or reference
// (mj_geomDistance).
struct GeomRange {
  int first, end;
};
template <class AnyModel>
GeomRange geoms_of(const AnyModel& m, int type, int id) {
  if (type != object_body) return {id, id + 1};
  return {m.body_geomadr[id], m.body_geomadr[id] + m.body_geomnum[id]};
}

// Dimension of a pair's contacts: its own, else that of the geom with the higher priority, else the larger.
template <class AnyModel>
int condim_of(const AnyModel& m, const GeomPair& geompair) {
  if (geompair.pair >= 0) return m.pair_dim[geompair.pair];
  const int g1 = geompair.geom1, g2 = geompair.geom2;
  const int difference = m.geom_priority[g1] - m.geom_priority[g2];
  if (difference != 0) return m.geom_condim[difference > 0 ? g1 : g2];
  return std::max(m.geom_condim[g1], m.geom_condim[g2]);
}

// Whether the bodies are held together so closely that their geoms are never tested (filterBodyPair).
template <class AnyModel>
bool is_body_pair_filtered(const AnyModel& m, int disableflags, int body1, int body2) {
  const int weld1 = m.body_weldid[body1], weld2 = m.body_weldid[body2];
  if (weld1 == weld2 || (m.body_dofnum[weld1] == 0 && m.body_dofnum[weld2] == 0)) return true;
  if ((disableflags & disable_filterparent) || weld1 == 0 || weld2 == 0) return false;
  return weld1 == m.body_weldid[m.body_parentid[weld2]] || weld2 == m.body_weldid[m.body_parentid[weld1]];
}

// Explicit pairs and pairs by contype and conaffinity, ascending in body1 << 16 + body2; explicit ones first
// within the same bodies. `disableflags` is mjOption's.
template <class AnyModel>
std::vector<GeomPair> geom_pairs(const AnyModel& m, int disableflags) {
  std::vector<GeomPair> pairs;
  if (disableflags & (disable_constraint | disable_contact)) return pairs;
  const int nbody = static_cast<int>(m.nbody), npair = static_cast<int>(m.npair);
  const int nexclude = static_cast<int>(m.nexclude);
  const auto add = [&](int geom1, int geom2, int pair) {
    if (m.geom_type[geom1] > m.geom_type[geom2]) std::swap(geom1, geom2);
    pairs.push_back({geom1, geom2, pair});
  };
  int next_pair = 0;
  const auto add_pairs_up_to = [&](unsigned signature) {
    for (; next_pair < npair && static_cast<unsigned>(m.pair_signature[next_pair]) <= signature; ++next_pair)
      add(m.pair_geom1[next_pair], m.pair_geom2[next_pair], next_pair);
  };
  const auto is_explicit = [&](int geom1, int geom2) {
    for (int i = 0; i < npair; ++i)
      if ((m.pair_geom1[i] == geom1 && m.pair_geom2[i] == geom2) ||
          (m.pair_geom1[i] == geom2 && m.pair_geom2[i] == geom1))
        return true;
    return false;
  };
  for (int body1 = 0; body1 < nbody; ++body1)
    for (int body2 = body1 + 1; body2 < nbody; ++body2) {
      const int signature = (body1 << 16) + body2;
      add_pairs_up_to(static_cast<unsigned>(signature));
      if (is_body_pair_filtered(m, disableflags, body1, body2)) continue;
      const int *const exclusions = m.exclude_signature, *const end = exclusions + nexclude;
      if (std::find(exclusions, end, signature) != end) continue;
      const auto first = static_cast<std::ptrdiff_t>(pairs.size());
      for (int i = 0; i < m.body_geomnum[body1]; ++i)
        for (int j = 0; j < m.body_geomnum[body2]; ++j) {
          const int geom1 = m.body_geomadr[body1] + i, geom2 = m.body_geomadr[body2] + j;
          if ((m.geom_contype[geom1] & m.geom_conaffinity[geom2]) == 0 &&
              (m.geom_contype[geom2] & m.geom_conaffinity[geom1]) == 0)
            continue;
          if (!is_explicit(geom1, geom2)) add(geom1, geom2, -1);
        }
      // bodies whose bounding volumes are searched (mj_collideTree) have their contacts sorted afterwards
      const bool searched = (m.body_geomnum[body1] > 1 || m.body_geomnum[body2] > 1) &&
                            m.body_bvhadr[body1] >= 0 && m.body_bvhadr[body2] >= 0;
      if (searched && !(disableflags & disable_midphase))
        std::sort(pairs.begin() + first, pairs.end(), [](const GeomPair& a, const GeomPair& b) {
          return std::pair(a.geom1, a.geom2) < std::pair(b.geom1, b.geom2);
        });
    }
  add_pairs_up_to(~0u);
  return pairs;
}

}  // namespace maniple
