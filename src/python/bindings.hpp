// The parts of the module _maniple, one for each class that it shows to Python.
#pragma once

#include <nanobind/nanobind.h>

namespace maniple {

void bind_policy(nanobind::module_& module);
void bind_simulation(nanobind::module_& module);

}  // namespace maniple
