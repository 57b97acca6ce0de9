// What the functions of expressions are called and what they compute: the operations of each, then the table.
#include "src/tasks/expression_functions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <string_view>
#include <tuple>

#include "src/tasks/message_text.hpp"

namespace maniple {
namespace {

using Node = ExpressionGraph::Node;
using Value = ExpressionCompiler::Value;

// Arithmetic on single nodes, for the formulas below. A graph numbers nodes in the order in which they are
// made, and C++ leaves the order of a call's arguments open: at most one argument of a call makes a node,
// so that every compiler writes the same programs.
struct Arithmetic {
  ExpressionGraph& graph;
  Node add(Node a, Node b) const { return graph.apply(Operation::add, a, b); }
  Node subtract(Node a, Node b) const { return graph.apply(Operation::subtract, a, b); }
  Node product(Node a, Node b) const { return graph.apply(Operation::multiply, a, b); }
};

// The quaternion of turns about x, then y, then z.
Value quaternion_of_turns(ExpressionGraph& graph, const std::array<Node, 3>& angles) {
  const Arithmetic to{graph};
  Node c[3], s[3];
  for (std::size_t i = 0; i < 3; ++i) {
    const Node half = to.product(graph.constant(0.5), angles[i]);
    c[i] = graph.apply(Operation::cosine, half);
    s[i] = graph.apply(Operation::sine, half);
  }
  using Factors = std::array<Node, 3>;
  const auto combined = [&](Operation operation, const Factors& a, const Factors& b) {
    const Node second = to.product(to.product(b[0], b[1]), b[2]);
    const Node first = to.product(to.product(a[0], a[1]), a[2]);
    return graph.apply(operation, first, second);
  };
  return {combined(Operation::add, {c[0], c[1], c[2]}, {s[0], s[1], s[2]}),
          combined(Operation::subtract, {s[0], c[1], c[2]}, {c[0], s[1], s[2]}),
          combined(Operation::add, {c[0], s[1], c[2]}, {s[0], c[1], s[2]}),
          combined(Operation::subtract, {c[0], c[1], s[2]}, {s[0], s[1], c[2]})};
}

Value quaternion_product(ExpressionGraph& graph, const Value& x, const Value& y) {
  const Arithmetic to{graph};
  // Four products x[i] * y[j]. Real: first - second - third - fourth; else first + second + third - fourth.
  using Factors = std::array<std::array<std::size_t, 2>, 4>;
  const auto component = [&](bool real, const Factors& factors) {
    std::array<Node, 4> terms;
    for (std::size_t i = 4; i-- > 0;) terms[i] = to.product(x[factors[i][0]], y[factors[i][1]]);
    const Operation join = real ? Operation::subtract : Operation::add;
    return to.subtract(graph.apply(join, graph.apply(join, terms[0], terms[1]), terms[2]), terms[3]);
  };
  return {component(true, {{{0, 0}, {1, 1}, {2, 2}, {3, 3}}}),
          component(false, {{{0, 1}, {1, 0}, {2, 3}, {3, 2}}}),
          component(false, {{{0, 2}, {2, 0}, {3, 1}, {1, 3}}}),
          component(false, {{{0, 3}, {3, 0}, {1, 2}, {2, 1}}})};
}

Value cross_product(ExpressionGraph& graph, const Value& x, const Value& y) {
  const Arithmetic to{graph};
  Value result;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t j = (i + 1) % 3, k = (i + 2) % 3;
    const Node second = to.product(x[k], y[j]);
    result.push_back(to.subtract(to.product(x[j], y[k]), second));
  }
  return result;
}

// Normally distributed with mean 0 and deviation 1, from two uniform draws (Box and Muller).
template <class Draw>
Node standard_normal(ExpressionGraph& graph, const Draw& draw) {
  const Arithmetic to{graph};
  // The first draw moved from [0, 1) to (0, 1], exactly, for the logarithm.
  const Node step = graph.constant(1.0 / 16777216.0);
  const Node logarithm = graph.apply(Operation::logarithm, to.add(draw(), step));
  const Node radius = graph.apply(Operation::square_root, to.product(graph.constant(-2), logarithm));
  const Node turn = draw();
  const Node angle = to.product(graph.constant(2 * std::numbers::pi), turn);
  return to.product(radius, graph.apply(Operation::cosine, angle));
}

// ---- calls ----

using Formula = std::function<Value(FunctionCall&)>;

[[noreturn]] void refuse(const FunctionCall& call, const std::string& found, const std::string& allowed) {
  refuse_expression(call.source, call.tree.column, found, allowed);
}

Value map(FunctionCall& call, Operation operation, const std::vector<Value>& arguments) {
  return call.compiler.apply(operation, call.tree, call.source, arguments);
}

Value number(FunctionCall& call, double x) {
  return {call.compiler.graph().constant(x)};
}

// Its components joined from the first to the last.
Value reduce(FunctionCall& call, Operation operation, const Value& vector) {
  Node result = vector[0];
  for (std::size_t i = 1; i < vector.size(); ++i)
    result = call.compiler.graph().apply(operation, result, vector[i]);
  return {result};
}

// The number that a part of a call is, which must not depend on the environment.
double fixed_number(FunctionCall& call, std::size_t part, const std::string& allowed) {
  const Value value = call.compiler.value(*call.parts[part], call.source);
  const ExpressionGraph& graph = call.compiler.graph();
  if (value.size() != 1 || !graph.is_constant(value[0]))
    refuse_expression(call.source, call.parts[part]->column, "not a fixed number", allowed);
  return graph.constant_value(value[0]);
}

// "not a number of `what`" unless it is a whole number from 1 on.
std::size_t count_of(FunctionCall& call, std::size_t part, const std::string& what) {
  const double n = fixed_number(call, part, "a whole number from 1 on");
  if (!(n >= 1 && n <= 1e4 && n == std::floor(n)))
    refuse_expression(call.source, call.parts[part]->column, "not a number of " + what,
                      "a whole number from 1 to 10000");
  return static_cast<std::size_t>(n);
}

Formula componentwise(Operation operation) {
  return [operation](FunctionCall& call) { return map(call, operation, call.arguments); };
}

Formula reduced(Operation operation) {
  return [operation](FunctionCall& call) { return reduce(call, operation, call.arguments[0]); };
}

// Of one argument its components joined; of several, component by component, the arguments.
Formula extreme(Operation operation) {
  return [operation](FunctionCall& call) {
    if (call.arguments.size() == 1) return reduce(call, operation, call.arguments[0]);
    Value result = call.arguments[0];
    for (std::size_t i = 1; i < call.arguments.size(); ++i)
      result = map(call, operation, {result, call.arguments[i]});
    return result;
  };
}

Formula truth_of(Operation operation) {
  return [operation](FunctionCall& call) {
    const Value zero = number(call, 0);
    return map(call, Operation::not_equal, {reduce(call, operation, call.arguments[0]), zero});
  };
}

// Of two vectors of `size`.
Formula product_of_vectors(std::size_t size, Value (*product)(ExpressionGraph&, const Value&, const Value&)) {
  return [size, product](FunctionCall& call) {
    const Value &x = call.arguments[0], &y = call.arguments[1];
    if (x.size() != size || y.size() != size)
      refuse(call,
             "'" + call.tree.text + "' of " + ExpressionCompiler::shape(x) + " and " +
                 ExpressionCompiler::shape(y),
             "two vectors of " + std::to_string(size));
    return product(call.compiler.graph(), x, y);
  };
}

Value clamped(FunctionCall& call) {
  const Value above = map(call, Operation::maximum, {call.arguments[0], call.arguments[1]});
  return map(call, Operation::minimum, {above, call.arguments[2]});
}

Value squares(FunctionCall& call) {
  return map(call, Operation::multiply, {call.arguments[0], call.arguments[0]});
}

Value mean(FunctionCall& call) {
  const Value size = number(call, static_cast<double>(call.arguments[0].size()));
  return map(call, Operation::divide, {reduce(call, Operation::add, call.arguments[0]), size});
}

Value norm(FunctionCall& call) {
  return map(call, Operation::square_root, {reduce(call, Operation::add, squares(call))});
}

Value dot(FunctionCall& call) {
  return reduce(call, Operation::add, map(call, Operation::multiply, call.arguments));
}

Value product_of_components(FunctionCall& call) {
  return reduce(call, Operation::multiply, call.arguments[0]);
}

Value normalized(FunctionCall& call) {
  const Value length = norm(call);
  return map(call, Operation::divide, {call.arguments[0], length});
}

Value repeated(FunctionCall& call) {
  const std::size_t n = count_of(call, 1, "repetitions");
  const Value x = call.compiler.value(*call.parts[0], call.source);
  Value result;
  for (std::size_t i = 0; i < n; ++i) result.insert(result.end(), x.begin(), x.end());
  return result;
}

Value size_of(FunctionCall& call) {
  return number(call, static_cast<double>(call.arguments[0].size()));
}

// -floor(-x)
Value ceiling(FunctionCall& call) {
  const Value below = map(call, Operation::floor, {map(call, Operation::negate, {call.arguments[0]})});
  return map(call, Operation::negate, {below});
}

// x - floor(x / y) y, with the sign of y.
Value modulo(FunctionCall& call) {
  const Value turns = map(call, Operation::floor, {map(call, Operation::divide, call.arguments)});
  return map(call, Operation::subtract,
             {call.arguments[0], map(call, Operation::multiply, {turns, call.arguments[1]})});
}

// x - x is 0 for finite numbers alone.
Value finite(FunctionCall& call) {
  const Value difference = map(call, Operation::subtract, {call.arguments[0], call.arguments[0]});
  return map(call, Operation::equal, {difference, number(call, 0)});
}

// ---- frames ----

// The rotation matrix, row by row, of an orientation: a quaternion (w, x, y, z) or a matrix of 9.
std::array<Node, 9> rotation_matrix(FunctionCall& call, const Value& orientation) {
  std::array<Node, 9> matrix{};
  if (orientation.size() == 9) {
    std::copy(orientation.begin(), orientation.end(), matrix.begin());
    return matrix;
  }
  if (orientation.size() != 4)
    refuse(call, "an orientation that is " + ExpressionCompiler::shape(orientation),
           "a quaternion (w, x, y, z) or a rotation matrix of 9, such as xquat[body] or xmat[body]");
  ExpressionGraph& graph = call.compiler.graph();
  const Arithmetic to{graph};
  const Node two = graph.constant(2), one = graph.constant(1);
  const auto twice = [&](std::size_t i, std::size_t j) {
    const Node product = to.product(orientation[i], orientation[j]);
    return to.product(two, product);
  };
  // 1 - 2 (j^2 + k^2) on the diagonal, 2 (i j -+ w k) beside it
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t j = (i + 1) % 3, k = (i + 2) % 3;
    const Node jj = twice(1 + j, 1 + j), kk = twice(1 + k, 1 + k);
    const Node squares_of_others = to.add(jj, kk);
    matrix[4 * i] = to.subtract(one, squares_of_others);
    const Node ij = twice(1 + i, 1 + j), wk = twice(0, 1 + k);
    matrix[3 * i + j] = to.subtract(ij, wk);
    matrix[3 * j + i] = to.add(ij, wk);
  }
  return matrix;
}

