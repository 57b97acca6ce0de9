// What sensors with a delay or an interval remember of their readings (mju_historyRead, mju_historyInsert).
// Times are counted in time steps before the present, which are exact in every precision.
#pragma once

#include "kernels/model/data.hpp"

namespace maniple {

// The numbers of sensor i in the state's sensordata_history: the time steps until its next reading, which
// only an interval uses, the ages of the readings that it remembers, oldest first, and these readings
// [sample, dim].
template <class V>
struct SensorHistory {
  StateField<V> numbers;
  int count, dim, order;  // of samples, of a reading, of the interpolation: 0, 1, or 2 for cubic

  MANIPLE_FUNCTION SensorHistory(const Model<ScalarOf<V>>& m, const State<V>& s, int i)
      : numbers(s.sensordata_history.from(m.sensor_historyadr[i])),
        count(m.sensor_history[2 * i]),
        dim(m.sensor_dim[i]),
        order(m.sensor_history[2 * i + 1]) {}

  MANIPLE_FUNCTION V& wait() const { return numbers[0]; }
  MANIPLE_FUNCTION V& age(int sample) const { return numbers[1 + sample]; }
  MANIPLE_FUNCTION V& reading(int sample, int k) const { return numbers[1 + count + dim * sample + k]; }

  // Element k of the reading `back` time steps ago: between two that are remembered by the interpolation, and
  // the oldest or newest of them beyond.
  MANIPLE_FUNCTION V at(ScalarOf<V> back, int k) const {
    using T = ScalarOf<V>;
    const V then(back);
    V result = select(age(0) <= then, V(reading(0, k)), V(reading(count - 1, k)));
    for (int i = 1; i < count; ++i) {
      const V before = age(i - 1), after = age(i);
      const MaskOf<V> between = before > then && after <= then;
      if (!any_lane(between)) continue;
      const V from = reading(i - 1, k), to = reading(i, k), apart = before - after;
      const V alpha = (before - then) / apart;
      V value = from;
      if (order == 1) value = from + alpha * (to - from);
      if (order == 2) {
        // cubic, with the slopes of Catmull and Rom; none at the ends
        const V slope_from = i > 1 ? V((to - reading(i - 2, k)) / (age(i - 2) - after)) : V(0);
        const V slope_to = i + 1 < count ? V((reading(i + 1, k) - from) / (before - age(i + 1))) : V(0);
        const V square = alpha * alpha, cube = square * alpha, two(T(2)), three(T(3));
        value = (two * cube - three * square + V(1)) * from +
                (cube - two * square + alpha) * apart * slope_from + (three * square - two * cube) * to +
                (cube - square) * apart * slope_to;
      }
      result = select(between, select(after == then, to, value), result);
    }
    return result;
  }

  // The oldest sample goes, in the lanes of a mask; the newest one's reading is to be written.
  MANIPLE_FUNCTION void make_room(MaskOf<V> lanes) const {
    const auto shift = [&](V& value, const V& next) { value = select(lanes, next, value); };
    for (int sample = 0; sample + 1 < count; ++sample) {
      shift(age(sample), age(sample + 1));
      for (int k = 0; k < dim; ++k) shift(reading(sample, k), reading(sample + 1, k));
    }
    shift(age(count - 1), V(0));
  }
};

// The lanes in which the interval of sensor i is over. Sums of intervals that are no whole numbers of time
// steps are rounded.
template <class V>
MANIPLE_FUNCTION MaskOf<V> is_due(const Model<ScalarOf<V>>& m, const SensorHistory<V>& history, int i) {
  using T = ScalarOf<V>;
  if (!(m.sensor_intervalsteps[i] > 0)) return MaskOf<V>(true);
  return history.wait() <= V(sizeof(T) == 4 ? T(1e-4) : T(1e-9));
}

}  // namespace maniple
