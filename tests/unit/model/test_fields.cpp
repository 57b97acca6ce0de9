// The field tables: pointers, sizes and the lists by name agree, and derived numbers are what they say.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/unit/physics/simulated_model.hpp"

namespace maniple {
namespace {

ModelSizes sizes() {
  ModelSizes s;
  s.nq = 9;
  s.nv = 8;
  s.nu = 3;
  s.na = 2;
  s.nbody = 4;
  s.njnt = 3;
  s.nsite = 1;
  s.nsensordata = 5;
  s.nM = 20;
  return s;
}

TEST(Fields, StateLiesInTilesInTableOrder) {
  using V = Lanes<float>;
  alignas(64) static float tile[32 * 64];
  const int lane = lane_width<V>;
  const State<V> state = state_of_tile<V>(sizes(), tile, lane);
  const auto fields = state_fields(sizes());
  ASSERT_EQ(fields.size(), 15u);
  EXPECT_STREQ(fields[0].name, "qpos");
  EXPECT_EQ(fields[1].first, 9);
  EXPECT_EQ(fields.back().first + fields.back().size, state_elements(sizes()));
  state.qvel[3] = V(2.5f);
  EXPECT_EQ(tile[(9 + 3) * kTileWidth + lane], 2.5f);
  EXPECT_EQ(tile[(9 + 3) * kTileWidth + lane - 1], 0.f);
  const Varying<V> last = state.time_residual;
  last[0] = V(7.f);
  EXPECT_EQ(tile[(state_elements(sizes()) - 1) * kTileWidth + lane], 7.f);
}

TEST(Fields, DataByNameIsDataByPointer) {
  using V = Lanes<double>;
  std::vector<V> scratch(data_elements(sizes()), V(0));
  const Data<V> data = data_of_scratch<V>(sizes(), scratch.data(), 1);
  int next = 0;
  for (const FieldInfo& field : data_fields(sizes())) {
    EXPECT_EQ(field.first, next) << field.name;
    next += field.size;
    if (!std::strcmp(field.name, "qacc")) {
      EXPECT_EQ(&data.qacc[0], &scratch[field.first]);
    }
    if (!std::strcmp(field.name, "xpos")) {
      EXPECT_EQ(field.size, 12);
    }
    if (!std::strcmp(field.name, "sensordata")) {
      EXPECT_EQ(&data.sensordata[4], &scratch[field.first + 4]);
    }
  }
  EXPECT_LE(next, data_elements(sizes()));
  EXPECT_EQ(&data.qacc_implicit[7] + 1, scratch.data() + scratch.size());
}

TEST(Derived, SumsDampingAndArmatureOfJointAndActuators) {
  const ImportedModel m = model_of_text(R"(<mujoco><worldbody><body>
    <joint name="j" damping="0.5" armature="0.1"/><inertial pos="0 0 1" mass="1" diaginertia="1 1 1"/></body>
    </worldbody><actuator><motor joint="j" gear="2" damping="0.25" armature="0.01"/>
    <position joint="j" kp="1" damping="1 2 3"/></actuator></mujoco>)");
  EXPECT_DOUBLE_EQ(m.dof_totaldamping[0], 0.5 + 4 * 0.25 + 1);
  EXPECT_DOUBLE_EQ(m.dof_totalarmature[0], 0.1 + 4 * 0.01);
  EXPECT_DOUBLE_EQ(m.dof_totaldampingpoly[1], 3);
  EXPECT_TRUE(m.flags & model_damping_poly);
  EXPECT_TRUE(m.flags & model_implicit_damping);
}

// The constant Jacobian of a fixed tendon, with a joint that is on it twice, and its damping.
TEST(Derived, TendonsHaveTheirJacobianAndTotalDamping) {
  const ImportedModel m = model_of_text(R"(<mujoco><worldbody><body>
    <joint name="a"/><inertial pos="0 0 1" mass="1" diaginertia="1 1 1"/>
    <body><joint name="b"/><joint name="c"/><inertial pos="0 0 1" mass="1" diaginertia="1 1 1"/></body></body>
    </worldbody><tendon><fixed name="t" damping="0.5 0.1"><joint joint="b" coef="3"/><joint joint="a" coef="-2"/>
    <joint joint="b" coef="0.5"/></fixed></tendon>
    <actuator><motor tendon="t" gear="2" damping="0.25"/><motor joint="a" damping="7"/></actuator></mujoco>)");
  double row[3] = {0, 0, 0};
  for (int k = 0; k < m.ten_J_rownnz[0]; ++k) {
    const auto at = static_cast<std::size_t>(m.ten_J_rowadr[0] + k);
    row[m.ten_J_colind[at]] += m.ten_J[at];
  }
  EXPECT_DOUBLE_EQ(row[0], -2);
  EXPECT_DOUBLE_EQ(row[1], 3.5);
  EXPECT_DOUBLE_EQ(row[2], 0);
  EXPECT_DOUBLE_EQ(m.tendon_totaldamping[0], 0.5 + 4 * 0.25);
  EXPECT_DOUBLE_EQ(m.tendon_totaldampingpoly[0], 0.1);
  EXPECT_DOUBLE_EQ(m.dof_totaldamping[0], 7);
  EXPECT_EQ(m.flags & (model_tendon_springs | model_tendon_dampers), model_tendon_dampers);
}

// Without a fluid or a sensor that reads it, the velocity of a leaf need not be kept.
TEST(Derived, LeavesKeepTheirVelocityWhereItIsRead) {
  const auto flags = [](const std::string& option, const std::string& sensor) {
    return model_of_text("<mujoco>" + option + R"(<worldbody><body><joint name="j"/>
      <inertial pos="0 0 1" mass="1" diaginertia="1 1 1"/><site name="s"/></body></worldbody>)" +
                         sensor + "</mujoco>")
        .body_flags[1];
  };
  EXPECT_TRUE(flags("", "") & body_leaf);
  EXPECT_TRUE(flags("", R"(<sensor><framepos objtype="site" objname="s"/></sensor>)") & body_leaf);
  EXPECT_FALSE(flags("", R"(<sensor><gyro site="s"/></sensor>)") & body_leaf);
  EXPECT_FALSE(flags(R"(<option density="1"/>)", "") & body_leaf);
  EXPECT_TRUE(flags(R"(<option density="1"><flag spring="disable" damper="disable"/></option>)", "") &
              body_leaf);
}

TEST(Derived, FlagsNameWhatCanBeSkipped) {
  const ImportedModel m = model_of_text(R"(<mujoco><option timestep="0.01"/><worldbody>
    <body pos="0 0 1"><joint name="x" type="slide" axis="1 0 0"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
      <body><joint name="y" axis="0 1 0" pos="0.1 0 0" stiffness="1"/>
        <inertial pos="0 0 1" quat="0.6 0.8 0 0" mass="1" diaginertia="1 1 1.5"/></body></body>
    <body><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body>
    </worldbody><actuator><general joint="x" dyntype="filterexact" dynprm="0.02"/></actuator></mujoco>)");
  EXPECT_FALSE(m.body_flags[1] & body_pos_zero);
  EXPECT_TRUE(m.body_flags[1] & body_iquat_identity);
  EXPECT_TRUE(m.body_flags[1] & body_parent_static);
  EXPECT_TRUE(m.body_flags[2] & body_pos_zero);
  EXPECT_FALSE(m.body_flags[2] & body_parent_static);
  EXPECT_FALSE(m.body_flags[2] & body_ipos_zero);
  EXPECT_TRUE(m.jnt_flags[0] & joint_axis_x);
  EXPECT_TRUE(m.jnt_flags[1] & joint_axis_y);
  EXPECT_TRUE(m.jnt_flags[1] & joint_sprung);
  EXPECT_FALSE(m.jnt_flags[1] & joint_pos_zero);
  EXPECT_EQ(m.dof_translation[0], 1);
  EXPECT_EQ(m.dof_translation[1], 0);
  EXPECT_EQ(m.dof_ancestors[1], 1);
  EXPECT_EQ(m.body_lastdof[2], 1);
  EXPECT_EQ(m.body_lastdof[0], -1);
  EXPECT_EQ(m.body_freealone[3], 1);
  EXPECT_EQ(m.body_freealone[1], 0);
  EXPECT_DOUBLE_EQ(m.actuator_step[0], 0.02 * (1 - std::exp(-0.5)));
  EXPECT_TRUE(m.flags & model_springs);
  EXPECT_FALSE(m.flags & (model_dampers | model_gravcomp | model_sensors));
}

TEST(Derived, FindsTheAxesOfSymmetricBodies) {
  const ImportedModel m = model_of_text(R"(<mujoco><worldbody>
    <body><joint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 0.25"/></body>
    <body><joint/><inertial pos="0 0 0" mass="1" diaginertia="2 2 2"/></body>
    <body><joint/><inertial pos="0 0 0" mass="1" diaginertia="3 2 1.5"/></body>
    </worldbody></mujoco>)");
  EXPECT_TRUE(m.body_flags[1] & body_symmetric);
  EXPECT_FALSE(m.body_flags[1] & body_isotropic);
  EXPECT_DOUBLE_EQ(m.body_symmetry[5], 1);
  EXPECT_DOUBLE_EQ(m.body_symmetry[6], -0.75);
  EXPECT_DOUBLE_EQ(std::abs(m.body_symmetry[9]), 1);
  EXPECT_TRUE(m.body_flags[2] & body_isotropic);
  EXPECT_FALSE(m.body_flags[3] & (body_symmetric | body_isotropic));
}

}  // namespace
}  // namespace maniple
