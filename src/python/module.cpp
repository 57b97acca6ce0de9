// The Python module _maniple, on which tools/maniple builds Gymnasium's environments. Arrays come from numpy
// and are written in place; the interpreter lock is released while a step runs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.hpp"
#include "src/base/version.hpp"
#include "src/config/named_decks.hpp"
#include "src/python/arrays.hpp"
#include "src/python/bindings.hpp"
#include "src/python/given_deck.hpp"
#include "src/python/vector_environment.hpp"

namespace nb = nanobind;

namespace maniple {
namespace {

template <class T>
StepRows<T> step_rows(const VectorEnvironment& environment, const std::optional<Rows<T>>& observation,
                      const std::optional<Rows<T>>& critic, const std::optional<Rows<T>>& reward,
                      const std::optional<Rows<bool>>& terminated,
                      const std::optional<Rows<bool>>& truncated) {
  const std::int64_t envs = environment.envs();
  return {numbers_of(observation, envs * environment.num_observations(), "observation"),
          numbers_of(critic, envs * environment.num_critic_observations(), "critic_observation"),
          numbers_of(reward, envs, "reward"), numbers_of(terminated, envs, "terminated"),
          numbers_of(truncated, envs, "truncated")};
}

// The calls that exist in each precision.
template <class T>
void bind_precision(nb::class_<VectorEnvironment>& environment) {
  using Numbers = std::optional<Rows<T>>;
  using Flags = std::optional<Rows<bool>>;
  environment.def(
      "reset",
      [](VectorEnvironment& self, const Flags& mask, const Rows<T>& observation, const Numbers& critic) {
        const StepRows<T> rows = step_rows<T>(self, observation, critic, {}, {}, {});
        const bool* const chosen = numbers_of(mask, self.envs(), "reset_mask");
        const nb::gil_scoped_release release;
        self.reset(chosen, rows);
      },
      nb::arg("mask").none(), nb::arg("observation").noconvert(),
      nb::arg("critic_observation").noconvert().none());
  environment.def(
      "step",
      [](VectorEnvironment& self, const Rows<const T>& actions, const Rows<T>& observation,
         const Numbers& critic, const Rows<T>& reward, const Rows<bool>& terminated,
         const Rows<bool>& truncated) {
        const T* const given = numbers_of<const T>(actions, self.envs() * self.num_actions(), "actions");
        const StepRows<T> rows = step_rows<T>(self, observation, critic, reward, terminated, truncated);
        const nb::gil_scoped_release release;
        return self.step(given, rows);
      },
      nb::arg("actions").noconvert(), nb::arg("observation").noconvert(),
      nb::arg("critic_observation").noconvert().none(), nb::arg("reward").noconvert(),
      nb::arg("terminated").noconvert(), nb::arg("truncated").noconvert());
  environment.def(
      "episodes",
      [](VectorEnvironment& self, const Rows<T>& observation, const Numbers& critic, const Rows<T>& total,
         const Rows<std::int64_t>& length, const Flags& success, const Rows<bool>& invalid,
         const Numbers& reward_term, const Numbers& metric) {
        const std::int64_t envs = self.envs();
        const auto terms = static_cast<std::int64_t>(self.reward_terms().size());
        const auto metrics = static_cast<std::int64_t>(self.metrics().size());
        const EpisodeRows<T> rows{
            numbers_of<T>(observation, envs * self.num_observations(), "final_observation"),
            numbers_of<T>(critic, envs * self.num_critic_observations(), "final_critic_observation"),
            numbers_of<T>(total, envs, "episode_return"),
            numbers_of<std::int64_t>(length, envs, "episode_length"),
            numbers_of<bool>(success, envs, "success"),
            numbers_of<bool>(invalid, envs, "invalid"),
            numbers_of<T>(reward_term, envs * terms, "reward_term"),
            numbers_of<T>(metric, envs * metrics, "metric")};
        const nb::gil_scoped_release release;
        self.episodes(rows);
      },
      nb::arg("observation").noconvert(), nb::arg("critic_observation").noconvert().none(),
      nb::arg("episode_return").noconvert(), nb::arg("episode_length").noconvert(),
      nb::arg("success").noconvert().none(), nb::arg("invalid").noconvert(),
      nb::arg("reward_term").noconvert().none(), nb::arg("metric").noconvert().none());
  environment.def(
      "read_state",
      [](VectorEnvironment& self, const std::string& name, const Rows<T>& rows) {
        for (const auto& [field, size] : self.picture_fields())
          if (field == name) {
            check_count(rows.size(), self.envs() * size, name);
            const nb::gil_scoped_release release;
            return self.read_state(name, rows.data());
          }
        throw nb::key_error(name.c_str());
      },
      nb::arg("name"), nb::arg("rows").noconvert());
}

Autoreset autoreset_of(const std::string& name) {
  if (name == "NextStep") return Autoreset::next_step;
  if (name == "SameStep") return Autoreset::same_step;
  if (name == "Disabled") return Autoreset::disabled;
  throw InputError("autoreset_mode: found '" + name + "'; allowed: NextStep, SameStep, Disabled");
}

// Python has no command line: arguments and overrides are named by their keys alone.
std::string without_command_line(std::string text) {
  const std::string place = SourceLocation{}.text() + ": ";
  for (std::size_t at = text.find(place); at != std::string::npos; at = text.find(place, at))
    text.erase(at, place.size());
  return text;
}

// Our errors with their text: what the user asked for is a ValueError, everything else a RuntimeError.
void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const InputError& error) {
    PyErr_SetString(PyExc_ValueError, without_command_line(error.what()).c_str());
  } catch (const Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

}  // namespace
}  // namespace maniple

