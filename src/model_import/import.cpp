#include "src/model_import/import.hpp"

#include <fmt/format.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/model/data.hpp"
#include "kernels/model/model_walk.hpp"
#include "src/base/fnv.hpp"
#include "src/model_import/derive.hpp"
#include "src/model_import/meshes.hpp"
#include "src/model_import/mujoco_model.hpp"

namespace maniple {
namespace {

// Numbers enter as their bytes. (Not inlined: called for each of some two hundred fields.)
template <class T>
[[gnu::noinline]] void add(Fnv& hash, const T* values, std::size_t count) {
  hash.add(values, count * sizeof(T));
}
template <class T>
[[gnu::noinline]] void add(Fnv& hash, const std::vector<T>& values) {
  const std::uint64_t count = values.size();
  add(hash, &count, 1);
  add(hash, values.data(), values.size());
}

template <class T>
void add_option(Fnv& hash, const T& value) {
  add(hash, &value, 1);
}
template <std::size_t kLength>
void add_option(Fnv& hash, const std::array<double, kLength>& vector) {
  add(hash, vector.data(), vector.size());
}

// MuJoCo's, of mjOption: Newton's method has converged by then.
constexpr int kDefaultIterations = 100, kDefaultLineIterations = 50;

std::vector<std::string> names_of(const mjModel& m, mjtObj type, std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) {
    const char* name = mj_id2name(&m, type, static_cast<int>(i));
    names.emplace_back(name == nullptr ? "" : name);
  }
  return names;
}

// What is done with each of the tables' many arrays is not inlined, which would take minutes to compile.
template <class To, class From>
[[gnu::noinline]] void copy_array(std::vector<To>& to, const From* from, std::int64_t count) {
  to.assign(from, from + count);
}
template <class T>
[[gnu::noinline]] T* sized(std::vector<T>& values, std::int64_t count) {
  values.resize(static_cast<std::size_t>(count));
  return values.data();
}
std::vector<double> numbers(const mjtNum* values, std::int64_t count) {
  return {values, values + count};
}

std::string digest_of(const ImportedModel& imported) {
  Fnv hash;
  for_each_size<ModelSizes>([&](auto size) { add(hash, &(imported.sizes.*size), 1); });
  for_each_option<ModelNumbers>([&](auto option) { add_option(hash, imported.*option); });
  for_each_array<ModelNumbers>(imported.sizes, [&](std::int64_t, auto array) { add(hash, imported.*array); });
  return hash.text();
}

}  // namespace

std::string shape_name(int geom_type) {
  switch (geom_type) {
    case mjGEOM_PLANE:
      return "plane";
    case mjGEOM_HFIELD:
      return "height field";
    case mjGEOM_SPHERE:
      return "sphere";
    case mjGEOM_CAPSULE:
      return "capsule";
    case mjGEOM_ELLIPSOID:
      return "ellipsoid";
    case mjGEOM_CYLINDER:
      return "cylinder";
    case mjGEOM_BOX:
      return "box";
    case mjGEOM_MESH:
      return "mesh";
    case mjGEOM_SDF:
      return "signed distance field";
    default:
      return "geom of another shape";
  }
}

std::string integrator_name(int integrator) {
  switch (integrator) {
    case Euler:
      return "Euler";
    case RK4:
      return "RK4";
    case implicit:
      return "implicit";
    case implicitfast:
      return "implicitfast";
    default:
      throw Error("no integrator has number " + std::to_string(integrator));
  }
}

namespace {

// Why results differ from MuJoCo's where a deck wants the solution of a solver that the model stops early, or
// why the key has no effect, in one line; "" where there is nothing to say.
std::string solver_note(const ImportedModel& model, SolverPath path) {
  if (model.sizes.nrowdof == 0 || path == SolverPath::of_model) return "";
  if (model.solver == solver_pgs)
    return fmt::format(
        "simulation.solver_path: {} has no effect with the solver PGS, whose sweeps are MuJoCo's",
        text_of(path));
  if (path != SolverPath::converged || !stops_early(host_model(model))) return "";
  return "the model stops its solver before it has converged: with simulation.solver_path: converged results "
         "differ from MuJoCo's by what remains then (simulation.solver_path=mujoco settles it)";
}

}  // namespace

