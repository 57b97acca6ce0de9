// Faults that random models (tests/fuzz) have found, each as small as possible, against libmujoco: contacts
// and rows of the default pose, and steps from states around it.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/reference/constraint_rows.hpp"
#include "tests/reference/model_in_file.hpp"
#include "tests/reference/random_model.hpp"
#include "tests/reference/step_check.hpp"

namespace maniple {
namespace {

class FuzzFound : public ModelInFile {
 protected:
  // Contacts and rows of the default pose.
  void expect_equal_rows() {
    const mjModel& m = *mujoco_.model;
    const oracle::DataPointer d = oracle::make_data(m);
    mj_forward(&m, d.get());
    RandomState state;
    state.qpos.assign(m.qpos0, m.qpos0 + m.nq);
    state.qvel.assign(static_cast<std::size_t>(m.nv), 0.0);
    Batch<double> batch(imported_);
    batch.set(std::vector<RandomState>(kEnvs, state));
    batch.run_forward();
    const Model<double> model = host_model(imported_);
    batch.for_each_data([&](const Data<double>& data, int pack) {
      if (pack > 0) return;
      const Rows ours = rows_of<double>(model, imported_, data, state.qvel, 0), theirs = rows_of(m, d.get());
      EXPECT_EQ(ours.geom1, theirs.geom1);
      EXPECT_EQ(ours.geom2, theirs.geom2);
      EXPECT_LE(difference(ours.dist, theirs.dist, 1), 1e-12) << numbers_text(ours.dist, theirs.dist);
      EXPECT_LE(difference(ours.pos, theirs.pos, 1), 1e-12) << numbers_text(ours.pos, theirs.pos);
      EXPECT_LE(difference(ours.D, theirs.D, 1 + largest(theirs.D)), 1e-12) << numbers_text(ours.D, theirs.D);
    });
  }
};

// The number type of the lanes: float or double.
template <class S>
class FuzzFoundSteps : public FuzzFound {
 protected:
  // The forces of the rows, as far as they count, and the velocities after a step from random states with
  // these positions, some for each environment.
  void expect_equal_steps(const std::vector<Numbers>& poses, const SimulationConfig& simulation,
                          double tolerance) {
    load_file(simulation);
    const mjModel& m = *mujoco_.model;
    const oracle::DataPointer d = oracle::make_data(m);
    std::mt19937_64 generator(5);
    std::uniform_real_distribution<double> uniform(-1, 1);
    std::vector<RandomState> states;
    for (int env = 0; env < kEnvs; ++env) {
      RandomState state;
      state.qpos = poses[static_cast<std::size_t>(env) % poses.size()];
      for (int i = 0; i < m.nv; ++i)
        state.qvel.push_back(static_cast<double>(static_cast<S>(uniform(generator))));
      state.qacc_warmstart.assign(static_cast<std::size_t>(m.nv), 0.0);
      states.push_back(state);
    }
    Batch<Lanes<S>> batch(imported_);
    batch.set(states);
    batch.run_step(true);
    batch.for_each_data([&](const Data<Lanes<S>>& data, int pack) {
      for (int lane = 0; lane < lane_width<Lanes<S>>; ++lane) {
        const int env = pack * lane_width<Lanes<S>> + lane;
        SCOPED_TRACE("environment " + std::to_string(env));
        oracle::set_state(m, d.get(), states[static_cast<std::size_t>(env)]);
        mj_step(&m, d.get());
        EXPECT_EQ(get_lane(Lanes<S>(data.nefc[0]), lane), static_cast<S>(d->nefc));
        const Numbers qvel(d->qvel, d->qvel + m.nv), found = batch.state("qvel", env);
        EXPECT_LE(difference(found, qvel, 1), tolerance) << numbers_text(found, qvel);
        for (int i = 0; i < m.nsensordata; ++i) {
          const auto reading = static_cast<double>(get_lane(Lanes<S>(data.sensordata[i]), lane));
          EXPECT_NEAR(reading, d->sensordata[i], tolerance * (1 + std::abs(d->sensordata[i])))
              << "sensor " << i;
        }
      }
    });
  }
};
using LaneNumbers = ::testing::Types<float, double>;
TYPED_TEST_SUITE(FuzzFoundSteps, LaneNumbers);

// A tendon whose sites are on one body, and which does not reach its geom there, moves nothing. MuJoCo makes
// no rows along it: rows with the rounding of its Jacobian and no weight in their regularization would pull
// with forces of any size. Where it does reach the geom, in other environments of the same pack, it has rows.
// (Rows that are sparse are there, with zeros.)
TYPED_TEST(FuzzFoundSteps, TendonsThatMoveNothingHaveNoRows) {
  for (const char* jacobian : {"dense", "sparse"})
    for (const SolverChoice solver : {SolverChoice::Newton, SolverChoice::PGS}) {
      SCOPED_TRACE(std::string(jacobian) + ", " + text_of(solver));
      std::ofstream(this->path_) << R"(<mujoco><option jacobian=")" << jacobian << R"("/><worldbody>
        <geom name="post" type="cylinder" size="0.05 0.5" pos="0.1 0 0" euler="90 0 0" contype="0"/>
        <body><joint name="x" type="slide" axis="1 0 0"/><joint type="hinge" axis="0 1 0"/>
          <geom size="0.1" mass="1" contype="0"/><geom name="ring" size="0.02" pos="0 0.5 0" mass="0.1"/>
          <site name="a" pos="0.013 0 0.2"/><site name="c" pos="0.02 0.01 -0.17"/></body>
        </worldbody>
        <tendon>
          <spatial name="past" limited="true" range="0.5 0.6" frictionloss="0.1">
            <site site="a"/><geom geom="post"/><site site="c"/></spatial>
          <spatial name="own" limited="true" range="0.1 0.2" margin="0.01" frictionloss="0.1">
            <site site="a"/><geom geom="ring"/><site site="c"/></spatial>
        </tendon>
        <equality><tendon tendon1="own" polycoef="0.1 0 0 0 0"/><tendon tendon1="past" tendon2="own"/></equality>
        <sensor><tendonlimitfrc tendon="own"/><tendonlimitpos tendon="own"/><tendonlimitpos tendon="past"/></sensor>
        </mujoco>)";
      SimulationConfig simulation;
      simulation.solver = solver;
      this->expect_equal_steps({{0, 0}, {0.5, 0.3}, {-1, 0}, {0.03, 0.1}}, simulation,
                               sizeof(TypeParam) == 8 ? 1e-10 : 1e-3);
    }
}

// Friction of a body that moves in one direction alone: the matrix of its contact is singular, and MuJoCo's
// noslip leaves such forces as they are. Rounding makes that matrix regular in single precision.
TYPED_TEST(FuzzFoundSteps, NoslipLeavesFrictionAlongOneDirectionAlone) {
  for (const char* condim : {"3", "4", "6"}) {
    SCOPED_TRACE(condim);
    std::ofstream(this->path_) << R"(<mujoco><option cone="elliptic" noslip_iterations="5"/><worldbody>
        <geom type="plane" size="1 1 1" euler="10 20 0"/>
        <body pos="0 0 0.09"><joint type="hinge" axis="0.5 0.7 0.4" pos="0.3 0.1 0.3"/>
          <geom size="0.1" mass="0.3" friction="1 0.1 0.1" condim=")"
                               << condim << R"("/></body></worldbody></mujoco>)";
    this->expect_equal_steps({{0}, {0.01}, {-0.01}, {0.02}}, {}, sizeof(TypeParam) == 8 ? 1e-10 : 1e-4);
  }
}

