// A task on one tile of environments without the physics: the tests fill State and Data with numbers of their
// choice, run the steps of a task and read the results.
#pragma once

#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/model/field_info.hpp"
#include "kernels/tasks/environment_step.hpp"
#include "src/model_import/import.hpp"
#include "src/tasks/compile/device_task.hpp"
#include "src/tasks/compile/task.hpp"

namespace maniple::testing {

inline ImportedModel import_file(const std::string& path) {
  ModelConfig config;
  config.file = config.path = path;
  return import_model(config, SimulationConfig{});
}

inline ImportedModel import_text(const std::string& xml) {
  char path[] = "/tmp/maniple_task_XXXXXX.xml";
  close(mkstemps(path, 4));
  std::ofstream(path) << xml;
  ImportedModel model = import_file(path);
  std::remove(path);
  return model;
}

// A robot with every kind of joint, two motors, two servos, a filtered actuator, sites and sensors.
inline const ImportedModel& zoo() {
  static const ImportedModel model = import_text(R"(
    <mujoco model="zoo">
      <compiler angle="radian" autolimits="true"/>
      <option gravity="0.6 0 -8"/>
      <default><geom contype="0" conaffinity="0" type="sphere" size="0.1" mass="1"/></default>
      <worldbody>
        <body name="torso" pos="0.1 0.2 1.3" quat="0.6 0 0.8 0">
          <freejoint name="root"/><geom/>
          <site name="chest" pos="0.1 0 0"/>
          <body name="thigh" pos="0 0 -0.3">
            <joint name="hip" type="hinge" axis="0 1 0" ref="0.25" pos="0 0 0.1"/><geom/>
            <body name="shin" pos="0 0 -0.4">
              <joint name="knee" type="hinge" axis="0 1 0"/><geom name="tip" pos="0 0 -0.1"/>
              <site name="foot" pos="0 0 -0.2"/>
            </body>
          </body>
          <body name="head" pos="0 0 0.3"><joint name="neck" type="ball"/><geom/></body>
        </body>
        <body name="cart" pos="2 0 0.5"><joint name="left-rail" type="slide" axis="1 0 0"/><geom/></body>
      </worldbody>
      <actuator>
        <motor name="hip_motor" joint="hip" gear="4"/>
        <position name="knee_servo" joint="knee" kp="20" kv="1"/>
        <velocity name="rail_servo" joint="left-rail" kv="5"/>
      </actuator>
      <sensor>
        <jointpos name="hip_angle" joint="hip"/><jointvel name="hip_rate" joint="hip"/>
        <ballquat name="neck_quat" joint="neck"/>
      </sensor>
    </mujoco>)");
  return model;
}

// The hip's place in qpos of the zoo.
constexpr int kHip = 7;

// Every environment of a tile, as those that are reset or observed.
inline const std::vector<bool> kAll(kTileWidth, true);

inline TermConfig expression_term(const std::string& text, const std::string& name = "x") {
  TermConfig term;
  term.name = name;
  term.expression = text;
  term.where = term.where_expression = {"task.yaml", 7, 0};
  return term;
}

inline TermConfig library_term(const std::string& name, const std::vector<std::string>& names = {},
                               const std::string& names_kind = "joints",
                               const std::map<std::string, std::vector<double>>& parameters = {}) {
  TermConfig term;
  term.name = term.term = name;
  term.names = names;
  if (!names.empty()) term.names_kind = choice_of<ElementKind>(names_kind).value();
  term.where = term.where_names = {"task.yaml", 9, 0};
  for (const auto& [parameter, numbers] : parameters) {
    term.parameters[parameter].assign(numbers.begin(), numbers.end());
    term.where_parameters[parameter] = {"task.yaml", 11, 0};
  }
  return term;
}

// A task whose only action is the control of the model's first actuator.
inline TaskConfig empty_task(const ImportedModel& model) {
  TaskConfig task;
  task.present = true;
  task.name = "test";
  task.where = {"task.yaml", 1, 0};
  task.actions = {library_term("actuator_control", {model.actuator_names[0]}, "actuators")};
  task.observations = {expression_term("0")};
  return task;
}

// One tile of environments of a compiled task, run pack by pack with lanes of type V.
template <class V>
class TaskRig : public Transition<std::vector<ScalarOf<V>>> {
 public:
  using T = ScalarOf<V>;