// R v, or R' v, of each three components of v.
Value rotated(FunctionCall& call, const Value& orientation, const Value& vectors, bool inverse) {
  if (vectors.empty() || vectors.size() % 3 != 0)
    refuse(call, "'" + call.tree.text + "' of " + ExpressionCompiler::shape(vectors),
           "a vector of 3, or several of them one after the other");
  const std::array<Node, 9> matrix = rotation_matrix(call, orientation);
  const Arithmetic to{call.compiler.graph()};
  Value result;
  for (std::size_t first = 0; first < vectors.size(); first += 3)
    for (std::size_t i = 0; i < 3; ++i) {
      Node sum = -1;
      for (std::size_t k = 0; k < 3; ++k) {
        const Node term = to.product(matrix[inverse ? 3 * k + i : 3 * i + k], vectors[first + k]);
        sum = k == 0 ? term : to.add(sum, term);
      }
      result.push_back(sum);
    }
  return result;
}

Formula rotation(bool inverse) {
  return
      [inverse](FunctionCall& call) { return rotated(call, call.arguments[0], call.arguments[1], inverse); };
}

Value in_frame(FunctionCall& call) {
  const auto& [position, orientation, point] =
      std::tie(call.arguments[0], call.arguments[1], call.arguments[2]);
  Value apart;
  if (position.size() != 3 || point.size() % 3 != 0)
    refuse(
        call,
        "'to_frame' of " + ExpressionCompiler::shape(position) + " and " + ExpressionCompiler::shape(point),
        "a position of 3 and points of 3");
  for (std::size_t i = 0; i < point.size(); ++i)
    apart.push_back(call.compiler.graph().apply(Operation::subtract, point[i], position[i % 3]));
  return rotated(call, orientation, apart, true);
}

