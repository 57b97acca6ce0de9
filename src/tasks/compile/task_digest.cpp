// The digest's contents and their order are part of checkpoints: a change here makes old ones look foreign.
#include "src/tasks/compile/task_digest.hpp"

#include <bit>
#include <cstdint>
#include <vector>

#include "src/base/fnv.hpp"
#include "src/tasks/terms/motion.hpp"

namespace maniple {
namespace {

class Checksum {
 public:
  void add(const std::string& text) {
    hash_.add(text.data(), text.size());
    add(std::uint64_t{text.size()});
  }
  void add(std::uint64_t value) { hash_.add(&value, sizeof(value)); }
  void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  void add(const Program& program) {
    add(std::uint64_t{program.instructions.size()});
    for (const Instruction& i : program.instructions)
      for (const unsigned part : {unsigned{i.target}, unsigned{i.a}, unsigned{i.b}, unsigned{i.c},
                                  static_cast<unsigned>(i.operation), static_cast<unsigned>(i.bank_target),
                                  static_cast<unsigned>(i.bank_a), static_cast<unsigned>(i.bank_b),
                                  static_cast<unsigned>(i.bank_c)})
        add(std::uint64_t{part});
  }
  std::string text() const { return hash_.text(); }

 private:
  Fnv hash_;
};

}  // namespace

std::string task_digest(const CompiledTask& task) {
  Checksum sum;
  sum.add(task.step_dt);
  sum.add(static_cast<std::uint64_t>(task.max_episode_steps));
  for (const CompiledAction& action : task.actions) {
    sum.add(static_cast<std::uint64_t>(action.control));
    for (const double value : {action.scale, action.offset, action.low, action.high}) sum.add(value);
    sum.add(std::uint64_t{action.clipped});
  }
  for (const std::vector<std::string>* names :
       {&task.observation_names, &task.critic_observation_names, &task.reward_names, &task.metric_names}) {
    sum.add(std::uint64_t{names->size()});
    for (const std::string& name : *names) sum.add(name);
  }
  for (const EpisodeStatistic statistic : task.metric_statistics)
    sum.add(static_cast<std::uint64_t>(statistic));
  for (const Program* program : task.programs())
    if (program != &task.vary || !program->instructions.empty()) sum.add(*program);
  sum.add(static_cast<std::uint64_t>(task.settle_steps));
  if (task.reset_raise > 0) sum.add(task.reset_raise);
  for (const double value : task.constants) sum.add(value);
  sum.add(static_cast<std::uint64_t>(task.num_memory));
  sum.add(static_cast<std::uint64_t>(task.num_kept));
  sum.add(static_cast<std::uint64_t>(task.reset.num_random));
  for (const int side : task.contact_sides) sum.add(static_cast<std::uint64_t>(side));
  for (const RayRequest& request : task.ray_queries) {
    for (const int value : {static_cast<int>(request.frame), request.id, static_cast<int>(request.alignment)})
      sum.add(static_cast<std::uint64_t>(value));
    sum.add(request.max_distance);
    for (const double value : request.rays) sum.add(value);
    for (const int geom : request.geoms) sum.add(static_cast<std::uint64_t>(geom));
  }
  if (task.terrain)
    for (const TerrainCell& cell : task.terrain->cells) {
      sum.add(static_cast<std::uint64_t>(cell.type));
      for (const double value : cell.origin) sum.add(value);
    }
  if (task.terrain && task.terrain->randomize) sum.add(std::uint64_t{1});
  if (task.motion) {
    sum.add(static_cast<std::uint64_t>(task.motion->numbers_of_frame));
    for (const double value : task.motion->numbers) sum.add(value);
  }
  for (const int element : task.stepped) sum.add(static_cast<std::uint64_t>(element));
  for (const CompiledCurriculum& curriculum : task.curricula) {
    sum.add(curriculum.name);
    sum.add(curriculum.update.text);
  }
  return sum.text();
}

}  // namespace maniple
