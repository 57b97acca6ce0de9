// The mean level over the environments of one kind of ground is a ratio of two means over all environments,
// which curricula know exactly on any number of ranks.
#include "src/tasks/terms/terrain_levels.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/config/schema.hpp"
#include "src/model_import/terrain.hpp"
#include "src/tasks/terms/term_expressions.hpp"

namespace maniple {
namespace {

constexpr const char *kLevels = "levels_by_terrain", *kShares = "shares_by_terrain";
// The mean level before there is one; not that of the rows of first episodes: a policy is tried from others,
// which are the same task.
constexpr const char* kFirstLevel = "0";

// The mean of a component of a variable, as updates of curricula know it.
std::string mean_of(const char* variable, std::size_t component, std::size_t size) {
  return std::string("mean_") + variable + (size == 1 ? "" : "_" + std::to_string(component));
}

// The formula of a curriculum that is a term. InputError where the library lacks it, or it is not right.
ExpressionSource formula_of(const TermConfig& term, const TaskModel& model, const std::string& key) {
  return source_of(term, expressions_of(term, TermKind::curriculum, model, key)[0].text, key);
}

}  // namespace

void expand_terrain_levels(TaskConfig& config, const TaskModel& model,
                           std::map<std::string, TaskVariable>& variables) {
  std::vector<TermConfig> expanded;
  for (std::size_t i = 0; i < config.curricula.size(); ++i) {
    const TermConfig& term = config.curricula[i];
    expanded.push_back(term);
    if (term.term.empty()) continue;
    const std::string key = key_of(TermKind::curriculum, term, i);
    formula_of(term, model, key);  // it is right
    if (variables.contains(kLevels))
      throw InputError(term.where, key, "found a second curriculum of levels", "allowed: one");
    const Terrain& terrain = *model.terrain;
    if (terrain.randomize)
      throw InputError(term.where, key, "found a curriculum of levels with terrain.randomize: true",
                       "allowed: with terrain.randomize: false, as the cell of each episode is drawn there");
    const std::size_t kinds = terrain.types.size();
    const auto of_each = [&](const std::string& value) {
      std::string vector;
      for (std::size_t k = 0; k < kinds; ++k)
        vector += fmt::format("{}terrain_type == {} ? {} : 0", k == 0 ? "" : ", ", k, value);
      const ExpressionSource source{"[" + vector + "]", term.where, key};
      return TaskVariable{
          .reset = source, .update = source, .update_at = UpdateTime::observation, .steps = {}};
    };
    variables[kLevels] = of_each(kTerrainLevel);
    variables[kShares] = of_each("1");

    std::string sum;
    for (std::size_t k = 0; k < kinds; ++k) sum += (k == 0 ? "" : " + ") + mean_of(kLevels, k, kinds);
    expanded.back().reset = kFirstLevel;
    expanded.back().update = sum;
    const std::vector<std::string> without = types_without_cells(terrain);
    for (std::size_t k = 0; k < kinds; ++k) {
      if (std::find(without.begin(), without.end(), terrain.types[k]) != without.end()) continue;
      TermConfig one;
      one.name = term.name + "_" + terrain.types[k];
      one.where = term.where;
      one.reset = kFirstLevel;
      one.update = fmt::format("{0} > 0 ? {1} / {0} : {2}", mean_of(kShares, k, kinds),
                               mean_of(kLevels, k, kinds), kFirstLevel);
      expanded.push_back(one);
    }
  }
  config.curricula = std::move(expanded);
}

ExpressionSource terrain_move_of(const TaskConfig& config, const TaskModel& model) {
  for (std::size_t i = 0; i < config.curricula.size(); ++i) {
    const TermConfig& term = config.curricula[i];
    if (!term.term.empty()) return formula_of(term, model, key_of(TermKind::curriculum, term, i));
  }
  return {};
}

}  // namespace maniple
