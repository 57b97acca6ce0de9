// The generators of sub-terrains. Those after Isaac Lab's height fields count in points of the grid and in
// units of terrain.vertical_scale, as the originals do; those after its meshes, and the bowl, in metres.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "src/model_import/terrain.hpp"

namespace maniple {
namespace {

// A number of a range at a difficulty.
double at_difficulty(const std::optional<std::vector<double>>& range, double difficulty) {
  return (*range)[0] + difficulty * ((*range)[1] - (*range)[0]);
}

// How many whole steps are in a length, up to rounding of the deck's decimals.
int whole(double length, double step) {
  const double steps = length / step;
  return static_cast<int>(steps + std::copysign(1e-6, steps));
}

// The part of a cell within its border, of a generator that counts: the border has one point more than fits
// in border_width, as in Isaac Lab.
class InnerGrid {
 public:
  InnerGrid(HeightGrid& cell, const SubTerrainConfig& sub, const TerrainConfig& terrain)
      : cell_(cell),
        border_(whole(sub.border_width, terrain.horizontal_scale) + 1),
        unit_(terrain.vertical_scale),
        nx(std::max(0, cell.nx - 2 * border_)),
        ny(std::max(0, cell.ny - 2 * border_)) {}
  void set(int ix, int iy, double units) {
    cell_.at(border_ + ix, border_ + iy) = std::nearbyint(units) * unit_;
  }
  // of the points from (x0, y0) to before (x1, y1), as far as they are there
  void fill(int x0, int x1, int y0, int y1, double units) {
    for (int iy = std::max(0, y0); iy < std::min(ny, y1); ++iy)
      for (int ix = std::max(0, x0); ix < std::min(nx, x1); ++ix) set(ix, iy, units);
  }
  void fill_middle(int width, double units) {
    fill((nx - width) / 2, (nx + width) / 2, (ny - width) / 2, (ny + width) / 2, units);
  }

 private:
  HeightGrid& cell_;
  int border_;
  double unit_;