// Slides that follow a ball joint on one body: MuJoCo's derivative of the Jacobian, which the rows of
// connects, welds and tendons with armature have, turns the axes of the ball joint with the slides' velocity
// as well.
TYPED_TEST(FuzzFoundSteps, SlidesAfterABallJointAreInTheDriftOfRows) {
  for (const char* row :
       {R"(<equality><connect body1="c" body2="world" anchor="0.1 0.1 0.2" solref="1 1"/></equality>)",
        R"(<equality><weld body1="b" body2="world" anchor="0.1 0.1 0.2" solref="1 1"/></equality>)",
        R"(<tendon><spatial armature="3"><site site="c"/><site site="w"/></spatial></tendon>)"}) {
    SCOPED_TRACE(row);
    std::ofstream(this->path_)
        << R"(<mujoco><option timestep="0.02"/><worldbody><site name="w"/><body name="b" pos="0 0.4 1">
        <joint type="slide" axis="0 1 0"/><joint type="ball" pos="0 0 0.1"/>
        <joint type="slide" axis="0 0 1"/><joint type="slide" axis="1 0 0.2"/>
        <geom type="capsule" size="0.05 0.1" contype="0"/>
        <body name="c" pos="0.3 0 0"><joint type="hinge" axis="0 1 0"/><geom size="0.1" contype="0"/>
          <site name="c" pos="0 0 0.1"/></body>
      </body></worldbody>)"
        << row << "</mujoco>";
    this->expect_equal_steps({{0, 1, 0, 0, 0, 0, 0, 0}, {0.1, 0.8, 0.6, 0, 0, -0.1, 0.2, 0.3}}, {},
                             sizeof(TypeParam) == 8 ? 1e-11 : 1e-4);
  }
}

