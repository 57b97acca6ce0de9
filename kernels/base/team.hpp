// The threads that step one lane value together. On a CPU that is one thread with a pack of environments, and
// nothing here costs anything. On a GPU it is one thread as well, or, where it is asked for
// (simulation.threads_per_environment), a team of them, whose working set then lies in the memory that a team
// shares.
//
// Members of a team run the same code on the same values: what they compute in registers, all of them
// compute, and a sum over elements is made by whoever needs it, in the order of the elements, so that no bit
// depends on a team's size. What is written to memory is written by one of them: loops over bodies, dofs,
// rows run over Team::share, which deals the numbers out; what has to go in order is done by the leader, in
// Team::once. Both stand between two barriers: one before, for what others may still read, and one after, for
// what they read next. (That makes two in a row between neighbours, which are cheap.) The rules:
//  - An iteration of a shared loop reads nothing that another one writes, and is not left by break or return.
//  - Within a shared loop or a once there is no share, once, reserve, total or barrier.
//  - Outside of them nothing is written to memory. Where leads() guards a write, a later barrier covers it.
//  - Branches with barriers inside depend on the model, on memory, or on registers that all computed alike.
//  - What once changes in registers changes for the leader only: it is returned, or goes to memory.
#pragma once

#include "kernels/base/pack.hpp"

namespace maniple {

// Numbers first, first + step, ... before last: for range-based loops.
struct CountingIterator {
  int number, step;

  MANIPLE_FUNCTION int operator*() const { return number; }
  MANIPLE_FUNCTION void operator++() { number += step; }
  MANIPLE_FUNCTION bool operator!=(const CountingIterator& end) const { return number < end.number; }
};
struct CountingRange {
  int first, last, step;

  MANIPLE_FUNCTION CountingIterator begin() const { return {first, step}; }
  MANIPLE_FUNCTION CountingIterator end() const { return {last, step}; }
};

// The team of a pack: one thread.
template <class V>
class Team {
 public:
  static constexpr int size() { return 1; }
  static constexpr int rank() { return 0; }
  static constexpr bool leads() { return true; }
  MANIPLE_FUNCTION static void barrier() {}
  // This member's part of 0 .. count - 1.
  MANIPLE_FUNCTION static CountingRange share(int count) { return {0, count, 1}; }
  // Runs body(), whose result all members get, if any.
  template <class Body>
  MANIPLE_FUNCTION static auto once(const Body& body) {
    return body();
  }
  // Reserves `count` places at the end of a list of `length`; returns the first of them. Those of the members
  // follow each other in the order of their ranks; `length` grows by all of them.
  MANIPLE_FUNCTION static int reserve(int count, int& length) {
    const int first = length;
    length += count;
    return first;
  }
  // Sum of the members' values, which are whole numbers.
  MANIPLE_FUNCTION static V total(V value) { return value; }
};

#ifdef MANIPLE_SCALAR_LANES
using TeamMember = Kokkos::TeamPolicy<ExecutionSpace>::member_type;
#else
// A CPU launches no teams; a test can play one.
class TeamMember {
 public:
  virtual ~TeamMember() = default;
  virtual int team_rank() const = 0;
  virtual int team_size() const = 0;
  virtual void team_barrier() const = 0;
};
#endif

// Threads of a team, at most.
inline constexpr int kTeamThreads = 32;

// Whether launches have teams: on a CPU they have none, also where its lanes are scalars.
inline constexpr bool kLaunchesTeams = !std::is_same_v<MemorySpace, Kokkos::HostSpace>;

// The team of a scalar.
template <class T>
class ScalarTeam {
 public:
  // One thread alone.
  ScalarTeam() = default;
  // `exchange`: room for kTeamThreads integers in memory that the members share.
  MANIPLE_FUNCTION ScalarTeam(const TeamMember& member, int* exchange)
      : rank_(member.team_rank()), size_(member.team_size()), member_(&member), exchange_(exchange) {}

  MANIPLE_FUNCTION int size() const { return size_; }
  MANIPLE_FUNCTION int rank() const { return rank_; }
  MANIPLE_FUNCTION bool leads() const { return rank_ == 0; }
  // What any member has written before is seen by all after it.
  MANIPLE_FUNCTION void barrier() const {
    if (size_ > 1) member_->team_barrier();
  }

  class Share {
   public:
    MANIPLE_FUNCTION Share(const ScalarTeam& team, int count) : team_(team), count_(count) { team.barrier(); }
    MANIPLE_FUNCTION ~Share() { team_.barrier(); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    MANIPLE_FUNCTION CountingIterator begin() const { return {team_.rank_, team_.size_}; }
    MANIPLE_FUNCTION CountingIterator end() const { return {count_, team_.size_}; }

   private:
    const ScalarTeam& team_;
    int count_;
  };
  MANIPLE_FUNCTION Share share(int count) const { return Share(*this, count); }

  template <class Body>
  MANIPLE_FUNCTION auto once(const Body& body) const {
    if constexpr (std::is_void_v<decltype(body())>) {
      barrier();
      if (leads()) body();
      barrier();
    } else {
      static_assert(std::is_integral_v<decltype(body())>);
      if (size_ == 1) return static_cast<int>(body());
      barrier();
      if (leads()) exchange_[0] = static_cast<int>(body());
      barrier();
      return exchange_[0];
    }
  }

  MANIPLE_FUNCTION int reserve(int count, int& length) const {
    int first = length;
    if (size_ == 1) {
      length += count;
      return first;
    }
    barrier();
    exchange_[rank_] = count;
    barrier();
    for (int member = 0; member < size_; ++member) {
      if (member < rank_) first += exchange_[member];
      length += exchange_[member];
    }
    return first;
  }

  MANIPLE_FUNCTION T total(T value) const {
    int sum = 0;
    reserve(static_cast<int>(value), sum);
    return static_cast<T>(sum);
  }

 private:
  int rank_ = 0, size_ = 1;
  const TeamMember* member_ = nullptr;
  int* exchange_ = nullptr;
};
template <>
class Team<float> : public ScalarTeam<float> {
 public:
  using ScalarTeam::ScalarTeam;
};
template <>
class Team<double> : public ScalarTeam<double> {
 public:
  using ScalarTeam::ScalarTeam;
};

// Calls body(std::integral_constant<int, C>(), first) for runs of C numbers that follow each other and
// together are 0 .. count - 1. A thread alone takes kMost of them at a time and kLess of the rest, for bodies
// that share what they load; members of a team take single ones. With the barriers of Team::share.
template <int kMost, int kLess, class V, class Body>
MANIPLE_FUNCTION void share_runs(const Team<V>& team, int count, const Body& body) {
  if (team.size() > 1) {
    for (const int k : team.share(count)) body(std::integral_constant<int, 1>(), k);
    return;
  }
  int i = 0;
  for (; i + kMost <= count; i += kMost) body(std::integral_constant<int, kMost>(), i);
  for (; i + kLess <= count; i += kLess) body(std::integral_constant<int, kLess>(), i);
  for (; i < count; ++i) body(std::integral_constant<int, 1>(), i);
}

}  // namespace maniple
