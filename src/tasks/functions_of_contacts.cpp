// Formulas of contacts: what touches what, with which force, and for how long. Times are variables that the
// formula adds to the task, as a deck could itself.
#include <algorithm>

#include "src/tasks/formulas.hpp"
#include "src/tasks/names.hpp"

namespace maniple::formulas {
namespace {

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

}  // namespace

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

Formula contact_time(const std::string& what) {
  return [what](FunctionCall& call) {
    geoms_named(call, *call.parts[0]);
    return own_variable(call, time_variable(call, what));
  };
}

}  // namespace maniple::formulas
