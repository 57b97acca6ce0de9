// Small models for rules of libmujoco that robots rarely meet: joints that are twice on a tendon, matrices
// that are not positive definite, spheres that touch by a rounding, heaps of shapes.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/model/geom_pair_types.hpp"
#include "src/model_import/derive_contacts.hpp"
#include "src/model_import/mujoco_guard.hpp"
#include "tests/reference/batch_under_test.hpp"
#include "tests/reference/model_in_file.hpp"
#include "tests/reference/random_model.hpp"

namespace maniple {
namespace {

class SpecialCases : public ModelInFile {
 protected:
  void load(const std::string& text, int max_contacts = 0) {
    SimulationConfig simulation;
    simulation.max_contacts = max_contacts;
    load_text(text, simulation);
    // both solvers run to convergence
    mujoco_.model->opt.tolerance = imported_.tolerance = 1e-15;
    mujoco_.model->opt.ls_tolerance = imported_.ls_tolerance = 1e-10;
  }
  // States near the default pose, in motion.
  std::vector<RandomState> states(double speed) const {
    const mjModel& m = *mujoco_.model;
    Dice dice(1);
    std::vector<RandomState> result(kEnvs);
    for (RandomState& state : result) {
      for (int i = 0; i < m.nq; ++i) state.qpos.push_back(m.qpos0[i] + dice.uniform(-0.6, 0.6));
      for (int i = 0; i < m.nv; ++i) state.qvel.push_back(dice.uniform(-speed, speed));
      for (int i = 0; i < m.nu; ++i) state.ctrl.push_back(dice.uniform(-1, 1));
      state.act.assign(static_cast<std::size_t>(m.na), 0.0);
      state.qacc_warmstart.assign(static_cast<std::size_t>(m.nv), 0.0);
    }
    return result;
  }
  // One step from each of the states: velocities are libmujoco's, up to `tolerance` times the largest.
  template <class V>
  void expect_equal_steps(const std::vector<RandomState>& from, double tolerance) {
    SCOPED_TRACE(std::to_string(lane_width<V>) + " lanes");
    const mjModel& m = *mujoco_.model;
    const oracle::DataPointer data = oracle::make_data(m);
    Batch<V> batch(imported_);
    batch.set(from);
    batch.run_step();
    for (int env = 0; env < kEnvs; ++env) {
      oracle::set_state(m, data.get(), from[static_cast<std::size_t>(env)]);
      std::vector<std::string> warnings;  // of matrices that are not positive definite
      guarded([&] { mj_step(&m, data.get()); }, warnings);
      const Numbers expected(data->qvel, data->qvel + m.nv), ours = batch.state("qvel", env);
      ASSERT_LE(difference(ours, expected, 1 + largest(expected)), tolerance)
          << "environment " << env << numbers_text(ours, expected);
    }
  }
  void expect_equal_steps(double speed, double tolerance = 1e-11) {
    const std::vector<RandomState> from = states(speed);
    expect_equal_steps<double>(from, tolerance);
    expect_equal_steps<Lanes<double>>(from, tolerance);
  }

