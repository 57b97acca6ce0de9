#include "src/model_import/mujoco_guard.hpp"

#include <mujoco/mujoco.h>

#include <csetjmp>
#include <cstdio>

#include "src/base/error.hpp"

namespace maniple {
namespace {

// Handlers are plain functions without a context argument, so these.
thread_local std::jmp_buf* error_target = nullptr;
thread_local char error_text[2048];
thread_local std::vector<std::string>* warning_target = nullptr;

void on_error(const char* text) {
  std::snprintf(error_text, sizeof(error_text), "%s", text);
  std::longjmp(*error_target, 1);
}

void on_warning(const char* text) {
  if (warning_target != nullptr) warning_target->push_back(text);
}

// Puts the handlers in place and restores what was there, whichever way the scope is left.
struct Handlers {
  void (*const error)(const char*) = mju_user_error;
  void (*const warning)(const char*) = mju_user_warning;
  std::jmp_buf* const outer_target = error_target;
  std::vector<std::string>* const outer_warnings = warning_target;

  Handlers(std::jmp_buf* target, std::vector<std::string>* warnings) {
    error_target = target;
    warning_target = warnings;
    mju_user_error = on_error;
    mju_user_warning = on_warning;
  }
  ~Handlers() {
    mju_user_error = error;
    mju_user_warning = warning;
    error_target = outer_target;
    warning_target = outer_warnings;
  }
};

}  // namespace

void call_guarded(void (*call)(void*), void* argument, std::vector<std::string>& warnings) {
  std::jmp_buf here;
  Handlers handlers(&here, &warnings);
  if (setjmp(here) != 0) throw Error(error_text);
  call(argument);
}

}  // namespace maniple
