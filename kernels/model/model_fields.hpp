// The field tables of Model: every number of the robot that kernels read, with MuJoCo's names and
// layouts (mjmodel.h). The import copies the first tables from mjModel member by member; derive_model
// computes the last one from them. Allocation, digests and device copies are driven by these lines.
#pragma once

#include "kernels/model/sweep_order.hpp"

// Sizes, as in mjModel. nM counts the ancestor-packed rows of the inertia matrix.
#define MANIPLE_MODEL_SIZES(SIZE)           \
  SIZE(nq, "generalized positions")         \
  SIZE(nv, "degrees of freedom")            \
  SIZE(nu, "controls")                      \
  SIZE(nactuator, "actuators")              \
  SIZE(na, "activation states")             \
  SIZE(nbody, "bodies, the world included") \
  SIZE(njnt, "joints")                      \
  SIZE(ntree, "trees of moving bodies")     \
  SIZE(ngeom, "geoms")                      \
  SIZE(npair, "explicit contact pairs")     \
  SIZE(nexclude, "excluded body pairs")     \
  SIZE(nsite, "sites")                      \
  SIZE(ncam, "cameras")                     \
  SIZE(ntendon, "tendons")                  \
  SIZE(nwrap, "objects on tendons")         \
  SIZE(nJten, "numbers in ten_J")           \
  SIZE(nmocap, "mocap bodies")              \
  SIZE(neq, "equality constraints")         \
  SIZE(nsensor, "sensors")                  \
  SIZE(nsensordata, "sensor readings")      \
  SIZE(nM, "elements of the inertia matrix")

// Sizes that the import computes: the rows that a joint or dof can have, whatever the state, and the pairs
// of geoms that may touch. A hinge or slide with a range has two limit rows, lower and upper; a ball has one.
#define MANIPLE_ROW_SIZES(SIZE)                                                                    \
  SIZE(nequality, "rows of equality constraints, active or not")                                   \
  SIZE(nJequality, "numbers of their Jacobian")                                                    \
  SIZE(nJspatial, "numbers of the Jacobians of spatial tendons")                                   \
  SIZE(nmoment, "numbers of the moments of actuators on sites and bodies")                         \
  SIZE(nunsymmetric, "nM if the integrator is implicit, else 0")                                   \
  SIZE(nbiasbody, "6 nbody if the integrator is implicit, else 0")                                 \
  SIZE(nfriction, "dofs and tendons with friction loss")                                           \
  SIZE(nlimit, "limit rows of joints and tendons, active or not")                                  \
  SIZE(nlimitball, "those of them that are ball joints'")                                          \
  SIZE(ngeompair, "pairs of geoms that may touch")                                                 \
  SIZE(ncontactclass, "different sets of contact parameters of these")                             \
  SIZE(ncontact, "contacts of one environment, at most")                                           \
  SIZE(contactdim, "base rows of a contact: 3, or for ConeRows the largest condim")                \
  SIZE(ncontactsensor, "contact sensors")                                                          \
  SIZE(ndistancepair, "pairs of geoms whose distance sensors measure")                             \
  SIZE(ncone, "ncontact if the model has ConeRows, else 0")                                        \
  SIZE(ndofword, "words of a set of dofs, 32 bits each")                                           \
  SIZE(nrowdof, "nv if there are any rows, else 0")                                                \
  SIZE(ncontactdof, "nv if there are any geom pairs, else 0")                                      \
  SIZE(nbodypair, "pairs of bodies with many contacts, see body_pair.hpp")                         \
  SIZE(nbodypaircontact, "ncontact if there are any of these, else 0")                             \
  SIZE(nrowblock, "blocks of three rows of an environment whose Y is computed, at most")           \
  SIZE(nspaceblock, "those of an environment that is solved in row space")                         \
  SIZE(nrowcontact, "contacts up to which an environment is solved in row space; -1: never")       \
  SIZE(ndualrow, "rows of one environment, at most, if they are solved in the dual (PGS), else 0") \
  SIZE(ndualtree, "trees that make islands of these rows; 1: all rows are one")                    \
  SIZE(nsolvertree, "trees that make islands, 1: all are one, if the solver is MuJoCo's, else 0")  \
  SIZE(ncgdof, "nv if its directions are conjugate, else 0")                                       \
  SIZE(nnosliprow, "rows whose forces noslip iterations change, see NoslipRows")                   \
  SIZE(nnosliptree, "trees that make islands of these rows; 1: all rows are one")                  \
  SIZE(nwide, "numbers of wide_data if contacts are too stiff for single precision, else 0")       \
  SIZE(ndualsweep, "sweeps in dual_order")                                                         \
  SIZE(ndualorder, "most rows in dual_order")                                                      \
  SIZE(nmodelvalue, "numbers of the model that each environment has for itself")                   \
  SIZE(nxfrc, "nbody if forces from outside act on bodies, else 0")                                \
  SIZE(nhistory, "controls that actuators with a delay remember")                                  \
  SIZE(nsensorhistory, "numbers that sensors with a delay or an interval remember")                \
  SIZE(nsensorkept, "largest dimension of a sensor with a delay")                                  \
  SIZE(nqfrc, "nv if forces from outside act on dofs, else 0")                                     \
  SIZE(nvariedfriction, "nfriction if rows of dry friction differ between environments, else 0")   \
  SIZE(nvariedcontact, "ncontact if friction or weight of contacts differ, else 0")

