// The import of good and bad models: the messages name every element with its file and line, also in included
// files, and switched-off features need no support.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "kernels/model/sensor_types.hpp"
#include "src/base/error.hpp"
#include "src/model_import/import.hpp"
#include "src/tasks/compile/device_model.hpp"

namespace maniple {
namespace {

namespace fs = std::filesystem;

// A folder for the files of one test.
class ModelImport : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() /
              ("maniple_import_" + std::string(test->name()) + "_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  static ModelConfig config(const std::string& path) {
    ModelConfig model;
    model.file = fs::path(path).filename().string();
    model.path = path;
    model.where = {"deck.yaml", 2, 0};
    return model;
  }
  static std::string refusal(const ModelConfig& model) {
    try {
      import_model(model, {});
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
  std::string refusal_of(const std::string& text) const { return refusal(config(write("robot.xml", text))); }

  fs::path folder_;
};

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

constexpr const char* kCartpole = R"(<mujoco model="cp">
  <option timestep="0.01" integrator="RK4" gravity="0 0 -9.5"/>
  <worldbody>
    <body name="cart">
      <joint name="slider" type="slide" axis="1 0 0" range="-2 2" limited="false"/>
      <geom type="box" size="0.2 0.1 0.1" mass="1"/>
      <site name="mark" pos="0 0 1"/>
      <body name="pole">
        <joint name="hinge" axis="0 1 0" ref="90"/>
        <geom type="capsule" fromto="0 0 0 0 0 1" size="0.05" mass="0.1"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="force" joint="slider" gear="10" ctrlrange="-1 1" ctrllimited="true"/></actuator>
  <sensor><jointpos name="angle" joint="hinge"/></sensor>
  <keyframe><key name="up" time="1" qpos="0.1 0.2" qvel="0.3 0.4" ctrl="0.5"/></keyframe>
</mujoco>)";

TEST_F(ModelImport, CopiesNumbersAndNames) {
  const ImportedModel m = import_model(config(write("robot.xml", kCartpole)), {});
  EXPECT_EQ(m.sizes.nq, 2);
  EXPECT_EQ(m.sizes.nbody, 3);
  EXPECT_EQ(m.sizes.nsensordata, 1);
  EXPECT_EQ(m.timestep, 0.01);
  EXPECT_EQ(m.integrator, RK4);
  EXPECT_EQ(m.gravity[2], -9.5);
  EXPECT_EQ(m.name, "cp");
  EXPECT_EQ(m.body_names, (std::vector<std::string>{"world", "cart", "pole"}));
  EXPECT_EQ(m.joint_names, (std::vector<std::string>{"slider", "hinge"}));
  EXPECT_EQ(m.actuator_names[0], "force");
  EXPECT_EQ(m.sensor_names[0], "angle");
  EXPECT_EQ(m.site_names[0], "mark");
  EXPECT_EQ(m.jnt_type, (std::vector<int>{joint_slide, joint_hinge}));
  EXPECT_EQ(m.jnt_limited, (std::vector<int>{0, 0}));
  EXPECT_EQ(m.jnt_range[1], 2);
  EXPECT_NEAR(m.qpos0[1], std::acos(-1.0) / 2, 1e-15);
  EXPECT_EQ(m.actuator_gear[0], 10);
  EXPECT_EQ(m.actuator_ctrlrange, (std::vector<double>{-1, 1}));
  EXPECT_EQ(m.nkey, 1);
  EXPECT_EQ(m.key_names[0], "up");
  EXPECT_EQ(m.key_time[0], 1);
  EXPECT_EQ(m.key_qpos, (std::vector<double>{0.1, 0.2}));
  EXPECT_EQ(m.key_qvel, (std::vector<double>{0.3, 0.4}));
  EXPECT_EQ(m.key_ctrl, (std::vector<double>{0.5}));
  EXPECT_EQ(m.xml, kCartpole);
}

TEST_F(ModelImport, AppliesTimestepAndIntegrator) {
  SimulationConfig simulation;
  simulation.timestep = 0.003;
  simulation.integrator = IntegratorChoice::implicitfast;
  const ModelConfig model = config(write("robot.xml", kCartpole));
  const ImportedModel m = import_model(model, simulation);
  EXPECT_EQ(m.timestep, 0.003);
  EXPECT_EQ(m.integrator, implicitfast);
  EXPECT_EQ(integrator_name(m.integrator), "implicitfast");
  // The digest tells models apart, and is the same for the same numbers.
  EXPECT_NE(m.digest, import_model(model, {}).digest);
  EXPECT_EQ(m.digest, import_model(model, simulation).digest);
  EXPECT_EQ(m.digest.size(), 16u);
}

TEST_F(ModelImport, DeviceModelHoldsTheSameNumbers) {
  const ImportedModel imported = import_model(config(write("robot.xml", kCartpole)), {});
  const DeviceModel<float> device(imported);
  const Model<float>& m = device.model();
  EXPECT_EQ(m.nv, 2);
  EXPECT_EQ(m.timestep, 0.01f);
  Kokkos::View<const float*, MemorySpace, Kokkos::MemoryUnmanaged> qpos0(m.qpos0, 2);
  const auto copy = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), qpos0);
  EXPECT_EQ(copy(1), static_cast<float>(imported.qpos0[1]));
  Kokkos::View<const int*, MemorySpace, Kokkos::MemoryUnmanaged> type(m.jnt_type, 2);
  const auto types = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), type);
  EXPECT_EQ(types(0), joint_slide);
}

