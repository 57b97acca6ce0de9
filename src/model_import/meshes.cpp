#include "src/model_import/meshes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/model/sensor_types.hpp"
#include "src/model_import/geom_pairs.hpp"

namespace maniple {
namespace {

// Vertices from which on MuJoCo's search climbs over the hull (mjMESH_HILLCLIMB_MIN); below it looks at all.
constexpr int kFewVertices = 10;

// mjModel's graph of a hull (mjmodel.h): its vertices as numbers of the mesh's, and for each the place of its
// neighbours, which are numbers of the hull's and end with -1.
struct Graph {
  int numvert;
  const int *edgeadr, *globalid, *localid;

  explicit Graph(const int* graph)
      : numvert(graph[0]),
        edgeadr(graph + 2),
        globalid(graph + 2 + numvert),
        localid(graph + 2 + 2 * numvert) {}
};

void append_mesh(const mjModel& m, int mesh, ModelNumbers& to) {
  const int vertadr = m.mesh_vertadr[mesh], vertnum = m.mesh_vertnum[mesh];
  std::optional<Graph> graph;  // of a mesh over whose hull the search climbs
  if (m.mesh_graphadr[mesh] >= 0 && vertnum >= kFewVertices)
    graph.emplace(m.mesh_graph + m.mesh_graphadr[mesh]);
  // where vertices go: all of a small mesh, else those of the hull, in their order; -1: nowhere
  std::vector<int> number(static_cast<std::size_t>(vertnum), graph ? -1 : 0);
  for (int i = 0; graph && i < graph->numvert; ++i) number[static_cast<std::size_t>(graph->globalid[i])] = 0;
  int kept = 0;
  for (int& vertex : number)
    if (vertex >= 0) vertex = kept++;
  const auto numbered = [&](int vertex) { return number[static_cast<std::size_t>(vertex)]; };

  const auto first = static_cast<int>(to.mesh_edgeadr.size());
  to.mesh_vertadr.push_back(first);
  to.mesh_vertnum.push_back(kept);
  for (int i = 0; i < vertnum; ++i) {
    if (numbered(i) < 0) continue;
    for (int k = 0; k < 3; ++k)
      to.mesh_vert.push_back(static_cast<double>(m.mesh_vert[3 * (vertadr + i) + k]));
    to.mesh_polymapadr.push_back(static_cast<int>(to.mesh_polymap.size()));
    to.mesh_polymapnum.push_back(m.mesh_polymapnum[vertadr + i]);
    const int* const faces = m.mesh_polymap + m.mesh_polymapadr[vertadr + i];
    to.mesh_polymap.insert(to.mesh_polymap.end(), faces, faces + m.mesh_polymapnum[vertadr + i]);
    to.mesh_edgeadr.push_back(-1);
  }
  for (int i = 0; graph && i < graph->numvert; ++i) {
    const int vertex = first + numbered(graph->globalid[i]);
    to.mesh_edgeadr[static_cast<std::size_t>(vertex)] = static_cast<int>(to.mesh_edge.size());
    for (const int* next = graph->localid + graph->edgeadr[i]; *next >= 0; ++next)
      to.mesh_edge.push_back(numbered(graph->globalid[*next]));
    to.mesh_edge.push_back(-1);
  }
  for (int k = 0; k < 27; ++k)
    to.mesh_extrema.push_back(graph ? numbered(graph->globalid[m.mesh_extrema[27 * mesh + k]]) : -1);

  const int polyadr = m.mesh_polyadr[mesh], polynum = m.mesh_polynum[mesh];
  to.mesh_polyadr.push_back(static_cast<int>(to.mesh_polyvertadr.size()));
  for (int i = polyadr; i < polyadr + polynum; ++i) {
    to.mesh_polyvertadr.push_back(static_cast<int>(to.mesh_polyvert.size()));
    to.mesh_polyvertnum.push_back(m.mesh_polyvertnum[i]);
    for (int k = 0; k < m.mesh_polyvertnum[i]; ++k)
      to.mesh_polyvert.push_back(numbered(m.mesh_polyvert[m.mesh_polyvertadr[i] + k]));
    to.mesh_polynormal.insert(to.mesh_polynormal.end(), m.mesh_polynormal + 3 * i,
                              m.mesh_polynormal + 3 * i + 3);
  }
}

// The tree of boxes around the triangles of a mesh, depth first, so that a walk that leaves out what is below
// a node goes on behind it (raynode_end).
class RayTree {
 public:
  RayTree(const mjModel& m, int mesh, ModelNumbers& to)
      : m_(m), mesh_(mesh), first_(m.mesh_bvhadr[mesh]), root_(to.raynode_end.size()), to_(to) {}

  // Returns the place of its root.
  int append() {
    append_node(0);
    return static_cast<int>(root_);
  }

 private:
  // A box is a little larger than libmujoco's, so that roundings of single precision lose no triangle.
  static constexpr double kMargin = 1e-6;

