// Random MJCF over what the kernels simulate, for the fuzz tests: the same seed gives the same model
// anywhere.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace maniple {

// A stream of numbers that does not depend on the standard library's distributions.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : generator_(seed) {}
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(generator_() >> 11) * 0x1p-53;
  }
  double logarithmic(double low, double high) { return std::exp(uniform(std::log(low), std::log(high))); }
  int below(int count) { return static_cast<int>(generator_() % static_cast<std::uint64_t>(count)); }
  bool chance(double probability) { return uniform(0, 1) < probability; }
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return *(choices.begin() + below(static_cast<int>(choices.size())));
  }

 private:
  std::mt19937_64 generator_;
};

class RandomModel {
 public:
  // `wild`: masses from 1e-6 to 1e6, nearly singular inertias, and stiffness to match.
  // `convex`: cylinders and ellipsoids touch more than planes, and there are meshes and height fields.
  // `cones`: some friction cones are elliptic or have more than two directions, and some have noslip
  // iterations.
  RandomModel(std::uint64_t seed, bool wild, bool convex, bool cones)
      : dice_(seed),
        path_dice_(seed + 1000000007),
        controller_dice_(seed + 2000000011),
        wild_(wild),
        convex_(convex),
        cones_(cones && dice_.chance(0.4)),
        noslip_(cones && seed % 8 == 5),
        field_(convex && seed % 8 == 3),
        held_(seed % 8 == 1),
        has_paths_(path_dice_.chance(0.35)) {
    write();
  }
  const std::string& text() const { return text_; }

 private:
  void write() {
    out_.precision(9);
    out_ << "<mujoco model=\"fuzz\">\n<compiler angle=\"radian\" autolimits=\"false\"/>\n<size "
            "memory=\"20M\"/>\n";
    options();
    if (convex_) meshes();
    out_ << "<worldbody>\n";
    if (field_)
      out_ << "<geom name=\"field\" type=\"hfield\" hfield=\"field\" contype=\"1\" conaffinity=\"3\"/>\n";
    if (held_)
      out_ << "<body name=\"held\" mocap=\"true\" pos=\"0.1 0 0.3\" euler=\"0.2 0.3 0\">"
              "<geom type=\"capsule\" size=\"0.1 0.3\"/></body>\n";
    path_points();
    if (dice_.chance(0.85)) {
      geom_number_ = 0;
      out_ << "<geom name=\"g0\" type=\"plane\" size=\"0 0 1\" contype=\"1\" conaffinity=\"3\"";
      contact_parameters();
      out_ << "/>\n";
      names_.push_back("g0");
      partners_.push_back("g0");
      geom_number_ = 1;
    }
    if (dice_.chance(0.25)) geom(false);
    if (dice_.chance(0.15)) {
      const std::string name = "g" + std::to_string(geom_number_++);
      out_ << "<geom name=\"" << name << "\" type=\"plane\" size=\"1 1 1\" pos=\"-1 0 0\" zaxis=\""
           << dice_.uniform(0, 1) << " 0.2 1\" contype=\"1\" conaffinity=\"3\"";
      contact_parameters();
      out_ << "/>\n";
      names_.push_back(name);
    }
    const int trees = 1 + dice_.below(4);
    for (int i = 0; i < trees; ++i) body(0, -1);
    out_ << "</worldbody>\n";
    contact_section();
    tendon_section();
    actuator_section();
    sensor_section();
    equality_section();
    path_section();
    out_ << "</mujoco>\n";
    text_ = out_.str();
  }

