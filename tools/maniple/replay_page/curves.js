// The curves beside the scene of replay.js: lines on 2D canvases, the number of each at the time that is shown, and the ends
// of episodes as dashed lines.
"use strict";

const COLOURS = ["#2f6fde", "#e8862e", "#2f9e6e", "#d1495b", "#7d5ba6", "#1b9aaa", "#a0712f", "#5c6b8a"];
// more lines than colours get hues of a circle
const colourOfLine = (k, lines) => (lines <= COLOURS.length ? COLOURS[k] : `hsl(${Math.round(360 * k / lines)}, 62%, ${k % 2 ? 36 : 52}%)`);
const shortNumber = (x) => {
  if (!isFinite(x)) return "";
  return x === 0 ? "0" : Math.abs(x) >= 1e4 || Math.abs(x) < 1e-3 ? x.toExponential(1) : String(Number(x.toPrecision(3)));
};

// A chart for each curve, below one another in `side`. `seekTo`: what a press on one calls with its time.
function makeCharts(side, run, array, ends, seekTo) {
  const frames = run.times.length, envs = run.envs.length, duration = run.times[frames - 1] - run.times[0];
  const charts = run.curves.map((curve) => {
    const lines = curve.names.length, values = array(curve.values);
    const heading = document.createElement("h2"), canvas = document.createElement("canvas"), legend = document.createElement("div");
    legend.className = "legend";
    side.append(heading, canvas, legend);
    const shown = Math.min(lines, 12);
    legend.innerHTML = curve.names.slice(0, shown).map((_, k) => `<span><i style="background:${colourOfLine(k, lines)}"></i><em></em> <b></b></span>`).join("")
      + (lines > shown ? `<span>and ${lines - shown} more</span>` : "");
    [...legend.querySelectorAll("em")].forEach((e, k) => { e.textContent = lines > 1 ? curve.names[k] : ""; e.style.fontStyle = "normal"; });
    const chart = { curve, lines, values, heading, canvas, numbers: [...legend.querySelectorAll("b")], picture: null, left: 40, widest: 0 };
    const seek = (event) => {
      if (event.buttons) seekTo(run.times[0] + duration * (event.offsetX - chart.left) / (canvas.clientWidth - chart.left - 6));
    };
    canvas.addEventListener("pointerdown", seek);
    canvas.addEventListener("pointermove", seek);
    return chart;
  });
  function draw(chart, chosen) {
    const { curve, lines, values, canvas, heading } = chart;
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = lines > 1 ? 132 : 92;
    chart.picture = null;
    if (width < 60) return;  // not shown
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.height = `${height}px`;
    const ink = canvas.getContext("2d");
    ink.scale(ratio, ratio);
    let low = Infinity, high = -Infinity;
    const value = (f, k) => values[(chosen * frames + f) * lines + k];
    for (let f = 1; f < frames; ++f)
      for (let k = 0; k < lines; ++k) if (isFinite(value(f, k))) { low = Math.min(low, value(f, k)); high = Math.max(high, value(f, k)); }
    if (!isFinite(low)) [low, high] = [0, 1];
    if (high - low < 1e-9) { low -= 0.5; high += 0.5; }
    ink.font = "10.5px system-ui, sans-serif";
    const marks = low < 0 && high > 0 ? [low, 0, high] : [low, high];
    chart.widest = Math.max(...marks.map((v) => ink.measureText(shortNumber(v)).width));
    const left = chart.left = Math.max(40, Math.ceil(chart.widest) + 8);
    const x = (f) => left + (width - left - 6) * (run.times[f] - run.times[0]) / (duration || 1), y = (v) => 6 + (height - 14) * (1 - (v - low) / (high - low));
    ink.fillStyle = "#6b7385";
    ink.textAlign = "right";
    ink.textBaseline = "middle";
    ink.strokeStyle = "#e6e8ee";
    for (const v of marks) {
      if (v === 0 && Math.min(y(low) - y(0), y(0) - y(high)) < 12) continue;
      ink.fillText(shortNumber(v), left - 4, y(v));
      ink.beginPath();
      ink.moveTo(left, y(v));
      ink.lineTo(width - 6, y(v));
      ink.stroke();
    }
    ink.setLineDash([3, 3]);
    for (let f = 1; f < frames; ++f) {
      const end = ENDS[ends[f * envs + chosen]];
      if (!end) continue;
      ink.strokeStyle = end[1];
      ink.beginPath();
      ink.moveTo(x(f), 4);
      ink.lineTo(x(f), height - 6);
      ink.stroke();
    }
    ink.setLineDash([]);
    ink.lineWidth = lines > 8 ? 0.9 : 1.4;
    ink.lineJoin = "round";
    for (let k = lines - 1; k >= 0; --k) {
      ink.strokeStyle = colourOfLine(k, lines);
      ink.beginPath();
      for (let f = 1; f < frames; ++f) ink.lineTo(x(f), y(value(f, k)));
      ink.stroke();
    }
    heading.innerHTML = "<span></span><small></small>";
    heading.firstChild.textContent = curve.title;
    heading.lastChild.textContent = `${run.kind} ${run.envs[chosen]}`;
    chart.picture = ink.getImageData(0, 0, canvas.width, canvas.height);
  }
  function mark(frame, time, chosen) {
    for (const { canvas, picture, numbers, values, lines, left } of charts) {
      if (!picture) continue;
      const ink = canvas.getContext("2d");
      ink.putImageData(picture, 0, 0);
      ink.fillStyle = "#1f2430";
      ink.fillRect(left + (canvas.clientWidth - left - 6) * (time - run.times[0]) / (duration || 1) - 0.75, 2, 1.5, canvas.clientHeight - 6);
      numbers.forEach((number, k) => { number.textContent = frame > 0 ? shortNumber(values[(chosen * frames + frame) * lines + k]) : ""; });
    }
  }
  return {
    draw: (chosen) => charts.forEach((chart) => draw(chart, chosen)),
    mark,
    // of each chart: pixels to the left of its curves, and of its widest number there
    margins: () => charts.map(({ left, widest }) => [left, widest]),
  };
}
