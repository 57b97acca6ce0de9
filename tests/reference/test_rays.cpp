// Intersections of rays with geoms, against libmujoco: every type of geom that rays can meet, from outside
// and inside, along axes, past edges, and with a geom behind the missed one.
#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/base/lane_traits.hpp"
#include "kernels/physics/collision/ray.hpp"
#include "kernels/physics/collision/ray_hfield.hpp"
#include "kernels/physics/collision/ray_mesh.hpp"
#include "src/model_import/import.hpp"
#include "src/model_import/meshes.hpp"

namespace maniple {
namespace {

constexpr int kTypes[] = {geom_plane, geom_sphere, geom_capsule, geom_ellipsoid, geom_cylinder, geom_box};

struct RayCase {
  double size[3], point[3], direction[3];
};

class Rays : public ::testing::Test {
 protected:
  double number(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(generator_);
  }
  bool one_in(int count) { return generator_() % static_cast<unsigned>(count) == 0; }

  RayCase random_case(int type) {
    RayCase c;
    double length = 0;
    for (int k = 0; k < 3; ++k) {
      c.size[k] = number(0.05, 1);
      c.point[k] = one_in(5) ? 0 : number(-2, 2);
      c.direction[k] = one_in(3) ? 0 : number(-1, 1);
    }
    if (type == geom_plane && one_in(2)) c.size[generator_() % 2] = 0;
    if (one_in(2))  // at the shape, which most would miss
      for (int k = 0; k < 3; ++k) c.direction[k] = number(-0.5, 0.5) * c.size[k] - c.point[k];
    if (one_in(4)) c.direction[0] = c.direction[1] = 0;
    for (const double x : c.direction) length += x * x;
    if (length == 0) c.direction[2] = -1;
    for (double& x : c.direction) x /= length == 0 ? 1 : std::sqrt(length);
    return c;
  }

