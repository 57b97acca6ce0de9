#include "src/base/process.hpp"

#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace maniple {

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

Job job() {
  Job job;
  constexpr const char* kSchedulers[][2] = {
      {"SLURM_JOB_ID", "squeue -j "}, {"PBS_JOBID", "qstat "}, {"LSB_JOBID", "bjobs "}};
  for (const auto& [variable, query] : kSchedulers) {
    const char* value = std::getenv(variable);
    for (const char* c = value; c && std::isalnum(static_cast<unsigned char>(*c)); ++c) job.id += *c;
    if (job.id.empty()) continue;
    job.query = query + job.id;
    break;
  }
  for (const char* variable : {"MANIPLE_JOB_START", "SLURM_RESTART_COUNT"})
    if (const char* value = std::getenv(variable)) {
      job.start = std::strtoll(value, nullptr, 10);
      break;
    }
  return job;
}

std::int64_t process_start(long pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  // the second field is the program's name, which may hold anything; the state is the third, the start the
  // twenty-second
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return -1;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  fields >> field;
  if (field == "Z" || field == "X") return -1;
  for (int i = 4; i <= 22; ++i) fields >> field;
  return std::strtoll(field.c_str(), nullptr, 10);
}

std::string process_namespace() {
  char target[64] = {};
  return readlink("/proc/self/ns/pid", target, sizeof target - 1) > 0 ? target : "unknown";
}

}  // namespace maniple