// A tendon between bodies that are welded to each other pulls at nothing in single precision: the rounding of
// its Jacobian gave velocities of 1e7. (In MuJoCo it is that of a double, whose rows pull little.)
TEST_F(FuzzFound, TendonsBetweenWeldedBodiesPullAtNothing) {
  using V = Lanes<float>;
  const auto text = [](const std::string& tendon) {
    return R"(<mujoco><worldbody><body euler="10 20 30"><joint type="slide" axis="1 0 0.3"/><joint type="ball"/>
      <geom size="0.1" mass="1" contype="0"/><site name="a" pos="0.013 0.1 0.2"/>
      <body pos="0.1 0.02 0" euler="20 50 10"><geom name="w" size="0.02" mass="0.1" contype="0"/>
        <site name="c" pos="0.02 0.01 -0.17"/></body></body></worldbody>)" +
           tendon + "</mujoco>";
  };
  load_text(text(R"(<tendon>
      <spatial name="t" limited="true" range="0.1 0.2"><site site="a"/><site site="c"/></spatial>
      <spatial limited="true" range="0.1 0.2"><site site="a"/><geom geom="w"/><site site="c"/></spatial></tendon>
    <equality><tendon tendon1="t" polycoef="0.1 0 0 0 0"/></equality>)"));
  const ImportedModel with_tendons = imported_;
  load_text(text(""));
  const mjModel& m = *mujoco_.model;
  const oracle::DataPointer d = oracle::make_data(m);
  Dice dice(2);
  std::vector<RandomState> states;
  for (int env = 0; env < kEnvs; ++env) {
    RandomState state;
    for (const double value : {0.0, 1.0, 0.1, 0.2, -0.3})
      state.qpos.push_back(static_cast<double>(static_cast<float>(value)));
    for (int i = 0; i < m.nv; ++i)
      state.qvel.push_back(static_cast<double>(static_cast<float>(dice.uniform(-1, 1))));
    state.qacc_warmstart.assign(static_cast<std::size_t>(m.nv), 0.0);
    states.push_back(state);
  }
  Batch<V> batch(with_tendons);
  batch.set(states);
  batch.run_step();
  for (int env = 0; env < kEnvs; ++env) {
    oracle::set_state(m, d.get(), states[static_cast<std::size_t>(env)]);
    mj_step(&m, d.get());
    const Numbers qvel(d->qvel, d->qvel + m.nv), found = batch.state("qvel", env);
    EXPECT_LE(difference(found, qvel, 1), 1e-5) << numbers_text(found, qvel);
  }
}