TEST_F(ModelImport, NamesEverythingUnsupportedWithItsLine) {
  const std::string text = refusal_of(R"(<mujoco>
  <option density="1.2" gravity="0 0 -9"
          integrator="discrete" noslip_iterations="3" solver="PGS"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/><camera name="eye" mode="track"/>
    <body name="a" pos="0 0 1">
      <joint name="knee" range="-10 20" limited="true"/>
      <geom name="shin" size="0.1" condim="4" adhesion="1"/>
      <site name="s"/><camera name="lens"/>
      <body name="b" pos="0 0 1">
        <joint frictionloss="0.5"/>
        <geom size="0.1" condim="6"/><site name="t"/>
      </body>
    </body>
    <body name="hand" mocap="true"><geom size="0.1" surfacevel="0 0 0 1 0 0" contype="0" conaffinity="0"/></body>
  </worldbody>
  <tendon><fixed name="cable" range="0 1" armature="3"><joint joint="knee" coef="1"/></fixed>
    <spatial name="rope"><site site="s"/><geom geom="shin"/><site site="t"/></spatial>
    <fixed name="spring" stiffness="3" damping="1"><joint joint="knee" coef="1"/></fixed></tendon>
  <equality><joint name="couple" joint1="knee"/></equality>
  <actuator>
    <general name="suction" joint="knee" dyntype="user"/>
    <motor name="pull" tendon="cable"/>
    <motor joint="knee"/>
    <motor tendon="rope"/>
  </actuator>
  <sensor>
    <user dim="1"/>
    <framepos objtype="camera" objname="eye"/>
    <gyro site="s"/>
    <rangefinder site="s" data="dist normal"/>
    <rangefinder camera="lens"/>
  </sensor>
</mujoco>)");
  const std::string file = (folder_ / "robot.xml").string();
  EXPECT_EQ(text.find("deck.yaml:2: model.file: "), 0u) << text;
  EXPECT_CONTAINS(text, file + ":2: option integrator=\"discrete\"");
  EXPECT_CONTAINS(text,
                  file + ":5: geom \"floor\" may touch geom \"shin\": contacts with condim 4 in solver");
  EXPECT_CONTAINS(text,
                  file + ":5: geom \"floor\" may touch geom number 2 (no name): contacts with condim 6 in");
  EXPECT_CONTAINS(text, file + ":15: geom number 3 (no name) has a surface velocity");
  EXPECT_CONTAINS(text, file + ":2: option noslip_iterations");
  EXPECT_CONTAINS(text, file + ":8: geom \"shin\" has adhesion");
  EXPECT_CONTAINS(text, file + ":22: actuator \"suction\" has user-defined dynamics");
  EXPECT_CONTAINS(text, file + ":28: sensor number 0 (no name) is of type user");
  EXPECT_CONTAINS(text,
                  file + ":29: sensor number 1 (no name) is of a camera that follows or aims at a body");
  EXPECT_CONTAINS(text, file + ":31: sensor number 3 (no name) tells the normal where its ray ends");
  EXPECT_CONTAINS(text, file + ":32: sensor number 4 (no name) looks through a camera");
  EXPECT_CONTAINS(text, "\n    supported sensors: touch, ");
  EXPECT_CONTAINS(text,
                  "\n    an overlay (model.overlay) settles it: <edit> <geom name=\"shin\" "
                  "adhesion=\"0\"/> </edit>");
  for (const char* fine :
       {"\"cable\"", "\"rope\"", "\"spring\"", "\"pull\"", "\"couple\"", "sensor number 2", "option density"})
    EXPECT_EQ(text.find(fine), std::string::npos) << text;
  // the body of one is the other one's parent
  EXPECT_EQ(text.find("\"shin\" may touch geom number 2"), std::string::npos) << text;
}