Value conjugate(FunctionCall& call) {
  const Value& q = call.arguments[0];
  if (q.size() != 4)
    refuse(call, "'quat_conjugate' of " + ExpressionCompiler::shape(q), "a quaternion (w, x, y, z)");
  const Value turned = map(call, Operation::negate, {{q[1], q[2], q[3]}});
  return {q[0], turned[0], turned[1], turned[2]};
}

// Angles of turns about x, then y, then z: what quat_from_euler takes.
Value euler_angles(FunctionCall& call) {
  const std::array<Node, 9> r = rotation_matrix(call, call.arguments[0]);
  ExpressionGraph& graph = call.compiler.graph();
  const Node roll = graph.apply(Operation::arc_tangent2, r[7], r[8]);
  const Node sine = graph.apply(Operation::negate, r[6]);
  const Node low = graph.apply(Operation::maximum, sine, graph.constant(-1));
  const Node pitch =
      graph.apply(Operation::arc_sine, graph.apply(Operation::minimum, low, graph.constant(1)));
  const Node yaw = graph.apply(Operation::arc_tangent2, r[3], r[0]);
  return {roll, pitch, yaw};
}

// ---- contacts ----

// The geoms that a name, or each name of a list, stands for: a geom, the geoms of a body, or with
// subtree:NAME those of a body and all that hangs on it.
std::vector<bool> geoms_named(FunctionCall& call, const Syntax& part) {
  const TaskModel& model = call.compiler.context().model();
  std::vector<bool> members(model.geoms.size());
  if (part.kind == Syntax::Kind::vector) {
    for (const auto& child : part.children) {
      const std::vector<bool> more = geoms_named(call, *child);
      for (std::size_t g = 0; g < members.size(); ++g) members[g] = members[g] || more[g];
    }
    return members;
  }
  if (part.kind != Syntax::Kind::name && part.kind != Syntax::Kind::text)
    refuse_expression(call.source, part.column, "no name of a geom or body",
                      "a name, 'subtree:<body>', or a list of them: [left_foot, right_foot]");
  const auto index_of = [](const std::vector<std::string>& names, const std::string& name) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  if (const std::size_t geom = index_of(model.geoms, part.text); geom < model.geoms.size()) {
    members[geom] = true;
    return members;
  }
  const std::string prefix = "subtree:";
  const bool subtree = part.text.starts_with(prefix);
  const std::size_t body = index_of(model.bodies, subtree ? part.text.substr(prefix.size()) : part.text);
  if (body == model.bodies.size()) {
    std::vector<std::string> known = model.bodies;
    if (!subtree) known.insert(known.end(), model.geoms.begin(), model.geoms.end());
    refuse_expression(call.source, part.column,
                      "the model has no body" + std::string(subtree ? "" : " or geom") + " '" + part.text +
                          "'" + did_you_mean(part.text, known),
                      "allowed: " + list(known, 60));
  }
  for (std::size_t g = 0; g < members.size(); ++g) {
    auto ancestor = static_cast<std::size_t>(model.geom_body[g]);
    while (subtree && ancestor != body && ancestor != 0)
      ancestor = static_cast<std::size_t>(model.body_parent[ancestor]);
    members[g] = ancestor == body;
  }
  return members;
}

// Answers [first, first + count) about contacts between what the call's arguments name; without a second one,
// with everything else.
Formula contact_answer(int first, int count) {
  return [first, count](FunctionCall& call) {
    if (call.compiler.without_data())
      refuse(call, "contacts " + call.compiler.when(), "they are known after the physics");
    const std::vector<bool> a = geoms_named(call, *call.parts[0]);
    std::vector<bool> b = a;
    b.flip();
    if (call.parts[1]) b = geoms_named(call, *call.parts[1]);
    const int query = call.compiler.context().contact_query(a, b);
    if (query < 0)
      refuse(call, "contacts between geoms that never touch",
             "geoms whose contype and conaffinity let them touch, of bodies that are not joined");
    Value result;
    for (int i = 0; i < count; ++i) result.push_back(call.compiler.read(Bank::contact, query + first + i));
    return result;
  };
}

// ---- rays ----

// The numbers that a part of a call is, which must not depend on the environment.
std::vector<double> fixed_numbers(FunctionCall& call, std::size_t part) {
  const Value value = call.compiler.value(*call.parts[part], call.source);
  const ExpressionGraph& graph = call.compiler.graph();
  std::vector<double> numbers;
  for (const Node node : value) {
    if (!graph.is_constant(node))
      refuse_expression(call.source, call.parts[part]->column, "not fixed numbers",
                        "numbers that are the same for every environment at any time");
    numbers.push_back(graph.constant_value(node));
  }
  return numbers;
}

// The frame that a name stands for: a body, 'site:NAME' or 'geom:NAME'.
void frame_named(FunctionCall& call, const Syntax& part, RayRequest& request) {
  const TaskModel& model = call.compiler.context().model();
  const auto named = part.kind == Syntax::Kind::name || part.kind == Syntax::Kind::text;
  if (!named)
    refuse_expression(call.source, part.column, "no name of a frame",
                      "a body, 'site:<site>' or 'geom:<geom>'");
  const auto place = [&](const std::string& kind, const std::vector<std::string>& names,
                         const std::string& name) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      refuse_expression(call.source, part.column,
                        "the model has no " + kind + " '" + name + "'" + did_you_mean(name, names),
                        names.empty() ? "another frame" : "allowed: " + list(names, 60));
    return static_cast<int>(found - names.begin());
  };
  for (const auto& [kind, frame, names] :
       {std::tuple{"site", RayFrame::site, &model.sites}, {"geom", RayFrame::geom, &model.geoms}}) {
    const std::string prefix = std::string(kind) + ":";
    if (!part.text.starts_with(prefix)) continue;
    request.frame = frame;
    request.id = place(kind, *names, part.text.substr(prefix.size()));
    return;
  }
  request.id = place("body", model.bodies, part.text);
}

