// Islands: trees of bodies that constraint rows connect, which MuJoCo solves one by one (mj_island). Each
// solver that uses islands stores their numbers itself.
#pragma once

#include "kernels/base/pack.hpp"

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

}  // namespace maniple
