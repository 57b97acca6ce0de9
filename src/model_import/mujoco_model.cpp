#include "src/model_import/mujoco_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>

#include "kernels/physics/smooth/transmission.hpp"
#include "src/model_import/mujoco_guard.hpp"
#include "src/model_import/terrain_model.hpp"
#include "src/model_import/urdf_words.hpp"

namespace maniple {
namespace {

// libmujoco's messages span lines; ours are one line each.
std::string one_line(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  std::string result;
  for (const char c : text) {
    if (c != '\n')
      result += c;
    else if (!result.empty() && result.back() != ' ')
      result += ", ";
  }
  return result;
}

[[noreturn]] void refuse(const ModelConfig& config, const ModelSource& source, const SourceLocation& where,
                         const std::string& message) {
  throw InputError(
      where.text() + ": model.file: libmujoco " + mj_versionString() +
      " does not accept this model: " + one_line(source.is_urdf() ? in_urdf_words(message) : message) +
      " (asked for by " + config.where.text() + ")");
}

bool is_binary(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return extension == ".mjb";
}

// Moves the frame of a body's inertia, geom or site onto another one that MuJoCo takes for the same
// (mjtSameFrame): they may differ by 1e-6, and its kinematics goes by the other one.
void share_frame(mjtByte same, const mjtNum* inertia_pos, const mjtNum* inertia_quat, mjtNum* pos,
                 mjtNum* quat) {
  static constexpr mjtNum kOrigin[3] = {0, 0, 0}, kIdentity[4] = {1, 0, 0, 0};
  const bool of_inertia = same == mjSAMEFRAME_INERTIA || same == mjSAMEFRAME_INERTIAROT;
  if (same == mjSAMEFRAME_BODY || same == mjSAMEFRAME_INERTIA)
    std::copy_n(of_inertia ? inertia_pos : kOrigin, 3, pos);
  if (same != mjSAMEFRAME_NONE) std::copy_n(of_inertia ? inertia_quat : kIdentity, 4, quat);
}

void share_frames(mjModel& m) {
  for (int i = 0; i < m.nbody; ++i)
    share_frame(m.body_sameframe[i], nullptr, nullptr, m.body_ipos + 3 * i, m.body_iquat + 4 * i);
  for (int i = 0; i < m.ngeom; ++i)
    share_frame(m.geom_sameframe[i], m.body_ipos + 3 * m.geom_bodyid[i], m.body_iquat + 4 * m.geom_bodyid[i],
                m.geom_pos + 3 * i, m.geom_quat + 4 * i);
  for (int i = 0; i < m.nsite; ++i)
    share_frame(m.site_sameframe[i], m.body_ipos + 3 * m.site_bodyid[i], m.body_iquat + 4 * m.site_bodyid[i],
                m.site_pos + 3 * i, m.site_quat + 4 * i);
}

// Tendons off by the user's decision: they exert no force, and actuators on them act on nothing (a joint
// with a gear of zero), so that the controls keep their places. What libmujoco has computed with the tendons'
// armature (invweight0, M0) is computed again.
void switch_off_tendons(mjModel& m, const ModelConfig& config, std::vector<std::string>& warnings) {
  if (m.ntendon == 0) return;
  int scalar_joint = -1;
  for (int i = 0; i < m.njnt && scalar_joint < 0; ++i)
    if (m.jnt_type[i] == mjJNT_HINGE || m.jnt_type[i] == mjJNT_SLIDE) scalar_joint = i;
  for (int i = 0; i < m.nactuator; ++i) {
    if (transmission_object(m.actuator_trntype[i]) != object_tendon) continue;
    if (scalar_joint < 0)
      throw InputError(config.where, "model.tendons",
                       "the model has actuators on tendons but no hinge or slide",
                       "remove those actuators from the model");
    m.actuator_trntype[i] = mjTRN_JOINT;
    m.actuator_trnid[2 * i] = scalar_joint;
    m.actuator_damping[i] = m.actuator_armature[i] = 0;
    std::fill_n(m.actuator_dampingpoly + i * mjNPOLY, mjNPOLY, 0.0);
    std::fill_n(m.actuator_gear + 6 * m.actuator_outadr[i], 6, 0.0);
  }
  for (mjtNum* const field : {m.tendon_armature, m.tendon_stiffness, m.tendon_damping, m.tendon_frictionloss})
    std::fill_n(field, m.ntendon, 0.0);
  for (mjtNum* const field : {m.tendon_stiffnesspoly, m.tendon_dampingpoly})
    std::fill_n(field, m.ntendon * mjNPOLY, 0.0);
  std::fill_n(m.tendon_limited, m.ntendon, mjtBool{0});
  std::unique_ptr<mjData, void (*)(mjData*)> data(nullptr, mj_deleteData);
  guarded([&] { data.reset(mj_makeData(&m)); }, warnings);
  guarded([&] { mj_setConst(&m, data.get()); }, warnings);
}

// What mj_saveModel() writes, all assets included, so that mj_loadModel() needs no other file.
std::vector<std::uint8_t> as_mjb(const mjModel& model, std::vector<std::string>& warnings) {
  char error[1000] = "";
  std::unique_ptr<mjModel, void (*)(mjModel*)> whole(nullptr, mj_deleteModel);
  guarded([&] { whole.reset(mj_embedAssets(&model, error, sizeof(error))); }, warnings);
  if (whole == nullptr) {
    warnings.push_back(std::string("results hold the model without its textures: ") + one_line(error));
    whole.reset(mj_copyModel(nullptr, &model));
  }
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(mj_sizeModel(whole.get())));
  guarded([&] { mj_saveModel(whole.get(), nullptr, bytes.data(), static_cast<mjtSize>(bytes.size())); },
          warnings);
  return bytes;
}

// A flag by the name that it has in <flag>: its bit, in the words of what is disabled and enabled by default.
void set_flag(mjOption& options, const std::string& name, bool on, const SourceLocation& where) {
  std::string known;
  const auto find = [&](const char* const* names, int count) {
    for (int i = 0; i < count; ++i) {
      std::string flag = names[i];
      std::transform(flag.begin(), flag.end(), flag.begin(), [](unsigned char c) { return std::tolower(c); });
      if (flag == name) return 1 << i;
      known += (known.empty() ? "" : ", ") + flag;
    }
    return 0;
  };
  if (const int bit = find(mjDISABLESTRING, mjNDISABLE); bit != 0)
    options.disableflags = on ? options.disableflags & ~bit : options.disableflags | bit;
  else if (const int extra = find(mjENABLESTRING, mjNENABLE); extra != 0)
    options.enableflags = on ? options.enableflags | extra : options.enableflags & ~extra;
  else
    throw InputError(where, on ? "simulation.enable" : "simulation.disable", "no flag '" + name + "'",
                     "allowed: " + known);
}

// Options of the model that a deck overrides.
void apply_options(mjOption& options, const SimulationConfig& simulation, const ModelConfig& config) {
  if (simulation.timestep > 0) options.timestep = simulation.timestep;
  // MuJoCo's compiler takes any
  if (!(options.timestep > 0) || !std::isfinite(options.timestep))
    throw InputError(config.where, "model.file",
                     fmt::format("the timestep {} of the model's <option>", options.timestep),
                     "allowed: more than 0 seconds, there or in simulation.timestep");
  if (simulation.integrator == IntegratorChoice::Euler) options.integrator = mjINT_EULER;
  if (simulation.integrator == IntegratorChoice::RK4) options.integrator = mjINT_RK4;
  if (simulation.integrator == IntegratorChoice::implicit) options.integrator = mjINT_IMPLICIT;
  if (simulation.integrator == IntegratorChoice::implicitfast) options.integrator = mjINT_IMPLICITFAST;
  if (simulation.solver == SolverChoice::Newton) options.solver = mjSOL_NEWTON;
  if (simulation.solver == SolverChoice::CG) options.solver = mjSOL_CG;
  if (simulation.solver == SolverChoice::PGS) options.solver = mjSOL_PGS;
  if (simulation.cone == ConeChoice::pyramidal) options.cone = mjCONE_PYRAMIDAL;
  if (simulation.cone == ConeChoice::elliptic) options.cone = mjCONE_ELLIPTIC;
  if (simulation.iterations > 0) options.iterations = simulation.iterations;
  if (simulation.ls_iterations > 0) options.ls_iterations = simulation.ls_iterations;
  if (simulation.noslip_iterations >= 0) options.noslip_iterations = simulation.noslip_iterations;
  const auto set = [](mjtNum& option, const std::optional<double>& given) {
    if (given) option = *given;
  };
  set(options.tolerance, simulation.tolerance);
  set(options.ls_tolerance, simulation.ls_tolerance);
  set(options.noslip_tolerance, simulation.noslip_tolerance);
  set(options.impratio, simulation.impratio);
  set(options.density, simulation.density);
  set(options.viscosity, simulation.viscosity);
  if (simulation.gravity) std::copy(simulation.gravity->begin(), simulation.gravity->end(), options.gravity);
  if (simulation.wind) std::copy(simulation.wind->begin(), simulation.wind->end(), options.wind);
  for (const std::string& flag : simulation.disable) set_flag(options, flag, false, simulation.where_disable);
  for (const std::string& flag : simulation.enable) {
    if (std::find(simulation.disable.begin(), simulation.disable.end(), flag) != simulation.disable.end())
      throw InputError(simulation.where_enable, "simulation.enable",
                       "found '" + flag + "', which simulation.disable has, too", "allowed: one of them");
    set_flag(options, flag, true, simulation.where_enable);
  }
}

}  // namespace

