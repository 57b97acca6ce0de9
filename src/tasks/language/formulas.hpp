// Helpers for formulas: the code behind the functions that expressions call, which turns a call into nodes of
// the graph. Below it the formulas that have files of their own, for the table in
// src/tasks/language/expression_functions.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/tasks/language/expression_functions.hpp"

namespace maniple::formulas {

using Node = ExpressionGraph::Node;
using Value = ExpressionCompiler::Value;
using Formula = std::function<Value(FunctionCall&)>;

// Arithmetic on single nodes, for the formulas below. A graph numbers nodes in the order in which they are
// made, and C++ leaves the order of a call's arguments open: at most one argument of a call makes a node,
// so that every compiler writes the same programs.
struct Arithmetic {
  ExpressionGraph& graph;
  Node add(Node a, Node b) const { return graph.apply(Operation::add, a, b); }
  Node subtract(Node a, Node b) const { return graph.apply(Operation::subtract, a, b); }
  Node product(Node a, Node b) const { return graph.apply(Operation::multiply, a, b); }
};

[[noreturn]] void refuse(const FunctionCall& call, const std::string& found, const std::string& allowed);

Value map(FunctionCall& call, Operation operation, const std::vector<Value>& arguments);

Value number(FunctionCall& call, double x);

// Its components joined from the first to the last.
Value reduce(FunctionCall& call, Operation operation, const Value& vector);

// The number that a part of a call is, which must not depend on the environment.
double fixed_number(FunctionCall& call, std::size_t part, const std::string& allowed);
// The same of several.
std::vector<double> fixed_numbers(FunctionCall& call, std::size_t part);

// "not a number of `what`" unless it is a whole number from 1 on.
std::size_t count_of(FunctionCall& call, std::size_t part, const std::string& what);

// The geoms that a name, or each name of a list, stands for: a geom, the geoms of a body, or with
// subtree:NAME those of a body and all that hangs on it.
std::vector<bool> geoms_named(FunctionCall& call, const Syntax& part);

// ---- functions_of_frames.cpp ----
Value cross_product(ExpressionGraph& graph, const Value& x, const Value& y);
Value quaternion_product(ExpressionGraph& graph, const Value& x, const Value& y);
Value quaternion_from_euler(FunctionCall& call);
Value conjugate(FunctionCall& call);
// Angles of turns about x, then y, then z: what quat_from_euler takes.
Value euler_angles(FunctionCall& call);
Formula rotation(bool inverse);
// Isaac Lab's quat_error_magnitude: the angle [rad] between two orientations.
Value angle_between(FunctionCall& call);
// The rotation matrix of a quaternion, row by row.
Value matrix_of_quaternion(FunctionCall& call);
Value in_frame(FunctionCall& call);

// ---- functions_of_contacts.cpp ----
// Answers [first, first + count) about contacts between what the call's arguments name; without a second one,
// with everything else.
Formula contact_answer(int first, int count);
// An answer in each physics step of the control step, the last one first.
Formula contact_history(ContactAnswer answer);
// Times of contacts [s], counted in physics steps, in the order of the variable that keeps them.
enum class ContactTime { air, contact, last_air, last_contact };
Formula contact_time(ContactTime which);
// mjlab's and Isaac Lab's compute_first_contact, for a control step.
Value first_contact(FunctionCall& call);

// ---- functions_of_rays.cpp ----
Value ray_distances(FunctionCall& call);
// Isaac Lab's and mjlab's GridPatternCfg: x fastest.
Value grid_pattern(FunctionCall& call);

// ---- functions_of_chance.cpp ----
Formula uniform_numbers();
Formula normal_numbers();

// ---- tolerance.cpp ----
Value tolerance(FunctionCall& call);

}  // namespace maniple::formulas