  std::mt19937_64 generator_{7};
};

double theirs(int type, const RayCase& c) {
  const double pos[3] = {0, 0, 0}, mat[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  return mju_rayGeom(pos, mat, c.size, c.point, c.direction, type, nullptr);
}

// Rays that one rounding lets pass and another one does not say nothing.
bool grazes(int type, const RayCase& c) {
  const bool hit = theirs(type, c) >= 0;
  for (const double factor : {1 - 1e-9, 1 + 1e-9}) {
    RayCase other = c;
    for (double& x : other.size) x *= factor;
    if ((theirs(type, other) >= 0) != hit) return true;
  }
  return false;
}

TEST_F(Rays, MeetGeomsWhereMujocoSays) {
  for (const int type : kTypes) {
    int hits = 0, misses = 0, compared = 0;
    for (int round = 0; round < 40000; ++round) {
      const RayCase c = random_case(type);
      if (grazes(type, c)) continue;
      ++compared;
      const Vec3<double> p{c.point[0], c.point[1], c.point[2]},
          u{c.direction[0], c.direction[1], c.direction[2]};
      const double expected = theirs(type, c), found = ray_distance(type, c.size, p, u);
      (expected >= 0 ? hits : misses)++;
      ASSERT_NEAR(found, expected, 1e-12 * std::max(1.0, expected))
          << "type " << type << ", sizes " << c.size[0] << " " << c.size[1] << " " << c.size[2] << ", point "
          << p.x << " " << p.y << " " << p.z << ", direction " << u.x << " " << u.y << " " << u.z;
      // lanes: the same bits as alone
      using Pack = Lanes<double>;
      const Vec3<Pack> points{Pack(p.x), Pack(p.y), Pack(p.z)}, directions{Pack(u.x), Pack(u.y), Pack(u.z)};
      ASSERT_EQ(get_lane(ray_distance(type, c.size, points, directions), 0), found);
    }
    EXPECT_GT(compared, 39000) << type;
    EXPECT_GT(hits, 5000) << type;
    EXPECT_GT(misses, 5000) << type;
  }
}

// Single precision, from 20 m away: as exact as the numbers that it is given.
TEST_F(Rays, KeepTheirDigitsFarAway) {
  for (const int type : kTypes)
    for (int round = 0; round < 2000; ++round) {
      RayCase c;
      float size[3], away[3];
      Vec3<float> p, u;
      for (int k = 0; k < 3; ++k) c.size[k] = size[k] = static_cast<float>(number(0.1, 0.5));
      if (type == geom_plane) c.size[0] = c.size[1] = size[0] = size[1] = 0;
      for (float& x : away) x = static_cast<float>(number(-0.05, 0.05));
      p = {away[0], away[1], 20};
      u = {0, 0, -1};
      c.point[0] = p.x, c.point[1] = p.y, c.point[2] = p.z;
      c.direction[0] = c.direction[1] = 0, c.direction[2] = -1;
      ASSERT_NEAR(ray_distance(type, size, p, u), theirs(type, c), 2e-5) << type;
    }
}

// From above, below, within, along the ground and past the edges of a rough height field.
TEST_F(Rays, MeetHeightFieldsWhereMujocoSays) {
  std::string xml = "<mujoco><asset><hfield name='f' nrow='9' ncol='7' size='1.3 1 .6 .2' elevation='";
  for (int i = 0; i < 63; ++i) xml += std::to_string(number(0, 1)) + " ";
  xml += "'/></asset><worldbody><geom type='hfield' hfield='f'/></worldbody></mujoco>";
  char error[200];
  const std::unique_ptr<mjSpec, void (*)(mjSpec*)> spec(
      mj_parseXMLString(xml.c_str(), nullptr, error, sizeof error), mj_deleteSpec);
  const std::unique_ptr<mjModel, void (*)(mjModel*)> mujoco(mj_compile(spec.get(), nullptr), mj_deleteModel);
  const std::unique_ptr<mjData, void (*)(mjData*)> data(mj_makeData(mujoco.get()), mj_deleteData);
  mj_kinematics(mujoco.get(), data.get());
  const std::vector<double> heights(mujoco->hfield_data, mujoco->hfield_data + 63);
  Model<double> model;
  const int adr = 0;
  model.hfield_nrow = mujoco->hfield_nrow;
  model.hfield_ncol = mujoco->hfield_ncol;
  model.hfield_adr = &adr;
  model.hfield_size = mujoco->hfield_size;
  model.hfield_data = heights.data();
  int hits = 0, misses = 0;
  for (int round = 0; round < 100000; ++round) {
    const RayCase c = random_case(geom_box);
    const auto expected_along = [&](double turn) {
      const double direction[3] = {c.direction[0] + turn, c.direction[1] - turn, c.direction[2]};
      return mj_rayHfield(mujoco.get(), data.get(), 0, c.point, direction, nullptr);
    };
    const double expected = expected_along(0);
    // a rounding decides about rays along edges
    if (std::abs(expected_along(1e-9) - expected) > 1e-6 || std::abs(expected_along(-1e-9) - expected) > 1e-6)
      continue;
    (expected >= 0 ? hits : misses)++;
    ASSERT_NEAR(hfield_distance(model, 0, {c.point[0], c.point[1], c.point[2]},
                                {c.direction[0], c.direction[1], c.direction[2]}),
                expected, 1e-11)
        << "round " << round;
  }
  EXPECT_GT(hits, 20000);
  EXPECT_GT(misses, 20000);
}

// At a ring, a solid with few faces and one with many, from outside and from within, in all lanes at once.
TEST_F(Rays, MeetMeshesWhereMujocoSays) {
  const std::string head = "<mujoco><asset><mesh name='m' ", tail = R"(/></asset><worldbody><site name='s'/>
      <geom type='mesh' mesh='m'/></worldbody><sensor><rangefinder site='s'/></sensor></mujoco>)";
  for (const char* mesh :
       {"builtin='supertorus' params='16 .4 1 1' scale='.9 .9 .9'",
        "vertex='0 0 0  .8 0 0  0 .7 0  0 0 .6  .1 .1 .9'", "builtin='sphere' params='4' scale='.9 .5 .7'"}) {
    SCOPED_TRACE(mesh);
    char error[200];
    const std::unique_ptr<mjSpec, void (*)(mjSpec*)> spec(
        mj_parseXMLString((head + mesh + tail).c_str(), nullptr, error, sizeof error), mj_deleteSpec);
    ASSERT_NE(spec, nullptr) << error;
    const std::unique_ptr<mjModel, void (*)(mjModel*)> mujoco(mj_compile(spec.get(), nullptr),
                                                              mj_deleteModel);
    const std::unique_ptr<mjData, void (*)(mjData*)> data(mj_makeData(mujoco.get()), mj_deleteData);
    mj_kinematics(mujoco.get(), data.get());
    // rays in the frame of the mesh
    std::fill_n(data->geom_xpos, 3, 0.0);
    for (int k = 0; k < 9; ++k) data->geom_xmat[k] = k % 4 == 0 ? 1 : 0;
    ImportedModel imported;
    import_meshes(*mujoco, imported, imported.sizes);
    EXPECT_EQ(imported.sizes.nraytriangle, mujoco->mesh_facenum[0]);
    const Model<double> model = host_model(imported);
    using Pack = Lanes<double>;
    int hits = 0, misses = 0;
    for (int round = 0; round < 4000; ++round) {
      Vec3<Pack> p, u;
      double expected[lane_width<Pack>];
      bool told[lane_width<Pack>];
      for (int lane = 0; lane < lane_width<Pack>; ++lane) {
        RayCase c = random_case(geom_box);
        // (where a ray lies in the side of a box of the tree, libmujoco multiplies zero by infinity, and
        // misses)
        for (double& x : c.point) x += 1e-7;
        const auto expected_along = [&](double turn) {
          const double direction[3] = {c.direction[0] + turn, c.direction[1] - turn, c.direction[2]};
          return mj_rayMesh(mujoco.get(), data.get(), 0, c.point, direction, nullptr);
        };
        expected[lane] = expected_along(0);
        // a rounding decides about rays along edges
        told[lane] = std::abs(expected_along(1e-9) - expected[lane]) < 1e-6 &&
                     std::abs(expected_along(-1e-9) - expected[lane]) < 1e-6;
        set_lane(p.x, lane, c.point[0]), set_lane(p.y, lane, c.point[1]), set_lane(p.z, lane, c.point[2]);
        set_lane(u.x, lane, c.direction[0]), set_lane(u.y, lane, c.direction[1]);
        set_lane(u.z, lane, c.direction[2]);
      }
      const Pack found = mesh_distance(model, model.geom_raynode[0], MaskOf<Pack>(true), p, u);
      for (int lane = 0; lane < lane_width<Pack>; ++lane) {
        if (!told[lane]) continue;
        (expected[lane] >= 0 ? hits : misses)++;
        ASSERT_NEAR(get_lane(found, lane), expected[lane], 1e-11) << "round " << round;
        const auto alone = [lane](const Vec3<Pack>& v) -> Vec3<double> {
          return {get_lane(v.x, lane), get_lane(v.y, lane), get_lane(v.z, lane)};
        };
        // the same bits
        ASSERT_EQ(mesh_distance<double>(model, model.geom_raynode[0], true, alone(p), alone(u)),
                  get_lane(found, lane));
      }
    }
    EXPECT_GT(hits, 2000);
    EXPECT_GT(misses, 2000);
  }
}

}  // namespace
}  // namespace maniple
