// ModelSimulation in the module _maniple, on which tools/maniple/simulation.py
// builds maniple.Simulation and maniple.rollout().
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/error.hpp"
#include "src/python/arrays.hpp"
#include "src/python/bindings.hpp"
#include "src/python/given_deck.hpp"
#include "src/python/model_simulation.hpp"

namespace nb = nanobind;

namespace maniple {
namespace {

const ModelSimulation::Field& field_of(const ModelSimulation& simulation, const std::string& name) {
  for (const ModelSimulation::Field& field : simulation.fields())
    if (field.name == name) return field;
  throw nb::key_error(name.c_str());
}

template <class T>
void bind_rows(nb::class_<ModelSimulation>& simulation) {
  simulation.def(
      "get",
      [](ModelSimulation& self, const std::string& name, const Rows<T>& rows) {
        const ModelSimulation::Field& field = field_of(self, name);
        check_count(rows.size(), self.envs() * field.size, name);
        const nb::gil_scoped_release release;
        self.get(field, rows.data());
      },
      nb::arg("name"), nb::arg("rows").noconvert());
  simulation.def(
      "set",
      [](ModelSimulation& self, const std::string& name, const Rows<const T>& rows,
         const std::optional<Rows<bool>>& mask) {
        const ModelSimulation::Field& field = field_of(self, name);
        check_count(rows.size(), self.envs() * field.size, name);
        const bool* const chosen = numbers_of(mask, self.envs(), "mask");
        const nb::gil_scoped_release release;
        self.set(field, rows.data(), chosen);
      },
      nb::arg("name"), nb::arg("rows").noconvert(), nb::arg("mask").none());
}

}  // namespace

void bind_simulation(nb::module_& module) {
  nb::class_<ModelSimulation> simulation(module, "ModelSimulation");
  simulation
      .def(
          "__init__",
          [](ModelSimulation* self, const std::vector<std::string>& decks,
             const std::vector<std::string>& overrides,
             const std::optional<std::pair<std::string, std::string>>& run,
             const std::vector<std::string>& fields, const std::vector<std::string>& model_fields,
             int threads) {
            const nb::gil_scoped_release release;
            new (self) ModelSimulation(given_config(decks, overrides, run), fields, model_fields, threads);
          },
          nb::arg("decks"), nb::arg("overrides"), nb::arg("run").none(), nb::arg("fields"),
          nb::arg("model_fields"), nb::arg("threads"))
      .def_prop_ro("envs", &ModelSimulation::envs)
      .def_prop_ro("is_double", &ModelSimulation::is_double)
      .def_prop_ro("step_dt", &ModelSimulation::step_dt)
      .def_prop_ro("bad_states", &ModelSimulation::bad_states)
      .def_prop_ro("max_contacts", &ModelSimulation::max_contacts)
      .def_prop_ro("dropped_contacts", &ModelSimulation::dropped_contacts)
      .def_prop_ro("warnings", [](const ModelSimulation& self) { return self.model().warnings; })
      .def_prop_ro("deck", [](const ModelSimulation& self) { return self.config().resolved_text; })
      .def("fields",
           [](const ModelSimulation& self) {
             nb::list list;
             for (const ModelSimulation::Field& field : self.fields())
               list.append(
                   nb::make_tuple(field.name, field.size, field.is_state, field.unit, field.description));
             return list;
           })
      .def("model_fields",
           [](const ModelSimulation& self) {
             nb::list list;
             for (const ModelSimulation::ModelField& field : self.model_fields())
               list.append(nb::make_tuple(field.name, field.size, field.first, field.may_be_set, field.unit,
                                          field.description));
             return list;
           })
      .def(
          "reset",
          [](ModelSimulation& self, const std::optional<Rows<bool>>& mask) {
            const bool* const chosen = numbers_of(mask, self.envs(), "mask");
            const nb::gil_scoped_release release;
            self.reset(chosen);
          },
          nb::arg("mask").none())
      .def("forward", &ModelSimulation::forward, nb::arg("inverse") = false,
           nb::call_guard<nb::gil_scoped_release>())
      .def("step", &ModelSimulation::step, nb::arg("steps"), nb::call_guard<nb::gil_scoped_release>())
      .def(
          "rollout",
          [](ModelSimulation& self, const std::optional<Rows<const double>>& control, std::int64_t steps,
             const Rows<double>& state, const Rows<double>& sensordata) {
            const ModelSizes& sizes = self.model().sizes;
            const std::int64_t rows = self.envs() * steps;
            const double* const controls = numbers_of(control, rows * sizes.nu, "control");
            check_count(state.size(), rows * (1 + sizes.nq + sizes.nv + sizes.na), "state");
            check_count(sensordata.size(), rows * sizes.nsensordata, "sensordata");
            const nb::gil_scoped_release release;
            self.rollout(controls, steps, state.data(), sensordata.data());
          },
          nb::arg("control").noconvert().none(), nb::arg("steps"), nb::arg("state").noconvert(),
          nb::arg("sensordata").noconvert());
  bind_rows<float>(simulation);
  bind_rows<double>(simulation);
}

}  // namespace maniple