MujocoModel load_mujoco_model(const ModelConfig& config, const SimulationConfig& simulation) {
  if (mj_version() != mjVERSION_HEADER)
    throw Error("libmujoco " + std::to_string(mj_version()) + " was loaded, but this program was built for " +
                std::to_string(mjVERSION_HEADER));
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(config.path, ignored))
    throw InputError(config.where, "model.file", "cannot read \"" + config.path + "\"",
                     "an MJCF, URDF or MJB file");

  MujocoModel loaded;
  std::shared_ptr<Terrain> terrain;
  if (config.terrain.present()) terrain = std::make_shared<Terrain>(make_terrain(config.terrain));
  std::string terrain_geom;
  const char* path = config.path.c_str();
  if (is_binary(config.path)) {
    if (!config.overlay.empty())
      throw InputError({config.path}, "model.overlay", "found " + config.overlay + " merged into an MJB file",
                       "allowed: with MJCF");
    if (terrain)
      throw InputError(config.terrain.where, "terrain", "set, but " + config.path + " is an MJB file",
                       "allowed: with MJCF or URDF");
    mjModel* model = nullptr;
    try {
      guarded([&] { model = mj_loadModel(path, nullptr); }, loaded.warnings);
    } catch (const Error& error) {
      refuse(config, loaded.source, {config.path}, error.what());
    }
    if (model == nullptr)
      refuse(config, loaded.source, {config.path},
             loaded.warnings.empty() ? "not an MJB file" : loaded.warnings.back());
    loaded.model.reset(model);
    loaded.source = ModelSource::of_binary(config.path);
  } else {
    const bool laid_over = !config.overlay.empty();
    loaded.source = laid_over ? ModelSource(config.path, config.overlay) : ModelSource(config.path);
    char error[2000] = "";
    mjSpec* spec = nullptr;
    mjModel* model = nullptr;
    try {
      guarded(
          [&] {
            spec = laid_over ? mj_parseXMLString(loaded.source.text().c_str(), nullptr, error, sizeof(error))
                             : mj_parseXML(path, nullptr, error, sizeof(error));
          },
          loaded.warnings);
      loaded.spec.reset(spec);
      // where the model's own files are
      if (spec != nullptr && laid_over)
        mjs_setString(spec->modelfiledir, std::filesystem::path(config.path).parent_path().c_str());
      if (spec == nullptr) refuse(config, loaded.source, loaded.source.of_message(error), error);
      loaded.source.annotate(spec);
      if (terrain) terrain_geom = lay_terrain(spec, config.terrain, *terrain);
      guarded([&] { model = mj_compile(spec, nullptr); }, loaded.warnings);
      loaded.model.reset(model);
    } catch (const InputError&) {
      throw;
    } catch (const Error& fatal) {
      refuse(config, loaded.source, loaded.source.of_message(fatal.what()), fatal.what());
    }
    const std::string message = mjs_getError(spec);
    if (model == nullptr) refuse(config, loaded.source, loaded.source.of_message(message), message);
    if (!message.empty()) loaded.warnings.push_back(one_line(message));
  }

  mjModel& m = *loaded.model;
  if (terrain) move_to_geom(*terrain, m, terrain_geom, config.terrain);
  if (terrain) terrain->heights = HeightGrid(0, 0);  // the model has them
  loaded.terrain = terrain;
  for (const std::string& type : terrain ? types_without_cells(*terrain) : std::vector<std::string>{})
    loaded.warnings.push_back("terrain.sub_terrains." + type +
                              " has no cell: terrain.num_cols are too few for its proportion");
  apply_options(m.opt, simulation, config);
  if (!config.contacts) m.opt.disableflags |= mjDSBL_CONTACT;
  if (!config.limits) m.opt.disableflags |= mjDSBL_LIMIT;
  if (!config.equality) m.opt.disableflags |= mjDSBL_EQUALITY;
  if (!config.frictionloss) m.opt.disableflags |= mjDSBL_FRICTIONLOSS;
  if (!config.tendons) switch_off_tendons(m, config, loaded.warnings);
  loaded.mjb = as_mjb(m, loaded.warnings);
  share_frames(m);
  // (no MJB has fewer tendons than names for them)
  if (!config.tendons) m.ntendon = m.nJten = m.nwrap = 0;
  return loaded;
}

int contacts_at_start(const mjModel& model) {
  constexpr mjtSize kKeyframes = 32;  // a model may keep hundreds, of a motion
  std::vector<std::string> warnings;  // (of a pose where some collide badly; not of the model)
  std::unique_ptr<mjData, void (*)(mjData*)> data(nullptr, mj_deleteData);
  guarded([&] { data.reset(mj_makeData(&model)); }, warnings);
  int most = 0;
  for (int key = -1; key < static_cast<int>(std::min<mjtSize>(model.nkey, kKeyframes)); ++key) {
    guarded(
        [&] {
          mj_resetDataKeyframe(&model, data.get(), key);
          mj_kinematics(&model, data.get());
          mj_comPos(&model, data.get());
          mj_collision(&model, data.get());
        },
        warnings);
    most = std::max(most, static_cast<int>(data->ncon));
  }
  return most;
}

}  // namespace maniple
