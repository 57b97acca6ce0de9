// A Kokkos tool, loaded by the program on test_labels.py's demand: writes the label of every kernel and of
// every allocation, once each, to the file that MANIPLE_LABELS names.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

namespace {

std::set<std::string> labels;

void note(const char* what, const char* label) {
  labels.insert(std::string(what) + " " + label);
}

}  // namespace

extern "C" {

struct SpaceHandle {
  char name[64];
};

void kokkosp_begin_parallel_for(const char* label, std::uint32_t, std::uint64_t*) {
  note("kernel", label);
}
void kokkosp_begin_parallel_reduce(const char* label, std::uint32_t, std::uint64_t*) {
  note("kernel", label);
}
void kokkosp_begin_parallel_scan(const char* label, std::uint32_t, std::uint64_t*) {
  note("kernel", label);
}
void kokkosp_allocate_data(SpaceHandle, const char* label, const void*, std::uint64_t) {
  note("allocation", label);
}
void kokkosp_finalize_library() {
  std::ofstream file(std::getenv("MANIPLE_LABELS"));
  for (const std::string& label : labels) file << label << '\n';
}
}