// Sizes of the meshes of geoms that may touch, of the height fields, and of the meshes that rays may meet.
#define MANIPLE_MESH_SIZES(SIZE)                             \
  SIZE(nmesh, "meshes")                                      \
  SIZE(nmeshvert, "their vertices")                          \
  SIZE(nmeshedge, "lists of neighbours, with ends")          \
  SIZE(nmeshpoly, "faces of the hulls")                      \
  SIZE(nmeshpolyvert, "corners of these faces")              \
  SIZE(nmeshpolymap, "faces around the vertices, all lists") \
  SIZE(nhfield, "height fields")                             \
  SIZE(nhfielddata, "their heights")                         \
  SIZE(nraynode, "boxes in the trees of meshes for rays")    \
  SIZE(nraytriangle, "triangles of these meshes")

#define MANIPLE_ALL_SIZES(SIZE) \
  MANIPLE_MODEL_SIZES(SIZE)     \
  MANIPLE_MESH_SIZES(SIZE)      \
  MANIPLE_ROW_SIZES(SIZE)

// Options, as in mjOption: integers, real numbers and real vectors with their lengths.
#define MANIPLE_MODEL_OPTIONS(INTEGER, REAL, VECTOR)              \
  INTEGER(integrator, "mjtIntegrator")                            \
  INTEGER(disableflags, "mjtDisableBit")                          \
  INTEGER(disableactuator, "bits of disabled actuator groups")    \
  INTEGER(iterations, "of the solver, at most")                   \
  INTEGER(ls_iterations, "of its line search, at most")           \
  INTEGER(noslip_iterations, "after the solver, at most")         \
  INTEGER(ccd_iterations, "of GJK and EPA, at most")              \
  INTEGER(solver, "mjtSolver")                                    \
  INTEGER(jacobian, "mjtJacobian")                                \
  INTEGER(cone, "mjtCone")                                        \
  REAL(timestep, "s")                                             \
  REAL(tolerance, "of the solver, for scaled cost and gradient")  \
  REAL(ls_tolerance, "of its line search")                        \
  REAL(noslip_tolerance, "of noslip iterations, for scaled cost") \
  REAL(ccd_tolerance, "m, of GJK and EPA")                        \
  REAL(impratio, "friction to normal impedance of contacts")      \
  REAL(density, "kg/m^3, of the fluid")                           \
  REAL(viscosity, "kg/(m s), of the fluid")                       \
  VECTOR(wind, 3, "m/s, velocity of the fluid")                   \
  VECTOR(magnetic, 3, "magnetic flux, world frame")               \
  VECTOR(gravity, 3, "m/s^2")