TEST_F(ModelImport, SwitchedOffFeaturesAreNotNeeded) {
  ModelConfig model = config(write("robot.xml", R"(<mujoco>
  <option><flag diagexact="enable"/></option>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body name="a" pos="0 0 1">
      <joint name="knee" range="-10 20" limited="true" frictionloss="0.5"/>
      <geom size="0.1"/>
    </body>
  </worldbody>
  <tendon><fixed name="cable"><joint joint="knee" coef="1"/></fixed></tendon>
  <equality><joint joint1="knee"/></equality>
  <actuator><motor tendon="cable"/><motor joint="knee"/></actuator>
</mujoco>)"));
  for (bool ModelConfig::*flag :
       {&ModelConfig::contacts, &ModelConfig::limits, &ModelConfig::equality, &ModelConfig::frictionloss}) {
    EXPECT_NE(refusal(model), "accepted");
    model.*flag = false;
  }
  model.tendons = false;
  EXPECT_EQ(refusal(model), "accepted");
  const ImportedModel m = import_model(model, {});
  EXPECT_EQ(m.sizes.nu, 2);
  EXPECT_EQ(m.actuator_gear[0], 0);  // of the tendon's actuator
  EXPECT_EQ(m.actuator_gear[6], 1);
}

TEST_F(ModelImport, FlagsOfTheModelCount) {
  const std::string body = R"(
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body pos="0 0 1"><joint range="-1 1" limited="true"/><geom size="0.1"/></body>
  </worldbody></mujoco>)";
  EXPECT_EQ(refusal_of("<mujoco>" + body), "accepted");
  const std::string cone = "<mujoco><option cone=\"elliptic\" solver=\"PGS\">";
  EXPECT_NE(refusal_of(cone + "</option>" + body), "accepted");
  EXPECT_EQ(refusal_of(cone + "<flag contact=\"disable\"/></option>" + body), "accepted");
  EXPECT_EQ(refusal_of("<mujoco><option solver=\"PGS\"/>" + body), "accepted");
  const std::string noslip = "<mujoco><option noslip_iterations=\"3\" solver=\"PGS\">";
  EXPECT_NE(refusal_of(noslip + "</option>" + body), "accepted");
  EXPECT_EQ(refusal_of(noslip + "<flag contact=\"disable\"/></option>" + body), "accepted");
  const std::string tendon = R"(</option><worldbody><body><joint name="j"/><inertial pos="0 0 0" mass="1"
    diaginertia="1 1 1"/></body></worldbody><tendon><fixed frictionloss="1"><joint joint="j" coef="1"/></fixed>
    </tendon></mujoco>)";
  EXPECT_NE(refusal_of(noslip + tendon), "accepted");
  EXPECT_EQ(refusal_of(cone + "<flag constraint=\"disable\"/></option>" + body), "accepted");
}

