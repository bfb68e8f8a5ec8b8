// Keys, an output that stays at its end and within bounds, and a page that does not outlive its session. Nothing here decides anything; pages are whole without it.
(() => {
  "use strict";
  const places = {d: "/ui", j: "/ui/jobs", l: "/ui/locks", w: "/ui/graph", f: "/ui/filters", r: "/ui/rates", h: "/ui/history", s: "/ui/schedules", u: "/ui/resources", n: "/ui/nodes"};
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

  // the first of these fields that the page has
  function search(...ids) {
    const field = ids.map((id) => document.getElementById(id)).find(Boolean);
    field?.focus();
    field?.select();
  }

  const keys = {
    "/": () => search("where", "find", "search"),
    "?": () => location.assign("/ui/keys"),
    j: () => move(1),
    k: () => move(-1),
    x: () => rows()[at]?.querySelector("input[type=checkbox]")?.click(),
    n: () => document.getElementById("older")?.click(),
    u: () => history.back(),
    g: () => { went = true; setTimeout(() => { went = false; }, 1500); },
  };

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "k") {
      event.preventDefault();
      search("search");
      return;
    }
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

  // colours change without a load: what somebody has typed stays
  const theme = document.getElementById("theme");
  theme.hidden = false;
  theme.addEventListener("submit", async (event) => {
    event.preventDefault();
    const chosen = event.submitter;
    const body = new URLSearchParams(new FormData(theme, chosen));
    // the next page has these colours, too; without a reply only this one has
    await fetch(theme.action, {method: "POST", body, redirect: "manual"}).catch(() => {});
    const root = document.documentElement;
    if (chosen.value === "auto") delete root.dataset.theme;
    else root.dataset.theme = chosen.value;
    theme.querySelectorAll("button").forEach((button) => {
      button.classList.toggle("chosen", button === chosen);
      if (button === chosen) button.setAttribute("aria-pressed", "true");
      else button.removeAttribute("aria-pressed");
    });
  });

  // a list completes whole values: so each name is offered behind what was typed before it
  const where = document.getElementById("where");
  const names = [...document.querySelectorAll("#fields option")].map((option) => [option, option.value]);
  where?.addEventListener("input", () => {
    const before = where.value.replace(/[\w.]*$/, "");
    names.forEach(([option, name]) => { option.value = before + name; });
  });

  // how old the page is: the server says so every two seconds, and when it is not heard, this does
  if (document.getElementById("live") && document.getElementById("fresh")) {
    let heard = Date.now();
    document.addEventListener("htmx:sse:after:message", () => { heard = Date.now(); });
    setInterval(() => {
      const silent = Math.round((Date.now() - heard) / 1000);
      const fresh = document.getElementById("fresh");
      if (silent < 7) return;
      if (!fresh.classList.contains("cut")) {
        fresh.className = "fresh bad cut";
        fresh.innerHTML = '<span role="status">not connected</span><span aria-hidden="true"></span>';
      }
      fresh.lastChild.textContent = ` · reconnecting for ${silent} s; what is shown is of ${fresh.dataset.at}`;
    }, 1000);
  }

  // on a telephone the names of the pages are one row, and may be wider than it
  const here = document.querySelector(".top nav [aria-current]");
  if (here) here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.offsetLeft - 60;

  const output = document.getElementById("output");
  const found = () => document.getElementById(location.hash.slice(1));

  // a line that another part of the output has: the page that begins a little before it
  function show() {
    const number = /^#L([1-9][0-9]{0,14})$/.exec(location.hash)?.[1];
    if (!output || !number) return;
    const line = found();
    if (line) {
      line.closest("details")?.setAttribute("open", "");
      line.scrollIntoView({block: "center"});
      return;
    }
    const query = new URLSearchParams(location.search);
    const from = String(Math.max(number - 20, 1));
    // some lines are never shown
    if (query.get("line") === from) return;
    query.delete("stop");
    query.set("line", from);
    location.replace(`?${query}${location.hash}`);
  }

  show();
  addEventListener("hashchange", show);

  if (output && "follow" in output.dataset) {
    const MOST_LINES = 5000;
    const MOST_ELEMENTS = 40000;
    const MOST_CHARACTERS = 2000000;
    const rows = document.getElementById("rows");
    const lines = rows.getElementsByClassName("l");
    const elements = rows.getElementsByTagName("*");
    // whoever scrolls up reads; at the end again, it follows again
    let follows = !found();

    function removeFirst(count) {
      [...lines].slice(0, count).forEach((line) => {
        const group = line.closest("details");
        // the heading goes with the last line of its group; that of an open group stays, as more comes there
        if (!line.matches("summary")) line.remove();
        if (group && group !== rows.lastElementChild && !group.querySelector("div.l")) group.remove();
      });
    }

    // a job may print for ever, and the browser keeps a bounded part of it
    function bound() {
      const before = lines.length;
      if (before > MOST_LINES) removeFirst(before - MOST_LINES);
      while (lines.length > 1 && (elements.length > MOST_ELEMENTS || rows.textContent.length > MOST_CHARACTERS)) {
        const heavy = lines.length;
        removeFirst(Math.ceil(heavy / 10));
        if (lines.length === heavy) break;
      }
      const first = rows.querySelector("div.l:not(.note), details:not(:has(div.l)) > summary.l") ?? output.querySelector("#tail .l");
      const number = Number(first?.id.slice(1));
      if (number > 1) {
        const told = document.getElementById("left-out");
        told.querySelector("b").textContent = number;
        told.hidden = false;
      }
    }

    output.scrollTop = follows ? output.scrollHeight : output.scrollTop;
    output.addEventListener("scroll", () => {
      follows = output.scrollHeight - output.scrollTop - output.clientHeight < 24;
    });
    new MutationObserver(() => {
      bound();
      if (follows) output.scrollTop = output.scrollHeight;
    }).observe(output, {childList: true, characterData: true, subtree: true});
  }
})();
