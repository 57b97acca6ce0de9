// The grid of cells: which sub-terrain and which difficulty each has, and where its robots stand.
#include "src/model_import/terrain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "src/base/memory.hpp"

namespace maniple {
namespace {

// Of a point: in the terrain, in MuJoCo's model and in its copy as a file, in the imported one and on the
// device.
constexpr double kBytesPerPoint = 8 + 4 + 4 + 8 + 8;

void check_size(const TerrainConfig& config, double points) {
  const double bytes = points * kBytesPerPoint;
  double available = std::numeric_limits<double>::infinity();
  for (const MemoryLimit& limit : memory_limits())
    available = std::min(available, static_cast<double>(limit.available));
  if (points < std::numeric_limits<int>::max() && bytes < available) return;
  throw InputError(
      config.where, "terrain.sub_terrains",
      fmt::format("found a terrain of {:.4g} points, {:.4g} MB on each rank", points, bytes / 1e6),
      fmt::format("allowed: less than 2^31 points and {:.4g} MB; a larger terrain.horizontal_scale, "
                  "fewer terrain.num_rows or num_cols, or a smaller border",
                  available / 1e6));
}

// The highest point within a metre of the middle: what Isaac Lab calls the height of a cell's origin.
double height_of_middle(const HeightGrid& cell, double scale) {
  const auto reach = [&](int points) { return std::min(points / 2, static_cast<int>(1 / scale + 1e-6)); };
  const int cx = cell.nx / 2, cy = cell.ny / 2, rx = reach(cell.nx), ry = reach(cell.ny);
  double highest = cell.at(cx, cy);
  for (int iy = std::max(0, cy - ry); iy <= std::min(cell.ny - 1, cy + ry); ++iy)
    for (int ix = std::max(0, cx - rx); ix <= std::min(cell.nx - 1, cx + rx); ++ix)
      highest = std::max(highest, cell.at(ix, iy));
  return highest;
}

std::vector<double> cumulative_shares(const TerrainConfig& config) {
  std::vector<double> sums;
  double sum = 0;
  for (const SubTerrainConfig& sub : config.sub_terrains) sums.push_back(sum += sub.proportion);
  for (double& share : sums) share /= sum;
  return sums;
}

int type_at(const std::vector<double>& shares, double place) {
  const auto found = std::find_if(shares.begin(), shares.end(), [&](double share) { return place < share; });
  return static_cast<int>(std::min<std::ptrdiff_t>(found - shares.begin(), std::ssize(shares) - 1));
}

}  // namespace

std::vector<int> types_of_columns(const TerrainConfig& config) {
  const std::vector<double> shares = cumulative_shares(config);
  std::vector<int> types;
  for (int column = 0; column < config.num_cols; ++column)
    types.push_back(type_at(shares, static_cast<double>(column) / config.num_cols + 0.001));
  return types;
}

std::vector<std::string> types_without_cells(const Terrain& terrain) {
  std::vector<std::string> without;
  for (int type = 0; type < std::ssize(terrain.types); ++type)
    if (std::none_of(terrain.cells.begin(), terrain.cells.end(),
                     [type](const TerrainCell& cell) { return cell.type == type; }))
      without.push_back(terrain.types[static_cast<std::size_t>(type)]);
  return without;
}

Terrain make_terrain(const TerrainConfig& config) {
  Terrain terrain;
  terrain.num_rows = config.num_rows;
  terrain.num_cols = config.num_cols;
  terrain.size = config.size;
  terrain.extent = {config.num_rows * config.size[0] / 2 + config.border_width,
                    config.num_cols * config.size[1] / 2 + config.border_width};
  terrain.first_init_level = config.min_init_terrain_level;
  terrain.last_init_level = config.last_init_level();
  terrain.randomize = config.randomize;
  for (const SubTerrainConfig& sub : config.sub_terrains) terrain.types.push_back(sub.name);

  const double scale = config.horizontal_scale;
  check_size(config, (2 * terrain.extent[0] / scale + 1) * (2 * terrain.extent[1] / scale + 1));
  const auto steps = [&](double length) { return static_cast<int>(std::lround(length / scale)); };
  terrain.heights = HeightGrid(2 * steps(config.border_width) + config.num_rows * steps(config.size[0]) + 1,
                               2 * steps(config.border_width) + config.num_cols * steps(config.size[1]) + 1);
  const std::vector<int> of_columns = types_of_columns(config);
  const std::vector<double> shares = cumulative_shares(config);
  const double easiest = (*config.difficulty_range)[0], hardest = (*config.difficulty_range)[1];
  for (int row = 0; row < config.num_rows; ++row)
    for (int column = 0; column < config.num_cols; ++column) {
      CellDraws draws(static_cast<std::uint32_t>(config.seed), row * config.num_cols + column);
      TerrainCell cell;
      cell.type = of_columns[static_cast<std::size_t>(column)];
      double share = draws.uniform();
      if (config.curriculum)
        share = (row + share) / config.num_rows;
      else
        cell.type = type_at(shares, draws.uniform());
      cell.difficulty = easiest + (hardest - easiest) * share;
      const HeightGrid heights = sub_terrain_heights(config.sub_terrains[static_cast<std::size_t>(cell.type)],
                                                     config, cell.difficulty, draws);
      const int first_x = steps(config.border_width) + row * (heights.nx - 1),
                first_y = steps(config.border_width) + column * (heights.ny - 1);
      for (int iy = 0; iy < heights.ny; ++iy)
        for (int ix = 0; ix < heights.nx; ++ix)
          terrain.heights.at(first_x + ix, first_y + iy) = heights.at(ix, iy);
      cell.origin = {(row + 0.5) * config.size[0] - config.num_rows * config.size[0] / 2,
                     (column + 0.5) * config.size[1] - config.num_cols * config.size[1] / 2,
                     height_of_middle(heights, scale)};
      terrain.cells.push_back(cell);
    }
  return terrain;
}

}  // namespace maniple
