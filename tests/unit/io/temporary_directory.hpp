// A fresh directory for one test, the same on every rank, removed at the end by rank 0.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "src/parallel/failure.hpp"

namespace maniple {

class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(Collectives& collectives, const std::string& parent = "")
      : collectives_(collectives) {
    std::string name =
        (parent.empty() ? std::filesystem::temp_directory_path().string() : parent) + "/manipleXXXXXX";
    run_on_root(collectives, [&] {
      if (!mkdtemp(name.data())) throw Error("mkdtemp " + name);
    });
    path_ = broadcast_text(collectives, name);
  }
  ~TemporaryDirectory() {
    collectives_.barrier();
    std::error_code ignored;
    if (collectives_.rank() == 0) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  operator const std::string&() const { return path_; }

 private:
  Collectives& collectives_;
  std::string path_;
};

}  // namespace maniple