// Those of kernels/physics/collision/ray.hpp.
bool meets_rays(int geom_type) {
  return geom_type == geom_plane || (geom_type >= geom_sphere && geom_type <= geom_box);
}

// The geoms that rays meet: those that the call names, or what MuJoCo's rays meet of the ground, as Isaac
// Lab's do: visible geoms that no joint moves.
std::vector<int> geoms_met(FunctionCall& call, const Syntax* part) {
  const TaskModel& model = call.compiler.context().model();
  std::vector<bool> members(model.geoms.size());
  if (part) members = geoms_named(call, *part);
  std::vector<int> geoms;
  for (std::size_t g = 0; g < members.size(); ++g) {
    if (part ? !members[g] : !(model.geom_static[g] && model.geom_visible[g])) continue;
    if (!meets_rays(model.geom_type[g]))
      refuse_expression(call.source, part ? part->column : call.tree.column,
                        "geom '" + model.geoms[g] + "' is a " + shape_name(model.geom_type[g]),
                        "planes, spheres, capsules, ellipsoids, cylinders and boxes: geoms = [names]");
    geoms.push_back(static_cast<int>(g));
  }
  if (geoms.empty())
    refuse_expression(call.source, part ? part->column : call.tree.column,
                      part ? "bodies without geoms" : "a model without visible geoms that stand still",
                      "geoms = [names of geoms or bodies]");
  return geoms;
}

RayAlignment alignment_named(FunctionCall& call, const Syntax& part) {
  if (part.kind == Syntax::Kind::name || part.kind == Syntax::Kind::text)
    for (const auto& [name, alignment] :
         {std::pair{"base", RayAlignment::base}, {"yaw", RayAlignment::yaw}, {"world", RayAlignment::world}})
      if (part.text == name) return alignment;
  refuse_expression(call.source, part.column, "no alignment of rays", "base, yaw, world");
}

Value ray_distances(FunctionCall& call) {
  enum Part : std::size_t {
    frame_part,
    points_part,
    direction_part,
    alignment_part,
    distance_part,
    geoms_part
  };
  if (call.compiler.without_data())
    refuse(call, "rays " + call.compiler.when(), "they are known after the physics");
  RayRequest request;
  frame_named(call, *call.parts[frame_part], request);
  const std::vector<double> points = fixed_numbers(call, points_part);
  if (points.empty() || points.size() % 3 != 0)
    refuse_expression(call.source, call.parts[points_part]->column,
                      std::to_string(points.size()) + " numbers",
                      "points of 3 numbers [m], one after the other");
  std::vector<double> direction{0, 0, -1};
  if (call.parts[direction_part]) direction = fixed_numbers(call, direction_part);
  if (direction.size() != 3 && direction.size() != points.size())
    refuse_expression(call.source, call.parts[direction_part]->column,
                      std::to_string(direction.size()) + " numbers",
                      "a direction of 3 numbers, or one per point");
  for (std::size_t i = 0; i < points.size(); i += 3) {
    const double* const along = direction.data() + (direction.size() == 3 ? 0 : i);
    const double length = std::hypot(along[0], along[1], along[2]);
    if (!(length > 0) || !std::isfinite(length))
      refuse_expression(call.source, call.parts[direction_part]->column, "a direction of no length",
                        "a vector that is not zero");
    for (std::size_t k = 0; k < 3; ++k) request.rays.push_back(points[i + k]);
    for (std::size_t k = 0; k < 3; ++k) request.rays.push_back(along[k] / length);
  }
  if (call.parts[alignment_part]) request.alignment = alignment_named(call, *call.parts[alignment_part]);
  request.max_distance = 1e30;
  if (call.parts[distance_part]) request.max_distance = fixed_number(call, distance_part, "a distance [m]");
  if (!(request.max_distance > 0))
    refuse_expression(call.source, call.parts[distance_part]->column, "a distance that is not above 0",
                      "a distance [m]");
  request.geoms = geoms_met(call, call.parts[geoms_part]);
  const int first = call.compiler.context().ray_query(request);
  Value result;
  for (int i = 0; i < request.num_rays(); ++i) result.push_back(call.compiler.read(Bank::ray, first + i));
  return result;
}

// Isaac Lab's and mjlab's GridPatternCfg: x fastest.
constexpr std::size_t kMostPoints = 10000;
Value grid_pattern(FunctionCall& call) {
  const double size[2] = {fixed_number(call, 0, "a length [m]"), fixed_number(call, 1, "a length [m]")};
  const double resolution = fixed_number(call, 2, "a distance [m]");
  if (!(resolution > 0))
    refuse_expression(call.source, call.parts[2]->column, fmt::format("a resolution of {} m", resolution),
                      "above 0");
  std::size_t count[2];
  for (std::size_t k = 0; k < 2; ++k) {
    const double steps = std::round(size[k] / resolution);
    if (!(size[k] >= 0 && std::abs(steps * resolution - size[k]) < 1e-6))
      refuse_expression(call.source, call.parts[k]->column,
                        fmt::format("{} m at a resolution of {} m", size[k], resolution),
                        "0, or a multiple of the resolution");
    if (!(steps < kMostPoints))
      refuse_expression(call.source, call.parts[k]->column, fmt::format("{} points in a row", steps + 1),
                        fmt::format("at most {} points of a grid", kMostPoints));
    count[k] = static_cast<std::size_t>(steps) + 1;
  }
  if (count[0] * count[1] > kMostPoints)
    refuse(call, fmt::format("{} x {} points", count[0], count[1]),
           fmt::format("at most {} points of a grid", kMostPoints));
  Value points;
  for (std::size_t y = 0; y < count[1]; ++y)
    for (std::size_t x = 0; x < count[0]; ++x)
      for (const double number : {-size[0] / 2 + static_cast<double>(x) * resolution,
                                  -size[1] / 2 + static_cast<double>(y) * resolution, 0.0})
        points.push_back(call.compiler.graph().constant(number));
  return points;
}

// ---- times of contacts ----

// The arguments of a call as text.
std::string argument_text(const FunctionCall& call) {
  std::string text;
  for (const Syntax* const part : call.parts)
    if (part) text += (text.empty() ? "" : ",") + part->canonical();
  return text;
}

// The value of a variable that the function keeps for itself; 0 while it is not there yet.
Value own_variable(FunctionCall& call, const std::string& name) {
  if (!call.compiler.context().variables().contains(name)) return number(call, 0);
  const ParsedExpression& parsed = call.compiler.context().parse({name, call.source.where, call.source.key});
  return call.compiler.value(*parsed.tree, parsed.source);
}