  void options() {
    out_ << "<option timestep=\"" << dice_.one_of({0.0005, 0.001, 0.002, 0.005, 0.01}) << "\" integrator=\""
         << dice_.one_of({"Euler", "RK4", "implicit", "implicitfast"}) << "\" impratio=\""
         << dice_.one_of({1.0, 1.0, 0.3, 5.0, 50.0}) << "\" gravity=\"" << dice_.uniform(-2, 2) << " "
         << dice_.uniform(-2, 2) << " " << dice_.uniform(-15, 2) << "\"";
    if (dice_.chance(0.15)) out_ << " solver=\"CG\"";
    if (cones_ && dice_.chance(0.7)) out_ << " cone=\"elliptic\"";
    if (dice_.chance(0.1)) out_ << " iterations=\"" << 1 + dice_.below(5) << "\"";
    const bool dense = dice_.chance(0.15);
    if (dense) out_ << " density=\"" << dice_.logarithmic(1, 1e3) << "\"";
    ellipsoids_ = dense && dice_.chance(0.5);
    if (dice_.chance(0.15)) out_ << " viscosity=\"" << dice_.logarithmic(1e-3, 10) << "\"";
    if (noslip_) out_ << " noslip_iterations=\"4\"";
    if (wild_ && dice_.chance(0.1)) out_ << " tolerance=\"" << dice_.one_of({0.0, 1e-3, 1e-15}) << "\"";
    out_ << ">\n<flag";
    for (const char* flag : {"warmstart", "filterparent", "eulerdamp", "refsafe", "clampctrl", "gravity",
                             "spring", "damper", "limit", "frictionloss", "actuation"})
      if (dice_.chance(0.07)) out_ << " " << flag << "=\"disable\"";
    if (dice_.chance(0.1)) out_ << " multiccd=\"disable\"";
    if (dice_.chance(0.03)) out_ << " contact=\"disable\"";
    if (dice_.chance(0.02)) out_ << " constraint=\"disable\"";
    if (wild_ && dice_.chance(0.05)) out_ << " autoreset=\"disable\"";
    out_ << "/>\n</option>\n";
  }

  void numbers(const char* name, std::initializer_list<double> values) {
    out_ << " " << name << "=\"";
    for (const double* value = values.begin(); value != values.end(); ++value)
      out_ << (value == values.begin() ? "" : " ") << *value;
    out_ << "\"";
  }
  void solref(const char* name) {
    if (dice_.chance(0.3)) {
      numbers(name, {-dice_.logarithmic(10, wild_ ? 1e8 : 1e4), -dice_.logarithmic(1, wild_ ? 1e4 : 1e2)});
    } else if (dice_.chance(0.5)) {
      numbers(name, {dice_.logarithmic(wild_ ? 1e-4 : 4e-3, 0.2), dice_.uniform(0.1, 2)});
    }
  }
  void solimp(const char* name) {
    if (!dice_.chance(0.5)) return;
    const double low = wild_ && dice_.chance(0.2) ? dice_.one_of({0.0, 1.0, 1e-5}) : dice_.uniform(0.1, 0.95);
    numbers(name, {low, dice_.uniform(low, 0.99), dice_.one_of({0.0, 0.001, 0.02, 0.1}),
                   dice_.uniform(0.1, 0.9), dice_.one_of({1.0, 2.0, 2.0, 3.0, 2.5})});
  }
  // Of a contact; the same in the whole model where there is no mixture.
  int condim() { return cones_ ? dice_.one_of({1, 3, 4, 6}) : dice_.one_of({1, 3}); }
  void contact_parameters() {
    if (dice_.chance(0.7)) out_ << " condim=\"" << condim() << "\"";
    if (dice_.chance(0.7))
      numbers("friction", {wild_ ? dice_.one_of({0.0, 1e-6, 1.0, 50.0}) : dice_.uniform(0.05, 1.5),
                           cones_ ? dice_.logarithmic(1e-3, 0.3) : 0.005,
                           cones_ ? dice_.logarithmic(1e-4, 0.1) : 0.0001});
    if (dice_.chance(0.25)) numbers("margin", {dice_.uniform(0, 0.03)});
    if (dice_.chance(0.2)) numbers("gap", {dice_.uniform(0, 0.02)});
    solref("solref");
    solimp("solimp");
    if (dice_.chance(0.15)) out_ << " priority=\"" << dice_.below(3) << "\"";
    if (dice_.chance(0.2)) numbers("solmix", {dice_.one_of({0.0, 0.5, 2.0})});
  }

  // Few points, of which the search for the farthest looks at all, and many, over whose hull it climbs.
  void meshes() {
    out_ << "<asset>\n";
    for (int mesh = 0; mesh < kMeshes; ++mesh) {
      out_ << "<mesh name=\"mesh" << mesh << "\" vertex=\"";
      for (int i = 0, count = mesh == 0 ? 3 * 6 : 3 * 24; i < count; ++i)
        out_ << (i > 0 ? " " : "") << dice_.uniform(-0.12, 0.12);
      out_ << "\"/>\n";
    }
    if (field_) {
      out_ << "<hfield name=\"field\" nrow=\"4\" ncol=\"5\" size=\"1 .8 .2 .1\" elevation=\"";
      for (int i = 0; i < 20; ++i) out_ << (7 * i * i + 3 * i) % 11 << " ";
      out_ << "\"/>\n";
    }
    out_ << "</asset>\n";
  }