  template <class V>
  void check_capsules_that_cross(double tolerance);
};

// libmujoco gives such a joint several numbers in the tendon's Jacobian: the sum, then zeros. Dense rows, the
// default below 60 dofs, take the last of them; sparse rows, lengths, springs and dampers take the sum.
TEST_F(SpecialCases, AJointMayBeTwiceOnATendon) {
  for (const char* jacobian : {"auto", "dense", "sparse"})
    for (const char* attributes :
         {"limited='true' range='-.1 .1'", "frictionloss='.3'", "stiffness='3' damping='2'",
          "limited='true' range='-.2 .1' frictionloss='.1' damping='1'"})
      for (const char* option : {"", "integrator='implicitfast'", "solver='PGS' iterations='3000'"}) {
        SCOPED_TRACE(std::string(jacobian) + ", " + attributes + ", " + option);
        // libmujoco itself stops there
        if (std::string(jacobian) == "sparse" && std::string(option).starts_with("solver")) continue;
        load(std::string("<mujoco><option jacobian='") + jacobian + "' " + option + R"(/><worldbody>
          <body><joint name="a" axis="0 1 0"/><geom size=".1" pos=".2 0 0" contype="0" conaffinity="0"/>
            <body pos=".3 0 0"><joint name="b" axis="0 1 0"/><geom size=".1" pos=".2 0 0" contype="0"/></body></body>
          <body pos="0 1 0"><joint name="c" axis="0 1 0"/><geom size=".1" pos=".2 0 0" contype="0"/></body>
          <body pos="0 2 0"><joint name="d" axis="0 1 0"/><geom size=".1" pos=".2 0 0" contype="0"/></body>
        </worldbody><tendon><fixed name="t" )" +
             attributes +
             R"(><joint joint="a" coef=".7"/><joint joint="b" coef="-.4"/><joint joint="a" coef=".3"/>
            <joint joint="c" coef=".2"/></fixed></tendon>
        <actuator><motor tendon="t"/><velocity tendon="t" kv="2"/></actuator></mujoco>)");
        expect_equal_steps(2, 1e-9);
      }
}

// Adhesion pulls at what touches its body: at the floor, at a link of its own tree and at other bodies, by
// contacts with and without friction, those in a gap included, and by none.
TEST_F(SpecialCases, AdhesionPullsAtWhatTouches) {
  for (const char* option : {"", "cone='elliptic'", "solver='PGS' iterations='3000'", "integrator='implicit'",
                             "integrator='implicitfast'", "integrator='RK4'"}) {
    SCOPED_TRACE(option);
    load(std::string("<mujoco><option ") + option + R"(/><worldbody>
        <geom name="floor" type="plane" size="5 5 1" margin=".1" gap=".05"/>
        <body name="foot" pos="0 0 .2"><freejoint/><geom size=".2"/><geom size=".1" pos=".3 0 0" condim="1"/>
          <body pos="0 .5 0"><joint name="bend" axis="0 1 0"/><geom type="capsule" size=".1 .3"/>
            <body name="tip" pos="0 .3 .2"><joint axis="1 0 0"/><geom size=".15" margin=".2"/></body></body></body>
        <body name="ball" pos=".5 .3 .3"><freejoint/><geom size=".2"/></body>
        <body name="far" pos="9 9 9"><joint/><geom size=".1" pos=".1 0 0"/></body>
      </worldbody>
      <actuator><adhesion body="foot" gain="20" ctrlrange="0 1"/><adhesion body="tip" gain="30" ctrlrange="0 1"/>
        <adhesion body="ball" gain="10" ctrlrange="0 1" forcerange="0 5"/><adhesion body="far" ctrlrange="0 1"/>
        <general body="ball" ctrlrange="0 1" biastype="affine" biasprm="0 0 -2"/>
        <adhesion body="world" gain="3" ctrlrange="0 1"/>
        <motor joint="bend"/></actuator></mujoco>)");
    expect_equal_steps(2, 1e-9);
  }
}

// Delays of less than a time step, of whole steps, between steps and beyond what is remembered, with each
// interpolation; controls that change with every step. The time step is a power of two, so that MuJoCo's
// times are exact.
TEST_F(SpecialCases, ActuatorsWithDelays) {
  constexpr std::pair<const char*, const char*> kinds[] = {
      {"general", "ctrlrange='-.8 .8' ctrllimited='true'"},
      {"position", "kp='5' kv='.5'"},
      {"general", "dyntype='filter' dynprm='.03' gaintype='affine' gainprm='1 0 -.2'"}};
  for (const char* integrator : {"Euler", "RK4", "implicitfast"}) {
    SCOPED_TRACE(integrator);
    std::ostringstream text;
    text << "<mujoco><option timestep='0.0078125' integrator='" << integrator << "'/><worldbody>";
    std::ostringstream actuators;
    int number = 0;
    for (const char* interp : {"zoh", "linear", "cubic"})
      for (const double steps : {0.4, 1.0, 1.5, 3.0, 4.25, 5.0, 9.5}) {
        const std::string joint = "j" + std::to_string(number++);
        text << "<body pos='" << number << " 0 0'><joint name='" << joint
             << "' axis='0 1 0' damping='.3'/><geom size='.1' pos='.2 0 0' contype='0' "
                "conaffinity='0'/></body>";
        const auto [kind, attributes] = kinds[number % 3];
        actuators << "<" << kind << " joint='" << joint << "' delay='" << steps * 0.0078125
                  << "' nsample='5' interp='" << interp << "' " << attributes << "/>";
      }
    text << "</worldbody><actuator>" << actuators.str()
         << "<motor joint='j0' nsample='3'/></actuator></mujoco>";
    load(text.str());
    const mjModel& m = *mujoco_.model;
    const oracle::DataPointer data = oracle::make_data(m);
    RandomState start = states(1)[0];
    oracle::set_state(m, data.get(), start);
    Batch<double> batch(imported_);
    batch.set(std::vector<RandomState>(kEnvs, start));
    Dice dice(2);
    for (int step = 0; step < 30; ++step) {
      Numbers ctrl;
      for (int i = 0; i < m.nu; ++i) ctrl.push_back(dice.uniform(-1, 1));
      std::copy(ctrl.begin(), ctrl.end(), data->ctrl);
      batch.set_field("ctrl", std::vector<Numbers>(kEnvs, ctrl));
      mj_step(&m, data.get());
      batch.run_step();
      const Numbers expected(data->qvel, data->qvel + m.nv), ours = batch.state("qvel", kEnvs - 1);
      ASSERT_LE(difference(ours, expected, 1 + largest(expected)), 1e-12)
          << "step " << step << numbers_text(ours, expected);
    }
  }
}

// A PID servo and a DC motor with a single input and a delay, a control that is not a number behind the first
// one of an actuator, and each flag that changes what controls do.
TEST_F(SpecialCases, ControllersWithDelaysFlagsAndBadControls) {
  for (const char* flag : {"", "<flag clampctrl='disable'/>", "<flag actuation='disable'/>"})
    for (const char* integrator : {"Euler", "RK4", "implicit", "implicitfast"}) {
      SCOPED_TRACE(std::string(flag) + integrator);
      load(std::string("<mujoco><option timestep='0.0078125' integrator='") + integrator + "'>" + flag +
           R"(</option><default><geom contype="0" conaffinity="0"/></default><worldbody>
          <body><joint name="a" axis="0 1 0" damping=".2"/><geom size=".1" pos=".2 0 0"/>
            <body pos=".3 0 0"><joint name="b" axis="0 1 .2" damping=".2"/><geom size=".1" pos=".2 0 0"/></body></body>
          </worldbody><actuator>
          <motor joint="a"/>
          <pid joint="a" kp="3" ki="2" imax=".1" slewmax="4" input="pos" delay="0.02" nsample="5" interp="linear"/>
          <dcmotor joint="b" motorconst=".3" resistance=".8" delay="0.03" nsample="6" inductance="0 .02"/>
          <pid joint="b" kp="3" kv=".4" input="pos vel ff" posrange="-.5 .5" ffrange="-.1 .2"/>
          <dcmotor joint="a" motorconst=".3" resistance=".8" controller="2 1 .3 5 .2 3" input="pos vel ff voltage"
                   ctrlrange="-.7 .8" lugre="20 .2 .1 .2 .1"/></actuator></mujoco>)");
      const mjModel& m = *mujoco_.model;
      ASSERT_EQ(m.nu, 10);
      const oracle::DataPointer data = oracle::make_data(m);
      const RandomState start = states(1)[0];
      oracle::set_state(m, data.get(), start);
      Batch<double> batch(imported_);
      batch.set(std::vector<RandomState>(kEnvs, start));
      Dice dice(2);
      for (int step = 0; step < 40; ++step) {
        Numbers ctrl;
        for (int i = 0; i < m.nu; ++i) ctrl.push_back(dice.uniform(-1, 1));
        if (step == 12) ctrl[4] = std::nan("");
        if (step == 20) ctrl[9] = std::nan("");
        std::copy(ctrl.begin(), ctrl.end(), data->ctrl);
        batch.set_field("ctrl", std::vector<Numbers>(kEnvs, ctrl));
        mj_step(&m, data.get());
        batch.run_step();
        for (const auto& [name, values, count] :
             {std::tuple<const char*, const mjtNum*, mjtSize>{"qvel", data->qvel, m.nv},
              {"act", data->act, m.na}}) {
          const Numbers expected(values, values + count), ours = batch.state(name, kEnvs - 1);
          ASSERT_LE(difference(ours, expected, 1 + largest(expected)), 1e-12)
              << name << " after step " << step << numbers_text(ours, expected);
        }
      }
    }
}

// Sensors of every stage with delays, intervals with a phase, and both, with each interpolation; readings
// after steps and of the state that they lead to. One environment is reset on the way. The time step is a
// power of two, so that MuJoCo's times are exact.
TEST_F(SpecialCases, SensorsWithDelaysAndIntervals) {
  constexpr double kStep = 0.0078125;
  const auto steps = [](double count) { return std::to_string(count * kStep); };
  for (const char* integrator : {"Euler", "RK4", "implicit"}) {
    SCOPED_TRACE(integrator);
    std::ostringstream text;
    text << "<mujoco><option timestep='" << kStep << "' integrator='" << integrator
         << R"('/><worldbody><geom type='plane' size='9 9 1'/>
           <body pos='0 0 .3'><freejoint/><geom size='.2'/><site name='at' pos='.1 .1 0'/>
             <body pos='.3 0 0'><joint name='bend' axis='0 1 0'/><geom type='capsule' size='.05 .2'/></body></body>
         </worldbody><actuator><motor name='motor' joint='bend'/></actuator><sensor>)";
    for (const char* sensor : {"jointpos joint='bend'", "framequat objtype='site' objname='at'",
                               "gyro site='at'", "velocimeter site='at' cutoff='.5'",
                               "accelerometer site='at'", "touch site='at'", "actuatorfrc actuator='motor'"})
      for (const char* interp : {"zoh", "linear", "cubic"})
        for (const auto& [delay, interval, phase] : std::vector<std::array<double, 3>>{{0.4, 0, 0},
                                                                                       {2, 0, 0},
                                                                                       {2.5, 0, 0},
                                                                                       {4.25, 0, 0},
                                                                                       {9.5, 0, 0},
                                                                                       {0, 3, 0},
                                                                                       {0, 2.5, -1.25},
                                                                                       {0, 0.5, 0},
                                                                                       {3.25, 2, 0},
                                                                                       {6.5, 3.5, -2}})
          text << "<" << sensor << " nsample='5' interp='" << interp << "' delay='" << steps(delay)
               << "' interval='" << steps(interval) << " " << steps(phase) << "'/>";
    text << "<gyro site='at' nsample='3'/><clock/></sensor></mujoco>";
    load(text.str());
    const mjModel& m = *mujoco_.model;
    const std::vector<RandomState> from = states(1);
    std::vector<oracle::DataPointer> data;
    for (const RandomState& state : from) {
      data.push_back(oracle::make_data(m));
      oracle::set_state(m, data.back().get(), state);
    }
    Batch<Lanes<double>> batch(imported_);
    batch.set(from);
    const auto expect_readings = [&](const char* when) {
      for (int env = 0; env < kEnvs; ++env) {
        const mjData& d = *data[static_cast<std::size_t>(env)];
        const Numbers expected(d.sensordata, d.sensordata + m.nsensordata),
            ours = batch.data(env).at("sensordata");
        for (std::size_t i = 0; i < ours.size(); ++i)
          ASSERT_NEAR(ours[i], expected[i], 1e-9 * (1 + std::abs(expected[i])))
              << when << ", element " << i << " of environment " << env << numbers_text(ours, expected);
      }
    };
    for (int step = 0; step < 30 && !HasFailure(); ++step) {
      SCOPED_TRACE(step);
      if (step == 17) {
        batch.set_state_value("qpos", 0, 3, std::nan(""));
        data[3]->qpos[0] = std::nan("");
      }
      batch.poison();
      batch.run_step();
      std::vector<std::string> warnings;  // of the bad state
      for (const oracle::DataPointer& d : data) guarded([&] { mj_step(&m, d.get()); }, warnings);
      expect_readings("after the step");
      batch.poison();
      batch.run_forward();
      for (const oracle::DataPointer& d : data) mj_forward(&m, d.get());
      expect_readings("of the next state");
    }
  }
}

