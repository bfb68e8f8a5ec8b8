// Keys, an output that stays at its end, and a page that does not outlive its session. Nothing here decides anything; pages are whole without it.
(() => {
  "use strict";
  const places = {d: "/ui", j: "/ui/jobs", l: "/ui/locks", f: "/ui/filters", r: "/ui/rates", h: "/ui/history", s: "/ui/schedules", u: "/ui/resources"};
  let went = false;
  let at = -1;

  const typing = (element) => element.matches("input:not([type=checkbox]), textarea, select");
  const rows = () => [...document.querySelectorAll("table.jobs tbody tr")];

  function move(step) {
    const all = rows();
    if (!all.length) return;
    all.forEach((row) => row.classList.remove("at"));
    at = Math.min(Math.max(at + step, 0), all.length - 1);
    all[at].classList.add("at");
    all[at].querySelector("a").focus();
  }

  const keys = {
    "/": () => document.getElementById("where")?.focus(),
    "?": () => location.assign("/ui/keys"),
    j: () => move(1),
    k: () => move(-1),
    x: () => rows()[at]?.querySelector("input[type=checkbox]")?.click(),
    n: () => document.getElementById("older")?.click(),
    u: () => history.back(),
    g: () => { went = true; setTimeout(() => { went = false; }, 1500); },
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (typing(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (went && places[event.key]) {
      event.preventDefault();
      location.assign(places[event.key]);
      return;
    }
    if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  });

  // the session is over, or its rights are: the page says so when it is loaded
  document.addEventListener("htmx:sse:error", (event) => {
    if (event.detail.status === 401 || event.detail.status === 403) location.reload();
  });

  const output = document.getElementById("output");
  if (output && "follow" in output.dataset) {
    // whoever scrolls up reads; at the end again, it follows again
    let follows = true;
    output.scrollTop = output.scrollHeight;
    output.addEventListener("scroll", () => {
      follows = output.scrollHeight - output.scrollTop - output.clientHeight < 24;
    });
    new MutationObserver(() => {
      if (follows) output.scrollTop = output.scrollHeight;
    }).observe(output, {childList: true, characterData: true, subtree: true});
  }
})();