  // Of the body that is being written.
  void geom(bool moving) {
    const std::string name = "g" + std::to_string(geom_number_++);
    const int shape = moving ? dice_.below(convex_ ? 8 : 7) : dice_.below(4);
    const double scale = wild_ && dice_.chance(0.1) ? dice_.logarithmic(1e-3, 10) : 1;
    const auto size = [&] { return scale * dice_.uniform(0.03, 0.15); };
    out_ << "<geom name=\"" << name << "\"";
    if (shape < 2) {
      out_ << " type=\"sphere\"";
      numbers("size", {size()});
    } else if (shape < 4) {
      out_ << " type=\"capsule\"";
      numbers("size", {size(), size()});
    } else if (shape == 7) {
      out_ << " type=\"mesh\" mesh=\"mesh" << dice_.below(kMeshes) << "\"";
    } else {
      out_ << " type=\"" << (shape == 4 ? "box" : shape == 5 ? "cylinder" : "ellipsoid") << "\"";
      if (shape > 4 && !convex_) out_ << " contype=\"2\" conaffinity=\"0\"";
      numbers("size", {size(), size(), size()});
    }
    if (ellipsoids_ && dice_.chance(0.5)) out_ << " fluidshape=\"ellipsoid\"";
    if (dice_.chance(0.7))
      numbers("pos", {dice_.uniform(-0.1, 0.1), dice_.uniform(-0.1, 0.1), dice_.uniform(-0.1, 0.1)});
    if (dice_.chance(0.7))
      numbers("euler", {dice_.uniform(-3, 3), dice_.uniform(-3, 3), dice_.one_of({0.0, 0.7})});
    if (wild_ && dice_.chance(0.3)) {
      numbers("mass", {dice_.logarithmic(1e-6, 1e6)});
    } else {
      numbers("density", {dice_.logarithmic(200, 4000)});
    }
    contact_parameters();
    out_ << "/>\n";
    names_.push_back(name);
    if (shape <= 4 || convex_) partners_.push_back(name);
  }

  void joint(const char* type) {
    const std::string name = "j" + std::to_string(joint_number_++);
    const bool ball = type[0] == 'b', slide = type[0] == 's';
    out_ << "<joint name=\"" << name << "\" type=\"" << type << "\"";
    if (!ball) {
      numbers("axis", {dice_.uniform(-1, 1), dice_.one_of({0.0, 1.0}), dice_.uniform(0.1, 1)});
      scalar_joints_.push_back(name);
    } else {
      ball_joints_.push_back(name);
    }
    if (dice_.chance(0.5)) numbers("pos", {dice_.uniform(-0.1, 0.1), 0, dice_.uniform(-0.1, 0.1)});
    if (dice_.chance(0.5)) {
      out_ << " limited=\"true\"";
      limited_joints_.push_back(name);
      numbers("range", {ball ? 0 : dice_.uniform(-1, -0.1) * (slide ? 0.3 : 1),
                        dice_.uniform(0.1, 1) * (slide ? 0.3 : 1)});
      if (dice_.chance(0.3)) numbers("margin", {dice_.uniform(0, 0.1)});
      solref("solreflimit");
      solimp("solimplimit");
    }
    if (dice_.chance(0.3)) {
      numbers("frictionloss", {dice_.logarithmic(wild_ ? 1e-6 : 1e-2, wild_ ? 1e6 : 2)});
      solref("solreffriction");
      solimp("solimpfriction");
    }
    if (dice_.chance(0.4)) numbers("damping", {dice_.logarithmic(1e-3, wild_ ? 1e4 : 1)});
    if (dice_.chance(0.3)) numbers("stiffness", {dice_.logarithmic(0.1, wild_ ? 1e6 : 50)});
    if (dice_.chance(0.2) && !ball) numbers("springref", {dice_.uniform(-0.3, 0.3)});
    if (dice_.chance(0.4)) numbers("armature", {dice_.logarithmic(1e-4, wild_ ? 1e3 : 0.1)});
    if (dice_.chance(0.2) && !ball) numbers("ref", {dice_.uniform(-0.3, 0.3)});
    out_ << "/>\n";
  }