// Arrays copied from mjModel: INTEGER for int*, mjtByte* and mjtBool*, REAL for mjtNum*.
//        name                   extent          meaning
#define MANIPLE_MODEL_FIELDS(INTEGER, REAL)                                                             \
  INTEGER(body_parentid, nbody, "parent body")                                                          \
  INTEGER(body_rootid, nbody, "root of the tree below the world")                                       \
  INTEGER(body_jntnum, nbody, "joints of this body")                                                    \
  INTEGER(body_jntadr, nbody, "first joint; -1: none")                                                  \
  INTEGER(body_dofnum, nbody, "dofs of this body")                                                      \
  INTEGER(body_dofadr, nbody, "first dof; -1: none")                                                    \
  INTEGER(body_weldid, nbody, "body that it is welded to, at the top")                                  \
  INTEGER(body_treeid, nbody, "tree of moving bodies that it is in; -1: none")                          \
  INTEGER(body_mocapid, nbody, "number among the mocap bodies; -1: none")                               \
  INTEGER(body_geomnum, nbody, "geoms of this body")                                                    \
  INTEGER(body_geomadr, nbody, "first geom; -1: none")                                                  \
  INTEGER(body_bvhadr, nbody, "first bounding volume; -1: none")                                        \
  INTEGER(jnt_type, njnt, "mjtJoint")                                                                   \
  INTEGER(jnt_qposadr, njnt, "first generalized position")                                              \
  INTEGER(jnt_dofadr, njnt, "first dof")                                                                \
  INTEGER(jnt_limited, njnt, "does range hold")                                                         \
  INTEGER(jnt_actfrclimited, njnt, "does actfrcrange hold")                                             \
  INTEGER(jnt_actgravcomp, njnt, "is gravity compensation applied by actuators")                        \
  INTEGER(dof_bodyid, nv, "body of the dof")                                                            \
  INTEGER(dof_jntid, nv, "joint of the dof")                                                            \
  INTEGER(dof_parentid, nv, "parent dof; -1: none")                                                     \
  INTEGER(dof_treeid, nv, "tree of the dof")                                                            \
  INTEGER(dof_Madr, nv, "address of the diagonal in qM")                                                \
  INTEGER(dof_simplenum, nv, "consecutive simple dofs from here on")                                    \
  INTEGER(geom_type, ngeom, "mjtGeom")                                                                  \
  INTEGER(geom_bodyid, ngeom, "body of the geom")                                                       \
  INTEGER(geom_contype, ngeom, "contact types, as bits")                                                \
  INTEGER(geom_conaffinity, ngeom, "types that it may touch, as bits")                                  \
  INTEGER(geom_condim, ngeom, "dimensions of its contacts")                                             \
  INTEGER(geom_priority, ngeom, "whose contact parameters hold")                                        \
  INTEGER(pair_geom1, npair, "first geom of an explicit pair")                                          \
  INTEGER(pair_geom2, npair, "second geom")                                                             \
  INTEGER(pair_signature, npair, "body1 << 16 + body2, ascending")                                      \
  INTEGER(pair_dim, npair, "dimensions of its contacts")                                                \
  INTEGER(exclude_signature, nexclude, "body1 << 16 + body2 of excluded bodies")                        \
  INTEGER(site_bodyid, nsite, "body of the site")                                                       \
  INTEGER(site_type, nsite, "mjtGeom")                                                                  \
  INTEGER(cam_bodyid, ncam, "body of the camera")                                                       \
  INTEGER(cam_resolution, 2 * ncam, "pixels: width, height")                                            \
  INTEGER(tendon_adr, ntendon, "first object of the tendon in wrap_*")                                  \
  INTEGER(tendon_num, ntendon, "number of its objects")                                                 \
  INTEGER(tendon_limited, ntendon, "does range hold")                                                   \
  INTEGER(tendon_actfrclimited, ntendon, "does actfrcrange hold")                                       \
  INTEGER(ten_J_rownnz, ntendon, "numbers in the row of ten_J")                                         \
  INTEGER(ten_J_rowadr, ntendon, "first number of the row")                                             \
  INTEGER(ten_J_colind, nJten, "dof of each number, ascending in a row")                                \
  INTEGER(wrap_type, nwrap, "mjtWrap")                                                                  \
  INTEGER(wrap_objid, nwrap, "joint, site or geom on the tendon")                                       \
  INTEGER(eq_type, neq, "mjtEq")                                                                        \
  INTEGER(eq_obj1id, neq, "first object")                                                               \
  INTEGER(eq_obj2id, neq, "second object; -1: none")                                                    \
  INTEGER(eq_objtype, neq, "mjtObj of both")                                                            \
  INTEGER(eq_active0, neq, "is it active at reset")                                                     \
  INTEGER(actuator_trntype, nactuator, "mjtTrn")                                                        \
  INTEGER(actuator_dyntype, nactuator, "mjtDyn")                                                        \
  INTEGER(actuator_gaintype, nactuator, "mjtGain")                                                      \
  INTEGER(actuator_biastype, nactuator, "mjtBias")                                                      \
  INTEGER(actuator_ctrladr, nactuator, "first control")                                                 \
  INTEGER(actuator_ctrlnum, nactuator, "number of its controls")                                        \
  INTEGER(actuator_ctrlspec, nactuator, "what they are, as bits: see CtrlInput")                        \
  INTEGER(actuator_trnid, 2 * nactuator, "what the actuator acts on, and against")                      \
  INTEGER(actuator_actadr, nactuator, "first activation; -1: none")                                     \
  INTEGER(actuator_actnum, nactuator, "number of its activations")                                      \
  INTEGER(actuator_history, 2 * nactuator,                                                              \
          "controls it remembers, order of interpolation: 0, 1, or 2 for cubic")                        \
  INTEGER(actuator_group, nactuator, "group, for disableactuator")                                      \
  INTEGER(actuator_actlimited, nactuator, "does actrange hold")                                         \
  INTEGER(actuator_actearly, nactuator, "force from the next activation")                               \
  INTEGER(actuator_forcelimited, nactuator, "does forcerange hold")                                     \
  INTEGER(actuator_ctrllimited, nu, "does the control's range hold")                                    \
  INTEGER(sensor_type, nsensor, "mjtSensor")                                                            \
  INTEGER(sensor_datatype, nsensor, "mjtDataType")                                                      \
  INTEGER(sensor_objtype, nsensor, "mjtObj of what is read")                                            \
  INTEGER(sensor_objid, nsensor, "element that is read")                                                \
  INTEGER(sensor_reftype, nsensor, "mjtObj of the reference frame")                                     \
  INTEGER(sensor_refid, nsensor, "reference frame; -1: the world")                                      \
  INTEGER(sensor_adr, nsensor, "first reading")                                                         \
  INTEGER(sensor_history, 2 * nsensor,                                                                  \
          "readings it remembers, order of interpolation: 0, 1, or 2 for cubic")                        \
  INTEGER(sensor_dim, nsensor, "number of readings")                                                    \
  INTEGER(sensor_intprm, 3 * nsensor, "parameters of contacts and rangefinders")                        \
  REAL(qpos0, nq, "generalized positions at reset")                                                     \
  REAL(qpos_spring, nq, "positions without spring force")                                               \
  REAL(body_pos, 3 * nbody, "offset from the parent body")                                              \
  REAL(body_quat, 4 * nbody, "rotation from the parent body")                                           \
  REAL(body_ipos, 3 * nbody, "center of mass in the body frame")                                        \
  REAL(body_iquat, 4 * nbody, "inertial frame in the body frame")                                       \
  REAL(body_mass, nbody, "kg")                                                                          \
  REAL(body_subtreemass, nbody, "kg")                                                                   \
  REAL(body_inertia, 3 * nbody, "kg m^2, in the inertial frame")                                        \
  REAL(body_gravcomp, nbody, "fraction of the weight that is compensated")                              \
  REAL(body_invweight0, 2 * nbody, "1/kg, 1/(kg m^2): mean inverse inertia")                            \
  REAL(jnt_pos, 3 * njnt, "anchor in the body frame")                                                   \
  REAL(jnt_axis, 3 * njnt, "axis in the body frame")                                                    \
  REAL(jnt_stiffness, njnt, "linear spring coefficient")                                                \
  REAL(jnt_stiffnesspoly, 2 * njnt, "higher spring coefficients")                                       \
  REAL(jnt_range, 2 * njnt, "m or rad")                                                                 \
  REAL(jnt_margin, njnt, "distance at which a limit begins to act")                                     \
  REAL(jnt_solref, 2 * njnt, "reference acceleration of the limit")                                     \
  REAL(jnt_solimp, 5 * njnt, "impedance of the limit")                                                  \
  REAL(jnt_actfrcrange, 2 * njnt, "range of the total actuator force")                                  \
  REAL(dof_M0, nv, "diagonal of M at qpos0, which simple dofs keep")                                    \
  REAL(dof_armature, nv, "rotor inertia or mass")                                                       \
  REAL(dof_frictionloss, nv, "dry friction: largest force")                                             \
  REAL(dof_solref, 2 * nv, "reference acceleration of dry friction")                                    \
  REAL(dof_solimp, 5 * nv, "impedance of dry friction")                                                 \
  REAL(dof_invweight0, nv, "1/kg or 1/(kg m^2): mean inverse inertia at qpos0")                         \
  REAL(dof_damping, nv, "linear damping coefficient")                                                   \
  REAL(dof_dampingpoly, 2 * nv, "higher damping coefficients")                                          \
  REAL(geom_size, 3 * ngeom, "m: half sizes or radii, depends on the type")                             \
  REAL(geom_rbound, ngeom, "m: radius of the bounding sphere; 0: unbounded")                            \
  REAL(geom_aabb, 6 * ngeom, "m: center and half sizes of the box around it")                           \
  REAL(geom_pos, 3 * ngeom, "position in the body frame")                                               \
  REAL(geom_quat, 4 * ngeom, "rotation in the body frame")                                              \
  REAL(geom_rgba, 4 * ngeom, "color, which no kernel reads, and opacity")                               \
  REAL(geom_friction, 3 * ngeom, "sliding, torsional, rolling")                                         \
  REAL(geom_solmix, ngeom, "weight of its contact parameters")                                          \
  REAL(geom_solref, 2 * ngeom, "reference acceleration of its contacts")                                \
  REAL(geom_solimp, 5 * ngeom, "impedance of its contacts")                                             \
  REAL(geom_fluid, kGeomFluid* ngeom,                                                                   \
       "ellipsoid in a fluid: 1 if it is one, drags, lifts, virtual mass and inertia")                  \
  REAL(geom_margin, ngeom, "m: distance below which contacts push")                                     \
  REAL(geom_gap, ngeom, "m: contacts are listed this much earlier")                                     \
  REAL(pair_solref, 2 * npair, "reference acceleration of the pair's contacts")                         \
  REAL(pair_solreffriction, 2 * npair, "that of friction, if not zero")                                 \
  REAL(pair_solimp, 5 * npair, "impedance")                                                             \
  REAL(pair_margin, npair, "m")                                                                         \
  REAL(pair_gap, npair, "m")                                                                            \
  REAL(pair_friction, 5 * npair, "two sliding, torsional, two rolling")                                 \
  REAL(site_size, 3 * nsite, "m: half sizes or radii, depends on the type")                             \
  REAL(site_pos, 3 * nsite, "position in the body frame")                                               \
  REAL(site_quat, 4 * nsite, "rotation in the body frame")                                              \
  REAL(cam_pos, 3 * ncam, "position in the body frame")                                                 \
  REAL(cam_quat, 4 * ncam, "rotation in the body frame")                                                \
  REAL(cam_fovy, ncam, "degrees: field of view")                                                        \
  REAL(cam_sensorsize, 2 * ncam, "m: width, height; 0: fovy holds")                                     \
  REAL(cam_intrinsic, 4 * ncam, "m: focal length, principal point")                                     \
  REAL(tendon_range, 2 * ntendon, "m or rad")                                                           \
  REAL(tendon_margin, ntendon, "distance at which a limit begins to act")                               \
  REAL(tendon_solref_lim, 2 * ntendon, "reference acceleration of the limit")                           \
  REAL(tendon_solimp_lim, 5 * ntendon, "impedance of the limit")                                        \
  REAL(tendon_frictionloss, ntendon, "dry friction: largest force")                                     \
  REAL(tendon_solref_fri, 2 * ntendon, "reference acceleration of dry friction")                        \
  REAL(tendon_solimp_fri, 5 * ntendon, "impedance of dry friction")                                     \
  REAL(tendon_invweight0, ntendon, "mean inverse inertia at qpos0")                                     \
  REAL(tendon_actfrcrange, 2 * ntendon, "range of the total actuator force")                            \
  REAL(tendon_armature, ntendon, "inertia of its length")                                               \
  REAL(tendon_stiffness, ntendon, "linear spring coefficient")                                          \
  REAL(tendon_stiffnesspoly, 2 * ntendon, "higher spring coefficients")                                 \
  REAL(tendon_damping, ntendon, "linear damping coefficient")                                           \
  REAL(tendon_dampingpoly, 2 * ntendon, "higher damping coefficients")                                  \
  REAL(tendon_lengthspring, 2 * ntendon, "lengths between which no spring acts")                        \
  REAL(tendon_length0, ntendon, "lengths at qpos0")                                                     \
  REAL(eq_solref, 2 * neq, "reference of the rows")                                                     \
  REAL(eq_solimp, 5 * neq, "impedance of the rows")                                                     \
  REAL(eq_data, kEqualityData* neq, "anchors, relative pose, polynomial")                               \
  REAL(wrap_prm, nwrap, "coefficient of a joint, divisor, or side site")                                \
  REAL(actuator_dynprm, 10 * nactuator, "dynamics parameters")                                          \
  REAL(actuator_gainprm, 10 * nactuator, "gain parameters")                                             \
  REAL(actuator_biasprm, 10 * nactuator, "bias parameters")                                             \
  REAL(actuator_actrange, 2 * nactuator, "range of the activation")                                     \
  REAL(actuator_damping, nactuator, "damping that the actuator adds to its joint")                      \
  REAL(actuator_dampingpoly, 2 * nactuator, "higher coefficients of the same")                          \
  REAL(actuator_armature, nactuator, "armature that the actuator adds to its joint")                    \
  REAL(actuator_forcerange, 2 * nactuator, "range of the force")                                        \
  REAL(actuator_ctrlrange, 2 * nu, "range of the control")                                              \
  REAL(actuator_delay, nactuator, "s: age of the control that acts")                                    \
  REAL(actuator_gear, 6 * nactuator, "scale of length and force")                                       \
  REAL(actuator_cranklength, nactuator, "m: rod of a slider-crank")                                     \
  REAL(actuator_lengthrange, 2 * nactuator, "range of a muscle's length")                               \
  REAL(actuator_acc0, nactuator, "acceleration by a unit of force at qpos0")                            \
  REAL(sensor_delay, nsensor, "delay of the readings")                                                  \
  REAL(sensor_interval, 2 * nsensor, "time from one reading to the next, and its phase; 0: every step") \
  REAL(sensor_cutoff, nsensor, "clamp of the readings; 0: none")