// Each filter of contact pairs, switched one at a time.
TEST_F(ModelImport, FindsThePairsThatMujocoWouldTest) {
  auto model = [&](const std::string& attributes, const std::string& extra, const std::string& option = "") {
    return refusal_of("<mujoco><option solver=\"PGS\"/>" + option + R"(<worldbody>
      <body name="a"><freejoint/><geom name="ga" type="box" size="0.1 0.1 0.1" condim="6" )" +
                      attributes + R"(/>
        <body name="b"><joint/><geom name="gb" type="box" size="0.1 0.1 0.1" condim="6"/></body></body>
      <body name="c"><freejoint/><geom name="gc" type="box" size="0.1 0.1 0.1" condim="6" contype="2" conaffinity="4"/></body>
      </worldbody>)" + extra +
                      "</mujoco>");
  };
  EXPECT_EQ(model("", ""), "accepted");  // parent and child; other bits
  EXPECT_CONTAINS(model("", "", "<option><flag filterparent=\"disable\"/></option>"),
                  "\"ga\" may touch geom \"gb\"");
  EXPECT_CONTAINS(model("conaffinity=\"3\"", ""), "\"ga\" may touch geom \"gc\"");
  EXPECT_CONTAINS(model("contype=\"4\"", ""), "\"ga\" may touch geom \"gc\"");
  EXPECT_EQ(model("contype=\"4\"", "<contact><exclude body1=\"c\" body2=\"a\"/></contact>"), "accepted");
  EXPECT_CONTAINS(model("", "<contact><pair name=\"p\" geom1=\"ga\" geom2=\"gb\" condim=\"6\"/></contact>"),
                  "\"ga\" may touch geom \"gb\"");
}

TEST_F(ModelImport, FollowsIncludes) {
  write("parts/geoms.xml", R"(<mujocoinclude>
  <!-- a comment with <include file="nothing.xml"/> -->
  <geom name="shin" type="ellipsoid" size="1 1 1" condim="6"/>

  <geom type="cylinder"
        size="1 1" condim="6"/>
</mujocoinclude>)");
  const std::string main = write("robot.xml", R"(<mujoco><option solver="PGS"/>
  <worldbody>
    <body name="a">
      <include
          file="parts/geoms.xml"/>
      <joint name="knee"/>
      <geom name="last" type="cylinder" size="1 1" condim="6"/>
    </body>
    <body><freejoint/><geom type="cylinder" size="1 1" condim="6"/></body>
  </worldbody>
</mujoco>)");
  const std::string text = refusal(config(main));
  const std::string part = (folder_ / "parts/geoms.xml").string();
  EXPECT_CONTAINS(text, part + ":3: geom \"shin\"");
  EXPECT_CONTAINS(text, part + ":5: geom number 1 (no name) may touch");
  EXPECT_CONTAINS(text, main + ":7: geom \"last\"");
  ModelConfig accepted = config(main);
  accepted.contacts = false;
  const std::string xml = import_model(accepted, {}).xml;
  EXPECT_CONTAINS(xml, "name=\"shin\"");  // the stored text stands alone
  write("alone.xml", xml);
  accepted.path = (folder_ / "alone.xml").string();
  EXPECT_EQ(import_model(accepted, {}).sizes.njnt, 2);
}

