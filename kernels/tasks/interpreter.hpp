// Runs a task's bytecode for the environments of one pack. All lanes execute the same instructions, so
// that an environment's numbers never depend on its neighbours; masks decide what is stored.
#pragma once

#include "kernels/base/varying.hpp"
#include "kernels/math/functions.hpp"
#include "kernels/tasks/program.hpp"

namespace maniple {

// The memory that each bank stands for, for one pack.
template <class V>
struct Banks {
  Varying<V> bank[kBanks];
  MotionView<ScalarOf<V>> motion;

  MANIPLE_FUNCTION Varying<V>& operator[](Bank which) { return bank[static_cast<int>(which)]; }
  MANIPLE_FUNCTION const Varying<V>& operator[](Bank which) const { return bank[static_cast<int>(which)]; }
  MANIPLE_FUNCTION V& at(Bank which, int index) const { return (*this)[which][index]; }
};

// Largest integer not above x: the shift rounds to the nearest integer while |x| < 2^23 (2^52).
template <class V>
MANIPLE_FUNCTION V floor(V x) {
  using T = ScalarOf<V>;
  const V shift(sizeof(T) == 8 ? T(4503599627370496.0) : T(8388608.0));
  const V size = abs(x);
  const V nearest = copysign((size + shift) - shift, x);
  const V down = select(nearest > x, nearest - V(1), nearest);
  return select(size < shift, down, x);
}

// 1 where the mask is true, 0 elsewhere.
template <class V>
MANIPLE_FUNCTION V truth(MaskOf<V> mask) {
  return select(mask, V(1), V(0));
}

// Number `column` of the frame that each lane names; beyond the ends of the motion its first or last one.
template <class V>
MANIPLE_FUNCTION V look_up(const MotionView<ScalarOf<V>>& motion, V frames, int column) {
  V result;
  for (int i = 0; i < lane_width<V>; ++i) {
    const ScalarOf<V> given = get_lane(frames, i);
    const int last = motion.frames - 1;
    const int frame = !(given > 0) ? 0 : given < last ? static_cast<int>(given) : last;
    set_lane(result, i, motion.numbers[frame * motion.numbers_of_frame + column]);
  }
  return result;
}

// Executes the program. Reserved registers and inputs must have been set.
template <class V>
MANIPLE_STAGE void run_program(const ProgramView& program, const Banks<V>& banks) {
  const Instruction* const end = program.instructions + program.count;
  for (const Instruction* at = program.instructions; at != end; ++at) {
    const Instruction i = *at;
    V& target = banks.at(i.bank_target, i.target);
    const V a = banks.at(i.bank_a, i.a);
    [[maybe_unused]] const V &b = banks.at(i.bank_b, i.b), &c = banks.at(i.bank_c, i.c);
    switch (i.operation) {
#define MANIPLE_OPERATION(name, operands, of_lanes, of_numbers, meaning) \
  case Operation::name:                                                  \
    target = of_lanes;                                                   \
    break;
      MANIPLE_OPERATIONS(MANIPLE_OPERATION)
#undef MANIPLE_OPERATION
    }
  }
}

}  // namespace maniple
