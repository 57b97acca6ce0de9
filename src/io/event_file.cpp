// Event files are TFRecords of the protocol buffer tensorflow.Event (event.proto and summary.proto of
// TensorBoard); the few fields that scalars need are written here by hand.
#include "src/io/event_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "src/base/log.hpp"
#include "src/base/process.hpp"

namespace maniple {
namespace {

static_assert(std::endian::native == std::endian::little, "records are little-endian");

constexpr const char* kPrefix = "events.out.tfevents.";

// CRC-32C (Castagnoli), reflected.
std::uint32_t crc32c(const std::string& bytes) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> entries{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0u);
      entries[i] = crc;
    }
    return entries;
  }();
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// ---- fields of a protocol buffer ----
enum WireType { varint_type = 0, eight_bytes = 1, counted_bytes = 2, four_bytes = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string key(int field, WireType type) {
  return varint(static_cast<std::uint64_t>(field) << 3 | type);
}
std::string field(int number, const std::string& bytes) {
  return key(number, counted_bytes) + varint(bytes.size()) + bytes;
}

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}
// google.protobuf.Value of a value of a deck
std::string value_of_setting(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0') return key(2, eight_bytes) + raw(number);
  if (text == "true" || text == "false") return key(4, varint_type) + varint(text == "true");
  const bool quoted = text.size() > 1 && text.front() == '"' && text.back() == '"';
  return field(3, quoted ? text.substr(1, text.size() - 2) : text);
}
std::string event(std::int64_t step, const std::string& what) {
  return key(1, eight_bytes) + raw(unix_time()) + key(2, varint_type) +
         varint(static_cast<std::uint64_t>(step)) + what;
}

}  // namespace

std::string framed_record(const std::string& bytes) {
  const auto masked = [](std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; };
  const std::string length = raw(static_cast<std::uint64_t>(bytes.size()));
  return length + raw(masked(crc32c(length))) + bytes + raw(masked(crc32c(bytes)));
}

EventFile::EventFile(const std::string& directory, bool replaces, std::int64_t first_step) {
  std::error_code ignored;
  if (replaces)
    for (const auto& entry : std::filesystem::directory_iterator(directory, ignored))
      if (entry.path().filename().string().rfind(kPrefix, 0) == 0)
        std::filesystem::remove(entry.path(), ignored);
  // (files of a directory are read in order of their names)
  path_ = fmt::format("{}/{}{:010}.{}.{}", directory, kPrefix, static_cast<std::int64_t>(unix_time()),
                      host_name(), getpid());
  file_.open(path_, std::ios::binary | std::ios::trunc);
  append(event(0, field(3, "brain.Event:2")));
  const std::string start = key(1, varint_type) + varint(1);  // SessionLog.START
  append(event(first_step, field(7, start)));
}

std::string tag_of(const std::string& metric) {
  for (const auto& [prefix, group] :
       {std::pair("reward_", "Reward"), std::pair("termination_", "Termination"),
        std::pair("metric_", "Metrics"), std::pair("curriculum_", "Curriculum"),
        std::pair("evaluation_", "Evaluation")})
    if (metric.starts_with(prefix)) return fmt::format("{}/{}", group, metric.substr(metric.find('_') + 1));
  if (metric.starts_with("episode")) return "Episode/" + metric;
  if (metric.ends_with("loss")) return "Loss/" + metric;
  for (const char* const progress : {"iteration", "env_steps", "wall_seconds", "updates", "epoch"})
    if (metric == progress) return "Progress/" + metric;
  return "Learning/" + metric;
}

void EventFile::write(std::int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  std::string summary;
  for (const auto& [name, value] : values)
    if (!std::isnan(value))
      summary += field(1, field(1, tag_of(name)) + key(2, four_bytes) + raw(static_cast<float>(value)));
  append(event(step, field(5, summary)));
}

// One part of HParamsPluginData (plugin_data.proto of TensorBoard's plugin hparams), as the content of a
// summary.
void EventFile::append_session(const std::string& part, const std::string& data) {
  const std::string plugin = field(1, "hparams") + field(2, data);
  append(event(0, field(5, field(1, field(1, "_hparams_/" + part) + field(9, field(1, plugin))))));
}

void EventFile::begin_session(const std::vector<std::pair<std::string, std::string>>& settings) {
  std::string start;
  for (const auto& [name, value] : settings)
    start += field(1, field(1, name) + field(2, value_of_setting(value)));
  append_session("session_start_info", field(3, start + key(5, eight_bytes) + raw(unix_time())));
}

void EventFile::end_session() {
  const std::string success = key(1, varint_type) + varint(1);  // STATUS_SUCCESS
  append_session("session_end_info", field(4, success + key(2, eight_bytes) + raw(unix_time())));
}

void EventFile::append(const std::string& event) {
  if (path_.empty()) return;
  file_ << framed_record(event) << std::flush;
  if (file_) return;
  warn(path_ + ": cannot be written (" + std::strerror(errno) +
       "): TensorBoard will not show the rest of this run");
  path_.clear();
}

}  // namespace maniple
