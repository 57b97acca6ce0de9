// The log of a run for people and programs: plain lines on the console of rank 0, the same lines and events
// as JSON in <run>/log.jsonl, and one live line at the foot of a terminal. It is built on spdlog, which no
// caller sees. Not for use inside kernels.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace maniple {

inline constexpr const char* kLogFile = "log.jsonl";  // of a run's directory

// One named value of an event in log.jsonl.
struct LogField {
  std::string name;
  std::variant<double, std::int64_t, std::string> value;
};

// Starts the log of this process; before it, everything goes to the console. Only rank 0 prints and
// writes. `directory` is created when missing; "": no file. A log that exists is continued.
// `console` false: nothing on the console but warnings. `name`, where several runs share a console, stands
// before each line there. Throws Error when the file cannot be opened.
void open_log(int rank, const std::string& directory, bool console = true, const std::string& name = "");
// What earlier runs have left in the log goes; what was written since open_log() stays. Throws Error when the
// file cannot be written.
void begin_log_anew();
// Writes what is buffered and closes the file; the log may be opened again.
void close_log();

// A line for people and for the log: on rank 0 only, so call it wherever rank 0 passes.
void info(const std::string& text);
// The same, marked as a warning, on standard error.
void warn(const std::string& text);

// An event for machines: one line {"time": s since 1970, "event": ..., fields ...} in log.jsonl.
void record(const std::string& event, const std::vector<LogField>& fields);

// The live line of a terminal: replaced by the next call, kept below other lines, removed by "".
void live_line(const std::string& text);

}  // namespace maniple
