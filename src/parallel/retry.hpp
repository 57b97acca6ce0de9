// Second tries after errors that pass: a server of the file system restarts, a network drops a request. An
// operation on a file is repeated as a whole, by all ranks together, and each attempt is logged.
#pragma once

#include <functional>
#include <string>

#include "src/base/error.hpp"
#include "src/parallel/collectives.hpp"

namespace maniple {

// The system failed to do what was asked of a file, which says nothing about what is in the file.
class FileError : public Error {
 public:
  using Error::Error;
};
// One that may be gone a moment later.
class TransientError : public FileError {
 public:
  using FileError::FileError;
};

// Whether an errno may be gone a moment later: EIO, ESTALE, ETIMEDOUT and the like; not a full disk, a
// missing file or missing rights.
bool is_transient(int error);
// Throws TransientError or FileError: "path: action: what errno says".
[[noreturn]] void throw_file_error(const std::string& path, const std::string& action, int error);

// run.retries: how often more an operation is tried.
void set_retries(int count);

// Collective. Runs `work`, which is collective itself and ends alike on all ranks; after a TransientError it
// is run again, 1, 2, 4 ... at most 60 s later. `what` names it in the log.
void retry_together(Collectives& collectives, const std::string& what, const std::function<void()>& work);

}  // namespace maniple