// M keeps the rows of simple dofs diagonal, whatever a tendon with armature couples, and so does M - h*qDeriv
// for all integrators but implicit.
TEST_F(SpecialCases, TendonsCoupleSimpleDofs) {
  for (const char* integrator : {"Euler", "RK4", "implicit", "implicitfast"}) {
    SCOPED_TRACE(integrator);
    load(std::string("<mujoco><option timestep='.01' integrator='") + integrator + R"('/><worldbody>
        <body><joint name="a" type="slide" axis="1 0 0" damping="1"/><joint name="b" type="slide" axis="0 1 0"/>
          <joint name="c" type="slide" axis="0 0 1"/><geom size=".1" mass="1"/></body>
        <body pos="1 0 0"><freejoint name="f"/><geom size=".1" mass="1"/></body></worldbody>
      <tendon><fixed name="t" armature=".7" damping="2"><joint joint="a" coef="1"/><joint joint="b" coef="-.5"/>
        <joint joint="c" coef=".3"/></fixed></tendon>
      <actuator><velocity tendon="t" kv="3"/><general joint="f" gear="1 2 0 0 1 3" biastype="affine" biasprm="0 0 -4"/>
      </actuator></mujoco>)");
    expect_equal_steps(2);
  }
}

// Where a coupling does not move its second joint in a pose, dense rows leave that joint's tree alone and
// sparse rows join both trees to an island. An island's sweeps end by its own improvement, so that the
// islands decide how far a solver that is stopped early gets.
TEST_F(SpecialCases, TreesOfACouplingMakeAnIsland) {
  for (const char* jacobian : {"dense", "sparse"})
    for (const char* option :
         {"solver='PGS' tolerance='1e-3'", "solver='CG' tolerance='1e-2' ls_tolerance='.1'"}) {
      SCOPED_TRACE(std::string(jacobian) + ", " + option);
      const auto chain = [](const std::string& name, const std::string& pos) {
        std::string bodies, ends;
        for (int k = 0; k < 4; ++k) {
          bodies += "<body pos='" + (k == 0 ? pos : ".3 0 0") + "'><joint name='" + name + std::to_string(k) +
                    "' axis='0 1 " + std::to_string(k % 2) + "' frictionloss='." + std::to_string(2 + 3 * k) +
                    "'/><geom size='.1' pos='.2 0 0' contype='0' conaffinity='0'/>";
          ends += "</body>";
        }
        return bodies + ends;
      };
      load_text(
          "<mujoco><option " + std::string(option) + " jacobian='" + jacobian + "'/><worldbody>" +
          chain("a", "0 0 0") + chain("b", "0 1 0") + chain("c", "0 2 0") +
          "</worldbody><equality><joint joint1='a1' joint2='b1' polycoef='0 0 1 0 0'/></equality></mujoco>");
      std::vector<RandomState> from = states(2);
      for (std::size_t env = 0; env < kEnvs; env += 2) from[env].qpos[5] = 0;
      expect_equal_steps<double>(from, 1e-9);
      expect_equal_steps<Lanes<double>>(from, 1e-9);
    }
}

