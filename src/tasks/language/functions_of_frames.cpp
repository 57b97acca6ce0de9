// Formulas of frames: quaternions, rotation matrices, and points and vectors as a frame sees them.
// Quaternions are (w, x, y, z), as MuJoCo's.
#include <algorithm>
#include <array>
#include <tuple>

#include "src/tasks/language/formulas.hpp"

namespace maniple::formulas {
namespace {

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

}  // namespace

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

Value quaternion_from_euler(FunctionCall& call) {
  for (const Value& angle : call.arguments)
    if (angle.size() != 1)
      refuse(call, "'quat_from_euler' of " + ExpressionCompiler::shape(angle), "three numbers");
  return quaternion_of_turns(call.compiler.graph(),
                             {call.arguments[0][0], call.arguments[1][0], call.arguments[2][0]});
}

Value matrix_of_quaternion(FunctionCall& call) {
  const std::array<Node, 9> matrix = rotation_matrix(call, call.arguments[0]);
  return {matrix.begin(), matrix.end()};
}

Value angle_between(FunctionCall& call) {
  const Value &x = call.arguments[0], &y = call.arguments[1];
  if (x.size() != 4 || y.size() != 4)
    refuse(
        call,
        "'quat_error_magnitude' of " + ExpressionCompiler::shape(x) + " and " + ExpressionCompiler::shape(y),
        "two quaternions (w, x, y, z)");
  ExpressionGraph& graph = call.compiler.graph();
  const Arithmetic to{graph};
  Value other = y;
  for (std::size_t k = 1; k < 4; ++k) other[k] = graph.apply(Operation::negate, y[k]);
  const Value turn = quaternion_product(graph, x, other);
  Node sum = to.product(turn[1], turn[1]);
  for (std::size_t k = 2; k < 4; ++k) sum = to.add(sum, to.product(turn[k], turn[k]));
  const Node half = graph.apply(Operation::arc_tangent2, graph.apply(Operation::square_root, sum),
                                graph.apply(Operation::absolute, turn[0]));
  return {to.product(graph.constant(2), half)};
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

}  // namespace maniple::formulas