  // `parent`: its number, -1 for the world.
  void body(int depth, int parent) {
    const int number = body_number_++;
    out_ << "<body name=\"b" << number << "\"";
    if (depth == 0) {
      numbers("pos", {dice_.uniform(-0.3, 0.3), dice_.uniform(-0.3, 0.3), dice_.uniform(0, 0.5)});
    } else {
      numbers("pos", {dice_.uniform(-0.3, 0.3), dice_.uniform(-0.3, 0.3), dice_.uniform(-0.3, 0.3)});
    }
    if (dice_.chance(0.5)) numbers("euler", {dice_.uniform(-3, 3), dice_.uniform(-1, 1), 0});
    if (dice_.chance(0.1)) numbers("gravcomp", {dice_.uniform(0, 1.5)});
    out_ << ">\n";
    welds_.push_back(number);
    if (depth == 0 && dice_.chance(0.6)) {
      out_ << "<freejoint name=\"f" << number << "\"/>\n";
    } else {
      const int count = dice_.one_of({0, 1, 1, 1, 2, 3}) + (depth == 0 ? 1 : 0);
      if (count == 0) welds_.back() = welds_[static_cast<std::size_t>(parent)];
      for (int i = 0; i < count; ++i) {
        const bool ball = count == 1 && dice_.chance(0.3);
        joint(ball ? "ball" : dice_.chance(0.7) ? "hinge" : "slide");
      }
    }
    const double explicit_inertia = wild_ ? 0.4 : 0.2;
    const bool given = dice_.chance(explicit_inertia);
    if (given) {
      const double mass = wild_ ? dice_.logarithmic(1e-6, 1e6) : dice_.uniform(0.2, 4);
      // one axis may have next to no inertia
      const double large = mass * 0.01 * dice_.uniform(0.5, 2),
                   small = large * (wild_ ? dice_.one_of({1.0, 1e-8, 1e-3}) : 0.3);
      out_ << "<inertial";
      numbers("pos", {dice_.uniform(-0.1, 0.1), dice_.uniform(-0.1, 0.1), dice_.uniform(-0.1, 0.1)});
      numbers("mass", {mass});
      numbers("diaginertia", {large, large, small});
      if (dice_.chance(0.5)) numbers("euler", {dice_.uniform(-3, 3), dice_.uniform(-3, 3), 0});
      out_ << "/>\n";
    }
    const int geoms = dice_.one_of({1, 1, 1, 2}) - (given && dice_.chance(0.3) ? 1 : 0);
    for (int i = 0; i < geoms; ++i) geom(true);
    if (dice_.chance(0.3)) {
      const char* const shapes[] = {"sphere", "capsule", "ellipsoid", "cylinder", "box"};
      out_ << "<site name=\"s" << number << "\" pos=\"0.05 0 0.02\" size=\".2 .15 .1\" type=\""
           << shapes[number % 5] << "\"/>\n";
      sites_.push_back("s" + std::to_string(number));
    }
    path_points();
    const int children = depth >= 4 || body_number_ > 14 ? 0 : dice_.one_of({0, 1, 1, 2});
    for (int i = 0; i < children; ++i) body(depth + 1, number);
    out_ << "</body>\n";
  }

  void contact_section() {
    out_ << "<contact>\n";
    for (int i = 0; i < 2 && partners_.size() > 1; ++i) {
      if (!dice_.chance(0.3)) continue;
      const std::string &first = any(partners_), &second = any(partners_);
      if (first == second) continue;
      out_ << "<pair geom1=\"" << first << "\" geom2=\"" << second << "\" condim=\"" << condim() << "\"";
      if (dice_.chance(0.5)) numbers("friction", {dice_.uniform(0.1, 1), dice_.uniform(0.1, 1)});
      if (cones_ && dice_.chance(0.3))
        numbers("solreffriction", {dice_.uniform(0.01, 0.1), dice_.uniform(0.3, 1)});
      if (dice_.chance(0.5)) numbers("margin", {dice_.uniform(0, 0.02)});
      if (dice_.chance(0.3)) numbers("gap", {dice_.uniform(0, 0.02)});
      solref("solref");
      solimp("solimp");
      out_ << "/>\n";
    }
    for (int i = 0; i < 2 && body_number_ > 1; ++i) {
      const int first = dice_.below(body_number_), second = dice_.below(body_number_);
      if (first != second && dice_.chance(0.4))
        out_ << "<exclude body1=\"b" << first << "\" body2=\"b" << second << "\"/>\n";
    }
    out_ << "</contact>\n";
  }