// The convex hulls of the meshes that may touch, from mjModel's arrays of the same names: without other
// meshes and vertices, neighbours without their faces (src/model_import/meshes.hpp). Vertices and faces are
// counted from 0 in each mesh.
#define MANIPLE_MESH_FIELDS(INTEGER, REAL)                                                             \
  INTEGER(geom_dataid, ngeom, "its height field, or mesh that may touch; -1: none")                    \
  INTEGER(mesh_vertadr, nmesh, "first vertex")                                                         \
  INTEGER(mesh_vertnum, nmesh, "number of vertices")                                                   \
  INTEGER(mesh_extrema, 27 * nmesh, "vertices where a search begins; -1: looks at all")                \
  INTEGER(mesh_polyadr, nmesh, "first face")                                                           \
  INTEGER(mesh_edgeadr, nmeshvert, "first neighbour in mesh_edge; -1: never climbed from")             \
  INTEGER(mesh_edge, nmeshedge, "neighbours of each vertex, then -1")                                  \
  INTEGER(mesh_polymapadr, nmeshvert, "first of the faces around the vertex, in mesh_polymap")         \
  INTEGER(mesh_polymapnum, nmeshvert, "number of these")                                               \
  INTEGER(mesh_polymap, nmeshpolymap, "faces")                                                         \
  INTEGER(mesh_polyvertadr, nmeshpoly, "first corner of the face, in mesh_polyvert")                   \
  INTEGER(mesh_polyvertnum, nmeshpoly, "number of its corners")                                        \
  INTEGER(mesh_polyvert, nmeshpolyvert, "vertices, counterclockwise seen from outside")                \
  REAL(mesh_vert, 3 * nmeshvert, "m: in the geom's frame")                                             \
  REAL(mesh_polynormal, 3 * nmeshpoly, "unit normals of the faces, outward")                           \
  INTEGER(hfield_nrow, nhfield, "rows of heights, along y")                                            \
  INTEGER(hfield_ncol, nhfield, "columns of heights, along x")                                         \
  INTEGER(hfield_adr, nhfield, "first height in hfield_data")                                          \
  REAL(hfield_size, 4 * nhfield, "m: half sizes along x and y, largest height, thickness of the base") \
  REAL(hfield_data, nhfielddata, "heights, row by row, as shares of the largest")                      \
  INTEGER(geom_visible, ngeom, "its color is not fully transparent, so that rays meet it")             \
  INTEGER(geom_raynode, ngeom, "root of its mesh's tree; -1: no mesh, or no ray looks for it")         \
  INTEGER(raynode_end, nraynode, "nodes from the root to the last one below this one")                 \
  INTEGER(raynode_triangle, nraynode, "triangle in the box; -1: the nodes that follow have them")      \
  REAL(raynode_box, 6 * nraynode, "m: center and half sizes, in the geom's frame")                     \
  REAL(raytriangle_vert, 9 * nraytriangle, "m: corners, in the geom's frame")