// M - h D with a pivot that is not positive: libmujoco goes on with 1e-15 in its place.
TEST_F(SpecialCases, PivotsAreAtLeastTheSmallestNumber) {
  const auto arm = [](const std::string& option, const std::string& a, const std::string& b) {
    return "<mujoco><option timestep='.01' " + option +
           "><flag contact='disable'/></option><worldbody><body><joint name='a' axis='0 1 0' " + a +
           "/><geom size='.1' pos='.2 0 0' mass='1'/><body pos='.3 0 0'><joint name='b' axis='0 1 0' " + b +
           "/><geom size='.1' pos='.2 0 0' mass='1'/></body></body></worldbody>";
  };
  for (const auto& [a, b] : std::vector<std::pair<std::string, std::string>>{
           {"0", "1"}, {"0", "4"}, {"0", "4.5"}, {"0", "100"}, {"30", "0"}, {"50", "4"}}) {
    SCOPED_TRACE(a + " " + b);
    load(arm("integrator='implicitfast'", "", "") +
         "<actuator><general joint='a' biastype='affine' biasprm='0 0 " + a +
         "'/><general joint='b' biastype='affine' biasprm='0 0 " + b + "'/></actuator></mujoco>");
    expect_equal_steps(2);
  }
  for (const char* integrator :
       {"integrator='Euler'", "integrator='implicit'", "integrator='implicitfast'"}) {
    SCOPED_TRACE(integrator);
    load(arm(integrator, "damping='.1 -3 -30'", "damping='.1 -1'") + "</mujoco>");
    expect_equal_steps(2);
  }
}

