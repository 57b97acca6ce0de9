// CallablePolicy in the module _maniple, on which tools/maniple/policy.py builds the policies of
// maniple.load_policy().
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <string>

#include "src/python/arrays.hpp"
#include "src/python/bindings.hpp"
#include "src/python/policy.hpp"

namespace nb = nanobind;

namespace maniple {
namespace {

const char* type_name(ElementType type) {
  switch (type) {
    case ElementType::float32:
      return "float32";
    case ElementType::float64:
      return "float64";
    case ElementType::int32:
      return "int32";
    case ElementType::int64:
      return "int64";
    case ElementType::uint8:
      return "uint8";
  }
  return "";
}

// Names, numpy's types and sizes.
nb::list entries_of(const CallablePolicy& policy) {
  nb::list list;
  for (const ArchiveEntry& entry : policy.entries())
    list.append(nb::make_tuple(entry.name, type_name(entry.type), entry.elements));
  return list;
}

void load_entry(const CallablePolicy& policy, const std::string& name,
                const nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>& values) {
  for (const ArchiveEntry& entry : policy.entries()) {
    if (entry.name != name) continue;
    check_count(values.nbytes() / bytes_of(entry.type), static_cast<std::int64_t>(entry.elements), name);
    std::memcpy(entry.data, values.data(), values.nbytes());
  }
}

}  // namespace

void bind_policy(nb::module_& module) {
  nb::class_<CallablePolicy>(module, "CallablePolicy")
      .def(nb::init<const std::string&, const std::string&, int, int, int>(), nb::arg("results"),
           nb::arg("deck"), nb::arg("observations"), nb::arg("critic_observations"), nb::arg("actions"))
      .def("entries", &entries_of)
      .def("load", &load_entry, nb::arg("name"), nb::arg("values"))
      .def("loaded", &CallablePolicy::loaded)
      .def_prop_ro("observations", &CallablePolicy::observations)
      .def_prop_ro("actions", &CallablePolicy::actions)
      .def_prop_ro("is_stateful", &CallablePolicy::remembers)
      .def_prop_ro("envs", &CallablePolicy::envs)
      .def_prop_ro("seed", [](const CallablePolicy& self) { return self.config().batch.seed; })
      .def("begin", &CallablePolicy::begin, nb::arg("envs"), nb::call_guard<nb::gil_scoped_release>())
      .def(
          "forget",
          [](CallablePolicy& self, const Rows<bool>& mask) {
            check_count(mask.size(), self.envs(), "mask");
            self.forget(mask.data());
          },
          nb::arg("mask").noconvert())
      .def(
          "act",
          [](CallablePolicy& self, const Rows<const float>& observation, const Rows<float>& action,
             const std::optional<bool>& deterministic, std::uint32_t seed) {
            check_count(observation.size(), self.envs() * self.observations(), "observation");
            check_count(action.size(), self.envs() * self.actions(), "action");
            Determinism determinism = self.config().evaluation.deterministic;
            if (deterministic) determinism = *deterministic ? Determinism::deterministic : Determinism::drawn;
            const nb::gil_scoped_release release;
            self.act(observation.data(), action.data(), determinism, seed);
          },
          nb::arg("observation").noconvert(), nb::arg("action").noconvert(), nb::arg("deterministic").none(),
          nb::arg("seed"));
}

}  // namespace maniple
