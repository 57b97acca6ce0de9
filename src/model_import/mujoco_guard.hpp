// The fence around libmujoco: its fatal errors, which would end the process, become exceptions, and its
// warnings, which would go to a log file in the working directory, are collected.
#pragma once

#include <string>
#include <vector>

namespace maniple {

// Runs call(argument); throws Error with libmujoco's text if it reports a fatal error. Warnings are
// appended to `warnings`. A fatal error leaves `call` by longjmp, so `call` must hold no objects with
// destructors while it is inside libmujoco; what libmujoco held then is lost.
void call_guarded(void (*call)(void*), void* argument, std::vector<std::string>& warnings);

// The same for a function object, for instance [&] { model = mj_loadModel(path, nullptr); }.
template <class Function>
void guarded(Function&& function, std::vector<std::string>& warnings) {
  call_guarded([](void* f) { (*static_cast<std::remove_reference_t<Function>*>(f))(); }, &function, warnings);
}

}  // namespace maniple