// A free body's own 6x6 system is solved with pivots from each column; where it is singular, M alone counts.
TEST_F(SpecialCases, FreeBodiesAreSolvedWithPivots) {
  struct Case {
    const char *pos, *gear, *gain;
  };
  // mass 1 and steps of 1/128 s: a gain of 128 leaves a zero
  for (const Case& c : {Case{"0 0 0", "0 0 1 0 0 0", "128"}, Case{"0 0 0", "0 0 0 0 0 1", "64"},
                        Case{"0 0 .1", "1 0 0 0 0 0", "128"}, Case{"0 0 .1", "1 0 0 0 0 0", "200"},
                        Case{".1 0 .2", "1 2 3 .5 .4 .3", "64"}, Case{"0 0 .1", ".3 0 0 1 0 0", "100"}}) {
    SCOPED_TRACE(std::string(c.pos) + ", " + c.gear + ", " + c.gain);
    load(std::string(R"(<mujoco><option integrator="implicitfast" timestep="0.0078125"/><worldbody>
      <body><joint name="f" type="free"/><inertial pos=")") +
         c.pos + R"(" mass="1" diaginertia=".5 .5 .5"/></body></worldbody><actuator>
      <general joint="f" gear=")" +
         c.gear + R"(" biastype="affine" biasprm="0 0 )" + c.gain + R"("/></actuator></mujoco>)");
    std::vector<RandomState> from = states(3);
    // at rest nothing hides what is singular
    for (std::size_t env = 0; env < kEnvs; env += 2) {
      from[env].qpos = {0, 0, 0, 1, 0, 0, 0};
      for (std::size_t k = 3; k < 6; ++k) from[env].qvel[k] = 0;
    }
    expect_equal_steps<double>(from, 1e-10);
    expect_equal_steps<Lanes<double>>(from, 1e-10);
  }
}