// Arrays computed once from the ones above (src/model_import/derive.hpp), so that the lanes compute nothing
// that is the same for all environments.
#define MANIPLE_MODEL_DERIVED_FIELDS(INTEGER, REAL)                                                     \
  INTEGER(body_flags, nbody, "BodyFlag bits: what of this body can be skipped")                         \
  INTEGER(body_lastdof, nbody, "last dof that moves this body; -1: none")                               \
  INTEGER(body_freealone, nbody,                                                                        \
          "bodies of its tree, if the free joint of this one is its only joint, else 0")                \
  INTEGER(body_childnum, nbody, "children, but for those of bodies that do not move")                   \
  INTEGER(body_childadr, nbody, "where they begin in body_child")                                       \
  INTEGER(body_child, nbody, "children body by body, descending")                                       \
  INTEGER(level_bodynum, nbody, "bodies that are level + 1 steps away from the world")                  \
  INTEGER(level_bodyadr, nbody, "where they begin in level_body")                                       \
  INTEGER(level_body, nbody, "bodies level by level")                                                   \
  INTEGER(jnt_flags, njnt, "JointFlag bits")                                                            \
  INTEGER(dof_ancestors, nv, "number of ancestor dofs")                                                 \
  INTEGER(dof_simple, nv, "the inertia of this dof is constant and its row diagonal")                   \
  INTEGER(dof_translation, nv, "cdof has no rotational part")                                           \
  INTEGER(actuator_historyadr, nactuator, "first in ctrl_history; -1: no delay")                        \
  INTEGER(sensor_historyadr, nsensor, "first in sensordata_history; -1: no delay or interval")          \
  INTEGER(actuator_slotadr, 5 * nactuator, "activation of each ActuatorSlot; -1: none")                 \
  INTEGER(actuator_disabled, nactuator, "belongs to a disabled group")                                  \
  INTEGER(geom_flags, ngeom, "GeomFlag bits: what of its pose the contacts need")                       \
  INTEGER(dof_descendants, nv, "number of dofs that it carries, which follow it directly")              \
  INTEGER(dof_Mrootadr, nv, "address in qM of its row's last element")                                  \
  INTEGER(dof_ancestorlist, nv*(nv - 1) / 2, "ancestors of dof i from i*(i-1)/2 on, nearest first")     \
  INTEGER(dof_descendantlist, nv*(nv - 1) / 2, "descendants of dof i, ascending, see below_address")    \
  INTEGER(dof_rootid, nv, "root of the tree of the dof's body")                                         \
  INTEGER(dof_coupledset, nv* ndofword, "ancestors and dofs before it on tendons with rows, as bits")   \
  INTEGER(geompair_geom1, ngeompair, "geom of the lower type")                                          \
  INTEGER(geompair_geom2, ngeompair, "geom of the higher type")                                         \
  INTEGER(geompair_types, ngeompair, "row of their types in kGeomPairTypes; -1: they have no contacts") \
  INTEGER(geompair_bodyid, 2 * ngeompair, "bodies of the two geoms")                                    \
  INTEGER(geompair_class, ngeompair, "its contact parameters; -1: no dof moves it, no rows")            \
  INTEGER(geompair_couples, ngeompair, "moves dofs that are not ancestors of each other")               \
  INTEGER(geompair_dofset1, ngeompair* ndofword, "dofs that move geom1 alone, as bits")                 \
  INTEGER(geompair_dofset2, ngeompair* ndofword, "dofs that move geom2 alone, as bits")                 \
  INTEGER(geompair_bodypair, ngeompair, "body pair of its contacts; -1: none")                          \
  INTEGER(geompair_frictiongeom, 2 * ngeompair,                                                         \
          "geoms whose friction counts, the larger one; -1 - i: that of the explicit pair i does")      \
  INTEGER(bodypair_bodyid, nbodypair, "body whose position is the body pair's point")                   \
  INTEGER(bodypair_dofnum, nbodypair, "dofs that move the two bodies against each other")               \
  INTEGER(bodypair_dof, nbodypair* nv, "these dofs, leaves first")                                      \
  INTEGER(bodypair_sign, nbodypair* nv, "+1 where they move one body, -1 where the other")              \
  INTEGER(contactclass_condim, ncontactclass, "dimensions")                                             \
  INTEGER(dual_order, (order_address(ndualsweep, ndualorder + 1) + 3) / 4, "see sweep_order.hpp")       \
  INTEGER(eq_rowadr, neq, "first row of the equality constraint")                                       \
  INTEGER(eq_rownum, neq, "number of its rows")                                                         \
  INTEGER(eq_bodyid, 2 * neq, "bodies that a connect or weld holds; -1: none")                          \
  INTEGER(equality_J_rowadr, nequality, "first number of the row in equality_J")                        \
  INTEGER(equality_J_rownnz, nequality, "how many there are")                                           \
  INTEGER(equality_J_colind, nJequality, "their dofs, ascending")                                       \
  INTEGER(ten_J_spatialadr, ntendon, "first number of the row in Data::ten_J; -1: a fixed tendon's")    \
  INTEGER(moment_rowadr, nactuator, "first number of the actuator's moment; -1: on no site or body")    \
  INTEGER(moment_rownnz, nactuator, "how many there are")                                               \
  INTEGER(moment_colind, nmoment, "their dofs, ascending")                                              \
  INTEGER(friction_dofid, nfriction, "dof of the row; -1: a tendon's")                                  \
  INTEGER(friction_tendonid, nfriction, "tendon of the row; -1: a dof's")                               \
  INTEGER(limit_dofid, nlimit, "first dof of the joint of the row; -1: a tendon's")                     \
  INTEGER(limit_qposadr, nlimit, "its first position; -1: a tendon's")                                  \
  INTEGER(limit_tendonid, nlimit, "tendon of the row; -1: a joint's")                                   \
  INTEGER(limit_side, nlimit, "+1: lower limit, -1: upper limit, 0: ball joint")                        \
  INTEGER(limit_ballid, nlimit, "number of the row among those of ball joints; -1: none")               \
  INTEGER(sensor_bodyid, nsensor, "body of the frame that is read; -1: no frame")                       \
  INTEGER(sensor_contactid, nsensor, "number among the contact sensors; -1: another")                   \
  INTEGER(sensor_contactmatch, ncontactsensor* ngeompair,                                               \
          "1: the sensor reads the contacts of the pair, -1: from the other side, 0: not")              \
  INTEGER(sensor_refbodyid, nsensor, "body of the reference frame; -1: the world's frame")              \
  INTEGER(sensor_pairadr, nsensor, "first pair of geoms whose distance is measured")                    \
  INTEGER(sensor_pairnum, nsensor, "number of these")                                                   \
  INTEGER(distancepair_geom, 2 * ndistancepair, "geom of the object, geom of the reference")            \
  INTEGER(distancepair_types, ndistancepair, "row of their types in kGeomPairTypes")                    \
  REAL(body_imat, 9 * nbody, "inertial frame in the body frame, as a matrix")                           \
  REAL(body_inertialocal, 6 * nbody, "kg m^2: xx yy zz xy xz yz about the com, in the body frame")      \
  REAL(body_symmetry, 5 * nbody,                                                                        \
       "symmetric bodies: inertia across the axis, along minus across, axis in the body frame")         \
  REAL(body_freecom, 3 * nbody, "m: center of mass of these bodies, in the body frame")                 \
  REAL(body_freeinertia, 9 * nbody, "kg m^2: their inertia about it, in the body frame, as a matrix")   \
  REAL(body_inversesubtreemass, nbody, "1/kg; 0: no mass below")                                        \
  REAL(geom_mat, 9 * ngeom, "rotation in the body frame, as a matrix")                                  \
  REAL(geompair_margin, ngeompair, "m: margin and gap: contacts are listed below this distance")        \
  REAL(geompair_bound, ngeompair, "m: no contact if the bounding spheres are further apart")            \
  REAL(geompair_invweight, ngeompair, "1/kg: inverse weight of both bodies")                            \
  REAL(contactclass_friction, 5 * ncontactclass, "sliding along the tangents, spinning, rolling")       \
  REAL(contactclass_frictionB, ncontactclass, "1/s: damping of friction in an elliptic cone")           \
  REAL(contactclass_K, ncontactclass, "1/s^2: stiffness of the reference acceleration")                 \
  REAL(contactclass_B, ncontactclass, "1/s: damping of the reference acceleration")                     \
  REAL(contactclass_solimp, 5 * ncontactclass, "impedance, within its bounds")                          \
  REAL(contactclass_margin, ncontactclass, "m: contacts push below this distance")                      \
  REAL(site_mat, 9 * nsite, "rotation in the body frame, as a matrix")                                  \
  REAL(dof_totalarmature, nv, "armature of the dof and of its joint's actuators")                       \
  REAL(dof_totaldamping, nv, "damping of the dof and of its joint's actuators")                         \
  REAL(dof_totaldampingpoly, 2 * nv, "higher coefficients of the same")                                 \
  REAL(eq_pos, 6 * neq, "m: the two points that are held, in the frames of their bodies")               \
  REAL(eq_quat, 8 * neq, "orientations that are held, there")                                           \
  REAL(equality_J_coef, 2 * nJequality, "part of either object in the number of equality_J")            \
  REAL(equality_invweight, nequality, "mean inverse inertia at qpos0")                                  \
  REAL(equality_K, neq, "1/s^2: stiffness of the reference acceleration")                               \
  REAL(equality_B, neq, "1/s: damping of the reference acceleration")                                   \
  REAL(equality_solimp, 5 * neq, "impedance, within its bounds")                                        \
  REAL(friction_D, nfriction, "inverse of the row's regularization")                                    \
  REAL(friction_impedance, nfriction, "constant impedance of the row")                                  \
  REAL(friction_B, nfriction, "1/s: damping of the reference acceleration")                             \
  REAL(friction_loss, nfriction, "largest force of the row")                                            \
  REAL(limit_bound, nlimit, "m or rad: the end of the range that the row keeps")                        \
  REAL(limit_margin, nlimit, "m or rad: the row acts below this distance")                              \
  REAL(limit_invweight, nlimit, "mean inverse inertia at qpos0")                                        \
  REAL(limit_K, nlimit, "1/s^2: stiffness of the reference acceleration")                               \
  REAL(limit_B, nlimit, "1/s: damping of the reference acceleration")                                   \
  REAL(limit_solimp, 5 * nlimit, "impedance, within its bounds")                                        \
  REAL(actuator_delaysteps, nactuator, "time steps by which its control is delayed")                    \
  REAL(sensor_delaysteps, nsensor, "time steps by which its readings are delayed")                      \
  REAL(sensor_intervalsteps, nsensor, "time steps from one reading to the next; 0: 1")                  \
  REAL(sensordata_history0, nsensorhistory, "sensordata_history after a reset")                         \
  REAL(actuator_inversetau, nactuator, "1/s: one over the time constant of a filter")                   \
  REAL(actuator_step, nactuator, "s: act changes by act_dot times this in one time step")               \
  REAL(body_fluid, 8 * nbody,                                                                           \
       "of a body in a fluid: viscous torque and force over velocity, and drag torque and force "       \
       "over its square, along the three axes of the inertial frame")                                   \
  REAL(ten_J, nJten, "coefficient of the dof in the length of a fixed tendon")                          \
  REAL(ten_rowJ, nJten, "the same in the tendon's constraint rows, see derive_tendons")                 \
  REAL(tendon_totalarmature, ntendon, "armature of the tendon and of its actuators")                    \
  REAL(tendon_totaldamping, ntendon, "damping of the tendon and of its actuators")                      \
  REAL(tendon_totaldampingpoly, 2 * ntendon, "higher coefficients of the same")                         \
  REAL(sensor_pos, 3 * nsensor, "of the frame that is read, in its body's frame")                       \
  REAL(sensor_quat, 4 * nsensor, "its rotation there")                                                  \
  REAL(sensor_refpos, 3 * nsensor, "of the reference frame, in its body's frame")                       \
  REAL(sensor_refquat, 4 * nsensor, "its rotation there")                                               \
  REAL(sensor_projection, 4 * nsensor, "pixels: focal lengths, middle of the camera's picture")         \
  REAL(actuator_period, nactuator, "of the setpoint of a rotation; 0: none")