  TaskRig(const TaskConfig& config, const ImportedModel& model, double step_dt = 0.02,
          std::uint64_t first_env = 0, std::uint32_t seed = 42)
      : compiled(compile_task(config, model, step_dt)),
        sizes(model.sizes),
        device(compiled),
        task(device.task()),
        first_env_(first_env),
        seed_(seed),
        state_(tile_size(state_elements(sizes))),
        data_(tile_size(data_elements(sizes))),
        fields_(tile_size(task_elements(compiled))),
        contact_(tile_size(task.contact_queries.answers())),
        stepped_contact_(tile_size(compiled.contact_steps * task.contact_queries.answers())),
        scratch_(static_cast<std::size_t>(task.scratch_elements())),
        counters_(kTaskCounters * kTileWidth) {
    for (const auto& field : transition_fields<std::vector<T>>(compiled))
      (this->*field.member).resize(tile_size(256));
    for (V& value : scratch_) value = V(std::numeric_limits<T>::quiet_NaN());
    for (int env = 0; env < kTileWidth; ++env)
      for (int i = 0; i < sizes.nq; ++i) set("qpos", i, env, model.qpos0[static_cast<std::size_t>(i)]);
  }

  // Every number of State and Data, and the actions, uniform in [-2, 2].
  void fill_randomly(unsigned seed) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<double> number(-2, 2);
    for (T& x : state_) x = static_cast<T>(number(generator));
    for (T& x : data_) x = static_cast<T>(number(generator));
    for (T& x : this->action) x = static_cast<float>(number(generator));
  }

  // Numbers by name, of one environment of the tile.
  T get(const std::string& field, int i, int env) const {
    return const_cast<TaskRig*>(this)->place(field, i, env);
  }
  void set(const std::string& field, int i, int env, double value) {
    place(field, i, env) = static_cast<T>(value);
  }
  // The answer to a contact query (ContactAnswer, after those of earlier queries) that programs will read.
  void set_contact(int answer, int env, double value) {
    contact_[static_cast<std::size_t>(answer * kTileWidth + env)] = static_cast<T>(value);
  }
  // The same in a physics step, counted backwards from the last one.
  void set_contact(int query, int physics_step, ContactAnswer answer, int env, double value) {
    const int place = answer_place(query, physics_step, compiled.contact_steps, answer);
    stepped_contact_[static_cast<std::size_t>(place * kTileWidth + env)] = static_cast<T>(value);
  }
  std::int32_t& counter(TaskCounter which, int env) {
    return counters_[static_cast<std::size_t>(which * kTileWidth + env)];
  }
  T field(const std::string& name, int i, int env) const {
    for (const FieldInfo& info : task_fields(compiled))
      if (name == info.name) return fields_[static_cast<std::size_t>((info.first + i) * kTileWidth + env)];
    throw Error("no task field " + name);
  }

  void apply_actions() {
    for_each_pack([&](const TaskLanes<V>& lanes, int) { maniple::apply_actions(task, lanes); });
  }
  // Environments of `bad` count as bad states. Returns the finished environments.
  std::vector<bool> evaluate(const std::vector<bool>& bad = std::vector<bool>(kTileWidth)) {
    std::vector<bool> done(kTileWidth);
    for_each_pack([&](const TaskLanes<V>& lanes, int lane) {
      const MaskOf<V> finished = maniple::evaluate<V>(task, lanes, mask(bad, lane));
      for (int i = 0; i < lane_width<V>; ++i)
        done[static_cast<std::size_t>(lane + i)] = get_lane(finished, i);
    });
    return done;
  }
  // Returns the environments whose model has changed.
  std::vector<bool> vary_model(const std::vector<bool>& which) {
    std::vector<bool> changed(kTileWidth);
    for_each_pack([&](const TaskLanes<V>& lanes, int lane) {
      const MaskOf<V> mine = maniple::vary_model<V>(task, lanes, mask(which, lane));
      for (int i = 0; i < lane_width<V>; ++i) changed[static_cast<std::size_t>(lane + i)] = get_lane(mine, i);
    });
    return changed;
  }
  void reset(const std::vector<bool>& which) {
    for_each_pack(
        [&](const TaskLanes<V>& lanes, int lane) { maniple::reset<V>(task, lanes, mask(which, lane)); });
  }
  void disturb() {
    for_each_pack([&](const TaskLanes<V>& lanes, int) { maniple::disturb(task, lanes); });
  }
  void observe(const std::vector<bool>& fresh = std::vector<bool>(kTileWidth)) {
    for_each_pack(
        [&](const TaskLanes<V>& lanes, int lane) { maniple::observe<V>(task, lanes, mask(fresh, lane)); });
  }
  void observe_final() {
    for_each_pack([&](const TaskLanes<V>& lanes, int) { maniple::observe_final(task, lanes); });
  }
  void randomize_episode_steps(std::int64_t max_steps) {
    for_each_pack(
        [&](const TaskLanes<V>& lanes, int) { maniple::randomize_episode_steps(lanes, max_steps); });
  }

