// Formulas of contacts: between which geoms, with which force, and for how long. Durations are kept in a
// variable that the formula adds to the task.
#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "src/tasks/language/formulas.hpp"
#include "src/tasks/language/names.hpp"

namespace maniple::formulas {
namespace {

// Physics steps of a control step whose contacts programs can look at one by one. More would make programs of
// thousands of instructions.
constexpr int kMostPhysicsSteps = 256;

// The arguments of a call as text.
std::string argument_text(const FunctionCall& call) {
  std::string text;
  for (const Syntax* const part : call.parts)
    if (part) text += (text.empty() ? "" : ",") + part->canonical();
  return text;
}

// What the call's arguments name; without a second one, contacts with everything else.
ContactGroups groups_of(FunctionCall& call) {
  ContactGroups groups;
  groups.first = groups.second = geoms_named(call, *call.parts[0]);
  groups.second.flip();
  if (call.parts[1]) groups.second = geoms_named(call, *call.parts[1]);
  if (call.compiler.context().contact_query(groups) < 0)
    refuse(call, "contacts between geoms that cannot collide",
           "geoms whose contype and conaffinity let them collide, of bodies that are not joined");
  return groups;
}

// Refuses what is only known after the physics.
void need_data(const FunctionCall& call) {
  if (call.compiler.without_data())
    refuse(call, "contacts " + call.compiler.when(), "they are known after the physics");
}

// The answer of each physics step, the last one first.
Value answers_of_steps(ExpressionCompiler& compiler, const ContactGroups& groups, ContactAnswer answer) {
  const int query = compiler.context().contact_query(groups);
  const int steps = compiler.context().control_step().physics_steps;
  Value result;
  for (int step = 0; step < steps; ++step)
    result.push_back(compiler.read(Bank::stepped_contact, answer_place(query, step, steps, answer)));
  return result;
}

// Refuses control steps whose physics steps are too many.
void check_physics_steps(const FunctionCall& call) {
  const int steps = call.compiler.context().control_step().physics_steps;
  if (steps > kMostPhysicsSteps)
    refuse(
        call, fmt::format("contacts in each of {} physics steps", steps),
        fmt::format("at most {} physics steps in a control step (simulation.decimation)", kMostPhysicsSteps));
}

// What the times become with the physics steps of a control step: Isaac Lab's and mjlab's ContactSensor.
Value updated_times(ExpressionCompiler& compiler, const ContactGroups& groups, Value times) {
  ExpressionGraph& graph = compiler.graph();
  const Node zero = graph.constant(0);
  const ControlStep& control_step = compiler.context().control_step();
  const Node dt = graph.constant(control_step.dt / control_step.physics_steps);
  const Value touches = answers_of_steps(compiler, groups, contact_found);
  for (auto touch = touches.rbegin(); touch != touches.rend(); ++touch) {
    const Node flies = graph.apply(Operation::logical_not, *touch);
    const auto advance = [&](ContactTime time, ContactTime last, Node goes_on, Node ends) {
      Node &now = times[static_cast<std::size_t>(time)], &before = times[static_cast<std::size_t>(last)];
      const Node longer = graph.apply(Operation::add, now, dt);
      const Node begun = graph.apply(Operation::less, zero, now);
      const Node over = graph.apply(Operation::logical_and, begun, ends);
      before = graph.apply(Operation::select, over, longer, before);
      now = graph.apply(Operation::select, goes_on, longer, zero);
    };
    advance(ContactTime::air, ContactTime::last_air, flies, *touch);
    advance(ContactTime::contact, ContactTime::last_contact, *touch, flies);
  }
  return times;
}

// One of the times of what the call's arguments name, from the variable that has them; 0 before the task is
// compiled with it.
Node time_of(FunctionCall& call, ContactTime which) {
  check_physics_steps(call);
  ExpressionContext& context = call.compiler.context();
  const std::string name = context.own_variable(
      "contact_times(" + argument_text(call) + ")",
      {.reset = {"[0, 0, 0, 0]", call.source.where, call.source.key},
       .update = {"", call.source.where, call.source.key},
       .steps = {},
       .formula = [groups = groups_of(call)](ExpressionCompiler& compiler, const Value& last) {
         return updated_times(compiler, groups, last);
       }});
  if (!context.variables().contains(name)) return call.compiler.graph().constant(0);
  const ParsedExpression& parsed = context.parse({name, call.source.where, call.source.key});
  return call.compiler.value(*parsed.tree, parsed.source)[static_cast<std::size_t>(which)];
}

}  // namespace

namespace {

// Geoms whose names match a pattern, and those of bodies whose names do.
std::vector<bool> geoms_matching(const std::string& pattern, const TaskModel& model) {
  std::vector<bool> members(model.geoms.size());
  try {
    for (const std::size_t geom : indices_of_name(pattern, model.geoms)) members[geom] = true;
    for (const std::size_t body : indices_of_name(pattern, model.bodies))
      for (std::size_t g = 0; g < members.size(); ++g)
        members[g] = members[g] || model.geom_body[g] == static_cast<int>(body);
  } catch (const std::regex_error&) {
    // no pattern: a name that the model has not
  }
  return members;
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
    refuse_expression(call.source, part.column, "not the name of a geom or body",
                      "a name, a pattern in quotes ('.*_foot'), 'subtree:<body>', or a list of them: "
                      "[left_foot, right_foot]");
  const auto index_of = [](const std::vector<std::string>& names, const std::string& name) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  if (const std::size_t geom = index_of(model.geoms, part.text); geom < model.geoms.size()) {
    members[geom] = true;
    return members;
  }
  const std::string prefix = "subtree:";
  if (part.kind == Syntax::Kind::text && !part.text.starts_with(prefix))
    if (const std::vector<bool> matching = geoms_matching(part.text, model);
        std::find(matching.begin(), matching.end(), true) != matching.end())
      return matching;
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
    need_data(call);
    const int query = call.compiler.context().contact_query(groups_of(call));
    Value result;
    for (int i = 0; i < count; ++i)
      result.push_back(call.compiler.read(Bank::contact, kContactAnswers * query + first + i));
    return result;
  };
}

Formula contact_history(ContactAnswer answer) {
  return [answer](FunctionCall& call) {
    need_data(call);
    check_physics_steps(call);
    return answers_of_steps(call.compiler, groups_of(call), answer);
  };
}

Formula contact_time(ContactTime which) {
  return [which](FunctionCall& call) { return Value{time_of(call, which)}; };
}

Value first_contact(FunctionCall& call) {
  ExpressionGraph& graph = call.compiler.graph();
  const Node time = time_of(call, ContactTime::contact), zero = graph.constant(0);
  const Node touches = graph.apply(Operation::less, zero, time);
  const ControlStep& step = call.compiler.context().control_step();
  // sums of physics steps are rounded
  const Node longest = graph.constant(step.dt * (1 + 0.5 / step.physics_steps));
  const Node begun = graph.apply(Operation::less, time, longest);
  return {graph.apply(Operation::logical_and, touches, begun)};
}

}  // namespace maniple::formulas
