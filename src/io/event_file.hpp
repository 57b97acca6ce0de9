// <run>/events.out.tfevents...: the metrics of a run as TensorBoard reads them, row by row while the run goes
// on. What it holds is in results.h5 and log.jsonl too: an event file that cannot be written is a warning.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace maniple {

class EventFile {
 public:
  // Begins a file in `directory`, on one rank. `replaces`: the files of earlier runs there go. `first_step`:
  // a reader forgets what earlier files say from that step on, which a run that was killed did and this one
  // repeats.
  EventFile(const std::string& directory, bool replaces, std::int64_t first_step);

  // One number per name, at a step that is larger than the last. What is not a number is left out.
  void write(std::int64_t step, const std::vector<std::pair<std::string, double>>& values);

  // What TensorBoard's table of hyperparameters shows of a run: settings, as YAML writes them, by their keys;
  // how it ended. (Its metrics are the scalars.)
  void begin_session(const std::vector<std::pair<std::string, std::string>>& settings);
  void end_session();

 private:
  void append(const std::string& event);
  void append_session(const std::string& part, const std::string& data);

  std::string path_;
  std::ofstream file_;
};

// The records of the file: length, its checksum, the bytes, their checksum (TFRecord).
std::string framed_record(const std::string& bytes);

}  // namespace maniple
