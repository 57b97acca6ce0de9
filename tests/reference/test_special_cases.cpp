// Small models in which a rule of libmujoco's decides that robots rarely meet: how many contacts there are.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/model/derive_contacts.hpp"
#include "kernels/model/shape_pairs.hpp"
#include "tests/reference/batch_under_test.hpp"

namespace maniple {
namespace {

class SpecialCases : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("maniple_special_" + std::to_string(getpid()) + ".xml");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void load(const std::string& text, int max_contacts = 0) {
    std::ofstream(path_) << text;
    ModelConfig config;
    config.file = config.path = path_.string();
    SimulationConfig simulation;
    simulation.max_contacts = max_contacts;
    imported_ = import_model(config, simulation);
    mujoco_ = load_mujoco_model(config, simulation);
    // both solvers run to convergence
    mujoco_.model->opt.tolerance = imported_.tolerance = 1e-15;
    mujoco_.model->opt.ls_tolerance = imported_.ls_tolerance = 1e-10;
  }
  std::filesystem::path path_;
  MujocoModel mujoco_;
  ImportedModel imported_;
};

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
    default:
      return "type='box' size='.1 .1 .1'";
  }
}

TEST_F(SpecialCases, ShapesHaveMujocosNumberOfContacts) {
  for (const ShapePair& pair : kShapePairs) {
    load(std::string("<mujoco><worldbody><geom ") +
         (pair.type1 == geom_plane ? shape_text(geom_plane) : "size='.1'") + "/><body><freejoint/><geom " +
         shape_text(pair.type2) + "/></body></worldbody></mujoco>");
    if (pair.type1 != geom_plane) mujoco_.model->geom_type[0] = pair.type1;
    EXPECT_EQ(mj_maxContact(mujoco_.model.get(), 0, 1, 0), pair.contacts) << pair.type1 << " " << pair.type2;
  }
}

// Nothing that lies on a plane overflows the capacity that a model has by default, nor do heaps of what the
// kernels let touch each other: balls packed as densely as they can be, and logs in a pile.
TEST_F(SpecialCases, TheDefaultCapacityHoldsWhatRests) {
  const auto expect_room = [&](const std::string& bodies, int at_least) {
    load("<mujoco><worldbody><geom type='plane' size='0 0 1'/>" + bodies + "</worldbody></mujoco>");
    const oracle::DataPointer data = oracle::make_data(*mujoco_.model);
    mj_forward(mujoco_.model.get(), data.get());
    EXPECT_GE(data->ncon, at_least);
    EXPECT_GE(imported_.sizes.ncontact, data->ncon);
    EXPECT_LE(imported_.sizes.ncontact, most_contacts(host_model(imported_)));
  };
  const auto body = [](double x, double y, double z, const std::string& shape, const std::string& more = "") {
    std::ostringstream text;
    text << "<body pos='" << x << " " << y << " " << z << "'><freejoint/><geom " << shape << more
         << "/></body>";
    return text.str();
  };
  for (const int type : {geom_sphere, geom_capsule, geom_ellipsoid, geom_cylinder, geom_box}) {
    SCOPED_TRACE(shape_text(type));
    const double height = type == geom_ellipsoid ? 0.299 : 0.0999;
    const std::string apart = " contype='2' conaffinity='1'";
    std::string bodies;
    for (int i = 0; i < 12; ++i)
      bodies += type == geom_capsule ? body(i, 0, height, shape_text(type), apart + " euler='0 90 0'")
                                     : body(i, 0, height, shape_text(type), apart);
    // a cylinder that stands has three
    expect_room(bodies,
                12 * (type == geom_cylinder ? 3 : kShapePairs[shape_pair(geom_plane, type)].contacts));
  }
  // a pyramid of logs, and balls in layers of triangles, pressed together a little
  std::string logs, balls;
  constexpr int kLayers = 6;
  const double near = 0.199;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int i = 0; i < kLayers - layer; ++i)
      logs += body((i + 0.5 * layer) * near, 0, 0.0999 + layer * near * std::sqrt(0.75),
                   "type='capsule' size='.1 .5' euler='90 0 0'");
    const double shift = layer % 3;
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j)
        balls += body((i + 0.5 * j + 0.5 * shift) * near,
                      (j * std::sqrt(0.75) + shift * std::sqrt(1. / 12)) * near,
                      0.0999 + layer * near * std::sqrt(2. / 3), "size='.1'");
  }
  expect_room(logs, 60);
  expect_room(balls, 200);
}

}  // namespace
}  // namespace maniple
