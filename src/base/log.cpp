// The log over spdlog: one logger for the console, one for errors, one for log.jsonl.
#include "src/base/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "src/base/error.hpp"
#include "src/base/json.hpp"

namespace maniple {
namespace {

struct Log {
  int rank = 0;
  bool console = true;
  std::string name, live;
  std::string path;            // of the file
  std::uintmax_t earlier = 0;  // bytes that were in it when it was opened
  std::shared_ptr<spdlog::logger> out, err, file;

  Log() {
    out = std::make_shared<spdlog::logger>("out", std::make_shared<spdlog::sinks::stdout_sink_mt>());
    err = std::make_shared<spdlog::logger>("err", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    for (const auto& logger : {out, err}) {
      logger->set_pattern("%v");
      logger->flush_on(spdlog::level::info);
    }
  }
};

Log& the_log() {
  static Log log;
  return log;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void open_file(Log& log) {
  log.file =
      std::make_shared<spdlog::logger>("file", std::make_shared<spdlog::sinks::basic_file_sink_mt>(log.path));
  log.file->set_pattern("%v");
  log.file->flush_on(spdlog::level::info);
}

void write_json(const std::string& head, const std::vector<LogField>& fields) {
  if (!the_log().file) return;
  char time[40];
  std::snprintf(time, sizeof time, "%.3f", now());
  std::string line = "{\"time\": " + std::string(time) + ", " + head;
  for (const LogField& field : fields) {
    std::string value;
    if (const auto* real = std::get_if<double>(&field.value)) value = json_number_or_text(*real);
    if (const auto* integer = std::get_if<std::int64_t>(&field.value)) value = std::to_string(*integer);
    if (const auto* text = std::get_if<std::string>(&field.value)) value = json_text(*text);
    line += ", " + json_entry(field.name, value);
  }
  the_log().file->info("{}", line + "}");
}

// The live line goes away while `print` writes lines of its own, and comes back below them.
template <class Print>
void around_live_line(const Print& print) {
  const bool live = !the_log().live.empty();
  if (live) std::fputs("\r\033[K", stdout), std::fflush(stdout);
  print();
  if (live) std::fputs(the_log().live.c_str(), stdout), std::fflush(stdout);
}

}  // namespace

void open_log(int rank, const std::string& directory, bool console, const std::string& name) {
  Log& log = the_log();
  close_log();
  log.rank = rank;
  log.name = name.empty() ? "" : name + ": ";
  log.console = console;
  if (rank != 0 || directory.empty()) return;
  log.path = (std::filesystem::path(directory) / kLogFile).string();
  std::error_code none;
  log.earlier = std::filesystem::exists(log.path, none) ? std::filesystem::file_size(log.path, none) : 0;
  try {
    std::filesystem::create_directories(directory);
    open_file(log);
  } catch (const std::exception& problem) {
    throw Error("cannot write the log " + log.path + ": " + problem.what());
  }
}

void begin_log_anew() {
  Log& log = the_log();
  if (!log.file || log.earlier == 0) return;
  log.file->flush();
  try {
    std::ifstream written(log.path, std::ios::binary);
    written.seekg(static_cast<std::streamoff>(log.earlier));
    const std::string mine{std::istreambuf_iterator<char>(written), {}};
    const std::string fresh = log.path + ".tmp";
    std::ofstream(fresh, std::ios::binary) << mine;
    std::filesystem::rename(fresh, log.path);
    open_file(log);
  } catch (const std::exception& problem) {
    throw Error("cannot write the log " + log.path + ": " + problem.what());
  }
  log.earlier = 0;
}

void close_log() {
  live_line("");
  if (the_log().file) the_log().file->flush();
  the_log().file.reset();
}

void info(const std::string& text) {
  Log& log = the_log();
  if (log.rank != 0) return;
  if (log.console) around_live_line([&] { log.out->info("{}{}", log.name, text); });
  write_json("\"level\": \"info\", " + json_entry("text", json_text(text)), {});
}

void warn(const std::string& text) {
  Log& log = the_log();
  if (log.rank != 0) return;
  around_live_line([&] { log.err->warn("warning: {}{}", log.name, text); });
  write_json("\"level\": \"warning\", " + json_entry("text", json_text(text)), {});
}

void record(const std::string& event, const std::vector<LogField>& fields) {
  if (the_log().rank == 0) write_json(json_entry("event", json_text(event)), fields);
}

void live_line(const std::string& text) {
  Log& log = the_log();
  if (log.rank != 0 || (text.empty() && log.live.empty())) return;
  std::fputs(("\r\033[K" + text).c_str(), stdout);
  std::fflush(stdout);
  log.live = text;
}

}  // namespace maniple
