// Queries of tasks about contacts between groups of geoms: whether there is one, and its force.
// kernels/physics/constraint/contact_answers.hpp implements them.
#pragma once

#include "kernels/base/macros.hpp"

namespace maniple {

// What a query is answered with.
enum ContactAnswer : int {
  contact_force_x,  // force on the first group, sum over the contacts [N], world axes
  contact_force_y,
  contact_force_z,
  contact_found,      // 1: a contact is listed
  contact_strongest,  // force of the strongest one [N]
  kContactAnswers
};

// Queries in device memory.
struct ContactQueries {
  // [geom pair][query]: 1 where geom 1 of the pair is in the query's first group and geom 2 in the second, -1
  // the other way round, else 0.
  const int* sides = nullptr;
  int count = 0;

  MANIPLE_FUNCTION int answers() const { return kContactAnswers * count; }
};

// Place of an answer among those of a control step of `steps` physics steps; `step` counts back from the last
// one. Queries come first, since programs are compiled before their number is known.
MANIPLE_FUNCTION constexpr int answer_place(int query, int step, int steps, int answer) {
  return (query * steps + step) * kContactAnswers + answer;
}

}  // namespace maniple