 public:
  const int nx, ny;
};

void random_uniform(InnerGrid& grid, const SubTerrainConfig& sub, const TerrainConfig& terrain,
                    CellDraws& draws) {
  const int low = whole((*sub.noise_range)[0], terrain.vertical_scale),
            high = whole((*sub.noise_range)[1], terrain.vertical_scale),
            step = std::max(1, whole(sub.noise_step, terrain.vertical_scale));
  const int choices = (high - low) / step + 1;
  const double scale = terrain.horizontal_scale;
  const double apart = sub.downsampled_scale > 0 ? sub.downsampled_scale / scale : 1;  // points
  const auto drawn_along = [&](int points) { return std::max(2, static_cast<int>(points / apart + 1e-6)); };
  HeightGrid drawn(drawn_along(grid.nx), drawn_along(grid.ny));
  for (double& height : drawn.values) height = low + step * draws.below(choices);
  // bilinear between the drawn points, the outermost of which lie on the edges
  const auto place = [](int i, int points, int count, double& share) {
    const double at = points > 1 ? static_cast<double>(i) * (count - 1) / (points - 1) : 0;
    const int first = std::min(static_cast<int>(at + 1e-9), count - 2);
    share = at - first;
    return first;
  };
  for (int iy = 0; iy < grid.ny; ++iy)
    for (int ix = 0; ix < grid.nx; ++ix) {
      double sx = 0, sy = 0;
      const int x = place(ix, grid.nx, drawn.nx, sx), y = place(iy, grid.ny, drawn.ny, sy);
      grid.set(ix, iy,
               (1 - sy) * ((1 - sx) * drawn.at(x, y) + sx * drawn.at(x + 1, y)) +
                   sy * ((1 - sx) * drawn.at(x, y + 1) + sx * drawn.at(x + 1, y + 1)));
    }
}

void pyramid_sloped(InnerGrid& grid, const SubTerrainConfig& sub, const TerrainConfig& terrain,
                    double difficulty) {
  const double sign = sub.type == SubTerrainType::inverted_pyramid_sloped ? -1 : 1;
  const double run = grid.nx * terrain.horizontal_scale / 2;
  const int top = whole(sign * at_difficulty(sub.slope_range, difficulty) * run, terrain.vertical_scale);
  const int cx = grid.nx / 2, cy = grid.ny / 2,
            platform = whole(sub.platform_width, terrain.horizontal_scale) / 2;
  const auto height = [&](int ix, int iy) {
    const double x = static_cast<double>(cx - std::abs(cx - ix)) / std::max(1, cx),
                 y = static_cast<double>(cy - std::abs(cy - iy)) / std::max(1, cy);
    return top * x * y;
  };
  const double end = height(std::max(0, cx - platform), std::max(0, cy - platform));
  for (int iy = 0; iy < grid.ny; ++iy)
    for (int ix = 0; ix < grid.nx; ++ix)
      grid.set(ix, iy, std::clamp(height(ix, iy), std::min(0.0, end), std::max(0.0, end)));
}

void wave(InnerGrid& grid, const SubTerrainConfig& sub, const TerrainConfig& terrain, double difficulty) {
  const int amplitude = whole(0.5 * at_difficulty(sub.amplitude_range, difficulty), terrain.vertical_scale);
  const double number = 2 * std::numbers::pi * sub.num_waves / grid.ny;
  for (int iy = 0; iy < grid.ny; ++iy)
    for (int ix = 0; ix < grid.nx; ++ix)
      grid.set(ix, iy, amplitude * (std::cos(iy * number) + std::sin(ix * number)));
}

// Rows of stones along x, each begun somewhere within the width of a stone.
void stepping_stones(InnerGrid& grid, const SubTerrainConfig& sub, const TerrainConfig& terrain,
                     double difficulty, CellDraws& draws) {
  const double scale = terrain.horizontal_scale;
  const int width = std::max(1, whole(at_difficulty(sub.stone_width_range, 1 - difficulty), scale)),
            distance = whole(at_difficulty(sub.stone_distance_range, difficulty), scale),
            most = whole(sub.stone_height_max, terrain.vertical_scale);
  const auto draw_height = [&] { return draws.below(2 * most + 1) - most; };
  grid.fill(0, grid.nx, 0, grid.ny, whole(sub.holes_depth, terrain.vertical_scale));
  for (int y = 0; y < grid.ny; y += width + distance) {
    int x = draws.below(width);
    grid.fill(0, x - distance, y, y + width, draw_height());
    for (; x < grid.nx; x += width + distance) grid.fill(x, x + width, y, y + width, draw_height());
  }
  grid.fill_middle(whole(sub.platform_width, scale), 0);
}

void discrete_obstacles(InnerGrid& grid, const SubTerrainConfig& sub, const TerrainConfig& terrain,
                        double difficulty, CellDraws& draws) {
  constexpr int kStride = 4;  // points between the sizes and places that are drawn
  const double scale = terrain.horizontal_scale;
  const int height = whole(at_difficulty(sub.obstacle_height_range, difficulty), terrain.vertical_scale);
  const int narrowest = whole((*sub.obstacle_width_range)[0], scale),
            widest = whole((*sub.obstacle_width_range)[1], scale);
  const auto strided = [&](int first, int end) {
    return first + kStride * draws.below(std::max(1, (end - first + kStride - 1) / kStride));
  };
  const int half = height / 2;
  const int choices[4] = {-height, -half, half, height};
  for (int i = 0; i < sub.num_obstacles; ++i) {
    const int up = sub.obstacle_height_mode == ObstacleHeightMode::choice ? choices[draws.below(4)] : height;
    const int width = strided(narrowest, widest), length = strided(narrowest, widest);
    const int x = std::max(0, std::min(strided(0, grid.nx), grid.nx - width)),
              y = std::max(0, std::min(strided(0, grid.ny), grid.ny - length));
    grid.fill(x, x + width, y, y + length, up);
  }
  grid.fill_middle(whole(sub.platform_width, scale), 0);
}

// Rings of step_width, each a step above (or below) the one around it; what is left in the middle is the
// platform, one step further. A point on an edge belongs to the inner step.
void pyramid_stairs(HeightGrid& cell, const SubTerrainConfig& sub, const TerrainConfig& terrain,
                    double difficulty) {
  const double sign = sub.type == SubTerrainType::inverted_pyramid_stairs ? -1 : 1;
  const double step = sign * at_difficulty(sub.step_height_range, difficulty);
  const auto steps_along = [&](double size) {
    return whole(size - 2 * sub.border_width - sub.platform_width, 2 * sub.step_width) + 1;
  };
  const int steps = std::min(steps_along(terrain.size[0]), steps_along(terrain.size[1]));
  const double scale = terrain.horizontal_scale;
  for (int iy = 0; iy < cell.ny; ++iy)
    for (int ix = 0; ix < cell.nx; ++ix) {
      const int to_edge = std::min(std::min(ix, cell.nx - 1 - ix), std::min(iy, cell.ny - 1 - iy));
      const double within = to_edge * scale - sub.border_width;
      if (within < -1e-6 * scale) continue;
      cell.at(ix, iy) = step * (1 + std::min(steps, static_cast<int>(within / sub.step_width + 1e-6)));
    }
}

// Squares of random heights around a platform at the largest one.
void random_grid(HeightGrid& cell, const SubTerrainConfig& sub, const TerrainConfig& terrain,
                 double difficulty, CellDraws& draws) {
  const double most = at_difficulty(sub.grid_height_range, difficulty), scale = terrain.horizontal_scale;
  const int along = std::min(whole(terrain.size[0], sub.grid_width), whole(terrain.size[1], sub.grid_width));
  HeightGrid drawn(along, along);
  for (double& height : drawn.values) height = most * (2 * draws.uniform() - 1);
  // the square of a point, or -1 on the border that is left
  const auto square = [&](int i, double size) {
    const double at = (i * scale - (size - along * sub.grid_width) / 2) / sub.grid_width;
    return at < -1e-6 || at > along - 1e-6 ? -1 : static_cast<int>(at + 1e-6);
  };
  const auto is_within = [&](int i, double size) {
    return std::abs(i * scale - size / 2) < sub.platform_width / 2 + 1e-6 * scale;
  };
  for (int iy = 0; iy < cell.ny; ++iy)
    for (int ix = 0; ix < cell.nx; ++ix) {
      const int x = square(ix, terrain.size[0]), y = square(iy, terrain.size[1]);
      if (x >= 0 && y >= 0) cell.at(ix, iy) = drawn.at(x, y);
      if (is_within(ix, terrain.size[0]) && is_within(iy, terrain.size[1])) cell.at(ix, iy) = most;
    }
}

// Coefficients of the cubic B-spline through `count` values, `stride` apart, that goes on mirrored at its
// first and last value, in their place.
void to_spline(double* values, int count, int stride) {
  if (count < 2) return;
  // (c[i - 1] + 4 c[i] + c[i + 1]) / 6 = value[i], solved from the first to the last and back
  std::vector<double> above(static_cast<std::size_t>(count));
  const auto at = [&](int i) -> double& { return values[static_cast<std::ptrdiff_t>(i) * stride]; };
  for (int i = 0; i < count; ++i) {
    const double below = i == 0 ? 0 : i == count - 1 ? 2 : 1;
    const double before = i == 0 ? 0 : above[static_cast<std::size_t>(i - 1)];
    const double pivot = 4 - below * before;
    above[static_cast<std::size_t>(i)] = (i == 0 ? 2 : 1) / pivot;
    at(i) = (6 * at(i) - (i == 0 ? 0 : below * at(i - 1))) / pivot;
  }
  for (int i = count - 2; i >= 0; --i) at(i) -= above[static_cast<std::size_t>(i)] * at(i + 1);
}

// The four coefficients of such a spline that a place counts, and their weights.
struct SplinePlace {
  int index[4];
  double weight[4];