ImportedModel import_model(const ModelConfig& config, const SimulationConfig& simulation) {
  MujocoModel loaded = load_mujoco_model(config, simulation);
  check_supported(loaded, config);
  const mjModel& m = *loaded.model;

  ImportedModel imported;
  ModelSizes& sizes = imported.sizes;
  for_each_size<ModelSizes, mjModel>([&](auto to, auto from) { sizes.*to = static_cast<int>(m.*from); });
  for_each_option<ModelNumbers, mjOption>([&](auto to, auto from) { assign(imported.*to, m.opt.*from); });
  for_each_mujoco_array<ModelNumbers, mjModel>(
      sizes, [&](std::int64_t extent, auto to, auto from) { copy_array(imported.*to, m.*from, extent); });
  import_meshes(m, imported, sizes);

  sizes.as_mujoco = simulation.solver_path == SolverPath::of_model
                        ? stops_early(host_model(imported))
                        : simulation.solver_path == SolverPath::mujoco;
  if (imported.solver == solver_cg && !sizes.as_mujoco) {
    // the solution, whatever the model grants CG: Newton's method needs fewer
    imported.iterations = std::max(imported.iterations, kDefaultIterations);
    imported.ls_iterations = std::max(imported.ls_iterations, kDefaultLineIterations);
  }

  imported.body_names = names_of(m, mjOBJ_BODY, m.nbody);
  imported.joint_names = names_of(m, mjOBJ_JOINT, m.njnt);
  imported.geom_names = names_of(m, mjOBJ_GEOM, m.ngeom);
  imported.actuator_names = names_of(m, mjOBJ_ACTUATOR, m.nactuator);
  imported.sensor_names = names_of(m, mjOBJ_SENSOR, m.nsensor);
  imported.site_names = names_of(m, mjOBJ_SITE, m.nsite);
  imported.tendon_names = names_of(m, mjOBJ_TENDON, m.ntendon);
  imported.pair_names = names_of(m, mjOBJ_PAIR, m.npair);
  imported.equality_names = names_of(m, mjOBJ_EQUALITY, m.neq);
  imported.key_names = names_of(m, mjOBJ_KEY, m.nkey);
  imported.nkey = static_cast<int>(m.nkey);
  imported.key_time = numbers(m.key_time, m.nkey);
  imported.key_qpos = numbers(m.key_qpos, m.nkey * m.nq);
  imported.key_qvel = numbers(m.key_qvel, m.nkey * m.nv);
  imported.key_act = numbers(m.key_act, m.nkey * m.na);
  imported.key_ctrl = numbers(m.key_ctrl, m.nkey * m.nu);
  imported.key_mpos = numbers(m.key_mpos, m.nkey * 3 * m.nmocap);
  imported.key_mquat = numbers(m.key_mquat, m.nkey * 4 * m.nmocap);
  imported.terrain = loaded.terrain;
  imported.name = m.names;  // the first name is the model's
  imported.xml = loaded.source.text();
  imported.mjb = std::make_shared<const std::vector<std::uint8_t>>(std::move(loaded.mjb));
  imported.warnings = loaded.warnings;
  imported.digest = digest_of(imported);

  sizes.ncontact = simulation.max_contacts;
  sizes.teams = simulation.threads_per_environment == ThreadsChoice::team;
  if (sizes.teams && !is_for_teams(sizes))
    imported.warnings.push_back(
        fmt::format("simulation.threads_per_environment: 32 has no effect {}",
                    kScalarLanes ? fmt::format("on a model of at most {} dofs, or with sensors that have a "
                                               "delay or an interval",
                                               kDenseDofs)
                                 : "on a CPU"));
  derive_numbers(imported, config.where);
  // a robot whose shapes overlap where it starts has more contacts than shapes at rest
  const int at_start = simulation.max_contacts > 0 ? 0 : contacts_at_start(m);
  if (at_start > sizes.ncontact / 3 * 2) {
    sizes.ncontact = at_start + at_start / 2 + 8;
    derive_numbers(imported, config.where);
  }
  if (const std::string note = solver_note(imported, simulation.solver_path); !note.empty())
    imported.warnings.push_back(note);
  return imported;
}

void derive_numbers(ImportedModel& imported, const SourceLocation& where) {
  ModelSizes& sizes = imported.sizes;
  Model<double> view = host_model(imported);
  count_rows(view, sizes);
  if (data_elements(sizes) > std::numeric_limits<int>::max())
    throw InputError(where, "model.file",
                     "an environment with " + std::to_string(sizes.nv) + " dofs and up to " +
                         std::to_string(sizes.ncontact) + " contacts needs " +
                         std::to_string(data_elements(sizes)) + " numbers of working memory",
                     "less than 2^31; simulation.max_contacts sets the contacts");
  DerivedFields derived;
  for_each_derived_array<DerivedFields, ModelNumbers>(
      sizes, [&](std::int64_t extent, auto to, auto array) { derived.*to = sized(imported.*array, extent); });
  static_cast<ModelSizes&>(view) = sizes;
  derive_model(view, derived);
  for_each_derived_option<ModelNumbers, Model<double>>(
      [&](auto to, auto from) { imported.*to = view.*from; });
}

Model<double> host_model(const ImportedModel& imported) {
  Model<double> model;
  static_cast<ModelSizes&>(model) = imported.sizes;
  const auto set = [&](auto to, auto from) { assign(model.*to, imported.*from); };
  for_each_option<Model<double>, ModelNumbers>(set);
  for_each_derived_option<Model<double>, ModelNumbers>(set);
  const auto point = [&](std::int64_t, auto to, auto from) { model.*to = (imported.*from).data(); };
  for_each_array<Model<double>, ModelNumbers>(imported.sizes, point);
  for_each_derived_array<Model<double>, ModelNumbers>(imported.sizes, point);
  return model;
}

std::size_t keyframe_of(const ImportedModel& model, const std::string& keyframe, const SourceLocation& where,
                        const std::string& key) {
  const auto named = std::find(model.key_names.begin(), model.key_names.end(), keyframe);
  if (named != model.key_names.end()) return static_cast<std::size_t>(named - model.key_names.begin());
  const bool number = !keyframe.empty() && keyframe.find_first_not_of("0123456789") == std::string::npos &&
                      keyframe.size() < 6;
  if (number && std::stoi(keyframe) < model.nkey) return static_cast<std::size_t>(std::stoi(keyframe));
  std::string allowed = model.nkey == 0 ? "the model has no keyframes"
                                        : "an index below " + std::to_string(model.nkey) + " or one of";
  for (const std::string& name : model.key_names) allowed += " " + name;
  throw InputError(where, key, "no keyframe \"" + keyframe + "\"", allowed);
}

}  // namespace maniple
