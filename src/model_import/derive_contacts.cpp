#include "src/model_import/derive_contacts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "kernels/model/data.hpp"
#include "kernels/model/geom_pair_types.hpp"
#include "src/model_import/geom_pairs.hpp"
#include "src/model_import/row_parameters.hpp"

namespace maniple {
namespace {

// What the contacts of a geom pair have in common with those of others; equal ones share a class.
struct ContactClass {
  int condim;
  std::array<double, 5> friction;  // zero where condim has none
  std::array<double, 5> solimp;
  double K, B, frictionB, margin;
  std::array<int, 2> geoms;  // whose friction it is; -1 - i: that of the explicit pair i

  friend bool operator==(const ContactClass& a, const ContactClass& b) {
    return a.condim == b.condim && a.friction == b.friction && a.solimp == b.solimp && a.K == b.K &&
           a.B == b.B && a.frictionB == b.frictionB && a.margin == b.margin;
  }
};

// Share of geom 1 in solref and solimp: mj_contactParam.
double solver_mix(double solmix1, double solmix2) {
  const bool none1 = solmix1 < kMinimumValue, none2 = solmix2 < kMinimumValue;
  if (none1 && none2) return 0.5;
  if (none1 || none2) return none1 ? 0 : 1;
  return solmix1 / (solmix1 + solmix2);
}

// Contact parameters of a geom pair: those of the explicit pair, of the geom with priority, or of both.
ContactClass class_of(const Model<double>& m, const GeomPair& geompair) {
  const int g1 = geompair.geom1, g2 = geompair.geom2;
  double solref[2], solimp[5], friction[5], solreffriction[2] = {0, 0};
  const auto copy = [&](const double* ref, const double* imp) {
    for (int k = 0; k < 2; ++k) solref[k] = ref[k];
    for (int k = 0; k < 5; ++k) solimp[k] = imp[k];
  };
  // the larger one of two geoms' sliding, spinning and rolling friction
  const auto spread = [&](const double* one, const double* other) {
    constexpr int kComponent[5] = {0, 0, 1, 2, 2};
    for (int k = 0; k < 5; ++k) friction[k] = std::fmax(one[kComponent[k]], other[kComponent[k]]);
  };
  double margin;
  std::array<int, 2> geoms{-1, -1};
  if (geompair.pair >= 0) {
    const int i = geompair.pair;
    copy(m.pair_solref + 2 * i, m.pair_solimp + 5 * i);
    std::copy_n(m.pair_friction + 5 * i, 5, friction);
    std::copy_n(m.pair_solreffriction + 2 * i, 2, solreffriction);
    geoms = {-1 - i, -1 - i};
    margin = m.pair_margin[i];
  } else {
    margin = m.geom_margin[g1] + m.geom_margin[g2];
    const int difference = m.geom_priority[g1] - m.geom_priority[g2];
    if (difference != 0) {
      const int g = difference > 0 ? g1 : g2;
      copy(m.geom_solref + 2 * g, m.geom_solimp + 5 * g);
      spread(m.geom_friction + 3 * g, m.geom_friction + 3 * g);
      geoms = {g, g};
    } else {
      const double mix = solver_mix(m.geom_solmix[g1], m.geom_solmix[g2]);
      const double *ref1 = m.geom_solref + 2 * g1, *ref2 = m.geom_solref + 2 * g2;
      const bool standard = ref1[0] > 0 && ref2[0] > 0;
      for (int k = 0; k < 2; ++k)
        solref[k] = standard ? mix * ref1[k] + (1 - mix) * ref2[k] : std::fmin(ref1[k], ref2[k]);
      for (int k = 0; k < 5; ++k)
        solimp[k] = mix * m.geom_solimp[5 * g1 + k] + (1 - mix) * m.geom_solimp[5 * g2 + k];
      spread(m.geom_friction + 3 * g1, m.geom_friction + 3 * g2);
      geoms = {g1, g2};
    }
  }
  const RowParameters row = row_parameters(m, solref, solimp);
  const int condim = condim_of(m, geompair);
  const bool own = m.cone == cone_elliptic && (solreffriction[0] != 0 || solreffriction[1] != 0);
  const double frictionB = own ? row_parameters(m, solreffriction, solimp).B : row.B;
  ContactClass result{condim, {}, {}, row.K, row.B, frictionB, margin, geoms};
  for (int k = 0; k < condim - 1; ++k)
    result.friction[static_cast<std::size_t>(k)] = std::fmax(kSmallestFriction, friction[k]);
  for (std::size_t k = 0; k < 5; ++k) result.solimp[k] = row.solimp[k];
  return result;
}

// Number of a class in the list, which grows where it is new.
int number_of_class(std::vector<ContactClass>& classes, const ContactClass& wanted) {
  const auto found = std::find(classes.begin(), classes.end(), wanted);
  const auto number = static_cast<int>(found - classes.begin());
  if (found == classes.end()) classes.push_back(wanted);
  return number;
}

int types_of(const Model<double>& m, const GeomPair& geompair) {
  return geom_pair_types(m.geom_type[geompair.geom1], m.geom_type[geompair.geom2]);
}

// Prisms of a height field that a geom can be over, two for each cell.
double prisms_below(const Model<double>& m, int hfield, int geom) {
  const int id = m.geom_dataid[hfield];
  const double *const size = m.hfield_size + 4 * id, width = 2 * m.geom_rbound[geom];
  const auto cells = [&](double half, int count) {
    return std::min(count - 1.0, std::ceil(width / (2 * half / (count - 1))) + 1);
  };
  return 2 * cells(size[0], m.hfield_ncol[id]) * cells(size[1], m.hfield_nrow[id]);
}

int most_contacts(const Model<double>& m, const GeomPair& geompair) {
  const int types = types_of(m, geompair);
  if (types < 0) return 0;
  const double most = kGeomPairTypes[types].most_contacts;
  if (types < kFirstHfieldPairTypes) return static_cast<int>(most);
  return static_cast<int>(std::min(most, prisms_below(m, geompair.geom1, geompair.geom2)));
}

// Whether contacts have rows of the kind ConeRows.
int largest_condim(const Model<double>& m, const std::vector<GeomPair>& pairs) {
  int largest = 1;
  for (const GeomPair& geompair : pairs) largest = std::max(largest, condim_of(m, geompair));
  return largest;
}
bool has_cones(const Model<double>& m, const std::vector<GeomPair>& pairs) {
  const bool noslip = m.noslip_iterations > 0 && !pairs.empty();
  return noslip || largest_condim(m, pairs) > (m.cone == cone_elliptic ? 1 : 3);
}

// Contacts that two bodies may have at once from which on they make a body pair: its 6x6 weight costs as much
// as about three of them.
constexpr int kBodyPairContacts = 6;
constexpr std::size_t kMostBodyPairs = 32;  // bits of slot_bodypairs

// Pairs of bodies, welded ones as one, whose contacts make a body pair, in the order of the geom pairs.
using BodyPair = std::pair<int, int>;
BodyPair bodies_of(const Model<double>& m, const GeomPair& geompair) {
  const int body1 = m.body_weldid[m.geom_bodyid[geompair.geom1]],
            body2 = m.body_weldid[m.geom_bodyid[geompair.geom2]];
  return {std::min(body1, body2), std::max(body1, body2)};
}
std::vector<BodyPair> body_pairs_of(const Model<double>& m, const std::vector<GeomPair>& pairs) {
  std::vector<BodyPair> body_pairs;
  if (m.solver != solver_newton || m.nv <= kDenseDofs || has_cones(m, pairs)) return body_pairs;
  std::map<BodyPair, int> contacts;
  for (const GeomPair& geompair : pairs) {
    int& most = contacts[bodies_of(m, geompair)];
    const bool few = most < kBodyPairContacts;
    most += most_contacts(m, geompair);
    if (few && most >= kBodyPairContacts && body_pairs.size() < kMostBodyPairs)
      body_pairs.push_back(bodies_of(m, geompair));
  }
  return body_pairs;
}

// Contacts that are at hand for a shape besides those with planes. Of equal balls each touches twelve at
// most, so six contacts a ball; in a stack of logs each touches six, at two points, so six as well; a brick
// in a wall stands on two others, at four corners each. The links of a robot touch each other rarely.
constexpr int kContactsOfLooseShape = 6, kContactsOfLooseBox = 8, kContactsOfLink = 1, kSpareContacts = 8;
// The contacts of a geom at rest on a height field: this many, and of a geom over many prisms the part of
// them that a flat side meets, as far as it is level.
constexpr int kContactsOnHfield = 8;
constexpr double kPartOfPrisms = 0.25;
// Where there are few planes: what a robot in a heap has, about two per moving geom.
constexpr int kContactsInHeap = 2, kFewestContacts = 16;

// `chosen` contacts, or for 0 as many as shapes at rest can have: all that are possible with planes, and what
// is said above among each other; never more than there can be. What goes beyond is counted as overflow.
int contact_capacity(const Model<double>& m, const std::vector<GeomPair>& pairs, int chosen) {
  std::vector<int> moving_bodies(static_cast<std::size_t>(m.nbody));  // of each tree
  for (int i = 0; i < m.nbody; ++i)
    if (m.body_dofnum[i] > 0) ++moving_bodies[static_cast<std::size_t>(m.body_rootid[i])];
  std::vector<bool> counted(static_cast<std::size_t>(m.ngeom)), boxes(static_cast<std::size_t>(m.ngeom));
  int with_planes = 0, others = 0, moving = 0, at_hand = kSpareContacts;
  for (const GeomPair& geompair : pairs) {
    const int type1 = m.geom_type[geompair.geom1], most = most_contacts(m, geompair);
    (type1 == geom_plane ? with_planes : others) += most;
    if (type1 == geom_hfield)
      at_hand += static_cast<int>(std::clamp(kPartOfPrisms * prisms_below(m, geompair.geom1, geompair.geom2),
                                             std::min<double>(most, kContactsOnHfield), double(most)));
    for (const int geom : {geompair.geom1, geompair.geom2}) {
      const auto g = static_cast<std::size_t>(geom);
      const int body = m.body_weldid[m.geom_bodyid[geom]];
      if (m.body_dofnum[body] == 0) continue;
      const bool loose = moving_bodies[static_cast<std::size_t>(m.body_rootid[body])] == 1;
      const bool flat = m.geom_type[geom] == geom_box || m.geom_type[geom] == geom_mesh;
      if (loose && !boxes[g] && flat && m.geom_type[geompair.geom1] != geom_plane) {
        boxes[g] = true;
        at_hand += kContactsOfLooseBox - kContactsOfLooseShape;
      }
      if (counted[g]) continue;
      counted[g] = true;
      ++moving;
      at_hand += loose ? kContactsOfLooseShape : kContactsOfLink;
    }
  }
  const int at_rest = with_planes + std::min(others, at_hand);
  const int in_heap = std::max(kFewestContacts, kContactsInHeap * moving + kSpareContacts);
  return std::min(with_planes + others, chosen > 0 ? chosen : std::max(at_rest, in_heap));
}

void derive_geoms(const Model<double>& m, const DerivedFields& derived) {
  for (int i = 0; i < m.ngeom; ++i) {
    matrix_of_quaternion(m.geom_quat + 4 * i, derived.geom_mat + 9 * i);
    const double *pos = m.geom_pos + 3 * i, *quat = m.geom_quat + 4 * i;
    int flags = 0;
    if (pos[0] == 0 && pos[1] == 0 && pos[2] == 0 && m.varied.geom_pos < 0) flags |= geom_pos_zero;
    if (quat[0] == 1 && quat[1] == 0 && quat[2] == 0 && quat[3] == 0 && m.varied.geom_quat < 0)
      flags |= geom_quat_identity;
    const int type = m.geom_type[i];
    if (type == geom_plane || type == geom_capsule || type == geom_sphere) flags |= geom_needs_axis;
    if (type == geom_box || type == geom_cylinder || type == geom_ellipsoid || type == geom_mesh ||
        type == geom_hfield)
      flags |= geom_needs_frame;
    derived.geom_flags[i] = flags;
  }
}

// Dofs that move a geom.
std::vector<bool> dofs_of(const Model<double>& m, int geom) {
  std::vector<bool> dofs(static_cast<std::size_t>(m.nv));
  for (int body = m.geom_bodyid[geom]; body > 0; body = m.body_parentid[body])
    for (int k = 0; k < m.body_dofnum[body]; ++k)
      dofs[static_cast<std::size_t>(m.body_dofadr[body] + k)] = true;
  return dofs;
}

// Dofs up to which Newton's method stays in their space: nearly every pack has some environment with more
// contacts than would pay, and the others would wait for both solvers.
constexpr int kFewDofs = 10;

// Contacts up to which an iteration of Newton's method is cheaper in the space of the rows than in that of
// the dofs, counted in multiplications; -1: never.
int contacts_in_row_space(const Model<double>& m, int nlimit, const std::vector<GeomPair>& pairs) {
  if (m.nv <= kFewDofs || has_cones(m, pairs)) return -1;
  const double nv = m.nv;
  double inertia = 0, tree = 0;  // elements of M, and its factorization
  for (int i = 0; i < m.nv; ++i) {
    double depth = 0;
    for (int k = m.dof_parentid[i]; k >= 0; k = m.dof_parentid[k]) ++depth;
    inertia += depth + 1;
    tree += depth * depth / 2;
  }
  bool couples = false;
  double contact = 0;  // J' D J, and three products of J with a vector
  for (const GeomPair& geompair : pairs) {
    const std::vector<bool> dofs1 = dofs_of(m, geompair.geom1), dofs2 = dofs_of(m, geompair.geom2);
    double only1 = 0, only2 = 0;
    for (std::size_t k = 0; k < dofs1.size(); ++k) {
      only1 += dofs1[k] && !dofs2[k];
      only2 += dofs2[k] && !dofs1[k];
    }
    couples = couples || (only1 > 0 && only2 > 0);
    const double dofs = only1 + only2;
    contact += (3 * dofs * dofs / 2 + 9 * dofs) / static_cast<double>(pairs.size());
  }
  // what the contacts of a pack couple has to be found, is filled in almost everywhere, and keeps its lists
  // in memory
  const double factor = couples ? nv * nv * nv / 4 : tree;
  for (int count = -1;; ++count) {
    // of one contact more, and of the few limits that act at a time
    const double rows = 3 * (count + 1) + 1 + nlimit / 6.0;
    // A is computed once for about three iterations
    const double in_rows = rows * rows * rows / 6 + rows * rows * nv / 6;
    if (in_rows > factor + 4 * inertia + contact * (count + 1)) return count;
  }
}

}  // namespace

void matrix_of_quaternion(const double* q, double* mat) {
  const double w = q[0], x = q[1], y = q[2], z = q[3];
  mat[0] = w * w + x * x - y * y - z * z;
  mat[1] = 2 * (x * y - w * z);
  mat[2] = 2 * (x * z + w * y);
  mat[3] = 2 * (x * y + w * z);
  mat[4] = w * w - x * x + y * y - z * z;
  mat[5] = 2 * (y * z - w * x);
  mat[6] = 2 * (x * z - w * y);
  mat[7] = 2 * (y * z + w * x);
  mat[8] = w * w - x * x - y * y + z * z;
}

int most_contacts(const Model<double>& m) {
  int most = 0;
  for (const GeomPair& geompair : geom_pairs(m, m.disableflags)) most += most_contacts(m, geompair);
  return most;
}

// How stiff a contact holds its normal at most, in units of 1/efc_diagApprox (slot_parameters).
static double stiffness(const Model<double>& m, const ContactClass& kind) {
  const double impedance = std::max(kind.solimp[0], kind.solimp[1]),
               square = kind.friction[0] * kind.friction[0];
  const double edges = kind.condim > 3 ? 2 * (kind.condim - 1) : 4;
  const double friction =
      m.cone == cone_elliptic ? std::max(m.impratio, 1.0) : edges / 2 * m.impratio / (square * (1 + square));
  return impedance / (1 - impedance) * (kind.condim > 1 ? friction : 1);
}

void count_contacts(const Model<double>& m, ModelSizes& sizes) {
  const std::vector<GeomPair> pairs = geom_pairs(m, m.disableflags);
  std::vector<ContactClass> classes;
  for (const GeomPair& geompair : pairs) number_of_class(classes, class_of(m, geompair));
  sizes.ngeompair = static_cast<int>(pairs.size());
  sizes.ncontactclass = static_cast<int>(classes.size());
  sizes.ncontact = contact_capacity(m, pairs, sizes.ncontact);
  sizes.nrowcontact = std::min(sizes.ncontact, contacts_in_row_space(m, sizes.nlimit, pairs));
  sizes.ndofword = (m.nv + 31) / 32;
  sizes.contactdim = has_cones(m, pairs) ? largest_condim(m, pairs) : 3;
  sizes.ncone = has_cones(m, pairs) ? sizes.ncontact : 0;
  sizes.ncontactdof = sizes.ncontact > 0 ? m.nv : 0;
  sizes.nbodypair = static_cast<int>(body_pairs_of(m, pairs).size());
  sizes.nbodypaircontact = sizes.nbodypair > 0 ? sizes.ncontact : 0;
  sizes.nwide = varies_friction(m) ||
                std::any_of(classes.begin(), classes.end(),
                            [&](const ContactClass& kind) { return stiffness(m, kind) > kStiffRow; });
}

void derive_contacts(const Model<double>& m, const DerivedFields& derived) {
  derive_geoms(m, derived);
  const std::vector<GeomPair> pairs = geom_pairs(m, m.disableflags);
  const std::vector<BodyPair> body_pairs = body_pairs_of(m, pairs);
  std::vector<ContactClass> classes;
  for (std::size_t c = 0; c < pairs.size(); ++c) {
    const int g1 = pairs[c].geom1, g2 = pairs[c].geom2, i = pairs[c].pair;
    derived.geompair_geom1[c] = g1;
    derived.geompair_geom2[c] = g2;
    derived.geompair_types[c] = types_of(m, pairs[c]);
    derived.geompair_bodyid[2 * c] = m.geom_bodyid[g1];
    derived.geompair_bodyid[2 * c + 1] = m.geom_bodyid[g2];
    derived.geom_flags[g1] |= geom_collides;
    derived.geom_flags[g2] |= geom_collides;
    const ContactClass parameters = class_of(m, pairs[c]);
    derived.geompair_class[c] = number_of_class(classes, parameters);
    std::copy(parameters.geoms.begin(), parameters.geoms.end(), derived.geompair_frictiongeom + 2 * c);
    const double gap = i >= 0 ? m.pair_gap[i] : m.geom_gap[g1] + m.geom_gap[g2];
    const double margin = parameters.margin + gap;
    derived.geompair_margin[c] = margin;
    derived.geompair_bound[c] = m.geom_rbound[g1] + m.geom_rbound[g2] + margin;
    derived.geompair_invweight[c] =
        m.body_invweight0[2 * m.geom_bodyid[g1]] + m.body_invweight0[2 * m.geom_bodyid[g2]];
    const std::vector<bool> dofs1 = dofs_of(m, g1), dofs2 = dofs_of(m, g2);
    const auto words = static_cast<std::size_t>(m.ndofword);
    int *const set1 = derived.geompair_dofset1 + c * words, *const set2 =
                                                                derived.geompair_dofset2 + c * words;
    std::fill_n(set1, words, 0);
    std::fill_n(set2, words, 0);
    const auto body_pair = std::find(body_pairs.begin(), body_pairs.end(), bodies_of(m, pairs[c]));
    const int p = body_pair == body_pairs.end() ? -1 : static_cast<int>(body_pair - body_pairs.begin());
    bool any1 = false, any2 = false;
    int count = 0;
    for (int k = m.nv - 1; k >= 0; --k) {
      const bool in1 = dofs1[static_cast<std::size_t>(k)], in2 = dofs2[static_cast<std::size_t>(k)];
      if (in1 == in2) continue;  // neither, or both: it does not move one against the other
      insert_dof(in1 ? set1 : set2, 0, k);
      (in1 ? any1 : any2) = true;
      if (p < 0) continue;
      derived.bodypair_dof[p * m.nv + count] = k;
      derived.bodypair_sign[p * m.nv + count] = in2 ? 1 : -1;
      ++count;
    }
    derived.geompair_couples[c] = any1 && any2;
    if (!any1 && !any2) derived.geompair_class[c] = -1;
    derived.geompair_bodypair[c] = p;
    if (p < 0) continue;
    derived.bodypair_bodyid[p] = m.geom_bodyid[any2 ? g2 : g1];
    derived.bodypair_dofnum[p] = count;
  }
  for (std::size_t k = 0; k < classes.size(); ++k) {
    derived.contactclass_condim[k] = classes[k].condim;
    derived.contactclass_K[k] = classes[k].K;
    derived.contactclass_B[k] = classes[k].B;
    derived.contactclass_frictionB[k] = classes[k].frictionB;
    derived.contactclass_margin[k] = classes[k].margin;
    std::copy(classes[k].friction.begin(), classes[k].friction.end(), derived.contactclass_friction + 5 * k);
    std::copy(classes[k].solimp.begin(), classes[k].solimp.end(), derived.contactclass_solimp + 5 * k);
  }
}

}  // namespace maniple
