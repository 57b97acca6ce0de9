// Draws the data that maniple.replay has put into the page: instanced geoms of all environments with three.js, contacts
// as discs and arrows, commands, tendons, curves on 2D canvases. Tests steer it through window.replay.
"use strict";

(async function () {
  const element = (id) => document.getElementById(id);
  const run = JSON.parse(element("description").textContent);
  const SKY = 0xe9eef5;
  const MOST_TRIANGLES = 3e6;  // of all copies of a terrain

  // ---- arrays: [at, type, shape] of one deflated block ----
  const packed = Uint8Array.from(atob(element("arrays").textContent), (c) => c.charCodeAt(0));
  element("arrays").remove();
  const inflated = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = await new Response(inflated).arrayBuffer();
  const types = { float32: Float32Array, int16: Int16Array, uint8: Uint8Array, uint32: Uint32Array };
  const array = (name) => {
    const { at, type, shape } = run.arrays[name];
    return new types[type](bytes, at, shape.reduce((a, b) => a * b, 1));
  };
  const positions = array("positions"), turns = array("turns"), ends = array("ends");
  const contacts = array("contacts"), hasCommand = "command" in run.arrays, hasTendons = run.tendons.length > 0;
  const frames = run.times.length, envs = run.envs.length, bodies = run.arrays.positions.shape[2];
  const duration = run.times[frames - 1] - run.times[0];
  // where what a frame and an environment have begins, and the most that a frame has
  const startsOf = (name) => {
    const counts = array(name), starts = new Uint32Array(frames * envs + 1);
    for (let i = 0; i < frames * envs; ++i) starts[i + 1] = starts[i] + counts[i];
    return starts;
  };
  const mostOf = (starts) => run.times.reduce((most, _, f) => Math.max(most, starts[(f + 1) * envs] - starts[f * envs]), 1);
  const contactStarts = startsOf("contact_counts"), tendonStarts = hasTendons && startsOf("tendon_counts");

  // ---- how large a robot is, how far it goes, and where the environments stand ----
  const halfExtents = (geom) => {
    const [a, b, c] = geom.size;
    switch (geom.shape) {
      case "sphere": return [a, a, a];
      case "capsule": return [a, a, a + b];
      case "cylinder": return [a, a, b];
      case "mesh": {
        const v = array(geom.mesh), most = [0, 0, 0];
        for (let i = 0; i < v.length; ++i) most[i % 3] = Math.max(most[i % 3], Math.abs(v[i]));
        return most;
      }
      default: return [a, b, c];
    }
  };
  // on a terrain all environments are where they are on it
  const shared = run.geoms.some((g) => g.shared);
  const drawn = run.geoms.filter((g) => g.group < run.hiddenGroup).length ? run.geoms : run.geoms.map((g) => ({ ...g, group: 0 }));
  const lowest = [Infinity, Infinity, Infinity], highest = [-Infinity, -Infinity, -Infinity];
  const nowhere = () => [[Infinity, Infinity, Infinity], [-Infinity, -Infinity, -Infinity]];
  const boxes = run.envs.map(nowhere), fixed = [];  // at the start: of what moves in an environment, and of each thing that stands
  const grow = (low, high, at, reach) => [0, 1, 2].forEach((k) => {
    low[k] = Math.min(low[k], at[k] - reach[k]);
    high[k] = Math.max(high[k], at[k] + reach[k]);
  });
  const frameMatrix = new THREE.Matrix4(), unit = new THREE.Vector3(1, 1, 1);
  for (const geom of drawn) {
    if (geom.group >= run.hiddenGroup || geom.shape === "plane") continue;
    if (geom.shared) {  // (it frames nothing, and the ground is below it)
      for (let i = 2, v = array(geom.mesh); i < v.length; i += 3) lowest[2] = Math.min(lowest[2], geom.pos[2] + v[i]);
      continue;
    }
    const half = halfExtents(geom);
    const local = new THREE.Matrix4().compose(new THREE.Vector3(...geom.pos),
      new THREE.Quaternion(geom.quat[1], geom.quat[2], geom.quat[3], geom.quat[0]), unit);
    for (let f = 0; f < (geom.body < 0 ? 1 : frames); ++f)
      for (let e = 0; e < (geom.body < 0 ? 1 : envs); ++e) {
        const i = (f * envs + e) * bodies + geom.body;
        frameMatrix.identity();
        if (geom.body >= 0)
          frameMatrix.compose(new THREE.Vector3(positions[3 * i], positions[3 * i + 1], positions[3 * i + 2]),
            new THREE.Quaternion(turns[4 * i + 1], turns[4 * i + 2], turns[4 * i + 3], turns[4 * i]).normalize(), unit);
        const m = frameMatrix.multiply(local).elements;
        const at = [m[12], m[13], m[14]], reach = [0, 1, 2].map((k) =>
          Math.abs(m[k]) * half[0] + Math.abs(m[4 + k]) * half[1] + Math.abs(m[8 + k]) * half[2]);
        grow(lowest, highest, at, reach);
        if (f === 0 && geom.body >= 0) grow(...boxes[e], at, reach);
        if (f === 0 && geom.body < 0 && !shared) fixed.push([0, 1].map((end) => at.map((x, k) => x + (end ? reach[k] : -reach[k]))));
      }
  }
  const union = (found) => found.reduce((all, box) => [all[0].map((x, k) => Math.min(x, box[0][k])), all[1].map((x, k) => Math.max(x, box[1][k]))], nowhere());
  const sides = (box) => box[1].map((x, k) => x - box[0][k]);
  const moved = (box, by) => box.map((end) => end.map((x, k) => x + (by[k] || 0)));
  const moves = isFinite(boxes[0][0][0]);
  // a floor of boxes: wide, and under everything; where the others stand does not depend on how large it is
  const robot = Math.max(...boxes.map((box) => Math.max(...sides(box)))), foot = union(boxes)[0][2];
  const isFloor = (box) => moves && box[1][2] < foot + 0.1 * robot && Math.min(...sides(box).slice(0, 2)) > 5 * robot;
  const standing = fixed.filter((box) => !isFloor(box));
  // each environment in its own coordinates, or about where its robot starts: whichever lets them stand closer
  const placeOf = (f, e) => [0, 1].map((k) => (bodies ? positions[((f * envs + e) * bodies + Math.max(0, run.root)) * 3 + k] : 0));
  const origins = run.envs.map((_, e) => placeOf(0, e));
  const about = (places) => union(boxes.flatMap((box, e) => [box, ...standing].map((part) => moved(part, places[e].map((x) => -x)))));
  const own = about(origins.map(() => [0, 0])), near = about(origins);
  const area = (box) => sides(box)[0] * sides(box)[1];
  const centred = moves && !shared && area(near) < 0.7 * area(own);
  if (!centred) origins.forEach((place) => place.fill(0));
  let [first, last] = centred ? near : own;  // at the start, of all
  if (!isFinite(first[0])) {
    [first, last] = [[-1, -1, -1], [1, 1, 1]];
    [lowest, highest].forEach((b, i) => b.fill(i % 2 ? 1 : -1));
  }
  // `size`: of a robot; `span`: of where the robots of all environments start
  const size = moves ? robot : Math.max(...sides([first, last]));
  const span = shared ? size : Math.max(...sides(moves ? union(boxes.map((box, e) => moved(box, origins[e].map((x) => -x)))) : [first, last]));
  const farthest = [0, 0];
  for (let e = 0; e < envs; ++e)
    for (let f = 0, begun = placeOf(0, e); f < frames; ++f) {
      const place = placeOf(f, e);
      if (ends[f * envs + e]) begun = place;
      for (const k of [0, 1]) farthest[k] = Math.max(farthest[k], Math.abs(place[k] - begun[k]));
    }
  const travels = !shared && farthest[0] > 4 * span && farthest[0] > 2 * farthest[1];
  // a grid of places in about a square; who runs away along x gets a lane of his own
  function gridOf(count, spacing, inLanes) {
    const wider = (columns) => Math.max(columns * spacing[0], Math.ceil(count / columns) * spacing[1]);
    let columns = 1;
    for (let more = 2; more <= count && !inLanes; ++more) if (wider(more) < wider(columns)) columns = more;
    const rows = Math.ceil(count / columns);
    return { columns, breadth: [columns * spacing[0], rows * spacing[1]], places: Array.from({ length: count }, (_, i) => [
      ((i % columns) - (columns - 1) / 2) * spacing[0], (Math.floor(i / columns) - (rows - 1) / 2) * spacing[1]]) };
  }
  const spacing = [0, 1].map((k) => 1.3 * Math.max(last[k] - first[k], 0.4 * span));
  // On a terrain, those that start where another one does stand on a further copy of the ground around the robots.
  const copyOf = new Array(envs).fill(0), meets = (a, b) => [0, 1].every((k) => a[0][k] < b[1][k] && b[0][k] < a[1][k]);
  const around = run.geoms.find((g) => g.shared && !g.far);
  if (around && moves) {
    const most = Math.max(1, Math.floor(MOST_TRIANGLES / (run.arrays[`${around.mesh} faces`].shape[0])));
    for (let e = 1; e < envs; ++e) {
      while (boxes.some((box, other) => other < e && copyOf[other] === copyOf[e] && meets(box, boxes[e]))) ++copyOf[e];
      copyOf[e] %= most;
    }
  }
  const grounds = Math.max(...copyOf) + 1;
  const extentOf = (name) => {
    const box = nowhere();
    for (let i = 0, v = array(name); i < v.length; ++i) [box[0][i % 3], box[1][i % 3]] = [Math.min(box[0][i % 3], v[i]), Math.max(box[1][i % 3], v[i])];
    return sides(box);
  };
  // (where that is most of the terrain, all of it)
  const ofGround = grounds > 1 && extentOf(around.mesh), ofAll = around && around.size.map((x) => 2 * x);
  const inParts = grounds > 1 && ofGround[0] * ofGround[1] < 0.3 * ofAll[0] * ofAll[1];
  const grid = shared ? gridOf(grounds, grounds > 1 ? (inParts ? ofGround : ofAll).map((x) => x + size) : [0, 0]) : gridOf(envs, spacing, travels);
  const { columns } = grid;
  const offsets = run.envs.map((_, e) => (shared ? grid.places[copyOf[e]] : grid.places[e].map((x, k) => x - origins[e][k])));
  if (shared && moves) [first, last] = union(boxes.map((box, e) => moved(box, offsets[e])));
  const breadth = shared ? sides([first, last]).slice(0, 2) : grid.breadth;

  // ---- scene ----
  const view = element("view");
  const problem = (text) => {
    element("problem").style.display = "grid";
    element("problem").textContent = text;
  };
  let renderer;
  try {
    renderer = new THREE.WebGLRenderer({ antialias: true, preserveDrawingBuffer: true });
  } catch (error) {
    problem("This browser offers no WebGL, which the scene is drawn with.");
    return;
  }
  renderer.gammaOutput = true;
  renderer.shadowMap.enabled = true;
  renderer.shadowMap.type = THREE.PCFSoftShadowMap;
  view.prepend(renderer.domElement);
  const world = new THREE.Scene();
  const background = new THREE.Color(SKY).convertSRGBToLinear();
  world.background = background;
  world.fog = new THREE.Fog(background.getHex(), 1, 2);
  world.fog.color.copy(background);
  const camera = new THREE.PerspectiveCamera(38, 1, 0.01 * size, 400 * size);
  camera.up.set(0, 0, 1);
  world.add(new THREE.HemisphereLight(0xffffff, 0xa3afc2, 0.62));
  const sun = new THREE.DirectionalLight(0xfff4e2, 0.7);
  sun.castShadow = true;
  sun.shadow.mapSize.set(2048, 2048);
  sun.shadow.radius = 1.6;
  world.add(sun, sun.target);
  const controls = new THREE.OrbitControls(camera, renderer.domElement);
  controls.enableDamping = true;
  controls.dampingFactor = 0.12;
  controls.maxPolarAngle = 0.53 * Math.PI;
  controls.minDistance = 0.3 * size;
  controls.maxDistance = 80 * (size + Math.max(...breadth));

  const tone = (rgb) => new THREE.Color(...rgb.slice(0, 3)).convertSRGBToLinear();

  // The ground: the model's level plane, or a grid below everything; it reaches to the horizon, because it
  // moves with the camera in steps of its pattern.
  const level = (g) => g.shape === "plane" && g.body < 0 && Math.abs(g.quat[1]) + Math.abs(g.quat[2]) < 1e-6;
  const floor = drawn.filter((g) => g.group < run.hiddenGroup && level(g)).sort((a, b) => a.pos[2] - b.pos[2])[0];
  const groundHeight = floor ? floor.pos[2] : lowest[2] - 0.02 * size;
  const nice = (x) => {
    const power = 10 ** Math.floor(Math.log10(x));
    return power * [1, 2, 5, 10].find((m) => m * power >= x);
  };
  const cell = nice(0.45 * size);
  const tile = document.createElement("canvas");
  tile.width = tile.height = 512;
  const pen = tile.getContext("2d");
  const shades = floor ? ["#d2dae5", "#c2ccda"] : ["#dde4ed", "#dde4ed"];
  for (const [x, y] of [[0, 0], [1, 0], [0, 1], [1, 1]]) {
    pen.fillStyle = shades[(x + y) % 2];
    pen.fillRect(256 * x, 256 * y, 256, 256);
    pen.strokeStyle = floor ? "#b4c0d1" : "#bcc7d6";
    pen.lineWidth = 4;
    pen.strokeRect(256 * x, 256 * y, 256, 256);
  }
  const pattern = new THREE.CanvasTexture(tile);
  pattern.wrapS = pattern.wrapT = THREE.RepeatWrapping;
  pattern.encoding = THREE.sRGBEncoding;
  pattern.anisotropy = renderer.capabilities.getMaxAnisotropy();
  const groundCells = 400;
  pattern.repeat.set(groundCells / 2, groundCells / 2);
  const ground = new THREE.Mesh(new THREE.PlaneBufferGeometry(groundCells * cell, groundCells * cell),
    new THREE.MeshStandardMaterial({ map: pattern, roughness: 0.95, metalness: 0 }));
  ground.receiveShadow = true;
  world.add(ground);

  // Unit shapes are scaled by the geom's size; z is the axis of cylinders and capsules, as in MuJoCo.
  function shapeOf(geom) {
    const [a, b, c] = geom.size;
    let shape;
    switch (geom.shape) {
      case "sphere": return new THREE.SphereBufferGeometry(a, 28, 20);
      case "ellipsoid":
        shape = new THREE.SphereBufferGeometry(1, 28, 20);
        shape.scale(a, b, c);
        return shape;
      case "box": return new THREE.BoxBufferGeometry(2 * a, 2 * b, 2 * c);
      case "cylinder":
        shape = new THREE.CylinderBufferGeometry(a, a, 2 * b, 32);
        shape.rotateX(Math.PI / 2);
        return shape;
      case "capsule": {
        const outline = [];
        for (let i = 0; i <= 20; ++i) {
          const angle = Math.PI * (i / 20 - 0.5);
          outline.push(new THREE.Vector2(Math.max(1e-9, a * Math.cos(angle)), a * Math.sin(angle) + (i <= 10 ? -b : b)));
          if (i === 10) outline.push(new THREE.Vector2(a, b));
        }
        shape = new THREE.LatheBufferGeometry(outline, 28);
        shape.rotateX(Math.PI / 2);
        return shape;
      }
      case "plane":
        return new THREE.PlaneBufferGeometry(2 * (a || 0.48 * spacing[0]), 2 * (b || 0.48 * spacing[1]));
      default: {
        shape = new THREE.BufferGeometry();
        shape.setAttribute("position", new THREE.BufferAttribute(array(geom.mesh), 3));
        shape.setIndex(new THREE.BufferAttribute(array(geom.mesh + " faces"), 1));
        shape = shape.toNonIndexed();
        shape.computeVertexNormals();
        return shape;
      }
    }
  }
  const instances = (shape, material, count) => {
    const mesh = new THREE.InstancedMesh(shape, material, count);
    mesh.frustumCulled = false;
    world.add(mesh);
    return mesh;
  };
  const meshShapes = {};
  const models = [];
  for (const geom of drawn) {
    if (geom === floor || geom.rgba[3] === 0 || (geom.far && inParts)) continue;
    const shape = geom.mesh ? (meshShapes[geom.mesh] = meshShapes[geom.mesh] || shapeOf(geom)) : shapeOf(geom);
    const clear = geom.rgba[3] < 1;
    const material = new THREE.MeshStandardMaterial({
      color: tone(geom.rgba), roughness: 0.62, metalness: 0.06, transparent: clear, opacity: geom.rgba[3], depthWrite: !clear,
      side: geom.shape === "plane" || geom.mesh ? THREE.DoubleSide : THREE.FrontSide });
    const copies = shared && geom.body < 0 ? grounds : envs;
    const mesh = instances(shape, material, copies);
    mesh.castShadow = !clear;
    mesh.receiveShadow = true;
    models.push({ mesh, geom, copies, local: new THREE.Matrix4().compose(new THREE.Vector3(...geom.pos),
      new THREE.Quaternion(geom.quat[1], geom.quat[2], geom.quat[3], geom.quat[0]), new THREE.Vector3(1, 1, 1)) });
  }
  const showHidden = (shown) => models.forEach(({ mesh, geom }) => { mesh.visible = shown || geom.group < run.hiddenGroup; });
  const hasHidden = models.some(({ geom }) => geom.group >= run.hiddenGroup);
  element("hidden_label").style.display = hasHidden ? "" : "none";
  showHidden(false);

  // contacts: a disc each, and an arrow as long as its share of the weight of what moves; seen through what they are in
  const plain = (colour, through = false) => new THREE.MeshBasicMaterial({ color: tone(colour), fog: false, depthTest: !through, transparent: through });
  const mostContacts = mostOf(contactStarts);
  const dots = instances(new THREE.SphereBufferGeometry(0.012 * size, 12, 8), plain([0.82, 0.16, 0.22], true), mostContacts);
  const forces = makeArrows(instances, plain([0.91, 0.42, 0.1], true), mostContacts, size, 0.009);
  // above each robot: the velocity that is asked for, and its own
  const commands = hasCommand && makeArrows(instances, plain([0.18, 0.62, 0.43]), envs, size, 0.015);
  const velocities = hasCommand && makeArrows(instances, plain([0.18, 0.44, 0.87]), envs, size, 0.015);
  const [command, commandArrows, velocityArrows] = ["command", "command_arrows", "velocity_arrows"].map((name) => hasCommand && array(name));
  const tendons = hasTendons && makeTendons(instances, tone, run.tendons, mostOf(tendonStarts), size);
  const tendonParts = hasTendons && array("tendon_parts"), tendonOfPart = hasTendons && array("tendon_of_part");
  const lift = 0.08 * size + Math.max(0.1 * size, ...boxes.map((box, e) => box[1][2] - positions[(e * bodies + Math.max(0, run.root)) * 3 + 2])
    .filter(isFinite));
  const tags = makeTags(view, envs);
  element("command_label").style.display = hasCommand ? "" : "none";

  // ---- poses at a time ----
  const rootPlaces = run.envs.map((_, e) => new THREE.Vector3(...offsets[e].map((x, k) => x + origins[e][k]), 0.5 * (first[2] + last[2])));
  const bodyMatrix = new THREE.Matrix4(), matrix = new THREE.Matrix4();
  const p = new THREE.Vector3(), q = new THREE.Quaternion(), other = new THREE.Quaternion(), one = new THREE.Vector3(1, 1, 1);
  function frameAt(time) {
    let low = 0, high = frames - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (run.times[middle] <= time) low = middle;
      else high = middle;
    }
    if (frames === 1) return [0, 0];
    return [low, Math.min(1, Math.max(0, (time - run.times[low]) / (run.times[high] - run.times[low])))];
  }
  const bodyMatrices = Array.from({ length: envs * Math.max(1, bodies) }, () => new THREE.Matrix4());
  function pose(time) {
    const [frame, part] = frameAt(time);
    const next = Math.min(frame + 1, frames - 1);
    for (let e = 0; e < envs; ++e) {
      // no robot glides from the end of an episode to the start of the next one
      const share = ends[next * envs + e] ? (part < 1 ? 0 : 1) : part;
      for (let b = 0; b < bodies; ++b) {
        const i = (frame * envs + e) * bodies + b, j = (next * envs + e) * bodies + b;
        p.set(...[0, 1, 2].map((k) => positions[3 * i + k] * (1 - share) + positions[3 * j + k] * share));
        q.set(turns[4 * i + 1], turns[4 * i + 2], turns[4 * i + 3], turns[4 * i]).normalize();
        other.set(turns[4 * j + 1], turns[4 * j + 2], turns[4 * j + 3], turns[4 * j]).normalize();
        q.slerp(other, share);
        p.x += offsets[e][0];
        p.y += offsets[e][1];
        bodyMatrices[e * bodies + b].compose(p, q, one);
        if (b === run.root) rootPlaces[e].copy(p);
      }
    }
    for (const { mesh, geom, copies, local } of models) {
      for (let e = 0; e < copies; ++e) {
        if (geom.body >= 0) matrix.multiplyMatrices(bodyMatrices[e * bodies + geom.body], local);
        else matrix.multiplyMatrices(bodyMatrix.makeTranslation(...(shared ? grid.places : offsets)[e], 0), local);
        mesh.setMatrixAt(e, matrix);
      }
      mesh.instanceMatrix.needsUpdate = true;
    }
    const nearest = part < 0.5 ? frame : next;
    poseContacts(nearest);
    poseTendons(nearest);
    poseCommands(nearest);
    return nearest;
  }
  function poseContacts(nearest) {
    let count = 0;
    forces.begin();
    if (element("contacts").checked)
      for (let e = 0; e < envs; ++e)
        for (let c = contactStarts[nearest * envs + e]; c < contactStarts[nearest * envs + e + 1]; ++c, ++count) {
          p.set(contacts[6 * c] + offsets[e][0], contacts[6 * c + 1] + offsets[e][1], contacts[6 * c + 2]);
          dots.setMatrixAt(count, matrix.makeTranslation(p.x, p.y, p.z));
          const force = new THREE.Vector3(contacts[6 * c + 3], contacts[6 * c + 4], contacts[6 * c + 5]);
          forces.add(p, force, Math.min(2, run.forceScale * force.length() / run.weight) * 0.7 * size);
        }
    dots.count = count;
    dots.visible = count > 0;
    dots.instanceMatrix.needsUpdate = true;
    forces.end();
  }
  function poseTendons(nearest) {
    if (!hasTendons) return;
    tendons.begin();
    for (let e = 0; e < envs; ++e)
      for (let k = tendonStarts[nearest * envs + e]; k < tendonStarts[nearest * envs + e + 1]; ++k) {
        const [from, to] = [6 * k, 6 * k + 3].map((i) => new THREE.Vector3(tendonParts[i] + offsets[e][0], tendonParts[i + 1] + offsets[e][1], tendonParts[i + 2]));
        tendons.add(tendonOfPart[k], from, to);
      }
    tendons.end();
  }
  function poseCommands(nearest) {
    if (!hasCommand) return;
    const longest = 0.8 * size / (run.fastest || 1);
    for (const [arrows, values, above] of [[commands, commandArrows, lift], [velocities, velocityArrows, lift + 0.05 * size]]) {
      arrows.begin();
      if (element("command").checked)
        for (let e = 0; e < envs; ++e) {
          const i = 3 * (nearest * envs + e), way = new THREE.Vector3(values[i], values[i + 1], 0);
          p.copy(rootPlaces[e]).z += above;
          arrows.add(p, way, Math.min(2 * size, way.length() * longest));
        }
      arrows.end();
    }
  }
  // what stands at a robot: its command, and for a while how its episode has ended
  const MOST_TAGS = 24;
  function tagRobots(nearest, time) {
    for (let e = 0; e < envs; ++e) {
      let text = "", colour = "";
      if (hasCommand && element("command").checked) {
        const [ahead, left, turn] = command.subarray(3 * (nearest * envs + e), 3 * (nearest * envs + e) + 3);
        [text, colour] = [`${ahead.toFixed(2)}, ${left.toFixed(2)} m/s  ${turn.toFixed(2)} rad/s`, "#1f7a52"];
      }
      for (let f = nearest; f >= 0 && run.times[f] > time - 0.7; --f)
        if (ENDS[ends[f * envs + e]]) {
          [text, colour] = ENDS[ends[f * envs + e]];
          break;
        }
      p.copy(rootPlaces[e]).z += lift + 0.12 * size;
      tags.set(e, p, camera, envs <= MOST_TAGS || e === chosen ? text : "", colour);
    }
  }

  // ---- camera: all environments, one of them, or wherever the user leaves it ----
  const cameras = element("camera");
  const choices = [["all", `all ${run.kind}s`], ...run.envs.map((e, i) => [String(i), `follow ${run.kind} ${e}`]), ["free", "free camera"]];
  for (const [value, text] of envs > 1 ? choices : choices.slice(1)) cameras.add(new Option(text, value));
  cameras.value = envs > 1 ? "all" : "0";
  const target = new THREE.Vector3();
  function wanted() {
    if (cameras.value !== "all") return rootPlaces[Number(cameras.value)];
    if (shared) return new THREE.Box3().setFromPoints(rootPlaces).getCenter(new THREE.Vector3());
    return rootPlaces.reduce((sum, place) => sum.add(place), new THREE.Vector3()).divideScalar(envs);
  }
  function frameCamera() {
    if (cameras.value === "free") return;
    pose(now);
    const height = 0.5 * (first[2] + last[2]);
    target.copy(wanted());
    if (run.root < 0 || cameras.value === "all") target.z = height;
    const all = cameras.value === "all", half = Math.tan((camera.fov * Math.PI) / 360);
    const square = columns > 1 || shared;
    const rise = all && envs > 4 ? (square ? 0.46 : 0.3) : shared ? 0.4 : 0.26;
    // a lane each: seen from ahead; a square of them, or a single one: from a corner
    const turn = all && !square && envs > 1 ? -0.42 : -0.98;
    // what stands beside the robots, and may be somewhat larger than they are
    const tall = all && !shared ? Math.max(span, Math.min(3 * span, last[2] - first[2])) : span;
    const middle = Math.hypot(...[0, 1].map((k) => 0.5 * (first[k] + last[k]) - target.getComponent(k)));
    const aside = all && !travels ? Math.min(3 * span, middle) : 0;
    const wide = aside + (all ? 0.5 * (Math.abs(Math.sin(turn)) * breadth[0] + Math.cos(turn) * breadth[1]) + 0.1 * span : 0.72 * tall);
    const deep = aside + (all ? 0.5 * (Math.cos(turn) * breadth[0] + Math.abs(Math.sin(turn)) * breadth[1]) : 0.3 * tall);
    const back = Math.max(wide / (half * camera.aspect), (deep * Math.sin(rise) + 0.5 * tall) / half) + 0.8 * deep;
    controls.target.copy(target);
    camera.position.set(target.x + back * Math.cos(rise) * Math.cos(turn), target.y + back * Math.cos(rise) * Math.sin(turn), target.z + back * Math.sin(rise));
    controls.update();
  }
  function follow(seconds) {
    if (cameras.value !== "free") {
      const place = wanted().clone();
      if (run.root < 0 || cameras.value === "all") place.z = controls.target.z;
      const jump = place.distanceTo(target) > 2 * size;
      const step = place.sub(target).multiplyScalar(jump ? 1 : 1 - Math.exp(-6 * seconds));
      target.add(step);
      controls.target.add(step);
      camera.position.add(step);
    }
    controls.update();
    const far = camera.position.distanceTo(controls.target);
    world.fog.near = 2.2 * far + 2 * size;
    world.fog.far = 9 * far + 12 * size;
    camera.near = 0.02 * far;
    camera.far = world.fog.far + 10 * size;
    camera.updateProjectionMatrix();
    const step = 2 * cell;
    ground.position.set(Math.round(controls.target.x / step) * step, Math.round(controls.target.y / step) * step, groundHeight);
    // shadows where the camera looks
    const reach = Math.min(1.1 * far, 0.75 * Math.max(...breadth) + 1.5 * size + 0.2 * far);
    sun.target.position.copy(controls.target);
    sun.position.copy(controls.target).add(new THREE.Vector3(-0.42, -0.5, 1).multiplyScalar(3 * reach));
    Object.assign(sun.shadow.camera, { left: -reach, right: reach, top: reach, bottom: -reach, near: 0.5 * reach, far: 7 * reach });
    sun.shadow.camera.updateProjectionMatrix();
    sun.shadow.bias = -0.0008;
  }

  // ---- curves ----
  let chosen = 0;
  const charts = makeCharts(element("side"), run, array, ends, (time) => setTime(time));
  if (!run.curves.length) document.body.classList.add("narrow");
  const choose = (env) => {
    chosen = env;
    charts.draw(chosen);
    drawMarks(element("marks"), run, ends, chosen);
    dirty = true;
  };

  // ---- controls ----
  const slider = element("slider"), clock = element("clock"), play = element("play");
  element("title").firstChild.textContent = run.title;
  element("title").lastChild.textContent = [run.model, `${envs} ${run.kind}${envs > 1 ? "s" : ""}`, run.note].filter(Boolean).join(" · ");
  for (const [text, colour] of countEnds(ends)) {
    const count = document.createElement("i");
    count.textContent = ` · ${text}`;
    count.style.color = colour;
    element("title").lastChild.append(count);
  }
  document.title = `${run.title} – replay`;
  for (const speed of [0.1, 0.25, 0.5, 1, 2, 4]) element("speed").add(new Option(`${speed}×`, speed, speed === 1, speed === 1));
  let now = run.times[0], playing = false, before = null, dirty = true;
  function setTime(time) {
    now = Math.min(run.times[frames - 1], Math.max(run.times[0], time));
    dirty = true;
  }
  function setPlaying(value) {
    playing = value && frames > 1;
    if (playing && now >= run.times[frames - 1]) setTime(run.times[0]);
    play.innerHTML = playing ? "&#10073;&#10073;" : "&#9654;";
  }
  play.onclick = () => setPlaying(!playing);
  slider.oninput = () => setTime(run.times[0] + duration * Number(slider.value));
  cameras.onchange = () => {
    if (cameras.value !== "all" && cameras.value !== "free") choose(Number(cameras.value));
    frameCamera();
    dirty = true;
    cameras.blur();
  };
  element("contacts").onchange = () => { dirty = true; };
  element("hidden").onchange = (event) => { showHidden(event.target.checked); dirty = true; };
  element("wide").onclick = () => { document.body.classList.toggle("narrow"); resize(); };
  window.addEventListener("keydown", (event) => {
    if (event.target.tagName === "SELECT") return;
    if (event.key === " ") { event.preventDefault(); setPlaying(!playing); }
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step && event.target !== slider) {
      setPlaying(false);
      setTime(run.times[Math.min(frames - 1, Math.max(0, frameAt(now)[0] + step))]);
    }
  });
  // a click on a robot chooses its environment
  let pressed = null;
  renderer.domElement.addEventListener("pointerdown", (event) => { pressed = [event.clientX, event.clientY]; });
  renderer.domElement.addEventListener("pointerup", (event) => {
    if (!pressed || Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) > 4) return;
    const box = renderer.domElement.getBoundingClientRect();
    const distances = rootPlaces.map((place) => {
      const at = place.clone().project(camera);
      return Math.hypot((at.x + 1) / 2 * box.width + box.left - event.clientX, (1 - at.y) / 2 * box.height + box.top - event.clientY);
    });
    const best = distances.indexOf(Math.min(...distances));
    if (distances[best] < 90) choose(best);
  });
  function resize() {
    const width = view.clientWidth, height = view.clientHeight;
    if (!width || !height) return;
    renderer.setPixelRatio(Math.min(2, window.devicePixelRatio || 1));
    renderer.setSize(width, height);
    camera.aspect = width / height;
    camera.updateProjectionMatrix();
    charts.draw(chosen);
    drawMarks(element("marks"), run, ends, chosen);
    dirty = true;
  }
  window.addEventListener("resize", resize);

  element("contacts").checked = envs === 1;
  element("command").checked = hasCommand;
  element("command").onchange = () => { dirty = true; };
  let drawnFrame = 0;
  function draw(seconds) {
    drawnFrame = pose(now);
    follow(seconds);
    camera.updateMatrixWorld();
    tagRobots(drawnFrame, now);
    slider.value = duration ? (now - run.times[0]) / duration : 0;
    clock.innerHTML = `<b>${(now - run.times[0]).toFixed(2)}</b> / ${duration.toFixed(2)} s`;
    charts.mark(drawnFrame, now, chosen);
    renderer.render(world, camera);
  }
  controls.addEventListener("change", () => { dirty = true; });
  function tick(stamp) {
    const seconds = before === null ? 0 : Math.min(0.1, (stamp - before) / 1000);
    before = stamp;
    if (playing) {
      setTime(now + seconds * Number(element("speed").value));
      if (now >= run.times[frames - 1]) setPlaying(false);
    }
    controls.update();
    if (playing || dirty) {
      dirty = false;
      draw(seconds);
    }
    requestAnimationFrame(tick);
  }
  const kept = watchVersion(run, () => ({ time: now, playing, camera: cameras.value, chosen,
    boxes: ["contacts", "command", "hidden"].map((name) => [name, element(name).checked]) }));
  if (kept) {
    if ([...cameras.options].some((option) => option.value === kept.camera) && kept.camera !== "free") cameras.value = kept.camera;
    chosen = Math.min(envs - 1, kept.chosen);
    for (const [name, checked] of kept.boxes) element(name).checked = checked;
    showHidden(element("hidden").checked);
    setTime(kept.time);
  }
  resize();
  frameCamera();
  draw(0);
  setPlaying(kept ? kept.playing : true);
  requestAnimationFrame(tick);
  window.replay = {
    duration, frames, envs, setPlaying, choose,
    seek(time) { setPlaying(false); setTime(run.times[0] + time); draw(1); },
    time: () => now - run.times[0],
    // seen from a point of the scene towards another one
    look(from, to) {
      cameras.value = "free";
      camera.position.set(...from);
      controls.target.set(...to);
      draw(1);
    },
    camera(value) { cameras.value = value; cameras.onchange(); draw(1); },
    // where the heaviest body that moves by itself is, in the frame of its environment
    place: (env) => [rootPlaces[env].x - offsets[env][0], rootPlaces[env].y - offsets[env][1], rootPlaces[env].z],
    // of each chart: pixels to the left of its curves, and of its widest number there
    margins: () => charts.margins(),
    // where the environments stand in the scene, and the distances of their places along x and y
    offsets, spacing,
    colours: (lines) => Array.from({ length: lines }, (_, k) => colourOfLine(k, lines)),
    contacts(shown) { element("contacts").checked = shown; draw(1); return dots.visible ? dots.count : 0; },
    // of forces, commands and velocities: how many arrows, and the length of the longest [m]
    arrows: () => [forces, commands, velocities].map((arrows) => (arrows ? arrows.shown() : [0, 0])),
    commands(shown) { element("command").checked = shown; draw(1); },
    tendons: () => (hasTendons ? tendons.shown() : []),
    tags: () => tags.shown(),
    // where a point of an environment is in the scene's picture, in pixels
    pixel(env, point) {
      const at = new THREE.Vector3(point[0] + offsets[env][0], point[1] + offsets[env][1], point[2]).project(camera);
      return [(at.x + 1) / 2 * view.clientWidth, (1 - at.y) / 2 * view.clientHeight];
    },
    lift,
    // where the camera looks, and from how far
    view: () => [controls.target.toArray(), camera.position.distanceTo(controls.target)],
    // how many copies of each geom are drawn
    copies: () => models.map(({ mesh }) => mesh.count),
    note: run.note,
    size,
    // for pictures: the scene alone, or with the curves
    bare(alone) { document.body.classList.add(alone ? "bare" : "unruled"); resize(); frameCamera(); draw(1); },
  };
})();