NB_MODULE(_maniple, module) {
  using maniple::VectorEnvironment;
  nb::register_exception_translator(maniple::translate);
  module.attr("version") = maniple::kVersion;
  module.def(
      "deck_file",
      [](const std::string& given, const std::string& inputs) { return maniple::deck_file(given, inputs); },
      nb::arg("given"), nb::arg("inputs"));
  nb::class_<VectorEnvironment> environment(module, "VectorEnvironment");
  environment
      .def(
          "__init__",
          [](VectorEnvironment* self, const std::vector<std::string>& decks,
             const std::vector<std::string>& overrides,
             const std::optional<std::pair<std::string, std::string>>& run, const std::string& autoreset,
             int rank, int ranks, int threads, bool for_pictures) {
            const nb::gil_scoped_release release;
            new (self)
                VectorEnvironment(maniple::given_config(decks, overrides, run),
                                  maniple::autoreset_of(autoreset), rank, ranks, threads, for_pictures);
          },
          nb::arg("decks"), nb::arg("overrides"), nb::arg("run").none(), nb::arg("autoreset_mode"),
          nb::arg("rank"), nb::arg("ranks"), nb::arg("threads"), nb::arg("for_pictures"))
      .def("reseed", &VectorEnvironment::reseed, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("envs", &VectorEnvironment::envs)
      .def_prop_ro("first_env", &VectorEnvironment::first_env)
      .def_prop_ro("num_envs", &VectorEnvironment::num_envs)
      .def_prop_ro("num_observations", &VectorEnvironment::num_observations)
      .def_prop_ro("num_critic_observations", &VectorEnvironment::num_critic_observations)
      .def_prop_ro("num_actions", &VectorEnvironment::num_actions)
      .def_prop_ro("has_success", &VectorEnvironment::has_success)
      .def_prop_ro("is_double", &VectorEnvironment::is_double)
      .def_prop_ro("threads", &VectorEnvironment::threads)
      .def_prop_ro("step_dt", &VectorEnvironment::step_dt)
      .def_prop_ro("max_episode_steps", &VectorEnvironment::max_episode_steps)
      .def_prop_ro("seed", &VectorEnvironment::seed)
      .def_prop_ro("action_low", &VectorEnvironment::action_low)
      .def_prop_ro("action_high", &VectorEnvironment::action_high)
      .def_prop_ro("observation_names", &VectorEnvironment::observation_names)
      .def_prop_ro("action_names", &VectorEnvironment::action_names)
      .def_prop_ro("reward_terms", &VectorEnvironment::reward_terms)
      .def_prop_ro("metrics", &VectorEnvironment::metrics)
      .def_prop_ro("curricula",
                   [](const VectorEnvironment& self) {
                     nb::dict values;
                     for (const auto& curriculum : self.curricula())
                       values[curriculum.name.c_str()] = curriculum.value;
                     return values;
                   })
      .def_prop_ro("updated_curricula",
                   [](const VectorEnvironment& self) {
                     std::vector<std::string> names;
                     for (const auto& curriculum : self.curricula())
                       if (curriculum.is_updated) names.push_back(curriculum.name);
                     return names;
                   })
      .def("set_curriculum", &VectorEnvironment::set_curriculum, nb::arg("name"), nb::arg("value"),
           nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("warnings", &VectorEnvironment::warnings)
      .def_prop_ro("max_contacts", &VectorEnvironment::max_contacts)
      .def_prop_ro("dropped_contacts", &VectorEnvironment::dropped_contacts)
      .def_prop_ro(
          "mjb",
          [](const VectorEnvironment& self) { return nb::bytes(self.mjb().data(), self.mjb().size()); })
      .def_prop_ro("picture_fields", &VectorEnvironment::picture_fields)
      .def_prop_ro("task_name", [](const VectorEnvironment& self) { return self.config().task.name; })
      .def_prop_ro("deck", [](const VectorEnvironment& self) { return self.config().resolved_text; });
  maniple::bind_precision<float>(environment);
  maniple::bind_precision<double>(environment);
  maniple::bind_policy(module);
  maniple::bind_simulation(module);
}