// Elements of attached models, and of what these include, stand in their own files.
TEST_F(ModelImport, FollowsAttachedModels) {
  const std::string bolts = write("parts/bolts.xml", R"(<mujocoinclude>

  <geom type="box" size="1 1 1" condim="6"/>
</mujocoinclude>)");
  const std::string finger = write("parts/finger.xml", R"(<mujoco model="finger">
  <worldbody>
    <body name="tip"><joint name="bend"/>
      <geom name="nail" type="box" size="1 1 1" condim="6"/>
      <include file="bolts.xml"/>
    </body>
  </worldbody>
</mujoco>)");
  const std::string arm = write("parts/arm.xml", R"(<mujoco model="unused name">
  <asset><model file="finger.xml"/></asset>
  <worldbody>
    <body name="hand"><joint name="wrist"/>

      <geom type="box" size="1 1 1" condim="6"/>
      <attach model="finger" prefix="f_"/>
    </body>
  </worldbody>
  <actuator>
    <general joint="wrist" dyntype="user"/>
    <general name="grip" joint="wrist" dyntype="user"/>
  </actuator>
</mujoco>)");
  const std::string main = write("robot.xml", R"(<mujoco><option solver="PGS"/>
  <asset><model name="arm" file="parts/arm.xml"/></asset>
  <include file="parts/floor.xml"/>
  <worldbody>
    <attach model="arm" prefix="l_"/>
    <frame pos="1 0 0"><attach model="arm" body="hand" prefix="r_"/></frame>
  </worldbody>
  <actuator>
    <general name="own" joint="l_wrist" dyntype="user"/>
  </actuator>
</mujoco>)");
  const std::string floor = write("parts/floor.xml", R"(<mujoco>
  <worldbody>
    <body><joint/>
      <geom name="stone" type="ellipsoid" size="1 1 1" condim="6"/></body></worldbody>
</mujoco>)");
  const std::string text = refusal(config(main));
  EXPECT_CONTAINS(text, floor + ":4: geom \"stone\" may touch");
  EXPECT_CONTAINS(text, arm + ":6: geom number 1 (no name) may touch");
  EXPECT_CONTAINS(text, finger + ":4: geom \"l_f_nail\" may touch");
  EXPECT_CONTAINS(text, bolts + ":3: geom number 3 (no name) may touch");
  EXPECT_CONTAINS(text, main + ":9: actuator \"own\"\n");
  EXPECT_CONTAINS(text, arm + ":11: actuator");
  EXPECT_CONTAINS(text, arm + ":12: actuator \"l_grip\"");
  EXPECT_CONTAINS(text, arm + ":12: actuator \"r_grip\"");
  // found when compiling: an element of the attached model that makes no sense
  write("parts/finger.xml",
        "<mujoco model=\"finger\"><worldbody>\n<body>\n\n<joint/></body></worldbody></mujoco>");
  EXPECT_EQ(refusal(config(main)).find(finger + ":2: "), 0u) << refusal(config(main));
}

TEST_F(ModelImport, BrokenModelsAreLocated) {
  const std::string file = (folder_ / "robot.xml").string();
  EXPECT_EQ(
      refusal_of("<mujoco>\n<worldbody>\n<geom size=\"1 x\"/></worldbody></mujoco>").find(file + ":3: "), 0u);
  EXPECT_EQ(refusal_of("<mujoco>\n<worldbody>\n\n<gem size=\"1\"/></worldbody></mujoco>").find(file + ":4: "),
            0u);
  EXPECT_EQ(refusal_of("<mujoco>\n<worldbody>\n</mujoco>").find(file + ":2: "), 0u);
  // Found only when compiling: a name that is not there.
  EXPECT_EQ(refusal_of("<mujoco>\n<sensor>\n<jointpos joint=\"no\"/></sensor></mujoco>").find(file + ":3: "),
            0u);
  EXPECT_CONTAINS(refusal_of(""), "robot.xml");
  EXPECT_CONTAINS(refusal_of("not XML"), "robot.xml");
  EXPECT_CONTAINS(refusal(config((folder_ / "missing.xml").string())),
                  "deck.yaml:2: model.file: cannot read");
  EXPECT_CONTAINS(refusal(config(folder_.string())), "cannot read");
  EXPECT_CONTAINS(refusal(config(write("robot.mjb", "garbage"))), "robot.mjb: model.file: libmujoco");
  // Inside an included file libmujoco knows no line.
  write("part.xml", "<mujoco>\n<worldbody>\n<geom size=\"1\" colour=\"red\"/></worldbody></mujoco>");
  EXPECT_EQ(refusal_of("<mujoco><include file=\"part.xml\"/></mujoco>")
                .find((folder_ / "part.xml").string() + ":3: "),
            0u);
}

TEST_F(ModelImport, ReadsUrdf) {
  const std::string urdf = R"(<?xml version="1.0"?>
<robot name="r">
  <link name="base"/>
  <link name="arm"><inertial><mass value="1"/><origin xyz="0 0 0.5"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="revolute">
    <parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="5" velocity="1"/>
  </joint>
</robot>)";
  const ImportedModel m = import_model(config(write("robot.urdf", urdf)), {});
  EXPECT_EQ(m.joint_names, (std::vector<std::string>{"shoulder"}));
  EXPECT_EQ(m.jnt_range, (std::vector<double>{-1, 1}));
}