// Fields of which each environment may have values of its own: those that events of a task set. The numbers
// are in State::model_values from Model::varied on; -1 there: the field is the same for all. Of each row in
// the model, the first numbers vary, as many as kernels read.
//      name, rows, numbers of a row that vary, all of them, what the rows are of (FieldElement), unit,
//      meaning
#define MANIPLE_VARYING_FIELDS(FIELD)                                                                       \
  FIELD(gravity, 1, 3, 3, none, "m/s^2", "gravity")                                                         \
  FIELD(qpos0, nq, 1, 1, qpos, "m or rad", "generalized position at reset, zero of each hinge and slide")   \
  FIELD(body_pos, nbody, 3, 3, body, "m", "position in the frame of the parent body")                       \
  FIELD(body_quat, nbody, 4, 4, body, "1", "orientation in the frame of the parent body, of any length")    \
  FIELD(body_mass, nbody, 1, 1, body, "kg", "mass of the body")                                             \
  FIELD(body_ipos, nbody, 3, 3, body, "m", "center of mass in the body frame")                              \
  FIELD(body_inertia, nbody, 3, 3, body, "kg m^2", "principal moments of inertia")                          \
  FIELD(jnt_range, njnt, 2, 2, joint, "m or rad", "range of the joint, where it is limited")                \
  FIELD(jnt_stiffness, njnt, 1, 1, joint, "N/m or N m/rad", "linear spring coefficient")                    \
  FIELD(dof_damping, nv, 1, 1, dof, "N s/m or N m s/rad", "linear damping coefficient")                     \
  FIELD(dof_armature, nv, 1, 1, dof, "kg or kg m^2", "rotor inertia or mass")                               \
  FIELD(dof_frictionloss, nv, 1, 1, dof, "N or N m", "dry friction: largest force")                         \
  FIELD(geom_pos, ngeom, 3, 3, geom, "m", "position of the geom in the frame of its body")                  \
  FIELD(geom_quat, ngeom, 4, 4, geom, "1",                                                                  \
        "orientation of the geom in the frame of its body, of any length")                                  \
  FIELD(geom_size, ngeom, 3, 3, geom, "m",                                                                  \
        "radii and half sizes of spheres, capsules, ellipsoids, cylinders and boxes")                       \
  FIELD(geom_rgba, ngeom, 3, 4, geom, "1", "color of the geom in pictures: red, green, blue")               \
  FIELD(geom_friction, ngeom, 1, 3, geom, "1", "sliding friction of the geom")                              \
  FIELD(pair_friction, npair, 2, 5, pair, "1", "sliding friction of the explicit pair, along its tangents") \
  FIELD(site_pos, nsite, 3, 3, site, "m", "position of the site in the frame of its body")                  \
  FIELD(actuator_gainprm, nactuator, 3, 10, actuator, "actuator", "gain: constant, by length, by velocity") \
  FIELD(actuator_biasprm, nactuator, 3, 10, actuator, "actuator", "bias: constant, by length, by velocity") \
  FIELD(actuator_forcerange, nactuator, 2, 2, actuator, "N or N m", "range of the force, where it is limited")