  void append_node(int node) {
    const std::size_t place = to_.raynode_end.size();
    const mjtNum* const box = m_.bvh_aabb + 6 * (first_ + node);
    const double size =
        std::max({std::abs(box[0]) + box[3], std::abs(box[1]) + box[4], std::abs(box[2]) + box[5]});
    for (int k = 0; k < 3; ++k) to_.raynode_box.push_back(box[k]);
    for (int k = 3; k < 6; ++k) to_.raynode_box.push_back(box[k] + kMargin * size);
    to_.raynode_end.push_back(0);
    to_.raynode_triangle.push_back(-1);
    if (const int face = m_.bvh_nodeid[first_ + node]; face >= 0) {
      to_.raynode_triangle.back() = static_cast<int>(to_.raytriangle_vert.size() / 9);
      for (int corner = 0; corner < 3; ++corner) {
        const int vertex = m_.mesh_face[3 * (m_.mesh_faceadr[mesh_] + face) + corner];
        for (int k = 0; k < 3; ++k)
          to_.raytriangle_vert.push_back(
              static_cast<double>(m_.mesh_vert[3 * (m_.mesh_vertadr[mesh_] + vertex) + k]));
      }
    }
    for (int child = 0; child < 2; ++child)
      if (const int below = m_.bvh_child[2 * (first_ + node) + child]; below >= 0) append_node(below);
    to_.raynode_end[place] = static_cast<int>(to_.raynode_end.size() - root_);
  }

  const mjModel& m_;
  const int mesh_, first_;
  const std::size_t root_;
  ModelNumbers& to_;
};

// Which geoms rays meet, and the trees of meshes for rangefinders.
void import_what_rays_meet(const mjModel& m, ModelNumbers& numbers) {
  const bool looks = !(m.opt.disableflags & mjDSBL_SENSOR) &&
                     std::count(m.sensor_type, m.sensor_type + m.nsensor, mjSENS_RANGEFINDER) > 0;
  std::vector<int> root(static_cast<std::size_t>(m.nmesh), -1);
  for (int geom = 0; geom < m.ngeom; ++geom) {
    const int material = m.geom_matid[geom];
    const bool visible = (material < 0 ? m.geom_rgba[4 * geom + 3] : m.mat_rgba[4 * material + 3]) != 0;
    numbers.geom_visible.push_back(visible ? 1 : 0);
    numbers.geom_raynode.push_back(-1);
    if (!looks || !visible || m.geom_type[geom] != mjGEOM_MESH) continue;
    int& of_mesh = root[static_cast<std::size_t>(m.geom_dataid[geom])];
    if (of_mesh < 0) of_mesh = RayTree(m, m.geom_dataid[geom], numbers).append();
    numbers.geom_raynode.back() = of_mesh;
  }
}

}  // namespace

void import_meshes(const mjModel& m, ModelNumbers& numbers, ModelSizes& sizes) {
  std::vector<int> number(static_cast<std::size_t>(m.nmesh), -1);
  const auto is_mesh = [&](int geom) { return m.geom_type[geom] == mjGEOM_MESH; };
  for (const GeomPair& pair : geom_pairs(m, m.opt.disableflags))
    for (const int geom : {pair.geom1, pair.geom2})
      if (is_mesh(geom)) number[static_cast<std::size_t>(m.geom_dataid[geom])] = 0;
  for (int i = 0; i < m.nsensor; ++i) {
    if (!is_of_distance(m.sensor_type[i])) continue;
    for (const GeomRange& geoms : {geoms_of(m, m.sensor_objtype[i], m.sensor_objid[i]),
                                   geoms_of(m, m.sensor_reftype[i], m.sensor_refid[i])})
      for (int geom = geoms.first; geom < geoms.end; ++geom)
        if (is_mesh(geom)) number[static_cast<std::size_t>(m.geom_dataid[geom])] = 0;
  }
  int kept = 0;
  for (int mesh = 0; mesh < m.nmesh; ++mesh) {
    if (number[static_cast<std::size_t>(mesh)] < 0) continue;
    number[static_cast<std::size_t>(mesh)] = kept++;
    append_mesh(m, mesh, numbers);
  }
  for (int geom = 0; geom < m.ngeom; ++geom)
    numbers.geom_dataid.push_back(is_mesh(geom) ? number[static_cast<std::size_t>(m.geom_dataid[geom])]
                                  : m.geom_type[geom] == mjGEOM_HFIELD ? m.geom_dataid[geom]
                                                                       : -1);
  numbers.hfield_nrow.assign(m.hfield_nrow, m.hfield_nrow + m.nhfield);
  numbers.hfield_ncol.assign(m.hfield_ncol, m.hfield_ncol + m.nhfield);
  numbers.hfield_adr.assign(m.hfield_adr, m.hfield_adr + m.nhfield);
  numbers.hfield_size.assign(m.hfield_size, m.hfield_size + 4 * m.nhfield);
  numbers.hfield_data.assign(m.hfield_data, m.hfield_data + m.nhfielddata);
  import_what_rays_meet(m, numbers);
  const auto size_of = [](const auto& values) { return static_cast<int>(values.size()); };
  sizes.nmesh = kept;
  sizes.nmeshvert = size_of(numbers.mesh_edgeadr);
  sizes.nmeshedge = size_of(numbers.mesh_edge);
  sizes.nmeshpoly = size_of(numbers.mesh_polyvertadr);
  sizes.nmeshpolyvert = size_of(numbers.mesh_polyvert);
  sizes.nmeshpolymap = size_of(numbers.mesh_polymap);
  sizes.nhfield = size_of(numbers.hfield_nrow);
  sizes.nhfielddata = size_of(numbers.hfield_data);
  sizes.nraynode = size_of(numbers.raynode_end);
  sizes.nraytriangle = size_of(numbers.raytriangle_vert) / 9;
}

int most_face_corners(const mjModel& m, int mesh) {
  const int* const corners = m.mesh_polyvertnum + m.mesh_polyadr[mesh];
  return m.mesh_polynum[mesh] == 0 ? 0 : *std::max_element(corners, corners + m.mesh_polynum[mesh]);
}

}  // namespace maniple