// Geoms of a URDF have no names, and links without joints become one with their parents.
TEST_F(ModelImport, LocatesElementsOfUrdf) {
  // a prism with ends of 129 corners, more than are supported
  constexpr int kCorners = 129;
  std::string prism, lower = "f", upper = "f";
  for (int i = 0; i < kCorners; ++i) {
    const double angle = 2 * M_PI * i / kCorners;
    const std::string corner = "v " + std::to_string(std::cos(angle)) + " " + std::to_string(std::sin(angle));
    prism += corner + " 0\n" + corner + " 1\n";
    lower += " " + std::to_string(2 * (kCorners - i) - 1);
    upper += " " + std::to_string(2 * i + 2);
  }
  for (int i = 0; i < kCorners; ++i) {
    const int here = 2 * i + 1, next = 2 * ((i + 1) % kCorners) + 1;
    for (const int vertex : {here, next, next + 1, here + 1})
      prism += (vertex == here ? "f " : " ") + std::to_string(vertex);
    prism += "\n";
  }
  write("prism.obj", prism + lower + "\n" + upper + "\n");
  const std::string file = write("robot.urdf", R"(<?xml version="1.0"?>
<robot name="r">
  <link name="base">
    <collision><geometry><sphere radius="1"/></geometry></collision>
  </link>
  <link name="arm"><inertial><mass value="1"/><origin xyz="0 0 0.5"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><geometry><sphere radius="1"/></geometry></visual>
    <collision>
      <geometry><mesh filename="prism.obj"/></geometry></collision>
    <collision name="named"><geometry><mesh filename="prism.obj"/></geometry></collision>
    <collision>
      <geometry><mesh filename="prism.obj"/></geometry></collision>
  </link>
  <link name="tool"><collision><geometry><mesh filename="prism.obj"/></geometry></collision></link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/></joint>
  <joint name="bolt" type="fixed"><parent link="arm"/><child link="tool"/></joint>
</robot>)");
  const std::string text = refusal(config(file));
  EXPECT_CONTAINS(text,
                  "\n  4 <collision>, each of which has a mesh whose convex hull has a face of 129 corners");
  EXPECT_CONTAINS(text, file + ":9: <collision> of <link name=\"arm\">\n");
  EXPECT_CONTAINS(text, file + ":11: <collision name=\"named\"> of <link name=\"arm\">\n");
  EXPECT_CONTAINS(text, file + ":12: <collision> of <link name=\"arm\">\n");
  EXPECT_CONTAINS(text, file + ":15: <collision> of <link name=\"tool\">");
  EXPECT_EQ(text.find("overlay"), std::string::npos) << text;
}

// Of meshes, the hulls of those that may touch: eight corners, without the point within.
TEST_F(ModelImport, KeepsTheHullsOfMeshesThatMayTouch) {
  const ImportedModel m = import_model(config(write("robot.xml", R"(<mujoco>
  <asset>
    <mesh name="picture" builtin="sphere" params="3"/>
    <mesh name="brick" vertex="0 0 0  1 0 0  0 1 0  1 1 0  .4 .5 .5  0 0 1  1 0 1  0 1 1  1 1 1  .6 .5 .5"/>
  </asset>
  <worldbody><geom type="plane" size="1 1 1"/>
    <body><freejoint/><geom type="mesh" mesh="picture" contype="0" conaffinity="0"/>
      <geom type="mesh" mesh="brick"/></body></worldbody>
</mujoco>)")),
                                       {});
  EXPECT_EQ(m.sizes.nmesh, 1);
  EXPECT_EQ(m.sizes.nmeshvert, 8);
  EXPECT_EQ(m.sizes.nmeshpoly, 6);
  EXPECT_EQ(m.sizes.nmeshpolyvert, 6 * 4);
  EXPECT_EQ(m.geom_dataid, (std::vector<int>{-1, -1, 0}));
  for (int vertex = 0; vertex < 8; ++vertex) {
    EXPECT_EQ(m.mesh_polymapnum[static_cast<std::size_t>(vertex)], 3);
    for (int k = 0; k < 3; ++k)
      EXPECT_NEAR(std::abs(m.mesh_vert[static_cast<std::size_t>(3 * vertex + k)]), 0.5, 1e-6);
  }
}

// What libmujoco says of a URDF, too.
TEST_F(ModelImport, SpeaksOfUrdfInItsWords) {
  const std::string urdf = R"(<robot name="r">
  <link name="base"/>
  <link name="arm"><inertial><mass value="-1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>
    </inertial></link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="arm"/></joint>
</robot>)";
  EXPECT_CONTAINS(refusal(config(write("robot.urdf", urdf))),
                  "mass and inertia of moving links must be larger");
}

