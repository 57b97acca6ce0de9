// Marks of replay.js in the scene and on its time line: arrows, tendons, labels at robots, ends of episodes; and the
// reloading of a page that follows a run in progress.
"use strict";

// How an episode ends, by the numbers of maniple.replay_scene.
const ENDS = [null, ["ended", "#7d8aa3"], ["timed out", "#8a6fc0"], ["terminated", "#d1495b"], ["succeeded", "#2f9e6e"]];

// Arrows of all environments in two instanced meshes: begin(), add() for each, end(). `size`: of a robot, in m; `thick`: the
// radius of an arrow, in sizes.
function makeArrows(instances, material, most, size, thick) {
  const along = (shape) => instances(shape.rotateX(Math.PI / 2).translate(0, 0, 0.5), material, Math.max(1, most));
  const shafts = along(new THREE.CylinderBufferGeometry(1, 1, 1, 12)), heads = along(new THREE.ConeBufferGeometry(1, 1, 16));
  const matrix = new THREE.Matrix4(), turn = new THREE.Quaternion(), up = new THREE.Vector3(0, 0, 1);
  const place = new THREE.Vector3(), scale = new THREE.Vector3(), way = new THREE.Vector3();
  let count = 0, longest = 0;
  return {
    begin() { count = longest = 0; },
    // from a point along a vector; one that would hardly be seen is left out
    add(from, vector, length) {
      if (!(length > 0.03 * size)) return;
      const head = Math.min(6 * thick * size, 0.5 * length), width = thick * size;
      turn.setFromUnitVectors(up, way.copy(vector).normalize());
      shafts.setMatrixAt(count, matrix.compose(place.copy(from), turn, scale.set(width, width, length - head)));
      heads.setMatrixAt(count, matrix.compose(place.addScaledVector(way, length - head), turn, scale.set(2.6 * width, 2.6 * width, head)));
      longest = Math.max(longest, length);
      ++count;
    },
    end() {
      for (const mesh of [shafts, heads]) {
        mesh.count = count;
        mesh.visible = count > 0;
        mesh.instanceMatrix.needsUpdate = true;
      }
    },
    shown: () => [count, longest],
  };
}

// Spatial tendons as cylinders, an instanced mesh for each tendon. `most`: parts of all tendons of a frame.
function makeTendons(instances, tone, tendons, most, size) {
  const meshes = tendons.map(({ rgba }) => instances(new THREE.CylinderBufferGeometry(1, 1, 1, 8).rotateX(Math.PI / 2),
    new THREE.MeshStandardMaterial({ color: tone(rgba), roughness: 0.6, transparent: rgba[3] < 1, opacity: rgba[3] }), Math.max(1, most)));
  const matrix = new THREE.Matrix4(), turn = new THREE.Quaternion(), up = new THREE.Vector3(0, 0, 1), scale = new THREE.Vector3();
  let counts = [];
  return {
    begin() { counts = meshes.map(() => 0); },
    add(tendon, from, to) {
      const way = to.clone().sub(from), length = way.length(), width = Math.max(tendons[tendon].width, 0.003 * size);
      if (length < 1e-9) return;
      turn.setFromUnitVectors(up, way.divideScalar(length));
      meshes[tendon].setMatrixAt(counts[tendon]++, matrix.compose(from.clone().add(to).multiplyScalar(0.5), turn, scale.set(width, width, length)));
    },
    end() {
      meshes.forEach((mesh, i) => {
        mesh.count = counts[i];
        mesh.visible = counts[i] > 0;
        mesh.instanceMatrix.needsUpdate = true;
      });
    },
    shown: () => counts,
  };
}

// A label at each environment, where the camera sees a point of it. Texts stay as large on the screen, however small a robot.
function makeTags(view, envs) {
  const tags = Array.from({ length: envs }, () => {
    const tag = document.createElement("div");
    tag.className = "tag";
    tag.style.display = "none";
    view.append(tag);
    return tag;
  });
  return {
    set(env, point, camera, text, colour) {
      const tag = tags[env], at = point.clone().project(camera), seen = text && Math.abs(at.z) <= 1;
      tag.style.display = seen ? "" : "none";
      if (!seen) return;
      if (tag.textContent !== text) tag.textContent = text;
      tag.style.color = colour;
      const x = (at.x + 1) / 2 * view.clientWidth, y = (1 - at.y) / 2 * view.clientHeight;
      tag.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px) translate(-50%, -110%)`;
    },
    shown: () => tags.map((tag) => (tag.style.display === "none" ? "" : tag.textContent)),
  };
}

// Ends of episodes above the slider: of all environments faintly, of the chosen one whole.
function drawMarks(canvas, run, ends, chosen) {
  const envs = run.envs.length, frames = run.times.length, ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = 12;
  if (width < 20) return;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const ink = canvas.getContext("2d"), thumb = 16, duration = run.times[frames - 1] - run.times[0] || 1;
  ink.scale(ratio, ratio);
  for (const env of [...run.envs.keys()].filter((e) => e !== chosen).concat(chosen))
    for (let f = 0; f < frames; ++f) {
      const end = ENDS[ends[f * envs + env]];
      if (!end) continue;
      const x = thumb / 2 + (width - thumb) * (run.times[f] - run.times[0]) / duration;
      ink.globalAlpha = env === chosen ? 1 : 0.3;
      ink.fillStyle = end[1];
      ink.fillRect(x - (env === chosen ? 1.5 : 0.75), env === chosen ? 0 : 4, env === chosen ? 3 : 1.5, height);
    }
}

// "2 succeeded", "1 terminated", with the colours that mark them, best first.
function countEnds(ends) {
  const counts = ENDS.map(() => 0);
  for (const code of ends) ++counts[code];
  return ENDS.map((end, code) => [code, end, counts[code]]).filter(([, end, count]) => end && count).reverse()
    .map(([, [name, colour], count]) => [`${count} ${name}`, colour]);
}

// A page of a run in progress asks the script beside it for its version, and loads itself again when there is another one.
// What was looked at is kept: `state()` tells it, and what was kept is returned.
function watchVersion(run, state) {
  if (!run.version) return null;
  const key = `replay ${run.versionFile}`;
  let kept = null;
  try {
    kept = JSON.parse(sessionStorage.getItem(key));
  } catch (error) {
    // (a browser may keep nothing for files)
  }
  setInterval(() => {
    const script = document.createElement("script");
    script.src = `${run.versionFile}?${Date.now()}`;
    script.onload = () => {
      script.remove();
      if (window.replayVersion === run.version) return;
      try {
        sessionStorage.setItem(key, JSON.stringify(state()));
      } catch (error) {
        // (as above)
      }
      location.reload();
    };
    script.onerror = () => script.remove();
    document.head.append(script);
  }, 1000);
  return kept;
}