// Tendons that reach the post of another body only away from qpos0: MuJoCo gives their rows no weight, which
// in double precision is a stiffness of 1e15. In single precision nothing of the other forces was left beside
// it.
TYPED_TEST(FuzzFoundSteps, RowsWithoutWeightLeaveOtherForcesAlone) {
  for (const char* rows : {R"(<tendon><spatial name="t" limited="true" range="0 0.4">)",
                           R"(<equality><tendon tendon1="t" polycoef="0 0 0 0 0"/></equality>
                              <tendon><spatial name="t">)"}) {
    SCOPED_TRACE(rows);
    std::ofstream(this->path_)
        << R"(<mujoco><worldbody>
        <body><joint type="slide" axis="1 0 0"/><joint type="hinge" axis="0 1 0"/>
          <geom size="0.05" mass="0.3" contype="0"/>
          <geom name="post" type="cylinder" size="0.06 0.2" euler="90 0 0" pos="0.2 0 0.05" contype="0"/>
          <body pos="0.1 0 0.05"><joint type="hinge" axis="0 1 0" armature="0.002"/>
            <geom size="0.05" mass="0.3" contype="0"/><site name="a" pos="0 0 0.2"/><site name="c" pos="0.05 0 -0.2"/>
            <body pos="0.1 0.1 0"><joint type="hinge" axis="1 0 0"/><joint type="hinge" axis="0 0 1"/>
              <geom size="0.05" mass="0.3" contype="0"/></body></body></body>
        </worldbody>)"
        << rows << R"(<site site="a"/><geom geom="post"/><site site="c"/></spatial></tendon></mujoco>)";
    std::vector<Numbers> poses;
    for (const float angle : {1.05f, 1.2f, -1.1f, 1.4f, -1.3f, 0.3f})
      poses.push_back({0, 0.25, static_cast<double>(angle), 0.5, -0.25});
    this->expect_equal_steps(poses, {}, sizeof(TypeParam) == 8 ? 1e-9 : 2e-3);
  }
}

// Frictionless and frictional contacts that share a slot: an environment's last bit once depended on which of
// them its neighbours had, because sums with and without tangents were rounded differently.
TEST_F(FuzzFound, FrictionOfANeighbourChangesNoBits) {
  load_text(R"(<mujoco><worldbody>
    <geom type="plane" size="0 0 1" condim="1"/>
    <body pos="0 0 0.1"><freejoint/><geom type="sphere" size="0.1" pos="0.013 0.02 0" condim="1"/></body>
    <body pos="1 0 0.1"><freejoint/><geom type="sphere" size="0.1" condim="3"/></body>
  </worldbody></mujoco>)");
  using V = Lanes<double>;
  // where the first ball touches, the second hovers; in half of the neighbours it is the other way round
  Dice dice(1);
  std::vector<RandomState> states;
  for (int env = 0; env < kEnvs; ++env) {
    RandomState state;
    for (const double height : {0.09, 0.3})
      for (const double value :
           {0.0, 0.0, height, 1.0, dice.uniform(-1, 1), dice.uniform(-1, 1), dice.uniform(-1, 1)})
        state.qpos.push_back(value);
    for (int i = 0; i < 12; ++i) state.qvel.push_back(dice.uniform(-1, 1));
    states.push_back(state);
  }
  std::vector<Numbers> before, after;
  for (std::vector<Numbers>* const ends : {&before, &after}) {
    Batch<V> batch(imported_);
    batch.set(states);
    for (int step = 0; step < 20; ++step) batch.run_step();
    for (int env = 0; env < kEnvs; env += 2) ends->push_back(batch.state("qpos", env));
    for (std::size_t env = 1; env < kEnvs; env += 2) std::swap(states[env].qpos[2], states[env].qpos[9]);
  }
  EXPECT_EQ(before, after);
}

