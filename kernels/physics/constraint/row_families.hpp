// The families of constraint rows in MuJoCo's order: the one list that solvers walk. Those of single rows
// (SingleRows) come before those of contacts (ContactRows, or ConeRows). A new family is a type and its place
// in RowFamilies.
#pragma once

#include "kernels/physics/constraint/cone_rows.hpp"
#include "kernels/physics/constraint/contact_rows.hpp"
#include "kernels/physics/constraint/equality_rows.hpp"
#include "kernels/physics/constraint/friction_rows.hpp"
#include "kernels/physics/constraint/limit_rows.hpp"

namespace maniple {

template <template <class> class... Family>
struct RowFamilyList {
  static constexpr int count = sizeof...(Family);
  // The number of a family in the list.
  template <class Rows>
  static constexpr int number = [] {
    int found = 0, next = 0;
    ((std::is_same_v<Rows, Family<typename Rows::Value>> ? found = next++ : next++), ...);
    return found;
  }();

  // How many rows (contacts) of each family act in some lane of a pack.
  struct Active {
    int counts[count];

    // Those of the families of base rows.
    MANIPLE_FUNCTION int slots() const {
      return ((Family<float>::kBaseRows > 1 ? counts[number<Family<float>>] : 0) + ...);
    }
  };

  // Calls visit(family) for each of them.
  template <class V, class Visit>
  static MANIPLE_FUNCTION void for_each(const Model<ScalarOf<V>>& m, const Data<V>& d, const Active& rows,
                                        const Visit& visit) {
    (visit(Family<V>(m, d, rows.counts[number<Family<V>>])), ...);
  }
  // The same for the families of which the solvers know that work on rows: row_blocks.hpp.
  template <class V, class Visit>
  static MANIPLE_FUNCTION void for_each_in_blocks(const Model<ScalarOf<V>>& m, const Data<V>& d,
                                                  const Active& rows, const Visit& visit) {
    for_each<V>(m, d, rows, [&]<class Rows>(const Rows& family) MANIPLE_INLINE_LAMBDA {
      if constexpr (Rows::kRows > 0) visit(family);
    });
  }
  // The same for each row (contact): visit(family, i).
  template <class V, class Visit>
  static MANIPLE_FUNCTION void for_each_row(const Model<ScalarOf<V>>& m, const Data<V>& d, const Active& rows,
                                            const Visit& visit) {
    (visit_rows(Family<V>(m, d, rows.counts[number<Family<V>>]), visit), ...);
  }
  // Writes the rows of all families; adds to nefc.
  template <class V>
  static MANIPLE_FUNCTION Active build(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
    return {{Family<V>::build(m, s, d)...}};
  }

  // Rows of the model: any, those of the dual solver, single rows, and rows that every lane has.
  static MANIPLE_FUNCTION bool any_rows(const ModelSizes& sizes) {
    return ((Family<float>::most(sizes) > 0) || ...);
  }
  static MANIPLE_FUNCTION int most_rows(const ModelSizes& sizes) {
    return ((Family<float>::kRows * Family<float>::most(sizes)) + ...);
  }
  static MANIPLE_FUNCTION int most_single_rows(const ModelSizes& sizes) {
    return ((Family<float>::kBaseRows == 1 ? Family<float>::most(sizes) : 0) + ...);
  }
  static MANIPLE_FUNCTION int rows_in_every_lane(const ModelSizes& sizes) {
    return ((Family<float>::kInEveryLane ? Family<float>::most(sizes) : 0) + ...);
  }
  // See first_row.
  template <class Rows>
  static MANIPLE_FUNCTION int first_row(const ModelSizes& sizes) {
    return ((number<Family<float>> < number<Rows> ? Family<float>::kRows * Family<float>::most(sizes) : 0) +
            ...);
  }

 private:
  template <class Rows, class Visit>
  static MANIPLE_FUNCTION void visit_rows(const Rows& family, const Visit& visit) {
    for (int i = 0, rows = family.count(); i < rows; ++i) visit(family, i);
  }
};
using RowFamilies = RowFamilyList<EqualityRows, FrictionRows, LimitRows, ContactRows, ConeRows>;
using ActiveRows = RowFamilies::Active;

template <class Rows>
MANIPLE_FUNCTION int first_row(const ModelSizes& sizes) {
  return RowFamilies::first_row<Rows>(sizes);
}

}  // namespace maniple
