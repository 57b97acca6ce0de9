// Islands: trees of bodies that constraint rows connect, which MuJoCo solves one by one (mj_island). Each
// solver that uses islands stores their numbers itself.
#pragma once

#include "kernels/physics/constraint/row_families.hpp"

namespace maniple {

// Joins the islands of the trees of one row. label(t), a number that can be written, is the tree by which the
// island of tree t is called, the first of its trees; for_each_tree(visit) calls visit(tree).
template <class Label, class ForEachTree>
MANIPLE_FUNCTION void join_islands(int trees, const Label& label, const ForEachTree& for_each_tree) {
  using Number = std::remove_cvref_t<decltype(label(0))>;
  Number joined(-1);
  for_each_tree([&](int tree) {
    const Number own = label(tree);
    if (joined < 0) joined = own;
    if (own == joined) return;
    const Number low = own < joined ? own : joined, high = own < joined ? joined : own;
    for (int t = static_cast<int>(high); t < trees; ++t)
      if (label(t) == high) label(t) = low;
    joined = low;
  });
}

// The number of row i of a family in the model; of a contact, its slot.
template <class Rows>
MANIPLE_FUNCTION int number_of_row(const Rows& family, int i) {
  if constexpr (Rows::kBaseRows == 1)
    return family.number(i);
  else
    return i;
}
// Stiffness of the row of that number in a lane; 0: the lane does not have it.
template <class Rows>
MANIPLE_FUNCTION ScalarOf<typename Rows::Value> stiffness_of_row(const Rows& family, int number, int lane) {
  if constexpr (Rows::kInEveryLane)
    return get_lane(family.counts(number), lane) ? family.law_of_lane(number, lane).D : 0;
  else if constexpr (Rows::kBaseRows == 1)
    return family.law_of_lane(number, lane).D;
  else
    return lane_element(family.d.contact_D, number, lane);
}

// Joins the trees that the rows of each lane are about: afterwards label[t] is the tree by which the island
// of tree t is called. Before, it is t, or -1, which it stays for trees without rows.
template <class V>
MANIPLE_FUNCTION void join_trees_of_rows(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                         const ActiveRows& rows, int trees, const DataField<V> label) {
  using T = ScalarOf<V>;
  RowFamilies::for_each_row<V>(m, d, rows, [&](const auto& family, int i) MANIPLE_INLINE_LAMBDA {
    for (int lane = 0; lane < lane_width<V>; ++lane) {
      const int number = number_of_row(family, i);
      if (!(stiffness_of_row(family, number, lane) > 0)) continue;
      const auto own = [&](int t) -> T& { return lane_element(label, t, lane); };
      join_islands(trees, own, [&](const auto& visit) {
        family.for_each_tree(number, lane, [&](int tree) {
          if (own(tree) < 0) own(tree) = static_cast<T>(tree);
          visit(tree);
        });
      });
    }
  });
}

}  // namespace maniple