// Where one of the bodies has several geoms, MuJoCo sorts the contacts of a pair of bodies by geom[0], then
// geom[1] (the geoms of lower and higher type); where both have one, or the midphase is off, by the geoms'
// places.
TEST_F(FuzzFound, ContactsOfBodiesWithSeveralGeomsAreSorted) {
  load_text(R"(<mujoco><worldbody>
    <body><freejoint/><geom type="capsule" size="0.1 0.1" euler="0 90 0"/></body>
    <body><freejoint/><geom type="sphere" size="0.1" pos="0 0 0.15"/>
                      <geom type="capsule" size="0.1 0.1" pos="0 0 -0.15" euler="90 0 0"/></body>
  </worldbody></mujoco>)");
  expect_equal_rows();  // capsule 0 and capsule 2, then sphere 1 and capsule 0
}

// Capsules whose axes are parallel up to 1e-4 rad touch at the two ends of the part that they have in common
// (twice at the same point where they have none), in the order of the first one's axis.
TEST_F(FuzzFound, ParallelCapsulesTouchWhereTheyOverlap) {
  for (const char* pose : {"pos='0.16 0 0'", "pos='0.16 0 0.11'", "pos='0.16 0 0.2'",
                           "pos='0.16 0 0' euler='0 0.00005 0'", "pos='0.16 0 0.11' euler='0 3.14158 0'"}) {
    SCOPED_TRACE(pose);
    load_text(std::string(R"(<mujoco><compiler angle="radian"/><worldbody>
      <geom type="capsule" size="0.0559 0.1427" margin="0.02"/>
      <body )") +
              pose + R"(><joint type="slide"/><geom type="capsule" size="0.1215 0.0412"/></body>
      </worldbody></mujoco>)");
    expect_equal_rows();
  }
}

// Explicit pairs of geoms that no dof moves against each other, of one body or of the world alone: MuJoCo
// lists the contact, and makes no rows of it.
TEST_F(FuzzFound, PairsThatNothingMovesAreListedWithoutRows) {
  load_text(R"(<mujoco><worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <geom name="stone" type="sphere" size="0.1"/>
    <body pos="0 0 1"><freejoint/>
      <geom name="head" type="sphere" size="0.1"/><geom name="nose" type="sphere" size="0.05" pos="0.1 0 0"/></body>
    </worldbody>
    <contact><pair geom1="floor" geom2="stone"/><pair geom1="head" geom2="nose" condim="1"/></contact>
  </mujoco>)");
  expect_equal_rows();
}

// The end of a cylinder and the side of a box, 4.6 and 5 degrees from parallel: of the second face counts
// what is within the margin, however large the angle is. Found in states of the Adroit hand.
TEST_F(FuzzFound, FacesThatAreNearlyParallelTouchWithinTheMargin) {
  load_text(R"(<mujoco><worldbody>
    <body pos="-0.017367910117072356 -0.20939123746720334 0.2676930007453439"
          quat="0.6861105558431148 -0.03756518253190843 0.049573331591610675 0.7248335305550542">
      <freejoint/><geom type="cylinder" size="0.015 0.065" margin="0.0005"/></body>
    <body pos="-0.0001464907153512678 -0.23186539162052638 0.19303778450242473"
          quat="0.6336027556434907 -0.7697681857589542 -0.05986736981963111 0.04919742132696054">
      <freejoint/><geom type="box" size="0.032 0.0111 0.049" margin="0.0005"/></body>
  </worldbody></mujoco>)");
  expect_equal_rows();
  load_text(R"(<mujoco><worldbody>
    <body pos="-0.0033520038068965557 -0.006395314281533254 0.23561723261324438"
          quat="0.5883126016498336 0.6065575168938926 -0.3942531310863958 -0.3613042070999073">
      <freejoint/><geom type="cylinder" size="0.02 0.04" margin="0.0005"/></body>
    <body pos="0.05 0 0.2363683432340622"
          quat="0.5838329026838207 0.5833679027613294 -0.3994209334225274 -0.39910393347536655">
      <freejoint/><geom type="box" size="0.08 0.08 0.01"/></body>
  </worldbody></mujoco>)");
  expect_equal_rows();
}

}  // namespace
}  // namespace maniple
