// The linear algebra of Newton's method for robots of few dofs, with the members of TreeDofs (tree_dofs.hpp):
// M, the Hessian and the contacts hold every dof, and all loops have bounds that the compiler knows.
// Computing with zeros costs less than walking lists of a handful of elements: time goes into chains of
// dependent operations and branches, not arithmetic.
#pragma once

#include "kernels/base/unroll.hpp"
#include "kernels/physics/constraint/contact.hpp"

namespace maniple {

template <int kDofs, class V>
struct DenseDofs {
  const Model<ScalarOf<V>>& m;
  const Data<V>& d;
  V M[kDofs * (kDofs + 1) / 2];  // lower triangle, row by row, as H

  MANIPLE_FUNCTION DenseDofs(const Model<ScalarOf<V>>& model, const Data<V>& data) : m(model), d(data) {}

  MANIPLE_FUNCTION static constexpr int count() { return kDofs; }

  MANIPLE_FUNCTION void begin(int) {
    for (V& element : M) element = V(0);
    const DataField<V> qM = d.qM;
    for (int i = 0; i < kDofs; ++i) {
      int address = m.dof_Madr[i];
      for (int j = i; j >= 0; j = m.dof_parentid[j]) M[hessian_address(i, j)] = qM[address++];
    }
  }

  MANIPLE_FUNCTION void multiply_inertia(const DataField<V> x, const DataField<V> result) const {
    V value[kDofs], sum[kDofs];
    unroll<0, kDofs>([&](auto i) { value[i] = x[i]; });
    unroll<0, kDofs>([&](auto i) {
      sum[i] = M[hessian_address(i, 0)] * value[0];
      unroll<1, kDofs>([&](auto j) {
        constexpr int row = i < j ? j : i, column = i < j ? i : j;
        sum[i] = multiply_add(M[hessian_address(row, column)], value[j], sum[i]);
      });
    });
    unroll<0, kDofs>([&](auto i) { result[i] = sum[i]; });
  }

  // Column `dof` of J of a slot, whose list holds every dof in descending order.
  template <int kTangents>
  MANIPLE_FUNCTION BaseRows<V> column(int slot, int dof) const {
    return load_column<kTangents>(d.contact_J, slot * kDofs + (kDofs - 1 - dof));
  }
  MANIPLE_FUNCTION BaseRows<V> contact_times(int slot, const DataField<V> x) const {
    BaseRows<V> sum{V(0), V(0), V(0)};
    with_tangents(d.slot_tangents[slot], [&]<int kTangents>(Tangents<kTangents>) {
      unroll<0, kDofs>([&](auto i) { add_column<kTangents>(sum, column<kTangents>(slot, i), V(x[i])); });
    });
    return sum;
  }
  MANIPLE_FUNCTION void add_contact_force(int slot, const BaseRows<V>& force,
                                          const DataField<V> result) const {
    with_tangents(d.slot_tangents[slot], [&]<int kTangents>(Tangents<kTangents>) {
      unroll<0, kDofs>([&](auto i) { add_product<kTangents>(result[i], column<kTangents>(slot, i), force); });
    });
  }

  MANIPLE_FUNCTION void start_hessian() const {
    unroll<0, kDofs*(kDofs + 1) / 2>([&](auto k) { d.H[k] = M[k]; });
  }
  MANIPLE_FUNCTION void add_contact_hessians(int slots) const {
    const DataField<V> H = d.H;
    for (int slot = 0; slot < slots; ++slot) {
      const BaseWeights<V> W = base_weights(d, slot);
      if (!any_lane(W.nn > V(0))) continue;
      with_tangents(d.slot_tangents[slot], [&]<int kTangents>(Tangents<kTangents>) {
        BaseRows<V> J[kDofs];
        unroll<0, kDofs>([&](auto i) { J[i] = column<kTangents>(slot, i); });
        unroll<0, kDofs>([&](auto i) {
          const BaseRows<V> w = W.template times<kTangents>(J[i]);
          unroll<0, i + 1>([&](auto j) { add_product<kTangents>(H[hessian_address(i, j)], w, J[j]); });
        });
      });
    }
  }

  // Sums take the newest term last: the others do not wait for it.
  MANIPLE_FUNCTION void factor() const {
    const DataField<V> H = d.H, inverse = d.HDiagInv;
    unroll<0, kDofs>([&](auto from_last) {
      constexpr int i = kDofs - 1 - from_last;
      V scaled[kDofs];
      unroll<i + 1, kDofs>([&](auto k) { scaled[k] = -H[hessian_address(k, i)] * inverse[k]; });
      unroll<0, i + 1>([&](auto j) {
        V sum = H[hessian_address(i, j)];
        unroll<0, from_last>([&](auto b) {
          constexpr int k = kDofs - 1 - b;
          sum = multiply_add(scaled[k], V(H[hessian_address(k, j)]), sum);
        });
        H[hessian_address(i, j)] = sum;
      });
      inverse[i] = V(1) / H[hessian_address(i, i)];
    });
  }
  MANIPLE_FUNCTION void solve(const DataField<V> x) const {
    const DataField<V> H = d.H, inverse = d.HDiagInv;
    V value[kDofs]{};  // (nvcc takes an unrolled loop for one that reads before it writes)
    unroll<0, kDofs>([&](auto from_last) {
      constexpr int i = kDofs - 1 - from_last;
      V sum = x[i];
      unroll<0, from_last>([&](auto b) {
        constexpr int k = kDofs - 1 - b;
        sum = multiply_add(-H[hessian_address(k, i)], value[k], sum);
      });
      value[i] = sum * inverse[i];
    });
    unroll<0, kDofs>([&](auto k) {
      V sum(0);
      unroll<0, k>([&](auto i) { sum = multiply_add(V(H[hessian_address(k, i)]), value[i], sum); });
      value[k] = multiply_add(-sum, V(inverse[k]), value[k]);
      x[k] = value[k];
    });
  }
};

}  // namespace maniple
