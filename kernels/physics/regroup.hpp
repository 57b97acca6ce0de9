// Packs of environments with equally many contacts and limits, because a pack costs as much as its worst
// lane. A worker turns the tiles of its environments into records, one environment after the other. In every
// step it finds the contacts of all of them, pack by pack in their order, sorts by what it found, and turns
// states and contacts of a pack into lanes: whole registers are moved and transposed, where picking single
// values out of tiles took three times as long. No bit of an environment depends on its lane or its
// neighbours, so none on this order.
#pragma once

#include "kernels/base/tiles.hpp"
#include "kernels/physics/collision/collision.hpp"
#include "kernels/physics/smooth/kinematics.hpp"
#include "kernels/physics/stage_times.hpp"

namespace maniple {

// Environments that are regrouped among each other: what one worker's cache holds.
inline constexpr int kRegroupTiles = 8;
inline constexpr int kRegroupWidth = kRegroupTiles * kTileWidth;

// Whether regrouping pays: where a step costs much more than the copies do. Never on a GPU, where a lane is a
// thread of its own.
inline constexpr int kRegroupDofs = 6;
inline bool regroups(const ModelSizes& sizes) {
  return !kScalarLanes && sizes.ngeompair > 0 && sizes.nv >= kRegroupDofs;
}

// The environments of a pack, counted from the rank's first: lane i holds first + order[i], or first + i if
// there is no order.
struct PackEnvironments {
  std::int64_t first;
  const std::uint8_t* order = nullptr;

  MANIPLE_FUNCTION std::int64_t operator[](int lane) const {
    return first + (order == nullptr ? lane : order[lane]);
  }
};

inline constexpr int kWorkKeys = 256;  // values of work_key
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
  return whole_packs<V>(elements);
}
// Scalars of the record of a contact: kContactElements, filled up to whole registers of any width. Before
// those of an environment comes one more, with ncon and contact_dropped.
inline constexpr int kContactRecord = 16;
MANIPLE_FUNCTION int contact_record_elements(const ModelSizes& sizes) {
  return kContactRecord * (1 + sizes.ncontact);
}
// What a worker needs, in lane values: the pack that it steps, as a tile, and the records of its
// environments.
template <class V>
int regroup_elements(const ModelSizes& sizes) {
  const int state = record_elements<V>(state_elements(sizes));
  return (state * (kTileWidth + kRegroupWidth) + contact_record_elements(sizes) * kRegroupWidth) /
         lane_width<V>;
}

// Copies a square of lane_width rows and columns, transposed: from(i) and to(i) are its rows, of which only
// the first `read` and `written` exist.
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

  // Copies the first `count` elements of the records of `environments` to the lanes of a pack,
  // [record_elements][kTileWidth].
  MANIPLE_FUNCTION void gather(const std::uint8_t* environments, ScalarOf<V>* pack, int count) const {
    for (int element = 0; element < count; element += lane_width<V>)
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
  // The address of an element of an environment in the tiles.
  MANIPLE_FUNCTION int address(int environment, int element) const {
    return (environment / kTileWidth * elements + element) * kTileWidth + environment % kTileWidth;
  }
  // Calls body(first environment, first element, elements left) for each of the squares that make up the
  // tiles.
  template <class Body>
  MANIPLE_FUNCTION void for_each_square(int tiles, const Body& body) const {
    for (int environment = 0; environment < tiles * kTileWidth; environment += lane_width<V>)
      for (int element = 0; element < elements; element += lane_width<V>)
        body(environment, element, elements - element);
  }
};

// The contacts of some environments, [environment][contact_record_elements].
template <class V>
struct ContactRecords {
  using T = ScalarOf<V>;
  T* first;
  int elements;

  MANIPLE_FUNCTION T* of(int environment) const { return first + environment * elements; }

  // Finds the contacts of the environments of a pack, whose positions are in the state `s`.
  MANIPLE_FUNCTION void find(const Model<T>& m, const State<V>& s, const Data<V>& d,
                             const std::uint8_t* environments) const {
    place_geoms(m, s, d);
    end_stage(d, PhysicsStage::kinematics);
    d.contact_dropped[0] = V(0);
    find_contacts(m, s, d, [&](int lane, int slot, int e, T value) {
      of(environments[lane])[kContactRecord * (1 + slot) + e] = value;
    });
    for (int lane = 0; lane < lane_width<V>; ++lane) {
      T* const head = of(environments[lane]);
      head[0] = get_lane(V(d.ncon[0]), lane);
      head[1] = get_lane(V(d.contact_dropped[0]), lane);
    }
    end_stage(d, PhysicsStage::collision);
  }

  // Copies the contacts of `environments` to the slots of a pack.
  MANIPLE_FUNCTION void gather(const Data<V>& d, const std::uint8_t* environments) const {
    gather_record(environments, 0, 2,
                  [&](int element) { return element == 0 ? &d.ncon[0] : &d.contact_dropped[0]; });
    const int slots = static_cast<int>(max_lane(V(d.ncon[0])));
    for (int slot = 0; slot < slots; ++slot)
      gather_record(environments, 1 + slot, kContactElements,
                    [&](int e) { return &contact_element(d, slot, e); });
  }

 private:
  // Copies `count` elements of record number `record` to the lanes of to(element).
  template <class To>
  MANIPLE_FUNCTION void gather_record(const std::uint8_t* environments, int record, int count,
                                      const To& to) const {
    for (int begin = 0; begin < count; begin += lane_width<V>)
      copy_transposed<V>([&](int lane) { return of(environments[lane]) + kContactRecord * record + begin; },
                         lane_width<V>, [&](int i) { return to(begin + i); }, count - begin);
  }
};

// What the constraints of an environment will cost, as a key to sort by: contacts, then limits of joints.
template <class V>
MANIPLE_FUNCTION V work_key(const Model<ScalarOf<V>>& m, const State<V>& s, const Data<V>& d) {
  using T = ScalarOf<V>;
  V limits(0);
  for (int r = 0; r < m.nlimit; ++r) {
    if (m.limit_ballid[r] >= 0 || m.limit_tendonid[r] >= 0) continue;
    const V side(static_cast<T>(m.limit_side[r]));
    const V distance = side * (s.qpos[m.limit_qposadr[r]] - LaneModel<V>(m, s).limit_bound(r));
    limits += select(distance < V(m.limit_margin[r]), V(1), V(0));
  }
  return V(8) * min(V(d.ncon[0]), V(31)) + min(limits, V(7));
}

}  // namespace maniple