  void tendon_section() {
    if (scalar_joints_.size() < 2 || !dice_.chance(0.3)) return;
    out_ << "<tendon><fixed name=\"t\"";
    if (dice_.chance(0.5)) numbers("stiffness", {dice_.uniform(0.1, 10)});
    if (dice_.chance(0.5)) numbers("damping", {dice_.uniform(0.01, 0.5)});
    if (dice_.chance(0.3)) {
      numbers("frictionloss", {dice_.logarithmic(0.01, 2)});
      solref("solreffriction");
      solimp("solimpfriction");
    }
    if (dice_.chance(0.5)) {
      out_ << " limited=\"true\"";
      limited_tendons_.push_back("t");
      numbers("range", {-dice_.uniform(0.05, 0.3), dice_.uniform(0.05, 0.3)});
      numbers("margin", {dice_.one_of({0.0, 0.0, 0.05})});
      solref("solreflimit");
      solimp("solimplimit");
    }
    out_ << ">\n<joint joint=\"" << scalar_joints_[0] << "\" coef=\"0.7\"/><joint joint=\""
         << scalar_joints_[1] << "\" coef=\"-0.4\"/></fixed></tendon>\n";
    tendons_.push_back("t");
  }

  void actuator_section() {
    if (scalar_joints_.empty()) return;
    out_ << "<actuator>\n";
    for (int i = 0, count = dice_.below(5); i < count; ++i) {
      const int kind = dice_.below(5);
      actuators_.push_back("a" + std::to_string(i));
      out_ << (kind < 3 ? "<motor" : kind == 3 ? "<position" : "<general") << " name=\"a" << i << "\"";
      if (!tendons_.empty() && dice_.chance(0.2)) {
        out_ << " tendon=\"t\"";
      } else {
        out_ << " joint=\"" << any(scalar_joints_) << "\"";
      }
      numbers("gear", {dice_.uniform(-3, 3)});
      if (dice_.chance(0.7)) {
        out_ << " ctrllimited=\"true\"";
        numbers("ctrlrange", {-dice_.uniform(0.2, 2), dice_.uniform(0.2, 2)});
      }
      if (dice_.chance(0.3)) {
        out_ << " forcelimited=\"true\"";
        numbers("forcerange", {-dice_.uniform(0.2, 5), dice_.uniform(0.2, 5)});
      }
      if (kind == 3) numbers("kp", {dice_.logarithmic(1, wild_ ? 1e5 : 50)});
      if (kind == 4) {
        out_ << " dyntype=\"" << dice_.one_of({"filter", "integrator", "none", "filterexact"}) << "\"";
        numbers("dynprm", {dice_.uniform(0.01, 0.2)});
        out_ << " biastype=\"affine\"";
        numbers("gainprm", {dice_.uniform(0, 5)});
        numbers("biasprm", {0, -dice_.uniform(0, 5), -dice_.uniform(0, 0.5)});
      }
      out_ << "/>\n";
    }
    controllers();
    out_ << "</actuator>\n";
  }

  // PID servos and DC motors with random parts.
  void controllers() {
    Dice& dice = controller_dice_;
    for (int i = dice.below(6) - 3; i > 0; --i) {
      const std::string& joint =
          scalar_joints_[static_cast<std::size_t>(dice.below(static_cast<int>(scalar_joints_.size())))];
      const auto also = [&](double probability, double low, double high) {
        return dice.chance(probability) ? dice.uniform(low, high) : 0.0;
      };
      const auto row = [&](const char* name, std::initializer_list<double> values) {
        out_ << " " << name << "=\"";
        for (const double value : values) out_ << value << " ";
        out_ << "\"";
      };
      if (dice.chance(0.5)) {
        out_ << "<pid joint=\"" << joint << "\"";
        row("kp", {dice.uniform(0.5, 20)});
        row("kv", {also(0.7, 0, 1)});
        row("ki", {also(0.5, 0.5, 5)});
        row("imax", {also(0.5, 0.1, 1)});
        row("slewmax", {also(0.4, 0.5, 50)});
        out_ << " input=\"" << dice.one_of({"pos", "pos vel", "pos ff", "pos vel ff"}) << "\"";
      } else {
        out_ << "<dcmotor joint=\"" << joint << "\"";
        row("motorconst", {dice.uniform(0.1, 2)});
        row("resistance", {dice.uniform(0.3, 3)});
        row("inductance", {0, also(0.5, 0.005, 0.1)});
        row("cogging", {also(0.5, 0.01, 0.3), 6, 0.3});
        if (dice.chance(0.4)) row("thermal", {dice.uniform(0.2, 2), dice.uniform(1, 9), 0, 0.004, 25, 20});
        if (dice.chance(0.4)) row("lugre", {dice.uniform(5, 50), also(0.7, 0.1, 1), 0.2, 0.3, 0.1});
        if (dice.chance(0.4)) row("saturation", {dice.uniform(0.1, 3)});
        if (dice.chance(0.5)) {
          row("controller", {dice.uniform(0.5, 9), also(0.5, 0.5, 3), also(0.7, 0.05, 0.5),
                             also(0.4, 0.5, 50), also(0.4, 0.1, 1), also(0.4, 1, 12)});
          out_ << " input=\"" << dice.one_of({"pos", "pos vel", "pos vel ff voltage"}) << "\"";
        }
      }
      if (dice.chance(0.3)) row("gear", {dice.uniform(-2, 2)});
      out_ << "/>\n";
    }
  }