  // Point `i` of `points`, the outermost of which are the first and the last of `count` values.
  SplinePlace(int i, int points, int count) {
    const double place = points > 1 ? static_cast<double>(i) * (count - 1) / (points - 1) : 0;
    const int first = static_cast<int>(place);
    const double t = place - first, s = 1 - t;
    const double weights[4] = {s * s * s / 6, (4 - 3 * t * t * (2 - t)) / 6, (4 - 3 * s * s * (2 - s)) / 6,
                               t * t * t / 6};
    for (int k = 0; k < 4; ++k) {
      const int last = count - 1, mirrored = std::abs(first - 1 + k);
      index[k] = mirrored > last ? std::max(0, 2 * last - mirrored) : mirrored;
      weight[k] = weights[k];
    }
  }
};

// A sinusoidal ring of hills around the middle, times noise that is drawn at points terrain_bump_scale apart
// and interpolated as scipy.ndimage.zoom() does.
void bowl(HeightGrid& cell, const SubTerrainConfig& sub, const TerrainConfig& terrain, double difficulty,
          CellDraws& draws) {
  // share of the radius; nearer to the middle the ground is as high as at this share
  constexpr double kInnermost = 0.04;
  const int border = whole(sub.border_width, terrain.horizontal_scale);
  const int nx = cell.nx - 2 * border, ny = cell.ny - 2 * border;
  const auto drawn_along = [&](int points) {
    return std::max(1, whole((points - 1) * terrain.horizontal_scale, sub.terrain_bump_scale));
  };
  HeightGrid bumps(drawn_along(nx), drawn_along(ny));
  for (double& bump : bumps.values)
    bump = sub.terrain_smoothness + (1 - sub.terrain_smoothness) * draws.uniform();
  for (int iy = 0; iy < bumps.ny; ++iy) to_spline(&bumps.at(0, iy), bumps.nx, 1);
  for (int ix = 0; ix < bumps.nx; ++ix) to_spline(&bumps.at(ix, 0), bumps.ny, bumps.nx);
  const double height = at_difficulty(sub.bowl_height_range, difficulty);
  for (int iy = 0; iy < ny; ++iy)
    for (int ix = 0; ix < nx; ++ix) {
      const double x = 2.0 * ix / (nx - 1) - 1, y = 2.0 * iy / (ny - 1) - 1;
      const double radius = std::clamp(std::sqrt(x * x + y * y), kInnermost, 1.0);
      const SplinePlace px(ix, nx, bumps.nx), py(iy, ny, bumps.ny);
      double bump = 0;
      for (int j = 0; j < 4; ++j)
        for (int i = 0; i < 4; ++i) bump += py.weight[j] * px.weight[i] * bumps.at(px.index[i], py.index[j]);
      cell.at(border + ix, border + iy) = height * (0.5 - std::cos(2 * std::numbers::pi * radius) / 2) * bump;
    }
}

}  // namespace

double CellDraws::uniform() {
  const PhiloxBlock block = random_block(seed_, RandomPurpose::terrain, cell_, 0, drawn_ / 4);
  return uniform01<double>(block.word[drawn_++ % 4]);
}

int CellDraws::below(int count) {
  return std::min(count - 1, static_cast<int>(uniform() * count));
}

HeightGrid sub_terrain_heights(const SubTerrainConfig& sub, const TerrainConfig& terrain, double difficulty,
                               CellDraws& draws) {
  const auto points = [&](double size) {
    return static_cast<int>(std::lround(size / terrain.horizontal_scale)) + 1;
  };
  HeightGrid cell(points(terrain.size[0]), points(terrain.size[1]));
  InnerGrid grid(cell, sub, terrain);
  switch (sub.type) {
    case SubTerrainType::flat:
      break;
    case SubTerrainType::random_uniform:
      random_uniform(grid, sub, terrain, draws);
      break;
    case SubTerrainType::pyramid_sloped:
    case SubTerrainType::inverted_pyramid_sloped:
      pyramid_sloped(grid, sub, terrain, difficulty);
      break;
    case SubTerrainType::pyramid_stairs:
    case SubTerrainType::inverted_pyramid_stairs:
      pyramid_stairs(cell, sub, terrain, difficulty);
      break;
    case SubTerrainType::random_grid:
      random_grid(cell, sub, terrain, difficulty, draws);
      break;
    case SubTerrainType::wave:
      wave(grid, sub, terrain, difficulty);
      break;
    case SubTerrainType::stepping_stones:
      stepping_stones(grid, sub, terrain, difficulty, draws);
      break;
    case SubTerrainType::discrete_obstacles:
      discrete_obstacles(grid, sub, terrain, difficulty, draws);
      break;
    case SubTerrainType::bowl:
      bowl(cell, sub, terrain, difficulty, draws);
      break;
  }
  for (int ix = 0; ix < cell.nx; ++ix) cell.at(ix, 0) = cell.at(ix, cell.ny - 1) = 0;
  for (int iy = 0; iy < cell.ny; ++iy) cell.at(0, iy) = cell.at(cell.nx - 1, iy) = 0;
  return cell;
}

}  // namespace maniple