  static T at(const std::vector<T>& tile, int element, int env) {
    return tile[static_cast<std::size_t>(element * kTileWidth + env)];
  }

  CompiledTask compiled;
  ModelSizes sizes;
  DeviceTask<T, Kokkos::HostSpace> device;
  Task<T> task;

 private:
  // Packs need their own alignment.
  template <class Element>
  struct Aligned {
    using value_type = Element;
    Aligned() = default;
    template <class Other>
    Aligned(const Aligned<Other>&) {}
    Element* allocate(std::size_t n) {
      return static_cast<Element*>(std::aligned_alloc(64, (n * sizeof(Element) + 63) / 64 * 64));
    }
    void deallocate(Element* memory, std::size_t) { std::free(memory); }
    bool operator==(const Aligned&) const { return true; }
  };

  static std::size_t tile_size(int elements) { return static_cast<std::size_t>(elements) * kTileWidth; }

  T& place(const std::string& field, int i, int env) {
    for (const FieldInfo& info : state_fields(sizes))
      if (field == info.name) return state_[static_cast<std::size_t>((info.first + i) * kTileWidth + env)];
    for (const FieldInfo& info : data_fields(sizes))
      if (field == info.name) return data_[static_cast<std::size_t>((info.first + i) * kTileWidth + env)];
    throw Error("no field " + field);
  }

  static MaskOf<V> mask(const std::vector<bool>& which, int lane) {
    V flags(0);
    for (int i = 0; i < lane_width<V>; ++i) set_lane(flags, i, T(which[static_cast<std::size_t>(lane + i)]));
    return flags != V(0);
  }

  template <class Body>
  void for_each_pack(const Body& body) {
    for (int lane = 0; lane < kTileWidth; lane += lane_width<V>) {
      TaskLanes<V> lanes;
      lanes.state = tile_field<V>(state_.data(), 0, lane);
      lanes.data = tile_field<V>(data_.data(), 0, lane);
      lanes.fields = tile_field<V>(fields_.data(), 0, lane);
      lanes.scratch = {scratch_.data(), 1};
      lanes.counters = counters_.data() + lane;
      lanes.first_env = first_env_ + static_cast<std::uint64_t>(lane);
      lanes.seed = seed_;
      for_each_transition_field<std::vector<T>, T*>(
          [&](auto field, auto first) { lanes.transition.*first = (this->*field).data() + lane; });
      if (compiled.contact_steps > 0) lanes.stepped_contact = tile_field<V>(stepped_contact_.data(), 0, lane);
      for (int i = 0; i < task.contact_queries.answers(); ++i)
        scratch_[static_cast<std::size_t>(task.first_contact() + i)] =
            tile_field<V>(contact_.data(), i, lane)[0];
      body(lanes, lane);
    }
  }

  std::uint64_t first_env_;
  std::uint32_t seed_;
  std::vector<T, Aligned<T>> state_, data_, fields_, contact_, stepped_contact_;
  std::vector<V, Aligned<V>> scratch_;
  std::vector<std::int32_t> counters_;
};

}  // namespace maniple::testing