// Isaac Lab's ContactSensor: seconds since the last contact, of the contact, and of the last time in the air.
std::string time_variable(FunctionCall& call, const std::string& what) {
  ExpressionContext& context = call.compiler.context();
  const std::string contact = "in_contact(" + argument_text(call) + ")";
  const std::string call_text = what + "(" + argument_text(call) + ")";
  const auto own = [&](const std::string& update) {
    // the name does not depend on the update, which reads it
    const std::string name = context.own_variable(call_text, "0", "", call.source);
    std::string text = update;
    for (std::size_t at = text.find('%'); at != std::string::npos; at = text.find('%'))
      text = text.substr(0, at) + name + text.substr(at + 1);
    return context.own_variable(call_text, "0", text, call.source);
  };
  if (what == "air_time") return own(contact + " ? 0 : prev(%) + dt");
  if (what == "contact_time") return own(contact + " ? prev(%) + dt : 0");
  const std::string air = time_variable(call, "air_time");
  return own(contact + " && prev(" + air + ") > 0 ? prev(" + air + ") + dt : prev(%)");
}

Formula contact_time(const std::string& what) {
  return [what](FunctionCall& call) {
    geoms_named(call, *call.parts[0]);
    return own_variable(call, time_variable(call, what));
  };
}

// ---- dm_control.utils.rewards.tolerance ----

// A sigmoid of the distance d, 1 at d = 0 and v at d = 1: scale(v) once, shape(call, scale * d) per value.
struct Sigmoid {
  std::string_view name;
  bool zero_allowed;  // v = 0 is
  double (*scale)(double v);
  Value (*shape)(FunctionCall& call, const Value& x);
};

Value one_minus(FunctionCall& call, const Value& x) {
  return map(call, Operation::subtract, {number(call, 1), x});
}
Value one_over_one_plus(FunctionCall& call, const Value& x) {
  return map(call, Operation::divide, {number(call, 1), map(call, Operation::add, {x, number(call, 1)})});
}
Value square_of(FunctionCall& call, const Value& x) {
  return map(call, Operation::multiply, {x, x});
}
// y where |x| < 1, else 0.
Value within_one(FunctionCall& call, const Value& x, const Value& y) {
  const Value inside = map(call, Operation::less, {map(call, Operation::absolute, {x}), number(call, 1)});
  return map(call, Operation::select, {inside, y, number(call, 0)});
}

constexpr Sigmoid kSigmoids[] = {
    {"gaussian", false, [](double v) { return std::sqrt(-2 * std::log(v)); },
     [](FunctionCall& call, const Value& x) {
       const Value half = map(call, Operation::multiply, {square_of(call, x), number(call, -0.5)});
       return map(call, Operation::exponential, {half});
     }},
    {"hyperbolic", false, [](double v) { return std::acosh(1 / v); },
     [](FunctionCall& call, const Value& x) {
       const Value up = map(call, Operation::exponential, {x});
       const Value down = map(call, Operation::exponential, {map(call, Operation::negate, {x})});
       return map(call, Operation::divide, {number(call, 2), map(call, Operation::add, {up, down})});
     }},
    {"long_tail", false, [](double v) { return std::sqrt(1 / v - 1); },
     [](FunctionCall& call, const Value& x) { return one_over_one_plus(call, square_of(call, x)); }},
    {"reciprocal", false, [](double v) { return 1 / v - 1; },
     [](FunctionCall& call, const Value& x) {
       return one_over_one_plus(call, map(call, Operation::absolute, {x}));
     }},
    {"cosine", true, [](double v) { return std::acos(2 * v - 1) / std::numbers::pi; },
     [](FunctionCall& call, const Value& x) {
       const Value angle = map(call, Operation::multiply, {x, number(call, std::numbers::pi)});
       const Value raised =
           map(call, Operation::add, {map(call, Operation::cosine, {angle}), number(call, 1)});
       return within_one(call, x, map(call, Operation::multiply, {raised, number(call, 0.5)}));
     }},
    {"linear", true, [](double v) { return 1 - v; },
     [](FunctionCall& call, const Value& x) { return within_one(call, x, one_minus(call, x)); }},
    {"quadratic", true, [](double v) { return std::sqrt(1 - v); },
     [](FunctionCall& call, const Value& x) {
       return within_one(call, x, one_minus(call, square_of(call, x)));
     }},
    {"tanh_squared", false, [](double v) { return std::atanh(std::sqrt(1 - v)); },
     [](FunctionCall& call, const Value& x) {
       return one_minus(call, square_of(call, map(call, Operation::hyperbolic_tangent, {x})));
     }},
};

const Sigmoid& sigmoid_of(FunctionCall& call, const Syntax& part) {
  std::vector<std::string> names;
  for (const Sigmoid& sigmoid : kSigmoids) names.emplace_back(sigmoid.name);
  if (part.kind == Syntax::Kind::name || part.kind == Syntax::Kind::text)
    for (const Sigmoid& sigmoid : kSigmoids)
      if (part.text == sigmoid.name) return sigmoid;
  refuse_expression(call.source, part.column,
                    part.text.empty()
                        ? "not the name of a sigmoid"
                        : "unknown sigmoid '" + part.text + "'" + did_you_mean(part.text, names),
                    list(names));
}