  // ` type="site" name="s3"`, with the names of the attributes in place of type and name.
  std::string frame(const std::string& type, const std::string& name) {
    const auto text = [&](const char* kind, const std::string& which) {
      return " " + type + "=\"" + kind + "\" " + name + "=\"" + which + "\"";
    };
    const int kind = dice_.below(4);
    if (kind == 0 && !sites_.empty()) return text("site", any(sites_));
    if (kind == 1 && !names_.empty()) return text("geom", any(names_));
    const int body = dice_.below(body_number_ + 1) - 1;
    return text(kind == 2 ? "body" : "xbody", body < 0 ? "world" : "b" + std::to_string(body));
  }
  // One of every type that the kernels read and that the model has something for, some more than once.
  void sensor_section() {
    out_ << "<sensor>\n";
    const auto sensor = [&](const char* type, const std::string& of) {
      out_ << "<" << type << of;
      if (dice_.chance(0.1)) numbers("cutoff", {dice_.logarithmic(0.1, 100)});
      out_ << "/>\n";
    };
    const auto of_each = [&](const char* attribute, const std::vector<std::string>& elements,
                             std::initializer_list<const char*> types) {
      for (const char* const type : types)
        for (int i = dice_.below(3); i > 0 && !elements.empty(); --i)
          sensor(type, std::string(" ") + attribute + "=\"" + any(elements) + "\"");
    };
    of_each("site", sites_,
            {"touch", "accelerometer", "velocimeter", "gyro", "magnetometer", "force", "torque"});
    of_each("joint", scalar_joints_, {"jointpos", "jointvel", "jointactuatorfrc"});
    of_each("joint", ball_joints_, {"ballquat", "ballangvel"});
    of_each("actuator", actuators_, {"actuatorpos", "actuatorvel", "actuatorfrc"});
    of_each("tendon", tendons_, {"tendonpos", "tendonvel", "tendonactuatorfrc"});
    of_each("joint", limited_joints_, {"jointlimitpos", "jointlimitvel", "jointlimitfrc"});
    of_each("tendon", limited_tendons_, {"tendonlimitpos", "tendonlimitvel", "tendonlimitfrc"});
    for (const char* const type : {"framepos", "framequat", "framexaxis", "frameyaxis", "framezaxis",
                                   "framelinvel", "frameangvel", "framelinacc", "frameangacc"}) {
      if (dice_.chance(0.5)) continue;
      const bool relative = std::string(type).find("acc") == std::string::npos && dice_.chance(0.5);
      const std::string object = frame("objtype", "objname");
      sensor(type, object + (relative ? frame("reftype", "refname") : ""));
    }
    for (const char* const type : {"subtreecom", "subtreelinvel", "subtreeangmom"})
      if (dice_.chance(0.3)) sensor(type, " body=\"b" + std::to_string(dice_.below(body_number_)) + "\"");
    if (dice_.chance(0.3)) sensor("clock", "");
    for (int i = dice_.below(3); i > 0 && !names_.empty(); --i) contact_sensor();
    out_ << "</sensor>\n";
  }
  void contact_sensor() {
    out_ << "<contact";
    const auto side = [&](const char* number) {
      if (dice_.chance(0.5))
        out_ << " geom" << number << "=\"" << any(names_) << "\"";
      else if (dice_.chance(0.7))
        out_ << dice_.one_of({" body", " subtree"}) << number << "=\"b" << dice_.below(body_number_) << "\"";
    };
    if (!sites_.empty() && dice_.chance(0.2))
      out_ << " site=\"" << any(sites_) << "\"";
    else
      side("1");
    side("2");
    out_ << " num=\"" << 1 + dice_.below(4) << "\" reduce=\""
         << dice_.one_of({"none", "mindist", "maxforce", "netforce"}) << "\" data=\""
         << dice_.one_of({"found", "found force torque dist pos normal tangent", "force pos", "dist normal"})
         << "\"/>\n";
  }
  void equality_section() {
    if (!dice_.chance(0.4)) return;
    out_ << "<equality>\n";
    for (int i = 0, count = 1 + dice_.below(3); i < count; ++i) {
      const int kind = dice_.below(4);
      const int body1 = dice_.below(body_number_), body2 = dice_.below(body_number_);
      const std::string first = "b" + std::to_string(body1), second = "b" + std::to_string(body2);
      if (kind < 2) {
        // (what is rigid already gets rows of zeros, which libmujoco leaves out unless rounding keeps them)
        if (welds_[static_cast<std::size_t>(body1)] == welds_[static_cast<std::size_t>(body2)]) continue;
        out_ << (kind == 0 ? "<connect" : "<weld") << " body1=\"" << first << "\"";
        if (dice_.chance(0.7)) out_ << " body2=\"" << second << "\"";
        if (kind == 0 || dice_.chance(0.5))
          numbers("anchor", {dice_.uniform(-0.1, 0.1), dice_.uniform(-0.1, 0.1), dice_.uniform(-0.1, 0.1)});
        if (kind == 1 && dice_.chance(0.5)) numbers("torquescale", {dice_.logarithmic(0.1, 5)});
      } else if (kind == 2 && !scalar_joints_.empty()) {
        const std::string &joint1 = any(scalar_joints_), &joint2 = any(scalar_joints_);
        out_ << "<joint joint1=\"" << joint1 << "\"";
        if (joint1 != joint2) out_ << " joint2=\"" << joint2 << "\"";
        numbers("polycoef", {dice_.uniform(-0.1, 0.1), dice_.uniform(-1, 1), dice_.uniform(-1, 1), 0, 0.2});
      } else if (!tendons_.empty()) {
        out_ << "<tendon tendon1=\"t\"";
        numbers("polycoef", {dice_.uniform(-0.1, 0.1), 0, 0, 0, 0});
      } else {
        continue;
      }
      if (dice_.chance(0.2)) out_ << " active=\"false\"";
      solref("solref");
      solimp("solimp");
      out_ << "/>\n";
    }
    out_ << "</equality>\n";
  }