// libmujoco stops at the first contact if a touch sensor's site is a mesh.
TEST_F(ModelImport, RefusesTouchSensorsOfMeshes) {
  const std::string text = refusal_of(R"(<mujoco>
  <asset><mesh name="tetrahedron" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset>
  <worldbody><body><joint/><geom size="1"/><site name="skin" type="mesh" mesh="tetrahedron"/>
    <site name="zone" type="box" size="1 1 1"/></body></worldbody>
  <sensor><touch site="zone"/>
    <touch site="skin"/></sensor>
</mujoco>)");
  EXPECT_CONTAINS(text, (folder_ / "robot.xml").string() +
                            ":6: sensor number 1 (no name) measures contacts of a site of type mesh");
  EXPECT_EQ(text.find("sensor number 0"), std::string::npos) << text;
}

// A tendon's armature is part of the inertia at qpos0, from which libmujoco takes the weights of rows.
TEST_F(ModelImport, TendonsThatAreOffHaveNoWeight) {
  const auto text = [](const std::string& tendon, const std::string& actuator) {
    return R"(<mujoco><worldbody><geom type="plane" size="0 0 1"/>
      <body><joint name="a" axis="0 1 0" range="-1 1"/><geom size="0.1" pos="0.2 0 0"/>
        <body pos="0.3 0 0"><joint name="b" axis="0 1 0"/><geom size="0.1" pos="0.2 0 0"/></body></body>
      </worldbody>)" +
           tendon + "<actuator>" + actuator + R"(<motor joint="b" gear="3"/></actuator></mujoco>)";
  };
  ModelConfig with = config(write("with.xml", text(R"(<tendon><fixed name="t" armature="2" stiffness="5">
      <joint joint="a" coef="1"/><joint joint="b" coef="-0.5"/></fixed></tendon>)",
                                                   R"(<motor tendon="t" armature="0.3"/>)")));
  with.tendons = false;
  const ImportedModel off = import_model(with, {});
  const ImportedModel none =
      import_model(config(write("without.xml", text("", R"(<motor joint="a" gear="0"/>)"))), {});
  EXPECT_EQ(off.sizes.ntendon, 0);
  const auto expect_equal = [](const std::vector<double>& ours, const std::vector<double>& theirs) {
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_NEAR(ours[i], theirs[i], 1e-12 * std::abs(theirs[i]));
  };
  expect_equal(off.dof_invweight0, none.dof_invweight0);
  expect_equal(off.body_invweight0, none.body_invweight0);
  expect_equal(off.dof_M0, none.dof_M0);
  expect_equal(off.limit_invweight, none.limit_invweight);
  EXPECT_NEAR(off.meaninertia, none.meaninertia, 1e-12);
}

// The parity tests compare the readings of these models with libmujoco's.
TEST_F(ModelImport, EverySensorTypeIsInAReferenceModel) {
  std::string text;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(MANIPLE_SOURCE_DIR) + "/tests/reference/models")) {
    std::ifstream file(entry.path());
    text.append(std::istreambuf_iterator<char>(file), {});
  }
  for (const SensorTypeInfo& row : kSensorTypes)
    EXPECT_NE(text.find("<" + std::string(row.name) + " "), std::string::npos) << row.name;
}

}  // namespace
}  // namespace maniple
