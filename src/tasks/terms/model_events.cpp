#include "src/tasks/terms/model_events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "src/base/mistakes.hpp"
#include "src/config/schema.hpp"
#include "src/tasks/language/expression.hpp"
#include "src/tasks/language/names.hpp"

namespace maniple {
namespace {

// Gains of position servos by their own names, as Isaac Lab and mjlab draw them: kp is the gain and,
// negative, the bias by length; kd, negative, the bias by velocity.
constexpr const char* kStiffness = "actuator_kp";
constexpr const char* kDamping = "actuator_kd";
constexpr int kGain = 0, kByLength = 1, kByVelocity = 2;  // components of gainprm and biasprm

std::vector<std::string> field_names(const TaskModel& model) {
  std::vector<std::string> names;
  for (const VaryingField& field : model.fields) names.push_back(field.name);
  names.insert(names.end(), {kStiffness, kDamping});
  return names;
}

// An element of a field: its name, and its numbers in the field.
struct Element {
  std::string name;
  int first = 0, size = 1;
};

// The elements that an event can name, and their name in the deck.
struct Elements {
  ElementKind kind = ElementKind::none;
  std::vector<Element> all;
};
Elements elements_of(const VaryingField& field, const TaskModel& model) {
  Elements result;
  const auto add_rows = [&](ElementKind kind, const std::vector<std::string>& names, std::size_t begin) {
    result.kind = kind;
    for (std::size_t i = begin; i < names.size(); ++i)
      result.all.push_back({names[i], static_cast<int>(i) * field.row, field.row});
  };
  switch (field.element) {
    case FieldElement::body:
      add_rows(ElementKind::bodies, model.bodies, 1);  // the world's numbers mean nothing
      break;
    case FieldElement::geom:
      add_rows(ElementKind::geoms, model.geoms, 0);
      break;
    case FieldElement::pair:
      add_rows(ElementKind::pairs, model.pairs, 0);
      break;
    case FieldElement::site:
      add_rows(ElementKind::sites, model.sites, 0);
      break;
    case FieldElement::actuator:
      add_rows(ElementKind::actuators, names_of(model.actuators), 0);
      break;
    case FieldElement::joint:
      add_rows(ElementKind::joints, names_of(model.joints), 0);
      break;
    case FieldElement::dof:
    case FieldElement::qpos:
      result.kind = ElementKind::joints;
      for (const TaskJoint& joint : model.joints) {
        if (field.element == FieldElement::dof)
          result.all.push_back({joint.name, joint.dofadr, joint.dof_size});
        else if (joint.is_scalar())
          result.all.push_back({joint.name, joint.qposadr, 1});
      }
      break;
    default:
      result.all.push_back({"", 0, field.row});
  }
  return result;
}

// What switches off all that a field is about, and how MuJoCo's XML calls that.
struct OffSwitch {
  int disableflags;
  const char* name;
};
OffSwitch off_switch_of(const std::string& field) {
  static const std::map<std::string, OffSwitch> switches{
      {"gravity", {disable_gravity, "gravity"}},
      {"jnt_stiffness", {disable_spring, "spring"}},
      {"dof_damping", {disable_damper, "damper"}},
      {"jnt_range", {disable_limit | disable_constraint, "limit"}},
      {"dof_frictionloss", {disable_frictionloss | disable_constraint, "frictionloss"}},
      {"geom_friction", {disable_contact | disable_constraint, "contact"}},
      {"pair_friction", {disable_contact | disable_constraint, "contact"}},
      {"actuator_gainprm", {disable_actuation, "actuation"}},
      {"actuator_biasprm", {disable_actuation, "actuation"}},
      {"actuator_forcerange", {disable_actuation, "actuation"}}};
  const auto found = switches.find(field);
  return found == switches.end() ? OffSwitch{0, ""} : found->second;
}

void check_switch(const TermConfig& term, const std::string& field, const TaskModel& model,
                  const std::string& key) {
  if (const OffSwitch off = off_switch_of(field); model.disableflags & off.disableflags)
    throw InputError(term.where, key,
                     fmt::format("an event without effect: the model's flag {} is off", off.name),
                     "a model in which it is on, or no event on " + term.field);
}

// Does the friction of this row count in some contact; true of other fields.
bool rubs(const std::string& field, std::size_t row, const TaskModel& model) {
  return field == "geom_friction" ? model.geom_rubs[row] : field != "pair_friction" || model.pair_rubs[row];
}

// Why the friction of a geom or explicit pair changes no contact, and whose does.
std::pair<std::string, std::string> friction_advice(const std::string& field, const TaskModel& model) {
  const bool of_geoms = field == "geom_friction";
  const std::vector<std::string>& names = of_geoms ? model.geoms : model.pairs;
  std::vector<std::string> count;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (rubs(field, i, model)) count.push_back(names[i]);
  std::string allowed = of_geoms ? "geoms whose friction counts: " : "pairs whose friction counts: ";
  allowed += count.empty() ? "none in this model" : list(count, 60);
  if (of_geoms && !model.pairs.empty()) allowed += "; pair_friction is that of explicit pairs";
  return {of_geoms ? "is that of no contact: it touches nothing with friction (condim 1), or all that it "
                     "touches has a higher priority or is in an explicit pair with it"
                   : "is that of no contact: nothing of the pair moves, or its contacts have no friction "
                     "(condim 1)",
          allowed};
}

// Why the pose of a body in its parent has no effect, and what sets it instead; empty: it has one.
std::pair<std::string, std::string> pose_advice(std::size_t body, const TaskModel& model) {
  for (const TaskJoint& joint : model.joints)
    if (joint.type == joint_free && joint.body == static_cast<int>(body))
      return {"does not count: its free joint says where it is",
              "a reset that sets qpos['" + joint.name + "']"};
  const auto& mocap = model.mocap_bodies;
  if (std::find(mocap.begin(), mocap.end(), model.bodies[body]) != mocap.end())
    return {"does not count: it is a mocap body",
            "a reset that sets mocap_pos['" + model.bodies[body] + "'] or mocap_quat"};
  return {};
}

constexpr const char* kSizedGeoms = "spheres, capsules, ellipsoids, cylinders, boxes and meshes";
std::string size_advice(std::size_t geom, const TaskModel& model) {
  const int type = model.geom_type[geom];
  return number_of_sizes(type) > 0 ? "" : fmt::format("does not count: it is a {}", shape_name(type));
}

// The mass of the fluid that an ellipsoid takes along follows from its sizes by integrals that the compiler
// computes.
void check_fluid(std::size_t geom, const TaskModel& model, const SourceLocation& where,
                 const std::string& key) {
  if (model.geom_in_fluid[geom])
    throw InputError(where, key,
                     "geom_size of '" + model.geoms[geom] +
                         "' is one for the whole model: a fluid acts on the geom as an ellipsoid",
                     "geoms with fluidshape=\"none\", or simulation.density=0 and simulation.viscosity=0");
}

// The gain of a PID servo or DC motor, and the bias of the latter, decide which activations it has.
void check_law(const std::string& field, std::size_t row, const TaskModel& model, const SourceLocation& where,
               const std::string& key) {
  const bool gain = field == "actuator_gainprm";
  if (!gain && field != "actuator_biasprm") return;
  const TaskActuator& actuator = model.actuators[row];
  if (!actuator.is_dcmotor && !(actuator.is_pid && gain)) return;
  throw InputError(where, key,
                   fmt::format("{} of '{}' is one for the whole model: it is a {}", field, actuator.name,
                               actuator.is_pid ? "PID servo" : "DC motor"),
                   "actuators of other kinds, and actuator_biasprm of PID servos: constant, -kp, -kv");
}

// The elements that the event names, each once.
std::vector<Element> chosen(const Elements& elements, const TermConfig& term, const std::string& key) {
  const std::string kind = text_of(elements.kind);
  if (term.names_kind != ElementKind::none && term.names_kind != elements.kind)
    throw InputError(term.where_names, key + "." + text_of(term.names_kind),
                     "'" + term.field + "' has no " + text_of(term.names_kind),
                     kind.empty() ? "it is one for the whole model" : "it takes " + kind);
  if (elements.kind == ElementKind::none) return elements.all;
  std::vector<std::string> known;
  for (const Element& element : elements.all) known.push_back(element.name);
  if (known.empty())
    throw InputError(
        term.where_of("field"), key + ".field", "'" + term.field + "' in a model without " + kind,
        elements.kind == ElementKind::pairs ? "geom_friction, where no <pair> says which geoms touch"
                                            : "a field of what the model has");
  if (term.names.empty())
    throw InputError(term.where, key, "'" + term.field + "' without " + kind,
                     kind + ": [names or patterns], of " + list(known, 60));
  std::set<std::size_t> places;
  for (const std::string& entry : term.names) {
    const std::vector<std::size_t> found = matching_names(entry, known, term.where_names, key + "." + kind,
                                                          "'" + term.field + "' has no element");
    for (const std::size_t place : found) {
      // a pattern of joints does not mean the free joint of a base
      const bool free = elements.kind == ElementKind::joints && elements.all[place].size == 6;
      if (!free || known[place] == entry) places.insert(place);
    }
    if (places.empty())
      throw InputError(term.where_names, key + "." + kind, "'" + entry + "' matches free joints alone",
                       "other joints, or the names of these");
  }
  std::vector<Element> result;
  for (const std::size_t place : places) result.push_back(elements.all[place]);
  return result;
}

// The range of an element's component; none: it stays as it is. Keys are numbers of components, or names.
std::vector<TermNumber> range_of(const TermConfig& term, const Element& element, int component,
                                 const std::vector<std::string>& names, const std::string& key) {
  if (term.ranges.keyed.empty()) return term.ranges.all;
  std::vector<TermNumber> range;
  for (const auto& [entry, given] : term.ranges.keyed) {
    const bool number = entry.find_first_not_of("0123456789") == std::string::npos;
    if (number ? entry == std::to_string(component) : [&] {
          const auto places = matching_names(entry, names, term.where_of("ranges"), key + ".ranges",
                                             "the event has no element");
          return std::any_of(places.begin(), places.end(),
                             [&](std::size_t i) { return names[i] == element.name; });
        }())
      range = given;
  }
  return range;
}

void check_components(const TermConfig& term, const std::vector<Element>& elements, const std::string& key) {
  int most = 0;
  for (const Element& element : elements) most = std::max(most, element.size);
  for (const auto& [entry, given] : term.ranges.keyed)
    if (entry.find_first_not_of("0123456789") == std::string::npos &&
        (entry.size() > 6 || std::stoi(entry) >= most))
      throw InputError(term.where_of("ranges"), key + ".ranges",
                       fmt::format("component {} of '{}'", entry, term.field),
                       most == 1 ? "it has component 0 alone" : fmt::format("0 to {}", most - 1));
}

std::string drawn_text(Distribution distribution, const std::vector<TermNumber>& range) {
  const bool logarithm = distribution == Distribution::log_uniform;
  const auto end = [&](const TermNumber& number) {
    if (number.expression.empty())
      return fmt::format("{}", logarithm ? std::log(number.value) : number.value);
    return fmt::format(fmt::runtime(logarithm ? "log({})" : "({})"), number.expression);
  };
  const char* const form = distribution == Distribution::uniform ? "uniform({}, {})"
                           : logarithm                           ? "exp(uniform({}, {}))"
                                                                 : "normal({}, {})";
  if (range[0] == range[1] && distribution != Distribution::gaussian)
    return range[0].expression.empty() ? fmt::format("({})", range[0].value) : end(range[0]);
  return fmt::format(fmt::runtime(form), end(range[0]), end(range[1]));
}

// The result of the operation on a draw, for a number that is `value` in the model.
std::string operated(FieldOperation operation, double value, const std::string& draw) {
  if (operation == FieldOperation::abs) return draw;
  return fmt::format("({}) {} {}", value, operation == FieldOperation::scale ? "*" : "+", draw);
}
std::string operated(FieldOperation operation, const std::vector<double>& values, const std::string& draw) {
  if (operation == FieldOperation::abs) return draw;
  return fmt::format("[{}] {} {}", fmt::join(values, ", "), operation == FieldOperation::scale ? "*" : "+",
                     draw);
}

std::string target_text(const std::string& field, const std::string& element, int component) {
  return element.empty() ? fmt::format("{}[{}]", field, component)
                         : fmt::format("{}['{}'][{}]", field, element, component);
}

const VaryingField& field_named(const TaskModel& model, const std::string& name) {
  return *std::find_if(model.fields.begin(), model.fields.end(),
                       [&](const VaryingField& field) { return field.name == name; });
}

// Do bodies without joints of their own, which move with this one, hang on it.
bool carries_bodies(int body, const TaskModel& model) {
  for (std::size_t child = 1; child < model.body_parent.size(); ++child)
    if (model.body_parent[child] == body &&
        std::none_of(model.joints.begin(), model.joints.end(),
                     [&](const TaskJoint& joint) { return joint.body == static_cast<int>(child); }))
      return true;
  return false;
}

// Must this number be above 0, as in every model that libmujoco compiles: sizes, and the inertia of what
// moves.
bool is_positive(const VaryingField& field, const Element& element, const TaskModel& model) {
  if (field.name == "geom_size") return true;
  const int body = element.first / field.row;
  return (field.name == "body_mass" || field.name == "body_inertia") && !carries_bodies(body, model) &&
         std::any_of(model.joints.begin(), model.joints.end(),
                     [&](const TaskJoint& joint) { return joint.body == body; });
}

// Refuses ranges in which a number that is `value` in the model is negative, or 0 where that must not be,
// where no model that can be stepped has such numbers.
void check_sign(const TermConfig& term, const std::vector<TermNumber>& range, double value, bool positive,
                const std::string& element, const std::string& key) {
  const bool adds = term.operation == FieldOperation::add;
  const bool not_negative = is_not_negative(term.field) || term.field == kStiffness || term.field == kDamping;
  const double least = range[0].value + (adds ? value : 0);
  if (!not_negative || term.distribution == Distribution::gaussian || !range[0].expression.empty() ||
      (positive ? least > 0 : least >= 0))
    return;
  const char* const bound = positive ? "above" : "at least";
  throw InputError(term.where_of("ranges"), key + ".ranges",
                   "[" + yaml_number(range[0]) + ", " + yaml_number(range[1]) + "]",
                   adds ? fmt::format("{} {}, which leaves 0 of '{}'", bound, -value, element)
                        : fmt::format("{} 0 for {} of '{}'", bound, term.field, element));
}

// Refuses events that change nothing: ranges that do not hold, zeros that are scaled, friction of no contact,
// what the model has switched off. Of each name or pattern that the event has, some element must change.
void check_effect(const TermConfig& term, const VaryingField& field, const std::vector<Element>& elements,
                  const TaskModel& model, const std::string& key) {
  check_switch(term, field.name, model, key);
  // why the element does not change, and what is allowed
  const auto idle = [&](const Element& element) -> std::pair<std::string, std::string> {
    const auto row = static_cast<std::size_t>(element.first / field.row);
    if (field.name == "jnt_range" && !model.joints[row].limited)
      return {"does not hold", "joints that are limited in the model"};
    if (field.name == "actuator_forcerange" && !model.actuators[row].force_limited)
      return {"does not hold", "actuators whose forces are limited in the model"};
    if (!rubs(field.name, row, model)) return friction_advice(field.name, model);
    if (field.name == "body_pos" || field.name == "body_quat")
      if (const auto advice = pose_advice(row, model); !advice.first.empty()) return advice;
    if (field.name == "geom_size")
      if (const std::string why = size_advice(row, model); !why.empty()) return {why, kSizedGeoms};
    const auto first = field.values.begin() + element.first;
    if (term.operation == FieldOperation::scale &&
        std::all_of(first, first + element.size, [](double value) { return value == 0; }))
      return {"is 0 in the model", "add | abs, or elements that have other values"};
    return {"", ""};
  };
  const auto check = [&](const std::vector<Element>& of_entry) {
    for (const Element& element : of_entry)
      if (idle(element).first.empty()) return;
    const auto [why, allowed] = idle(of_entry[0]);
    const std::string of = of_entry[0].name.empty() ? "" : " of '" + of_entry[0].name + "'";
    throw InputError(term.where, key, "an event without effect: " + field.name + of + " " + why, allowed);
  };
  for (const Element& element : elements)
    check_law(field.name, static_cast<std::size_t>(element.first / field.row), model, term.where, key);
  for (const Element& element : elements)
    if (field.name == "geom_size")
      check_fluid(static_cast<std::size_t>(element.first / field.row), model, term.where, key);
  if (term.names.empty()) check(elements);
  std::vector<std::string> names;
  for (const Element& element : elements) names.push_back(element.name);
  for (const std::string& entry : term.names) {
    std::vector<Element> of_entry;
    for (const std::size_t place :
         matching_names(entry, names, term.where_names, key, "'" + term.field + "' has no element"))
      of_entry.push_back(elements[place]);
    check(of_entry);
  }
}

// kp and kd of position servos: the numbers that they are in the model change together.
std::vector<TermExpression> gain_assignments(const TermConfig& term, const TaskModel& model,
                                             const std::string& key) {
  const bool stiffness = term.field == kStiffness;
  const VaryingField& gain = field_named(model, "actuator_gainprm");
  const std::vector<Element> elements = chosen(elements_of(gain, model), term, key);
  check_switch(term, gain.name, model, key);
  std::vector<std::string> names;
  for (const Element& element : elements) names.push_back(element.name);
  if (term.operation == FieldOperation::add)
    throw InputError(term.where_of("operation"), key + ".operation", "add",
                     "scale or abs, for " + term.field);
  std::vector<TermExpression> result;
  std::vector<std::string> targets;
  std::vector<double> values;
  std::vector<TermNumber> shared;
  for (const Element& element : elements) {
    const auto servo = std::find_if(model.actuators.begin(), model.actuators.end(),
                                    [&](const TaskActuator& a) { return a.name == element.name; });
    if (!servo->fixed_gain || servo->bias[kByLength] != -servo->gain || servo->bias[0] != 0)
      throw InputError(term.where_names, key + ".actuators",
                       "actuator '" + element.name + "' is not a position servo (bias -kp * length)",
                       "actuators of that kind, or the fields actuator_gainprm and actuator_biasprm");
    const std::vector<TermNumber> range = range_of(term, element, 0, names, key);
    if (range.empty()) continue;
    check_sign(term, range, 0, false, element.name, key);
    std::vector<std::string> own;
    std::vector<double> numbers;
    const bool abs = term.operation == FieldOperation::abs;
    if (stiffness) {
      own = {target_text("actuator_gainprm", element.name, kGain),
             target_text("actuator_biasprm", element.name, kByLength)};
      numbers = {abs ? 1 : servo->gain, abs ? -1 : servo->bias[kByLength]};
    } else {
      own = {target_text("actuator_biasprm", element.name, kByVelocity)};
      numbers = {abs ? -1 : servo->bias[kByVelocity]};
    }
    if (!term.shared_random) {
      result.push_back({fmt::format("[{}]", fmt::join(own, ", ")),
                        operated(FieldOperation::scale, numbers, drawn_text(term.distribution, range))});
      continue;
    }
    targets.insert(targets.end(), own.begin(), own.end());
    values.insert(values.end(), numbers.begin(), numbers.end());
    shared = range;
  }
  if (!targets.empty())
    result.push_back({fmt::format("[{}]", fmt::join(targets, ", ")),
                      operated(FieldOperation::scale, values, drawn_text(term.distribution, shared))});
  return result;
}

// The name of what a target assigns to: "body_mass" of "body_mass['torso']", also of the first of a vector.
std::vector<std::string> roots_of(const Syntax& tree) {
  if (tree.kind == Syntax::Kind::name) return {tree.text};
  std::vector<std::string> names;
  if (tree.kind == Syntax::Kind::vector) {
    for (const auto& child : tree.children)
      for (const std::string& name : roots_of(*child)) names.push_back(name);
  } else if (!tree.children.empty()) {
    names = roots_of(*tree.children[0]);
  }
  return names;
}

// The same of a target, "[body_mass[a], body_mass[b]]", that the event `key` sets.
std::vector<std::string> roots_of(const std::string& target, const TermConfig& term, const std::string& key) {
  return roots_of(*parse_expression({target, term.where_of("set"), key + ".set"}));
}

}  // namespace

std::vector<TermExpression> field_assignments(const TermConfig& term, const TaskModel& model,
                                              const std::string& key) {
  const std::vector<std::string> known = field_names(model);
  if (std::find(known.begin(), known.end(), term.field) == known.end())
    throw InputError(term.where_of("field"), key + ".field",
                     "the model field '" + term.field + "' cannot vary" + did_you_mean(term.field, known),
                     "allowed: " + list(known));
  if (term.field == kStiffness || term.field == kDamping) return gain_assignments(term, model, key);
  const VaryingField& field = field_named(model, term.field);
  const std::vector<Element> elements = chosen(elements_of(field, model), term, key);
  check_components(term, elements, key);
  check_effect(term, field, elements, model, key);
  std::vector<std::string> names;
  for (const Element& element : elements) names.push_back(element.name);

  std::vector<TermExpression> result;
  std::map<int, std::pair<std::vector<std::string>, std::vector<double>>> shared;  // by component
  std::map<int, std::vector<TermNumber>> shared_ranges;
  for (const Element& element : elements)
    for (int k = 0; k < element.size; ++k) {
      const std::vector<TermNumber> range = range_of(term, element, k, names, key);
      if (range.empty()) continue;
      if (field.name == "geom_size" &&
          k >= number_of_sizes(model.geom_type[static_cast<std::size_t>(element.first / field.row)]))
        continue;
      const double value = field.values[static_cast<std::size_t>(element.first + k)];
      check_sign(term, range, value, is_positive(field, element, model), element.name, key);
      const std::string target = target_text(field.name, element.name, k);
      if (!term.shared_random) {
        result.push_back({target, operated(term.operation, value, drawn_text(term.distribution, range))});
        continue;
      }
      shared[k].first.push_back(target);
      shared[k].second.push_back(value);
      shared_ranges[k] = range;
    }
  for (const auto& [k, of_elements] : shared)
    result.push_back(
        {fmt::format("[{}]", fmt::join(of_elements.first, ", ")),
         operated(term.operation, of_elements.second, drawn_text(term.distribution, shared_ranges[k]))});
  return result;
}

bool sets_model(const TermConfig& term, const TaskModel& model) {
  if (!term.field.empty()) return true;
  if (term.target.empty()) return false;
  const std::vector<std::string> known = names_of(model.fields),
                                 roots = roots_of(term.target, term, "task.events." + term.name);
  return !roots.empty() && std::all_of(roots.begin(), roots.end(), [&](const std::string& root) {
    return std::find(known.begin(), known.end(), root) != known.end();
  });
}

void check_contacts_of(const std::vector<int>& elements, const TermConfig& term, const TaskModel& model,
                       const std::string& key) {
  if (!term.field.empty()) return;  // check_effect() has seen it
  const int first_of_model = maniple::field_named(state_fields(model.sizes), "model_values").first;
  for (const char* const name :
       {"geom_friction", "pair_friction", "geom_size", "actuator_gainprm", "actuator_biasprm"}) {
    const VaryingField& field = field_named(model, name);
    const int first = first_of_model + model.sizes.varied.*(field.offset);
    std::vector<std::size_t> rows;
    for (const int element : elements)
      if (model.sizes.varied.*(field.offset) >= 0 && element >= first &&
          element < first + static_cast<int>(field.values.size()))
        rows.push_back(static_cast<std::size_t>((element - first) / field.row));
    const bool sizes = field.name == "geom_size";
    for (const std::size_t row : rows)
      if (sizes) check_fluid(row, model, term.where_of("set"), key + ".set");
    for (const std::size_t row : rows) check_law(field.name, row, model, term.where_of("set"), key + ".set");
    if (rows.empty() || std::any_of(rows.begin(), rows.end(), [&](std::size_t row) {
          return sizes ? size_advice(row, model).empty() : rubs(name, row, model);
        }))
      continue;
    const auto [why, allowed] = sizes ? std::pair{size_advice(rows[0], model), std::string(kSizedGeoms)}
                                      : friction_advice(name, model);
    throw InputError(term.where_of("set"), key + ".set",
                     "an event without effect: '" + term.target + "' " + why, allowed);
  }
}

namespace {

bool has_expressions(const Ranges& ranges) {
  const auto any = [](const std::vector<TermNumber>& range) {
    return std::any_of(range.begin(), range.end(),
                       [](const TermNumber& end) { return !end.expression.empty(); });
  };
  return any(ranges.all) || std::any_of(ranges.keyed.begin(), ranges.keyed.end(),
                                        [&](const auto& entry) { return any(entry.second); });
}

}  // namespace

std::map<std::string, std::string> initially_drawn_fields(const TaskConfig& config,
                                                          const ImportedModel& imported) {
  std::map<std::string, std::string> fields;
  const TaskModel model = task_model(imported);
  const std::vector<std::string> known = field_names(model);
  for (const TermConfig& term : config.events) {
    if (term.mode != EventMode::startup &&
        (term.mode != EventMode::reset || term.field.empty() || has_expressions(term.ranges)))
      continue;
    const std::string key = "task.events." + term.name;
    std::vector<std::string> targets;
    if (!term.field.empty())
      for (const TermExpression& assignment : field_assignments(term, model, key))
        targets.push_back(assignment.target);
    else if (!term.target.empty())
      targets.push_back(term.target);
    for (const std::string& target : targets)
      for (const std::string& name : roots_of(target, term, key))
        if (std::find(known.begin(), known.end(), name) != known.end()) fields.try_emplace(name, key);
  }
  return fields;
}

std::vector<std::string> varied_fields(const TaskConfig& config, const TaskModel& model) {
  const std::vector<std::string> known = field_names(model);
  std::set<std::string> varied;
  const auto add_roots = [&](const std::string& target, const TermConfig& term, const std::string& key) {
    for (const std::string& name : roots_of(target, term, key))
      if (std::find(known.begin(), known.end(), name) != known.end()) varied.insert(name);
  };
  Mistakes told_later;  // where the event is compiled, with those of other terms
  for (const TermConfig& term : config.events)
    told_later.gather([&] {
      const std::string key = "task.events." + term.name;
      if (!term.field.empty())
        for (const TermExpression& assignment : field_assignments(term, model, key))
          add_roots(assignment.target, term, key);
      else if (!term.target.empty())
        add_roots(term.target, term, key);
    });
  return {varied.begin(), varied.end()};
}

}  // namespace maniple