  // Sites, and geoms without mass or contacts, for spatial tendons. They have dice of their own, so that the
  // rest of a model is the same with and without them.
  void path_points() {
    if (!has_paths_) return;
    Dice& dice = path_dice_;
    const auto at = [&] {
      for (const char* axis : {" pos=\"", " ", " "}) out_ << axis << dice.uniform(-0.2, 0.2);
      out_ << "\"";
    };
    for (int i = dice.below(3); i > 0; --i) {
      path_sites_.push_back("p" + std::to_string(path_sites_.size()));
      out_ << "<site name=\"" << path_sites_.back() << "\" size=\"0.01\" euler=\"" << dice.uniform(-3, 3)
           << " 0.3 0\"";
      at();
      out_ << "/>\n";
    }
    if (!dice.chance(0.4)) return;
    path_geoms_.push_back("w" + std::to_string(path_geoms_.size()));
    out_ << "<geom name=\"" << path_geoms_.back() << "\" type=\"" << dice.one_of({"sphere", "cylinder"})
         << "\" size=\"" << dice.uniform(0.02, 0.12)
         << " 0.1\" mass=\"0\" contype=\"0\" conaffinity=\"0\" euler=\"" << dice.uniform(-3, 3) << " 0.5 0\"";
    at();
    out_ << "/>\n";
  }