Value tolerance(FunctionCall& call) {
  enum Part : std::size_t { x_part, lower_part, upper_part, margin_part, sigmoid_part, value_part };
  ExpressionGraph& graph = call.compiler.graph();
  const Sigmoid& sigmoid = sigmoid_of(call, *call.parts[sigmoid_part]);
  const std::string range = sigmoid.zero_allowed ? "0 <= value_at_margin < 1" : "0 < value_at_margin < 1";
  const double v = fixed_number(call, value_part, range);
  if (!(v < 1 && (v > 0 || (v == 0 && sigmoid.zero_allowed))))
    refuse_expression(call.source, call.parts[value_part]->column,
                      "value_at_margin out of the range of '" + std::string(sigmoid.name) + "'", range);
  const auto part = [&](Part which) { return call.compiler.value(*call.parts[which], call.source); };
  const Value x = part(x_part), lower = part(lower_part), upper = part(upper_part),
              margin = part(margin_part);
  const auto all_of = [&](const Value& value, double number) {
    return std::all_of(value.begin(), value.end(), [&](Node node) {
      return graph.is_constant(node) && graph.constant_value(node) == number;
    });
  };
  for (std::size_t i = 0; i < lower.size() && i < upper.size(); ++i)
    if (graph.is_constant(lower[i]) && graph.is_constant(upper[i]) &&
        graph.constant_value(lower[i]) > graph.constant_value(upper[i]))
      refuse_expression(call.source, call.parts[lower_part]->column, "a lower bound above the upper one",
                        "lower <= upper");
  for (const Node node : margin)
    if (graph.is_constant(node) && !(graph.constant_value(node) >= 0))
      refuse_expression(call.source, call.parts[margin_part]->column, "a margin below 0", "0 or more");

  const Value above = map(call, Operation::less_equal, {lower, x}),
              below = map(call, Operation::less_equal, {x, upper});
  const Value inside = map(call, Operation::logical_and, {above, below});
  if (all_of(margin, 0)) return inside;
  const Value short_of = map(call, Operation::subtract, {lower, x});
  Value outside = short_of;
  if (!all_of(upper, std::numeric_limits<double>::infinity())) {
    const Value beyond = map(call, Operation::subtract, {x, upper});
    const Value is_below = map(call, Operation::less, {x, lower});
    outside = map(call, Operation::select, {is_below, short_of, beyond});
  }
  const Value distance = map(call, Operation::divide, {outside, margin});
  const Value scaled = map(call, Operation::multiply, {distance, number(call, sigmoid.scale(v))});
  return map(call, Operation::select, {inside, number(call, 1), sigmoid.shape(call, scaled)});
}

Value wrapped_angle(FunctionCall& call) {
  const Value& x = call.arguments[0];
  const Value turn = number(call, 2 * std::numbers::pi);
  const Value shifted = map(call, Operation::add, {x, number(call, std::numbers::pi)});
  const Value turns = map(call, Operation::floor, {map(call, Operation::divide, {shifted, turn})});
  return map(call, Operation::subtract, {x, map(call, Operation::multiply, {turns, turn})});
}

Value quaternion_from_euler(FunctionCall& call) {
  for (const Value& angle : call.arguments)
    if (angle.size() != 1)
      refuse(call, "'quat_from_euler' of " + ExpressionCompiler::shape(angle), "three numbers");
  return quaternion_of_turns(call.compiler.graph(),
                             {call.arguments[0][0], call.arguments[1][0], call.arguments[2][0]});
}

// How many numbers a random function draws: as many as its longer parameter has, or as its third one says.
std::size_t draws_of(FunctionCall& call, const Value& a, const Value& b) {
  const std::size_t size = std::max(a.size(), b.size());
  if (a.size() != 1 && b.size() != 1 && a.size() != b.size())
    refuse(call,
           "'" + call.tree.text + "' of " + ExpressionCompiler::shape(a) + " and " +
               ExpressionCompiler::shape(b),
           "equal sizes");
  if (!call.parts[2]) return size;
  const std::size_t n = count_of(call, 2, "random numbers");
  if (size != 1 && size != n)
    refuse_expression(call.source, call.parts[2]->column, "not a number of random numbers",
                      std::to_string(size));
  return n;
}

// Random numbers of two parameters: sample(graph, first, second, draw) for each. check(call, first, second)
// refuses parameters that are known already.
template <class Sample>
Formula random(const Sample& sample, void (*check)(FunctionCall&, double first, double second)) {
  return [sample, check](FunctionCall& call) {
    if (const auto* const without = call.compiler.without_draws())
      refuse(call, "random numbers " + without->where, without->allowed);
    ExpressionGraph& graph = call.compiler.graph();
    const Value a = call.compiler.value(*call.parts[0], call.source),
                b = call.compiler.value(*call.parts[1], call.source);
    const std::size_t size = draws_of(call, a, b);
    const auto draw = [&] { return call.compiler.draw(); };
    const auto known = [&](Node node) {
      return graph.is_constant(node) ? graph.constant_value(node) : std::nan("");
    };
    Value result;
    for (std::size_t i = 0; i < size; ++i) {
      const Node first = a[a.size() == 1 ? 0 : i], second = b[b.size() == 1 ? 0 : i];
      check(call, known(first), known(second));
      result.push_back(sample(graph, first, second, draw));
    }
    return result;
  };
}

void check_range(FunctionCall& call, double low, double high) {
  if (low > high) refuse(call, fmt::format("the range from {} to {}", low, high), "the lower end first");
}

void check_deviation(FunctionCall& call, double, double deviation) {
  if (deviation < 0) refuse(call, fmt::format("the standard deviation {}", deviation), "at least 0");
}

constexpr auto kUniform = [](ExpressionGraph& graph, Node low, Node high, const auto& draw) {
  const Arithmetic to{graph};
  const Node width = to.subtract(high, low);
  return to.add(low, to.product(width, draw()));
};

constexpr auto kNormal = [](ExpressionGraph& graph, Node mean, Node deviation, const auto& draw) {
  const Arithmetic to{graph};
  const Node standard = standard_normal(graph, draw);
  return to.add(mean, to.product(deviation, standard));
};

Value previous(FunctionCall& call) {
  const Phase phase = call.compiler.phase();
  if (call.compiler.without_data())
    refuse(call, "'prev' " + call.compiler.when(), "a variable keeps what must be known there");
  ExpressionGraph& graph = call.compiler.graph();
  const Syntax& what = *call.parts[0];
  if (const auto last = call.compiler.last_value(what, call.source)) return *last;
  const ExpressionCompiler::WithoutDraws guard(call.compiler, "inside prev(...)",
                                               "a variable that is drawn, and prev(name) of it");
  const Value now = call.compiler.value(what, call.source);
  const ExpressionContext::Memory& memory = call.compiler.context().remember(what, call.source, now.size());
  Value result;
  for (int i = 0; i < memory.size; ++i) {
    const Node kept = graph.operand(Bank::task, memory.first + i);
    // In a fresh episode there is no previous step: the value of the reset stands in.
    result.push_back(phase == Phase::observe
                         ? graph.apply(Operation::select, graph.operand(Bank::registers, register_flag),
                                       now[static_cast<std::size_t>(i)], kept)
                         : kept);
  }
  return result;
}

}  // namespace

