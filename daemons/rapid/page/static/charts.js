// Curves whose values can be read under the pointer. Without a script the drawing of the server stands there.
(() => {
  "use strict";
  const HEIGHT = 190;
  const plots = new Map();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const stroke = (kind) => colour({"curve-1": "--running", "curve-2": "--waiting", "curve-3": "--success"}[kind]);
  // of the zone in which all other times of the page are
  const offset = Number(document.documentElement.dataset.offset);
  const clock = (seconds) => new Date((seconds + offset) * 1000).toISOString().slice(11, 19);
  const dash = {"curve-2": [7, 4], "curve-3": [2, 4]};

  function options(element, data) {
    const axis = {stroke: colour("--muted"), grid: {stroke: colour("--faint")}, ticks: {stroke: colour("--faint")}};
    const value = (_, number) => number === null ? "-" : `${number.toPrecision(3)}${data.unit}`;
    return {
      width: element.clientWidth,
      height: HEIGHT,
      legend: {live: true},
      series: [{label: "at", value: (_, at) => at === null ? "-" : clock(at)}, ...data.curves.map((curve) => ({
        label: curve.name, stroke: stroke(curve.kind), dash: dash[curve.kind], width: 2, value, points: {show: false},
      }))],
      axes: [{...axis, space: 80, values: (_, instants) => instants.map(clock)}, {...axis, size: 64}],
      scales: {y: {range: (_, low, high) => [0, Math.max(high, 1e-3) * 1.1]}},
    };
  }

  function show(element) {
    const data = JSON.parse(element.dataset.plot);
    if (data.instants.length < 2 || !element.clientWidth) return;
    const columns = [data.instants, ...data.curves.map((curve) => curve.values)];
    const plot = plots.get(element);
    if (plot) {
      plot.setData(columns);
      return;
    }
    plots.set(element, new uPlot(options(element, data), columns, element));
    element.previousElementSibling?.setAttribute("hidden", "");
  }

  const showAll = () => document.querySelectorAll("[data-plot]").forEach(show);
  showAll();
  // the stream changes the data of the elements, and leaves what is in them
  new MutationObserver(showAll).observe(document.body, {attributes: true, attributeFilter: ["data-plot"], subtree: true});
  // curves are drawn in the colours of the page
  new MutationObserver(() => {
    plots.forEach((plot) => plot.destroy());
    plots.clear();
    showAll();
  }).observe(document.documentElement, {attributes: true, attributeFilter: ["data-theme"]});
  addEventListener("resize", () => plots.forEach((plot, element) => {
    plot.setSize({width: element.clientWidth, height: HEIGHT});
  }));
})();
