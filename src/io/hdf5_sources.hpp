// Datasets of HDF5 whose numbers lie in other datasets (virtual ones) or in plain files (external ones). The
// library reads fill values in place of missing sources; the functions here report those by name.
#pragma once

#include <hdf5.h>

#include <string>

namespace maniple::hdf5 {

// Bytes of the other files in which the numbers of a dataset are, `creation` its creation properties; 0: they
// are in its own. Error where one of them is missing, too short or has no such dataset. `level`: how many
// virtual datasets led to this one.
double bytes_elsewhere(hid_t file, hid_t creation, const std::string& name, int level);

}  // namespace maniple::hdf5
