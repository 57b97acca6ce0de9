// Which environments share a pack of lanes. A pack pays for the most contacts and iterations of its lanes, so
// environments that asked the solver for as much in the step before are stepped together. A worker turns the
// tiles of its environments into records, one environment after the other, and turns the records of a pack
// into lanes and back for every step: whole registers are moved and transposed, where picking single values
// out of tiles took three times as long. No bit of an environment depends on its lane or its neighbours,
// hence none on this order.
#pragma once

#include "kernels/base/tiles.hpp"
#include "kernels/model/data.hpp"

namespace maniple {

// Environments that are regrouped among each other: what one worker's cache holds.
inline constexpr int kRegroupTiles = 8;
inline constexpr int kRegroupWidth = kRegroupTiles * kTileWidth;

// Whether it pays: where a step costs much more than the copies. On a GPU a lane is a thread of its own.
inline constexpr int kRegroupDofs = 6;
inline bool regroups(const ModelSizes& sizes) {
  return !kScalarLanes && sizes.ncandidate > 0 && sizes.nv >= kRegroupDofs;
}

// What the constraints of an environment cost in its last step, as a key to sort by: rows, then iterations.
inline constexpr int kWorkKeys = 256;
template <class V>
MANIPLE_FUNCTION int work_key(const Data<V>& d, int lane) {
  const int blocks = (static_cast<int>(get_lane(V(d.solver_rows[0]), lane)) + 2) / 3;
  const int niter = static_cast<int>(get_lane(V(d.solver_niter[0]), lane));
  return (blocks < 31 ? blocks : 31) * 8 + (niter < 7 ? niter : 7);
}

// The environments of a pack, counted from the rank's first: lane i holds first + order[i]; without an order
// they follow each other.
struct PackEnvironments {
  std::int64_t first;
  const std::uint8_t* order = nullptr;

  MANIPLE_FUNCTION std::int64_t operator[](int lane) const {
    return first + (order == nullptr ? lane : order[lane]);
  }
};

// Numbers 0 .. count - 1 in ascending order of their keys; equal keys stay in order.
MANIPLE_FUNCTION void sort_by_key(const std::uint8_t* keys, int count, std::uint8_t* order) {
  std::int16_t place[kWorkKeys + 1] = {};
  for (int i = 0; i < count; ++i) ++place[keys[i] + 1];
  for (int k = 0; k < kWorkKeys; ++k) place[k + 1] = static_cast<std::int16_t>(place[k + 1] + place[k]);
  for (int i = 0; i < count; ++i) order[place[keys[i]]++] = static_cast<std::uint8_t>(i);
}

// Scalars of a record: a state, filled up to whole registers.
template <class V>
MANIPLE_FUNCTION int record_elements(int elements) {
  return (elements + lane_width<V> - 1) / lane_width<V> * lane_width<V>;
}
// What a worker needs, in lane values: the pack that it steps, as a tile, and the records of its
// environments.
template <class V>
int regroup_elements(const ModelSizes& sizes) {
  return record_elements<V>(state_elements(sizes)) * ((kTileWidth + kRegroupWidth) / lane_width<V>);
}

// Copies a square of lane_width rows and columns, transposed: from(i) and to(i) are rows of it, of which
// those from `read` and `written` on do not exist.
template <class V, class From, class To>
MANIPLE_FUNCTION void copy_transposed(const From& from, int read, const To& to, int written) {
  V rows[lane_width<V>];
  for (int i = 0; i < lane_width<V>; ++i) rows[i] = *reinterpret_cast<const V*>(from(i < read ? i : 0));
  transpose(rows);
  for (int i = 0; i < lane_width<V>; ++i)
    if (i < written) *reinterpret_cast<V*>(to(i)) = rows[i];
}

// The records of the environments of some tiles, [environment][record_elements].
template <class V>
struct Records {
  ScalarOf<V>* first;
  int elements;  // of a state

  MANIPLE_FUNCTION ScalarOf<V>* of(int environment) const {
    return first + environment * record_elements<V>(elements);
  }

  // Copies all of them from tiles of states that follow each other, [element][kTileWidth].
  MANIPLE_FUNCTION void load(const ScalarOf<V>* states, int tiles) const {
    for_each_square(tiles, [&](int environment, int element, int left) {
      const ScalarOf<V>* const square = states + address(environment, element);
      copy_transposed<V>([&](int i) { return square + i * kTileWidth; }, left,
                         [&](int i) { return of(environment + i) + element; }, lane_width<V>);
    });
  }
  // And back.
  MANIPLE_FUNCTION void store(ScalarOf<V>* states, int tiles) const {
    for_each_square(tiles, [&](int environment, int element, int left) {
      ScalarOf<V>* const square = states + address(environment, element);
      copy_transposed<V>([&](int i) { return of(environment + i) + element; }, lane_width<V>,
                         [&](int i) { return square + i * kTileWidth; }, left);
    });
  }

  // Copies the records of `environments` to the lanes of a pack, [record_elements][kTileWidth].
  MANIPLE_FUNCTION void gather(const std::uint8_t* environments, ScalarOf<V>* pack) const {
    for (int element = 0; element < elements; element += lane_width<V>)
      copy_transposed<V>([&](int lane) { return of(environments[lane]) + element; }, lane_width<V>,
                         [&](int i) { return pack + (element + i) * kTileWidth; }, lane_width<V>);
  }
  // And back.
  MANIPLE_FUNCTION void scatter(const ScalarOf<V>* pack, const std::uint8_t* environments) const {
    for (int element = 0; element < elements; element += lane_width<V>)
      copy_transposed<V>([&](int i) { return pack + (element + i) * kTileWidth; }, lane_width<V>,
                         [&](int lane) { return of(environments[lane]) + element; }, lane_width<V>);
  }

 private:
  // Where an element of an environment lies in the tiles.
  MANIPLE_FUNCTION int address(int environment, int element) const {
    return (environment / kTileWidth * elements + element) * kTileWidth + environment % kTileWidth;
  }
  // body(first environment, first element, elements left) for the squares of which the tiles consist.
  template <class Body>
  MANIPLE_FUNCTION void for_each_square(int tiles, const Body& body) const {
    for (int environment = 0; environment < tiles * kTileWidth; environment += lane_width<V>)
      for (int element = 0; element < elements; element += lane_width<V>)
        body(environment, element, elements - element);
  }
};

}  // namespace maniple
