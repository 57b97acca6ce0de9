// The digest of a file: equal for equal numbers, whatever the layout, rank count, host or date.
#pragma once

#include <string>

namespace maniple {

// SHA-256 in hexadecimal over name, type, shape and numbers of every dataset, in order of names; not
// over /run, text, attributes, or datasets with attribute reproducible = 0. Throws Error when the file
// cannot be read.
std::string file_digest(const std::string& path);

}  // namespace maniple