// A sphere on a post that turns about its axis, at the height of its radius: by the formula of the distance
// it never touches, dist = r R_zz - r = 0. In MuJoCo R_zz = w^2 + z^2, which rounds to less than one for some
// angles, and such a contact has rows. Here the same angles touch, wherever sines and cosines are the same.
TEST_F(SpecialCases, ASphereThatTouchesByARounding) {
  load(R"(<mujoco><worldbody><geom type="plane" size="0 0 1"/>
    <body><joint type="slide" axis="1 0 0"/><joint axis="0 0 1"/>
      <geom type="sphere" size="0.5" pos="0 0 0.5"/></body></worldbody></mujoco>)");
  const mjModel& m = *mujoco_.model;
  const oracle::DataPointer data = oracle::make_data(m);
  Dice dice(1);
  Batch<Lanes<double>> batch(imported_);
  int same = 0, touching = 0, ours_touching = 0;
  constexpr int kRounds = 30;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<RandomState> from(kEnvs);
    for (RandomState& state : from) {
      state.qpos = {dice.uniform(-1, 1), dice.uniform(-20, 20)};
      state.qvel = {1, 1};
      state.qacc_warmstart = {0, 0};
    }
    batch.set(from);
    batch.run_forward();
    for (int env = 0; env < kEnvs; ++env) {
      oracle::set_state(m, data.get(), from[static_cast<std::size_t>(env)]);
      mj_forward(&m, data.get());
      const std::map<std::string, Numbers> ours = batch.data(env);
      touching += data->nefc > 0;
      ours_touching += ours.at("nefc")[0] > 0;
      if (ours.at("xquat") != Numbers(data->xquat, data->xquat + 4 * m.nbody)) continue;
      ++same;
      EXPECT_EQ(ours.at("geom_xpos"), Numbers(data->geom_xpos, data->geom_xpos + 3 * m.ngeom));
      EXPECT_EQ(ours.at("nefc")[0], data->nefc) << "height " << data->geom_xpos[5];
    }
  }
  constexpr int kVisited = kRounds * kEnvs;
  EXPECT_GT(same, kVisited / 3);
  EXPECT_GT(touching, kVisited / 20);
  EXPECT_LT(touching, kVisited);
  EXPECT_NEAR(ours_touching, touching, kVisited / 10);
  RecordProperty("touching", touching);
  RecordProperty("ours", ours_touching);
  RecordProperty("same", same);
}

