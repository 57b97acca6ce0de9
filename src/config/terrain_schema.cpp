// The keys of sub-terrains, and the reader of `terrain.sub_terrains`: a mapping from names to mappings, each
// with the keys of its type. Names and meanings are those of Isaac Lab's terrain configurations.
#include "src/config/terrain_schema.hpp"

#include <algorithm>

#include "src/config/schema.hpp"
#include "src/config/task_reader.hpp"

namespace maniple {
namespace {

using Kind = DeckValue::Kind;
using Type = SubTerrainType;

constexpr unsigned bits(std::initializer_list<Type> types) {
  unsigned result = 0;
  for (const Type type : types) result |= 1u << static_cast<unsigned>(type);
  return result;
}
constexpr unsigned kSlopes = bits({Type::pyramid_sloped, Type::inverted_pyramid_sloped}),
                   kStairs = bits({Type::pyramid_stairs, Type::inverted_pyramid_stairs}),
                   kNoise = bits({Type::random_uniform}), kGrid = bits({Type::random_grid}),
                   kWave = bits({Type::wave}), kStones = bits({Type::stepping_stones}),
                   kObstacles = bits({Type::discrete_obstacles}), kBowl = bits({Type::bowl}), kAll = ~0u,
                   kBordered = kSlopes | kStairs | kNoise | kWave | kStones | kObstacles | kBowl,
                   kWithPlatform = kSlopes | kStairs | kGrid | kStones | kObstacles;

#define SUB_KEY(member, types, required, least, most, above, unit, meaning)                              \
  {                                                                                                      \
#member, [](SubTerrainConfig & sub) -> Target { return target_of(&sub.member); }, types, required,   \
                                                                                   Allowed{.low = least, \
                                                                                   .high = most,         \
                                                                                   .above_low = above }, \
                                                                                   unit,                 \
                                                                                   meaning               \
  }

std::string keys_of(Type type) {
  std::string names = "type";
  for (const SubTerrainKey& key : sub_terrain_schema())
    if (key.name != "type" && key.stands_in(type)) names += ", " + key.name;
  return names;
}

SubTerrainConfig read_sub_terrain(const DeckEntry& given, const std::string& path) {
  const DeckValue& value = given.value[0];
  SubTerrainConfig sub;
  sub.name = given.key;
  sub.where = given.where;
  if (value.kind != Kind::map)
    throw InputError(value.where, path, "found " + value.description(),
                     "allowed: a mapping with 'type: <name>' and its keys");
  const std::vector<SubTerrainKey>& keys = sub_terrain_schema();
  const DeckValue* const type = value.find("type");
  if (type == nullptr || type->kind == Kind::null)
    throw InputError(given.where, path, "found no type",
                     "allowed: type: " + allowed_text(target_of(&sub.type), {}));
  assign(target_of(&sub.type), {}, path + ".type", *type);
  Mistakes mistakes;
  for (const DeckEntry& entry : value.map) {
    if (entry.value[0].kind == Kind::null) continue;
    mistakes.gather([&] {
      const std::string key = path + "." + entry.key;
      const auto row =
          std::find_if(keys.begin(), keys.end(), [&](const auto& k) { return k.name == entry.key; });
      if (row == keys.end() || !row->stands_in(sub.type))
        throw InputError(entry.where, key,
                         row == keys.end() ? "found an unknown key"
                                           : "found a key that " + text_of(sub.type) + " does not take",
                         "allowed: " + keys_of(sub.type));
      assign(row->target(sub), row->allowed, key, entry.value[0]);
      sub.where_keys[entry.key] = entry.value[0].where;
    });
  }
  mistakes.throw_any();
  for (const SubTerrainKey& row : keys)
    if (row.required && row.stands_in(sub.type) && !sub.where_keys.contains(row.name))
      throw InputError(given.where, path,
                       "found a sub-terrain of type " + text_of(sub.type) + " without " + row.name,
                       "allowed: " + row.name + ": " + allowed_text(row.target(sub), row.allowed) + ", " +
                           row.meaning + " [" + row.unit + "]");
  return sub;
}

}  // namespace

// clang-format off
const std::vector<SubTerrainKey>& sub_terrain_schema() {
  static const std::vector<SubTerrainKey> keys{
      SUB_KEY(type, kAll, true, 0, 0, false, "", "Generator, by the name of Isaac Lab's configuration. flat: MeshPlane; random_uniform: HfRandomUniform; pyramid_sloped, inverted_pyramid_sloped: HfPyramidSloped; pyramid_stairs, inverted_pyramid_stairs: MeshPyramidStairs; random_grid: MeshRandomGrid; wave: HfWave; stepping_stones: HfSteppingStones; discrete_obstacles: HfDiscreteObstacles; bowl: the terrain of dm_control's quadruped escape, a ring of hills around the middle"),
      SUB_KEY(proportion, kAll, false, 0, 1e6, false, "1", "Share of the columns, or of the cells that are drawn, relative to the other sub-terrains"),
      SUB_KEY(border_width, kBordered, false, 0, 1e4, false, "m", "Width of the flat border of the cell, at height 0"),
      SUB_KEY(platform_width, kWithPlatform, false, 0, 1e4, false, "m", "Width of the flat square in the middle"),
      SUB_KEY(noise_range, kNoise, true, -1e3, 1e3, false, "m", "Lowest and highest height"),
      SUB_KEY(noise_step, kNoise, true, 0, 1e3, true, "m", "Spacing of the heights that are drawn"),
      SUB_KEY(downsampled_scale, kNoise, false, 0, 1e4, false, "m", "Spacing of the points that are drawn; heights between them are interpolated; 0: terrain.horizontal_scale"),
      SUB_KEY(slope_range, kSlopes, true, 0, 1e2, false, "1", "Rise over run of the flanks"),
      SUB_KEY(step_height_range, kStairs, true, 0, 1e2, false, "m", "Height of a step"),
      SUB_KEY(step_width, kStairs, true, 0, 1e4, true, "m", "Depth of a step"),
      SUB_KEY(grid_width, kGrid, true, 0, 1e4, true, "m", "Width of a square of equal height"),
      SUB_KEY(grid_height_range, kGrid, true, 0, 1e2, false, "m", "Largest height of a square above or below 0, also that of the platform"),
      SUB_KEY(amplitude_range, kWave, true, 0, 1e2, false, "m", "Amplitude of the two waves together"),
      SUB_KEY(num_waves, kWave, false, 1, 1e6, false, "waves", "Number of waves along y; waves along x have the same length"),
      SUB_KEY(stone_height_max, kStones, true, 0, 1e2, false, "m", "Largest height of a stone above or below 0"),
      SUB_KEY(stone_width_range, kStones, true, 0, 1e4, true, "m", "Width of the stones; the larger one at difficulty 0"),
      SUB_KEY(stone_distance_range, kStones, true, 0, 1e4, false, "m", "Distance between the stones"),
      SUB_KEY(holes_depth, kStones, false, -1e3, 0, false, "m", "Height of the ground between the stones"),
      SUB_KEY(obstacle_height_mode, kObstacles, false, 0, 0, false, "", "Heights of the obstacles. choice: plus or minus the height at the cell's difficulty, or half of it; fixed: that height"),
      SUB_KEY(obstacle_width_range, kObstacles, true, 0, 1e4, true, "m", "Range of the draws for width and length of an obstacle"),
      SUB_KEY(obstacle_height_range, kObstacles, true, 0, 1e2, false, "m", "Height of the obstacles"),
      SUB_KEY(num_obstacles, kObstacles, true, 0, 1e6, false, "obstacles", "Number of obstacles in a cell"),
      SUB_KEY(bowl_height_range, kBowl, true, 0, 1e3, false, "m", "Height of the hills, times a smooth noise: highest half way between the middle and the border"),
      SUB_KEY(terrain_smoothness, kBowl, false, 0, 1, false, "1", "Lowest number of the noise, which is uniform up to 1. 1: no bumps"),
      SUB_KEY(terrain_bump_scale, kBowl, false, 0, 1e4, true, "m", "Spacing of the points that are drawn; cubic splines interpolate between them"),
  };
  return keys;
}
// clang-format on

std::vector<SubTerrainConfig> read_sub_terrains(const DeckValue& value, Mistakes& mistakes) {
  const std::string path = "terrain.sub_terrains";
  std::vector<SubTerrainConfig> result;
  if (value.kind == Kind::nothing || value.kind == Kind::null) return result;
  if (value.kind != Kind::map)
    throw InputError(value.where, path, "found " + value.description(),
                     "allowed: a mapping from names to sub-terrains");
  for (const DeckEntry& entry : value.map)
    mistakes.gather([&] {
      if (is_taken_out(entry, value, path)) return;
      if (!is_identifier(entry.key))
        throw InputError(entry.where, path, "found the name '" + entry.key + "'",
                         "allowed: letters, digits and _, not starting with a digit");
      result.push_back(read_sub_terrain(entry, path + "." + entry.key));
    });
  return result;
}

std::string sub_terrain_text(SubTerrainConfig sub) {
  std::string text;
  SubTerrainConfig defaults;
  for (const SubTerrainKey& key : sub_terrain_schema()) {
    if (!key.stands_in(sub.type)) continue;
    const std::string value = yaml_text(key.target(sub));
    if (key.required || value != yaml_text(key.target(defaults)))
      text += (text.empty() ? "" : ", ") + key.name + ": " + value;
  }
  return "{" + text + "}";
}

}  // namespace maniple
