// Rough ground as heights, made from a deck's `terrain` and its seed alone, so that every rank has the same.
// src/model_import/terrain_model.cpp puts it into a model; tasks read where its cells are.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/philox.hpp"
#include "src/config/config.hpp"

namespace maniple {

// Heights over a grid of points, row by row along x as those of a height field of MuJoCo: at(ix, iy).
struct HeightGrid {
  int nx = 0, ny = 0;
  std::vector<double> values;  // m

  HeightGrid(int columns, int rows)
      : nx(columns), ny(rows), values(static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows)) {}
  double& at(int ix, int iy) { return values[index(ix, iy)]; }
  double at(int ix, int iy) const { return values[index(ix, iy)]; }

 private:
  std::size_t index(int ix, int iy) const {
    return static_cast<std::size_t>(iy) * static_cast<std::size_t>(nx) + static_cast<std::size_t>(ix);
  }
};

// The draws of one cell, in their order: Philox(seed, terrain; cell, 0, draw).
class CellDraws {
 public:
  CellDraws(std::uint32_t seed, int cell) : seed_(seed), cell_(static_cast<std::uint64_t>(cell)) {}
  // Uniform in [0, 1), and one of the integers from 0 to count - 1.
  double uniform();
  int below(int count);

 private:
  std::uint32_t seed_;
  std::uint64_t cell_;
  std::uint32_t drawn_ = 0;
};

// One cell of terrain.size, its edges at height 0, so that neighbours fit. `difficulty` from 0 to 1. Isaac
// Lab's generators (isaaclab.terrains: height_field/hf_terrains.py, trimesh/mesh_terrains.py) by their
// parameters, with heights of the latter taken at the points of the grid; the bowl is dm_control's
// (suite/quadruped.py, Escape).
HeightGrid sub_terrain_heights(const SubTerrainConfig& sub, const TerrainConfig& terrain, double difficulty,
                               CellDraws& draws);

struct TerrainCell {
  std::array<double, 3> origin{};  // m: where robots stand, in the world
  int type = 0;                    // of TerrainConfig::sub_terrains
  double difficulty = 0;
};

struct Terrain {
  int num_rows = 0, num_cols = 0;
  std::array<double, 2> size{}, extent{};  // m: of a cell; from the middle of the terrain to its end
  std::array<double, 2> middle{};          // m: in the world
  int first_init_level = 0, last_init_level = 0;
  bool randomize = false;          // each episode begins in a random cell
  std::vector<std::string> types;  // names of sub-terrains
  std::vector<TerrainCell> cells;  // [row][column]
  HeightGrid heights{0, 0};        // m; the middle of the terrain in the middle of the grid

  const TerrainCell& cell(int row, int column) const {
    return cells[static_cast<std::size_t>(row * num_cols + column)];
  }
};

// Which sub-terrain each column has, in the proportions of the deck (Isaac Lab's curriculum mode).
std::vector<int> types_of_columns(const TerrainConfig& config);

// Names of sub-terrains that no cell has.
std::vector<std::string> types_without_cells(const Terrain& terrain);

// The whole of it, around the origin. InputError where it has more points than memory, or than a height
// field, can hold.
Terrain make_terrain(const TerrainConfig& config);

}  // namespace maniple