// What follows from them, and so varies with them (physics/set_const.hpp).
//      name, rows, numbers of a row that vary, all of them
#define MANIPLE_CONSEQUENT_FIELDS(FIELD)      \
  FIELD(body_subtreemass, nbody, 1, 1)        \
  FIELD(body_inversesubtreemass, nbody, 1, 1) \
  FIELD(body_inertialocal, nbody, 6, 6)       \
  FIELD(body_freecom, nbody, 3, 3)            \
  FIELD(body_freeinertia, nbody, 9, 9)        \
  FIELD(body_fluid, nbody, 8, 8)              \
  FIELD(body_invweight0, nbody, 2, 2)         \
  FIELD(dof_M0, nv, 1, 1)                     \
  FIELD(dof_totalarmature, nv, 1, 1)          \
  FIELD(dof_totaldamping, nv, 1, 1)           \
  FIELD(geom_rbound, ngeom, 1, 1)             \
  FIELD(sensor_pos, nsensor, 3, 3)            \
  FIELD(sensor_quat, nsensor, 4, 4)           \
  FIELD(sensor_refpos, nsensor, 3, 3)         \
  FIELD(sensor_refquat, nsensor, 4, 4)        \
  FIELD(eq_pos, 2 * neq, 3, 3)                \
  FIELD(eq_quat, 2 * neq, 4, 4)               \
  FIELD(friction_D, nfriction, 1, 1)          \
  FIELD(friction_loss, nfriction, 1, 1)       \
  FIELD(equality_invweight, nequality, 1, 1)  \
  FIELD(limit_bound, nlimit, 1, 1)            \
  FIELD(limit_invweight, nlimit, 1, 1)        \
  FIELD(tendon_length0, ntendon, 1, 1)        \
  FIELD(actuator_acc0, nactuator, 1, 1)

// Numbers that hold for the whole model (src/model_import/derive.hpp).
#define MANIPLE_MODEL_DERIVED_OPTIONS(INTEGER, REAL)                 \
  INTEGER(flags, "ModelFlag bits: which stages have anything to do") \
  INTEGER(nlevel, "levels of bodies below the world")                \
  REAL(meaninertia, "mean diagonal of M at qpos0")
