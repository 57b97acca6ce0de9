// The heights become those of an mjsHField, which counts from the lowest one; libmujoco scales them to shares
// of the highest.
#include "src/model_import/terrain_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace maniple {
namespace {

constexpr const char* kName = "terrain";
constexpr double kBase = 1;           // m: thickness below the lowest height
constexpr double kLeastRange = 1e-3;  // m: libmujoco takes no height field without a height

std::string name_of(mjsElement* element) {
  return mjs_getString(mjs_getName(element));
}

mjsGeom* ground_of(mjSpec* spec, const TerrainConfig& config) {
  std::vector<mjsGeom*> planes;
  std::string names;
  for (mjsElement* at = mjs_firstElement(spec, mjOBJ_GEOM); at != nullptr; at = mjs_nextElement(spec, at)) {
    mjsGeom* const geom = mjs_asGeom(at);
    if (geom->type != mjGEOM_PLANE && (config.geom.empty() || geom->type != mjGEOM_HFIELD)) continue;
    const std::string name = name_of(at);
    if (!config.geom.empty() && name == config.geom) return geom;
    planes.push_back(geom);
    names += (names.empty() ? "" : ", ") + (name.empty() ? "one without a name" : name);
  }
  if (!config.geom.empty())
    throw InputError(config.where, "terrain.geom",
                     "found no plane '" + config.geom + "' in the model, and no height field of this name",
                     planes.empty() ? "allowed: a model with a plane" : "allowed: one of " + names);
  if (planes.empty())
    throw InputError(
        config.where, "terrain", "found a model without a plane, which the terrain would replace",
        "allowed: a model with a floor, <geom type=\"plane\"/>, for instance from model.overlay");
  if (planes.size() > 1)
    throw InputError(config.where, "terrain",
                     fmt::format("found {} planes in the model: {}", planes.size(), names),
                     "allowed: terrain.geom, the name of the one that the terrain replaces");
  return planes[0];
}

// The height field that gets the terrain's heights: that of the geom, or a new one for a plane.
mjsHField* field_for(mjSpec* spec, mjsGeom* geom, const TerrainConfig& config) {
  if (geom->type == mjGEOM_HFIELD) {
    const std::string name = mjs_getString(geom->hfieldname);
    for (mjsElement* at = mjs_firstElement(spec, mjOBJ_GEOM); at != nullptr; at = mjs_nextElement(spec, at))
      if (at != geom->element && mjs_getString(mjs_asGeom(at)->hfieldname) == name)
        throw InputError(
            config.where, "terrain.geom",
            "found '" + config.geom + "', whose height field '" + name + "' another geom has, too",
            "allowed: a height field of one geom");
    if (mjsElement* const found = mjs_findElement(spec, mjOBJ_HFIELD, name.c_str()); found != nullptr) {
      mjsHField* const field = mjs_asHField(found);
      mjs_setString(field->file, "");
      return field;
    }
  }
  if (mjs_findElement(spec, mjOBJ_HFIELD, kName) != nullptr)
    throw InputError(config.where, "terrain", "found a height field 'terrain' in the model",
                     "allowed: another name for it in the model");
  mjsHField* const field = mjs_addHField(spec);
  mjs_setName(field->element, kName);
  field->size[3] = kBase;
  geom->type = mjGEOM_HFIELD;
  mjs_setString(geom->hfieldname, kName);
  return field;
}

}  // namespace

std::string lay_terrain(mjSpec* spec, const TerrainConfig& config, const Terrain& terrain) {
  mjsGeom* const geom = ground_of(spec, config);
  const HeightGrid& heights = terrain.heights;
  const auto [lowest, highest] = std::minmax_element(heights.values.begin(), heights.values.end());
  const double range = std::max(*highest - *lowest, kLeastRange);
  std::vector<float> shares(heights.values.size());
  std::transform(heights.values.begin(), heights.values.end(), shares.begin(),
                 [&, low = *lowest](double height) { return static_cast<float>((height - low) / range); });

  mjsHField* const field = field_for(spec, geom, config);
  field->nrow = heights.ny;
  field->ncol = heights.nx;
  const double size[3] = {terrain.extent[0], terrain.extent[1], range};
  std::copy(std::begin(size), std::end(size), field->size);
  mjs_setFloat(field->userdata, shares.data(), static_cast<int>(shares.size()));

  geom->pos[2] += *lowest;
  if (name_of(geom->element).empty()) mjs_setName(geom->element, kName);
  return name_of(geom->element);
}

void move_to_geom(Terrain& terrain, const mjModel& m, const std::string& geom, const TerrainConfig& config) {
  const int id = mj_name2id(&m, mjOBJ_GEOM, geom.c_str());
  const auto is_turned = [](const mjtNum* quat) { return std::abs(std::abs(quat[0]) - 1) > 1e-9; };
  bool turned = is_turned(m.geom_quat + 4 * id);
  double place[3];
  std::copy_n(m.geom_pos + 3 * id, 3, place);
  for (int body = m.geom_bodyid[id]; body > 0; body = m.body_parentid[body]) {
    turned = turned || is_turned(m.body_quat + 4 * body);
    for (int k = 0; k < 3; ++k) place[k] += m.body_pos[3 * body + k];
  }
  if (turned)
    throw InputError(config.where, "terrain",
                     "found '" + geom + "', the geom that it replaces, turned in the model",
                     "allowed: a geom whose axes are those of the world");
  place[2] -= *std::min_element(terrain.heights.values.begin(), terrain.heights.values.end());
  for (TerrainCell& cell : terrain.cells)
    for (std::size_t k = 0; k < 3; ++k) cell.origin[k] += place[k];
  for (std::size_t k = 0; k < 2; ++k) terrain.middle[k] = place[k];
}

}  // namespace maniple
