#include "src/model_import/vary.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "kernels/physics/constraint/contact.hpp"
#include "kernels/physics/smooth/actuator_law.hpp"

namespace maniple {
namespace {

// The numbers of a field as they stand in model_values: the first `row` of each row of `model_row`.
std::vector<double> first_of_rows(const double* values, int rows, int row, int model_row) {
  std::vector<double> result;
  for (int i = 0; i < rows; ++i) std::copy_n(values + model_row * i, row, std::back_inserter(result));
  return result;
}

const double* numbers_of(const std::vector<double>& array) {
  return array.data();
}
template <std::size_t kLength>
const double* numbers_of(const std::array<double, kLength>& vector) {
  return vector.data();
}

#define MANIPLE_LOCAL_SIZE(name, meaning) [[maybe_unused]] const int name = sizes.name;

// Whether some sensor reads, or refers to, an object of this type.
bool senses(const ImportedModel& model, int type) {
  const auto has = [type](const std::vector<int>& types) {
    return std::find(types.begin(), types.end(), type) != types.end();
  };
  return has(model.sensor_objtype) || has(model.sensor_reftype);
}

// Whether lengths or moments that are known at qpos0 depend on where sites and geoms are: of spatial tendons,
// whose sites and geoms vary, and of muscles on sites.
bool varies_paths(const ImportedModel& model, const VariedOffsets& varied) {
  const auto passes = [&](int type) {
    return std::find(model.wrap_type.begin(), model.wrap_type.end(), type) != model.wrap_type.end();
  };
  const auto& gains = model.actuator_gaintype;
  const bool muscles = std::find(gains.begin(), gains.end(), int{gain_muscle}) != gains.end();
  const bool geoms = varied.geom_pos >= 0 || varied.geom_quat >= 0 || varied.geom_size >= 0;
  return (varied.site_pos >= 0 && (passes(wrap_site) || muscles)) ||
         (geoms && (passes(wrap_sphere) || passes(wrap_cylinder)));
}

// What varies with the fields whose offsets are not -1: sets the offsets of MANIPLE_CONSEQUENT_FIELDS to 0.
void mark_consequences(const ImportedModel& model, VariedOffsets& varied) {
  const bool inertia = varied.body_mass >= 0 || varied.body_inertia >= 0;
  const bool poses = varied.body_pos >= 0 || varied.body_quat >= 0,
             bodies = inertia || poses || varied.body_ipos >= 0;
  if (varied.body_mass >= 0) varied.body_subtreemass = varied.body_inversesubtreemass = 0;
  if (varied.body_inertia >= 0) varied.body_inertialocal = 0;
  if (inertia && (model.density != 0 || model.viscosity != 0)) varied.body_fluid = 0;
  if (bodies && model.integrator == implicitfast) varied.body_freecom = varied.body_freeinertia = 0;
  if (varied.dof_damping >= 0) varied.dof_totaldamping = 0;
  if (varied.dof_armature >= 0) varied.dof_totalarmature = 0;
  if (varied.dof_frictionloss >= 0) varied.friction_loss = 0;
  if (varied.jnt_range >= 0) varied.limit_bound = 0;
  if (varied.geom_size >= 0) varied.geom_rbound = 0;
  if ((varied.body_ipos >= 0 && senses(model, object_body)) ||
      (varied.geom_pos >= 0 && senses(model, object_geom)) ||
      (varied.site_pos >= 0 && senses(model, object_site)))
    varied.sensor_pos = varied.sensor_refpos = 0;
  if (varied.geom_quat >= 0 && senses(model, object_geom)) varied.sensor_quat = varied.sensor_refquat = 0;
  // points of connects and welds; those of bodies follow from the pose at qpos0, too
  const auto& held = model.eq_objtype;
  const bool sites = std::find(held.begin(), held.end(), int{object_site}) != held.end();
  if (poses || varied.qpos0 >= 0) varied.eq_pos = varied.eq_quat = 0;
  if (sites && varied.site_pos >= 0) varied.eq_pos = 0;
  const bool paths = varies_paths(model, varied);
  if (poses || paths || varied.qpos0 >= 0) varied.tendon_length0 = 0;
  if (bodies || paths || varied.dof_armature >= 0 || varied.qpos0 >= 0)
    varied.dof_M0 = varied.body_invweight0 = varied.equality_invweight = varied.friction_D =
        varied.limit_invweight = 0;
  const auto& gains = model.actuator_gaintype;
  if (varied.dof_M0 >= 0 && std::find(gains.begin(), gains.end(), int{gain_muscle}) != gains.end())
    varied.actuator_acc0 = 0;
}

}  // namespace

std::vector<VaryingField> varying_fields(const ImportedModel& model) {
  const ModelSizes& sizes = model.sizes;
  MANIPLE_ALL_SIZES(MANIPLE_LOCAL_SIZE)
  std::vector<VaryingField> fields;
#define MANIPLE_FIELD(name, rows, row, model_row, element, unit, meaning) \
  fields.push_back({#name, unit, meaning, FieldElement::element, row,     \
                    first_of_rows(numbers_of(model.name), rows, row, model_row), &VariedOffsets::name});
  MANIPLE_VARYING_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  return fields;
}

bool stands_alone(const ImportedModel& model, const std::string& field) {
  VariedOffsets varied;
  for (const VaryingField& known : varying_fields(model))
    if (known.name == field) varied.*(known.offset) = 0;
  mark_consequences(model, varied);
  bool alone = true;
#define MANIPLE_FIELD(name, ...) alone = alone && varied.name < 0;
  MANIPLE_CONSEQUENT_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  return alone;
}

std::string actuator_that_keeps(const ImportedModel& model, const std::string& field) {
  const bool gain = field == "actuator_gainprm";
  if (!gain && field != "actuator_biasprm") return "";
  for (std::size_t i = 0; i < model.actuator_gaintype.size(); ++i) {
    const bool motor = model.actuator_gaintype[i] == gain_dcmotor;
    if (motor || (gain && model.actuator_gaintype[i] == gain_pid))
      return std::string(motor ? "DC motor" : "PID servo") + " '" + model.actuator_names[i] + "'";
  }
  return "";
}

bool is_not_negative(const std::string& field) {
  static const std::set<std::string> fields{
      "body_mass",        "body_inertia",  "jnt_stiffness", "dof_damping", "dof_armature",
      "dof_frictionloss", "geom_friction", "pair_friction", "geom_size",   "geom_rgba"};
  return fields.contains(field);
}

void vary_model(ImportedModel& model, const std::vector<std::string>& fields, const SourceLocation& where) {
  if (fields.empty()) return;
  VariedOffsets& varied = model.sizes.varied;
  for (const VaryingField& field : varying_fields(model))
    if (std::find(fields.begin(), fields.end(), field.name) != fields.end()) varied.*(field.offset) = 0;
  mark_consequences(model, varied);
  derive_numbers(model, where);

  const ModelSizes& sizes = model.sizes;
  MANIPLE_ALL_SIZES(MANIPLE_LOCAL_SIZE)
#define MANIPLE_FIELD(name, rows, row, model_row, ...)                                              \
  if (varied.name >= 0) {                                                                           \
    varied.name = static_cast<int>(model.model_values.size());                                      \
    const std::vector<double> values = first_of_rows(numbers_of(model.name), rows, row, model_row); \
    model.model_values.insert(model.model_values.end(), values.begin(), values.end());              \
  }
  MANIPLE_VARYING_FIELDS(MANIPLE_FIELD)
  MANIPLE_CONSEQUENT_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  model.sizes.nmodelvalue = static_cast<int>(model.model_values.size());
}

std::vector<std::string> fields_without_effect(const ImportedModel& model,
                                               const std::vector<std::string>& fields,
                                               const std::vector<double>& rows) {
  const ModelSizes& sizes = model.sizes;
  MANIPLE_ALL_SIZES(MANIPLE_LOCAL_SIZE)
  struct Numbers {
    int first = -1, count = 0;  // of model_values
  };
  std::map<std::string, Numbers> numbers;
#define MANIPLE_FIELD(name, rows, row, ...) numbers[#name] = {sizes.varied.name, (rows) * (row)};
  MANIPLE_VARYING_FIELDS(MANIPLE_FIELD)
  MANIPLE_CONSEQUENT_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  // what of a field the physics reads, where it is not the field itself
  static const std::map<std::string, std::string> read_as{
      {"dof_damping", "dof_totaldamping"}, {"dof_armature", "dof_totalarmature"},
      {"body_mass", "body_subtreemass"},   {"body_inertia", "body_inertialocal"},
      {"jnt_range", "limit_bound"},        {"dof_frictionloss", "friction_loss"}};
  const auto differ = [](double a, double b) {
    constexpr double rounding = 1e-5;
    return std::abs(a - b) > rounding * std::max(std::abs(a), std::abs(b));
  };
  const auto width = static_cast<std::size_t>(sizes.nmodelvalue);
  const auto changes = [&](const Numbers& of, const double* own) {
    for (int i = of.first; of.first >= 0 && i < of.first + of.count; ++i)
      if (differ(own[i], model.model_values[static_cast<std::size_t>(i)])) return true;
    return false;
  };
  // the friction of contacts that geoms decide, or that explicit pairs do
  const auto changes_contacts = [&](bool of_geoms, const double* own) {
    for (std::size_t c = 0; c < model.geompair_class.size(); ++c) {
      const int kind = model.geompair_class[c];
      const int of[2] = {model.geompair_frictiongeom[2 * c], model.geompair_frictiongeom[2 * c + 1]};
      if (kind < 0 || model.contactclass_condim[static_cast<std::size_t>(kind)] == 1 ||
          (of[0] >= 0) != of_geoms)
        continue;
      for (int k = 0; k < 2; ++k) {
        const double* const friction =
            own + (of_geoms ? sizes.varied.geom_friction : sizes.varied.pair_friction + 2 * (-1 - of[0]));
        const double now = of_geoms ? std::max(friction[of[0]], friction[of[1]]) : friction[k];
        if (differ(std::max(kSmallestFriction, now),
                   model.contactclass_friction[static_cast<std::size_t>(5 * kind + k)]))
          return true;
      }
    }
    return false;
  };
  std::vector<std::string> idle;
  for (const std::string& field : fields) {
    const auto as = read_as.find(field);
    bool any = false;
    for (std::size_t first = 0; first < rows.size() && !any; first += width) {
      const double* const own = rows.data() + first;
      any = field == "geom_friction" || field == "pair_friction"
                ? changes_contacts(field == "geom_friction", own)
                : changes(numbers.at(as == read_as.end() ? field : as->second), own);
    }
    if (!any && !rows.empty()) idle.push_back(field);
  }
  return idle;
}

int varied_elements(const ModelSizes& sizes) {
  MANIPLE_ALL_SIZES(MANIPLE_LOCAL_SIZE)
  int count = 0;
#define MANIPLE_FIELD(name, rows, row, ...) count += sizes.varied.name >= 0 ? (rows) * (row) : 0;
  MANIPLE_VARYING_FIELDS(MANIPLE_FIELD)
#undef MANIPLE_FIELD
  return count;
}

#undef MANIPLE_LOCAL_SIZE

}  // namespace maniple