const std::vector<ExpressionFunction>& expression_functions() {
  static const std::vector<ExpressionFunction> functions{
      {"abs", "x", "abs([-2, 3])", "absolute value", componentwise(Operation::absolute)},
      {"acos", "x", "acos(0)", "arc cosine [rad]", componentwise(Operation::arc_cosine)},
      {"air_time", "a[, b]", "air_time(foot)",
       "time [s] since the last contact of a with b, or with anything; 0 in contact",
       contact_time("air_time"), true},
      {"all", "x", "all([1, 0])", "1 if no component is 0", truth_of(Operation::logical_and)},
      {"any", "x", "any([1, 0])", "1 if some component is not 0", truth_of(Operation::logical_or)},
      {"asin", "x", "asin(1)", "arc sine [rad]", componentwise(Operation::arc_sine)},
      {"atan2", "y, x", "atan2(1, -1)", "angle of the point (x, y) [rad]",
       componentwise(Operation::arc_tangent2)},
      {"ceil", "x", "ceil(1.2)", "smallest integer not below x", ceiling},
      {"clamp", "x, low, high", "clamp([-2, 0.5, 2], -1, 1)", "x limited to [low, high]", clamped},
      {"contact_force", "a[, b]", "contact_force(foot, floor)",
       "net force [N] of contacts on a, world axes, of those with b or with all; a and b: geom, body, "
       "'subtree:<body>' or a list of names",
       contact_answer(contact_force_x, 3), true},
      {"contact_time", "a[, b]", "contact_time(foot)", "time [s] for which a has been in contact; 0 without",
       contact_time("contact_time"), true},
      {"cos", "x", "cos(pi)", "cosine of x [rad]", componentwise(Operation::cosine)},
      {"cross", "a, b", "cross([1, 0, 0], [0, 1, 0])", "cross product of two vectors of 3",
       product_of_vectors(3, cross_product)},
      {"dot", "a, b", "dot([1, 2], [3, 4])", "scalar product", dot},
      {"euler_from_quat", "orientation", "euler_from_quat([0, 0, 0, 1])",
       "roll, pitch, yaw [rad] of a quaternion or rotation matrix: turns about x, then y, then z",
       euler_angles},
      {"exp", "x", "exp(1)", "e to the x", componentwise(Operation::exponential)},
      {"floor", "x", "floor(-1.2)", "largest integer not above x", componentwise(Operation::floor)},
      {"grid_pattern", "length, width, resolution", "grid_pattern(0.2, 0.1, 0.1)",
       "points (x, y, 0) [m] of a grid about the origin, row by row along x", grid_pattern, true},
      {"in_contact", "a[, b]", "in_contact(foot, floor)",
       "1 where a contact of a with b, or with anything, is listed", contact_answer(contact_found, 1), true},
      {"is_finite", "x", "is_finite([1, 1 / 0])", "1 where x is neither infinite nor undefined", finite},
      {"last_air_time", "a[, b]", "last_air_time(foot)",
       "time [s] that a was in the air before its last contact", contact_time("last_air_time"), true},
      {"log", "x", "log(10)", "natural logarithm", componentwise(Operation::logarithm)},
      {"max", "x or a, b, ...", "max([1, 3], 2)",
       "largest component, or component by component the largest argument", extreme(Operation::maximum)},
      {"mean", "x", "mean([1, 2, 6])", "mean of the components", mean},
      {"min", "x or a, b, ...", "min([1, 3])",
       "smallest component, or component by component the smallest argument", extreme(Operation::minimum)},
      {"mod", "x, y", "mod(-1, 3)", "remainder of x / y, with the sign of y", modulo},
      {"norm", "x", "norm([3, 4])", "Euclidean length", norm},
      {"normal", "mean, std[, n]", "normal(0, 0.1, 3)", "Gaussian random numbers",
       random(kNormal, check_deviation), true},
      {"normalize", "x", "normalize([3, 4])", "x divided by its Euclidean length", normalized},
      {"pow", "a, b", "pow(2, 0.5)", "a ^ b", componentwise(Operation::power)},
      {"prev", "x", "prev(qpos)", "x at the previous control step; right after a reset, at the reset",
       previous, true},
      {"product", "x", "product([2, 3])", "product of the components", product_of_components},
      {"quat_conjugate", "q", "quat_conjugate([0.6, 0.8, 0, 0])", "the inverse turn of a unit quaternion",
       conjugate},
      {"quat_from_euler", "roll, pitch, yaw", "quat_from_euler(0, 0, pi)",
       "quaternion (w, x, y, z) of turns about x, then y, then z [rad]", quaternion_from_euler},
      {"quat_mul", "a, b", "quat_mul([0, 1, 0, 0], [0, 0, 1, 0])", "product of two quaternions (w, x, y, z)",
       product_of_vectors(4, quaternion_product)},
      {"ray_distance", "frame, points[, direction, alignment, max_distance, geoms]",
       "ray_distance(torso, grid_pattern(0.2, 0.1, 0.1), alignment = yaw, max_distance = 5)",
       "distance [m] from each point of a frame (body, 'site:<site>', 'geom:<geom>') along a direction, "
       "[0, 0, -1] unless given, to the nearest geom (mj_ray); -1: none within max_distance. alignment of "
       "points and directions: base, the axes of the frame (default); yaw, the world's, turned as the frame "
       "is about z; world. geoms: names, as of contact_force; not given: visible ones that no joint moves",
       ray_distances, true},
      {"repeat", "x, n", "repeat([1, 2], 2)", "the components of x, n times over", repeated, true},
      {"rotate", "orientation, v", "rotate([0, 0, 0, 1], [1, 2, 3])",
       "v, given in the axes of a frame, in those of the world; orientation: quaternion or matrix of 9",
       rotation(false)},
      {"rotate_inverse", "orientation, v", "rotate_inverse(xmat[torso], body_lin_vel[torso])",
       "v, given in the world's axes, in those of the frame", rotation(true)},
      {"select", "c, a, b", "select(1 < 2, 3, 4)", "a where c is true, else b; the same as c ? a : b",
       componentwise(Operation::select)},
      {"sign", "x", "sign(-2)", "-1, 0 or 1", componentwise(Operation::sign)},
      {"sin", "x", "sin(pi / 2)", "sine of x [rad]", componentwise(Operation::sine)},
      {"size", "x", "size([1, 2])", "number of components", size_of},
      {"sqrt", "x", "sqrt(2)", "square root", componentwise(Operation::square_root)},
      {"square", "x", "square(3)", "x * x", squares},
      {"sum", "x", "sum([1, 2, 3])", "sum of the components", reduced(Operation::add)},
      {"tan", "x", "tan(1)", "tangent of x [rad]", componentwise(Operation::tangent)},
      {"tanh", "x", "tanh(1)", "hyperbolic tangent", componentwise(Operation::hyperbolic_tangent)},
      {"to_frame", "position, orientation, point", "to_frame(xpos[torso], xquat[torso], site_xpos[hand])",
       "a point of the world as a frame sees it: rotate_inverse(orientation, point - position)", in_frame},
      {"tolerance", "x, lower = 0, upper = 0, margin = 0, sigmoid = gaussian, value_at_margin = 0.1",
       "tolerance(0.5, lower = 1, upper = inf, margin = 1, sigmoid = linear)",
       "1 where lower <= x <= upper, else a sigmoid that falls to value_at_margin at the distance margin "
       "(dm_control.utils.rewards): gaussian, hyperbolic, long_tail, reciprocal, cosine, linear, quadratic "
       "or tanh_squared",
       tolerance, true},
      {"uniform", "low, high[, n]", "uniform(-1, 1, n = 2)", "uniform random numbers in [low, high)",
       random(kUniform, check_range), true},
      {"wrap_to_pi", "x", "wrap_to_pi(4)", "the angle x [rad] brought to [-pi, pi)", wrapped_angle},
  };
  return functions;
}