// Capsules of a planar robot that cross: their axes have no distance, so no direction from one to the
// other. MuJoCo takes the normal of the plane where the distance is less than 1e-15, so that nothing acts in
// it. Now and then rounding leaves more.
template <class V>
void SpecialCases::check_capsules_that_cross(double tolerance) {
  SCOPED_TRACE(sizeof(ScalarOf<V>) == 8 ? "double" : "single");
  const mjModel& m = *mujoco_.model;
  const oracle::DataPointer data = oracle::make_data(m);
  Dice dice(3);
  Batch<V> batch(imported_);
  int crossing = 0, pushed = 0;
  constexpr int kRounds = 60;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<RandomState> from(kEnvs);
    for (RandomState& state : from) {
      const double x = dice.uniform(-1, 1), z = dice.uniform(-1, 1), turn = dice.uniform(0.2, 2.9);
      for (const double angle : {dice.uniform(-3, 3), turn}) {
        const double whole = state.qpos.empty() ? angle : state.qpos[2] + turn,
                     at = dice.uniform(-0.15, 0.15);
        for (const double q : {x + at * std::sin(whole), z + at * std::cos(whole), whole})
          state.qpos.push_back(static_cast<double>(static_cast<float>(q)));
      }
      state.qvel.assign(6, 0.0);
      state.qacc_warmstart = state.qvel;
    }
    batch.set(from);
    batch.run_forward();
    for (int env = 0; env < kEnvs; ++env) {
      oracle::set_state(m, data.get(), from[static_cast<std::size_t>(env)]);
      mj_forward(&m, data.get());
      ASSERT_EQ(data->ncon, 1);
      if (!(std::abs(data->contact[0].frame[1]) > 0.5)) continue;
      ++crossing;
      const Numbers qacc = batch.data(env).at("qacc"), expected(data->qacc, data->qacc + m.nv);
      pushed += !(difference(qacc, expected, 1) < tolerance);
    }
  }
  EXPECT_GT(crossing, kRounds * kEnvs * 9 / 10);
  EXPECT_LE(pushed, crossing / 200);
}
TEST_F(SpecialCases, CapsulesOfAPlanarRobotThatCross) {
  const std::string joints =
      R"(<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/><joint axis="0 1 0"/>)";
  load("<mujoco><worldbody><body>" + joints + R"(<geom type="capsule" size=".05 .3"/></body><body>)" +
       joints + R"(<geom type="capsule" size=".06 .2"/></body></worldbody></mujoco>)");
  check_capsules_that_cross<Lanes<double>>(1e-9);
  check_capsules_that_cross<Lanes<float>>(1e-3);
}

// ---- how many contacts there can be ----

const char* shape_text(int type) {
  switch (type) {
    case geom_plane:
      return "type='plane' size='0 0 1'";
    case geom_sphere:
      return "type='sphere' size='.1'";
    case geom_capsule:
      return "type='capsule' size='.1 .1'";
    case geom_ellipsoid:
      return "type='ellipsoid' size='.1 .2 .3'";
    case geom_cylinder:
      return "type='cylinder' size='.1 .1'";
    case geom_mesh:
      return "type='mesh' mesh='wedge'";
    case geom_hfield:
      return "type='hfield' hfield='field'";
    default:
      return "type='box' size='.1 .1 .1'";
  }
}

TEST_F(SpecialCases, ShapesHaveMujocosNumberOfContacts) {
  for (const GeomPairTypes& pair : kGeomPairTypes) {
    const bool as_it_is = pair.type1 == geom_plane || pair.type1 == geom_mesh || pair.type1 == geom_hfield;
    load(std::string("<mujoco><asset><mesh name='wedge' vertex='0 0 0 .1 0 0 0 .1 0 0 0 .1'/>"
                     "<hfield name='field' nrow='9' ncol='9' size='.3 .3 .1 .1'/></asset><worldbody>"
                     "<geom ") +
         (as_it_is ? shape_text(pair.type1) : "size='.1'") + "/><body><freejoint/><geom " +
         shape_text(pair.type2) + "/></body></worldbody></mujoco>");
    if (!as_it_is) mujoco_.model->geom_type[0] = pair.type1;
    // where a capsule or a cylinder meets flat sides, or a box a mesh, MuJoCo reserves more than it finds
    const bool found_fewer = pair.type1 >= geom_capsule && pair.type1 != geom_ellipsoid &&
                             pair.type2 != geom_capsule && pair.type2 != geom_ellipsoid &&
                             !(pair.type1 == geom_box && pair.type2 == geom_box);
    const int reserved = mj_maxContact(mujoco_.model.get(), 0, 1, 0);
    EXPECT_GE(reserved, pair.most_contacts) << pair.type1 << " " << pair.type2;
    EXPECT_LE(reserved, pair.most_contacts + (found_fewer ? 4 : 0)) << pair.type1 << " " << pair.type2;
  }
}

