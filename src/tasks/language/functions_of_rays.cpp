// Formulas of rays: distances from points of a frame to the nearest geom, and patterns of such points. The
// rays are fixed when the task is compiled; the physics computes them once a step
// (kernels/tasks/ray_queries.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "kernels/physics/collision/ray.hpp"
#include "src/tasks/language/formulas.hpp"
#include "src/tasks/language/names.hpp"

namespace maniple::formulas {
namespace {

constexpr std::size_t kMostPoints = 10000;  // of a grid

// The frame that a name stands for: a body, 'site:NAME' or 'geom:NAME'.
void frame_named(FunctionCall& call, const Syntax& part, RayRequest& request) {
  const TaskModel& model = call.compiler.context().model();
  const auto named = part.kind == Syntax::Kind::name || part.kind == Syntax::Kind::text;
  if (!named)
    refuse_expression(call.source, part.column, "not the name of a frame",
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

// The geoms that rays meet: those that the call names, or what MuJoCo's rays meet of the ground, as Isaac
// Lab's do: visible geoms that no joint moves.
std::vector<int> geoms_met(FunctionCall& call, const Syntax* part) {
  const TaskModel& model = call.compiler.context().model();
  std::vector<bool> members(model.geoms.size());
  if (part) members = geoms_named(call, *part);
  std::vector<int> geoms;
  for (std::size_t g = 0; g < members.size(); ++g) {
    if (part ? !members[g] : !(model.geom_static[g] && model.geom_visible[g])) continue;
    if (!ray_meets(model.geom_type[g]))
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
  refuse_expression(call.source, part.column, "not an alignment of rays", "base, yaw, world");
}

}  // namespace

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

}  // namespace maniple::formulas