  void path_section() {
    if (path_sites_.size() < 2) return;
    Dice& dice = path_dice_;
    const auto one = [&](const std::vector<std::string>& elements) {
      return elements[static_cast<std::size_t>(dice.below(static_cast<int>(elements.size())))];
    };
    std::vector<std::string> tendons;
    out_ << "<tendon>\n";
    for (int t = 0, count = 1 + dice.below(3); t < count; ++t) {
      tendons.push_back("s" + std::to_string(t));
      out_ << "<spatial name=\"" << tendons.back() << "\"";
      if (dice.chance(0.4)) numbers("stiffness", {dice.uniform(0.1, 30), dice.one_of({0.0, 2.0})});
      if (dice.chance(0.3)) numbers("springlength", {dice.uniform(0, 0.3), dice.uniform(0.3, 0.6)});
      if (dice.chance(0.4)) numbers("damping", {dice.uniform(0.01, 1), dice.one_of({0.0, 0.1})});
      if (dice.chance(0.3)) numbers("frictionloss", {dice.logarithmic(0.01, 2)});
      if (dice.chance(0.5)) {
        out_ << " limited=\"true\"";
        numbers("range", {dice.uniform(0, 0.2), dice.uniform(0.25, 0.8)});
        numbers("margin", {dice.one_of({0.0, 0.0, 0.05})});
      }
      const bool heavy = dice.chance(0.2);  // MuJoCo has no geoms on the way of these
      if (heavy) numbers("armature", {dice.logarithmic(0.01, 1)});
      out_ << ">\n<site site=\"" << one(path_sites_) << "\"/>";
      for (int i = 0, parts = 1 + dice.below(3); i < parts; ++i) {
        if (i > 0 && dice.chance(0.3))
          out_ << "<pulley divisor=\"" << dice.uniform(1, 4) << "\"/><site site=\"" << one(path_sites_)
               << "\"/>";
        if (!path_geoms_.empty() && !heavy && dice.chance(0.6)) {
          out_ << "<geom geom=\"" << one(path_geoms_) << "\"";
          if (dice.chance(0.5)) out_ << " sidesite=\"" << one(path_sites_) << "\"";
          out_ << "/>";
        }
        out_ << "<site site=\"" << one(path_sites_) << "\"/>";
      }
      out_ << "\n</spatial>\n";
    }
    out_ << "</tendon>\n<actuator>\n";
    std::vector<std::string> actuators;
    for (int i = dice.below(4); i > 0; --i) {
      actuators.push_back("p" + std::to_string(actuators.size()));
      const std::string name = " name=\"" + actuators.back() + "\"";
      const int kind = dice.below(4);
      if (kind < 2) {
        const bool on_joint = !scalar_joints_.empty() && dice.chance(0.3);
        out_ << "<muscle" << name
             << (on_joint ? " joint=\"" + one(scalar_joints_) : " tendon=\"" + one(tendons)) << "\"";
        numbers("lengthrange", {on_joint ? -1 : 0.05, dice.uniform(0.3, 1)});
        numbers("force", {dice.one_of({-1.0, 1.0, 30.0})});
        numbers("scale", {dice.logarithmic(0.1, 10)});
        numbers("range", {dice.uniform(0.5, 0.9), dice.uniform(0.95, 1.3)});
        numbers("vmax", {dice.uniform(0.5, 3)});
        numbers("fvmax", {dice.uniform(1.05, 1.5)});
        numbers("tausmooth", {dice.one_of({0.0, 0.2, 1.0})});
      } else {
        out_ << (kind == 2 ? "<position kp=\"5\" kv=\"0.5\"" : "<motor") << name << " site=\""
             << one(path_sites_) << "\"";
        if (dice.chance(0.6)) out_ << " refsite=\"" << one(path_sites_) << "\"";
        const double along = dice.one_of({0.0, 1.0});
        numbers("gear", {along, 0.5 * along, 0, dice.one_of({0.0, 0.4}), 0.1, 0.2});
      }
      out_ << "/>\n";
    }
    out_ << "</actuator>\n<sensor>\n";
    for (const char* const type : {"tendonpos", "tendonvel", "tendonactuatorfrc"})
      out_ << "<" << type << " tendon=\"" << one(tendons) << "\"/>\n";
    out_ << "</sensor>\n";
    if (dice.chance(0.3)) {
      out_ << "<equality><tendon tendon1=\"" << tendons[0] << "\"";
      if (tendons.size() > 1) out_ << " tendon2=\"" << tendons[1] << "\"";
      numbers("polycoef", {dice.uniform(-0.1, 0.1), dice.uniform(-1, 1), 0.2, 0, 0});
      out_ << "/></equality>\n";
    }
  }

  const std::string& any(const std::vector<std::string>& elements) {
    return elements[static_cast<std::size_t>(dice_.below(static_cast<int>(elements.size())))];
  }

  Dice dice_, path_dice_, controller_dice_;
  bool wild_, convex_, cones_, noslip_, field_, held_, has_paths_;
  bool ellipsoids_ = false;
  std::ostringstream out_;
  std::string text_;
  static constexpr int kMeshes = 2;
  int geom_number_ = 0, joint_number_ = 0, body_number_ = 0;
  std::vector<int> welds_;  // by body: the one that it does not move against, at the top
  std::vector<std::string> names_, partners_, scalar_joints_, ball_joints_, sites_, tendons_, actuators_;
  std::vector<std::string> limited_joints_, limited_tendons_, path_sites_, path_geoms_;
};

}  // namespace maniple