const ExpressionFunction* find_function(const std::string& name) {
  const std::vector<ExpressionFunction>& functions = expression_functions();
  const auto found = std::find_if(functions.begin(), functions.end(),
                                  [&](const ExpressionFunction& function) { return function.name == name; });
  return found == functions.end() ? nullptr : &*found;
}

Node ExpressionCompiler::drawn_normal(double deviation) {
  const Node standard = standard_normal(graph_, [this] { return draw(); });
  return graph_.apply(Operation::multiply, graph_.constant(deviation), standard);
}

namespace {

struct Parameter {
  std::string name;
  bool optional = false;
  std::string default_value = {};  // what stands in for it, as an expression; "": nothing
};

// "x, low = 0[, n]": x, low with its default, n optional.
std::vector<Parameter> parameters_of(const ExpressionFunction& function) {
  std::vector<Parameter> parameters;
  bool optional = false;
  std::string text;
  const auto finish = [&] {
    const std::size_t assigned = text.find('=');
    Parameter parameter{text.substr(0, assigned), optional || assigned != std::string::npos};
    if (assigned != std::string::npos) parameter.default_value = text.substr(assigned + 1);
    if (!parameter.name.empty()) parameters.push_back(std::move(parameter));
    text.clear();
  };
  for (const char c : function.arguments) {
    if (c == ',' || c == '[') finish();
    if (c == '[') optional = true;
    if (std::string_view(",[] ").find(c) == std::string_view::npos) text += c;
  }
  finish();
  return parameters;
}

// The arguments of a call in the order of the parameters.
std::vector<const Syntax*> arranged(const ExpressionFunction& function, const Syntax& tree,
                                    const ExpressionSource& source, ExpressionContext& context) {
  const auto misused = [&](int column, const std::string& found) {
    refuse_expression(source, column, found, tree.text + "(" + function.arguments + ")");
  };
  std::vector<const Syntax*> parts;
  const bool any_number = function.arguments.find("...") != std::string::npos;
  const std::vector<Parameter> parameters = any_number ? std::vector<Parameter>{} : parameters_of(function);
  if (!any_number) parts.resize(parameters.size(), nullptr);
  const std::string count = "'" + tree.text + "' with " + std::to_string(tree.children.size()) + " arguments";
  if (any_number ? tree.children.empty() : tree.children.size() > parameters.size())
    misused(tree.column, count);
  bool by_name = false;
  for (std::size_t i = 0; i < tree.children.size(); ++i) {
    const Syntax* const child = tree.children[i].get();
    const std::string& name = tree.parameters[i];
    if (any_number && name.empty()) parts.push_back(child);
    if (any_number && !name.empty()) misused(tree.column, "'" + tree.text + "' has no '" + name + "'");
    if (any_number) continue;
    if (name.empty() && by_name) misused(child->column, "an argument by its place after one by its name");
    by_name = by_name || !name.empty();
    std::vector<std::string> names;
    for (const Parameter& parameter : parameters) names.push_back(parameter.name);
    const auto index =
        name.empty() ? i
                     : static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (index == names.size())
      misused(child->column, "'" + tree.text + "' has no '" + name + "'" + did_you_mean(name, names));
    if (parts[index]) misused(child->column, "'" + name + "' a second time");
    parts[index] = child;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parts[i]) continue;
    if (!parameters[i].optional) misused(tree.column, count);
    if (!parameters[i].default_value.empty())
      parts[i] = context.parse({parameters[i].default_value, source.where, source.key}).tree.get();
  }
  return parts;
}

}  // namespace

Value ExpressionCompiler::call_value(const Syntax& tree, const ExpressionSource& source) {
  const std::string& name = tree.text;
  const ExpressionFunction* const function = find_function(name);
  if (!function) {
    std::vector<std::string> names;
    for (const ExpressionFunction& known : expression_functions()) names.push_back(known.name);
    // what numpy, torch and shaders call it
    static const std::map<std::string, std::string> elsewhere{
        {"clip", "clamp"},         {"arcsin", "asin"},   {"arccos", "acos"},          {"arctan2", "atan2"},
        {"where", "select"},       {"length", "norm"},   {"prod", "product"},         {"fmod", "mod"},
        {"remainder", "mod"},      {"tile", "repeat"},   {"maximum", "max"},          {"minimum", "min"},
        {"isfinite", "is_finite"}, {"previous", "prev"}, {"wrap_angle", "wrap_to_pi"}};
    const auto other = elsewhere.find(name);
    refuse_expression(source, tree.column,
                      "unknown function '" + name + "'" +
                          (other == elsewhere.end() ? did_you_mean(name, names)
                                                    : ", did you mean '" + other->second + "'?"),
                      "known: " + list(names));
  }
  FunctionCall call{*this, tree, source, arranged(*function, tree, source, context_), {}};
  if (!function->takes_syntax)
    for (const Syntax* const part : call.parts) call.arguments.push_back(value(*part, source));
  return function->value(call);
}

}  // namespace maniple