// Nothing that lies on a plane overflows the capacity that a model has by default, nor do heaps of what the
// kernels let touch each other: balls packed as densely as they can be, and logs in a pile. The models for
// which the capacity is asked start with their bodies apart, since those of a heap would count its contacts.
TEST_F(SpecialCases, TheDefaultCapacityHoldsWhatRests) {
  double spread = 1;
  const auto body = [&](double x, double y, double z, const std::string& shape,
                        const std::string& more = "") {
    std::ostringstream text;
    text << "<body pos='" << spread * x << " " << spread * y << " " << spread * z << "'><freejoint/><geom "
         << shape << more << "/></body>";
    return text.str();
  };
  const auto expect_room = [&](const std::function<std::string()>& bodies, int at_least) {
    const auto load_spread = [&](double factor) {
      spread = factor;
      load("<mujoco><worldbody><geom type='plane' size='0 0 1'/>" + bodies() + "</worldbody></mujoco>");
      const oracle::DataPointer data = oracle::make_data(*mujoco_.model);
      mj_forward(mujoco_.model.get(), data.get());
      return static_cast<int>(data->ncon);
    };
    const int touching = load_spread(1);
    EXPECT_GE(touching, at_least);
    EXPECT_EQ(load_spread(10), 0);
    EXPECT_GE(imported_.sizes.ncontact, touching);
    EXPECT_LE(imported_.sizes.ncontact, most_contacts(host_model(imported_)));
  };
  for (const int type : {geom_sphere, geom_capsule, geom_ellipsoid, geom_cylinder, geom_box}) {
    SCOPED_TRACE(shape_text(type));
    const double height = type == geom_ellipsoid ? 0.299 : 0.0999;
    const std::string apart = " contype='2' conaffinity='1'";
    // a cylinder that stands has three
    expect_room(
        [&] {
          std::string bodies;
          for (int i = 0; i < 12; ++i)
            bodies +=
                body(i, 0, height, shape_text(type), apart + (type == geom_capsule ? " euler='0 90 0'" : ""));
          return bodies;
        },
        12 * (type == geom_cylinder ? 3 : kGeomPairTypes[geom_pair_types(geom_plane, type)].most_contacts));
  }
  constexpr int kLayers = 6;
  const double near = 0.199;
  // balls in layers of triangles, pressed together a little
  const auto balls = [&] {
    std::string bodies;
    for (int layer = 0; layer < kLayers; ++layer)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
          const double shift = layer % 3;
          bodies += body((i + 0.5 * j + 0.5 * shift) * near,
                         (j * std::sqrt(0.75) + shift * std::sqrt(1. / 12)) * near,
                         0.0999 + layer * near * std::sqrt(2. / 3), "size='.1'");
        }
    return bodies;
  };
  // a pyramid of logs, or a wall of bricks: layers that lie on two others each
  const auto layers = [&](double width, double height, double first, const std::string& shape) {
    std::string bodies;
    for (int layer = 0; layer < kLayers; ++layer)
      for (int i = 0; i < kLayers - layer; ++i)
        bodies += body((i + 0.5 * layer) * width, 0, first + height * layer, shape);
    return bodies;
  };
  expect_room([&] { return layers(0.41, 0.0999, 0.0499, "type='box' size='.2 .1 .05'"); }, 8 * 15 + 4 * 6);
  expect_room(
      [&] {
        return layers(near, near * std::sqrt(0.75), 0.0999, "type='capsule' size='.1 .5' euler='90 0 0'");
      },
      60);
  expect_room(balls, 200);
}

}  // namespace
}  // namespace maniple
