// Keeps a page fresh without loading it anew, and follows logs. Talks to its own server only.
"use strict";
(() => {
  const note = document.getElementById("link");
  const say = (text, lost) => {
    if (!note) return;
    note.textContent = text;
    note.classList.toggle("lost", lost);
  };

  // A reader who marks text, or holds a key's focus in the page, keeps what is there.
  const isBusy = (main) => {
    const marked = window.getSelection();
    return marked && !marked.isCollapsed && main.contains(marked.anchorNode);
  };

  const main = document.getElementById("live");

  // What a reader has chosen: kept for the page while its window is open, the zone for all pages.
  const chosen = (store, key, value) => {
    try {
      if (value === undefined) return store.getItem(key) || "";
      store.setItem(key, value);
    } catch (error) {
      // a browser that keeps nothing: the choice holds until the page is left
    }
    return value;
  };
  const here = (what) => `${what} ${location.pathname}`;
  let wanted = chosen(sessionStorage, here("search"));
  let order = {}; // by the number of a table: [column, 1 or -1]
  try {
    order = JSON.parse(chosen(sessionStorage, here("order")) || "{}");
  } catch (error) {
    order = {};
  }
  let local = chosen(localStorage, "zone") === "local";

  const keyOf = (cell) => {
    if (!cell) return "";
    const moment = cell.querySelector("time");
    if (moment) return Date.parse(moment.dateTime);
    const meter = cell.querySelector("meter");
    if (meter) return meter.value;
    return cell.dataset.sort === undefined ? cell.textContent.trim() : Number(cell.dataset.sort);
  };
  const compare = (one, other) => {
    const numbers = typeof one === "number" && typeof other === "number";
    return numbers ? one - other : String(one).localeCompare(String(other), undefined, { numeric: true });
  };

  // Sorts and searches the tables, and writes times in the zone that is wanted. The page comes in its own order.
  const arrange = (root) => {
    [...root.querySelectorAll(".wide > table")].forEach((table, number) => {
      const body = table.tBodies[0];
      const [column, way] = order[number] || [];
      [...table.tHead.rows[0].cells].forEach((title, at) => {
        title.tabIndex = 0;
        title.setAttribute("aria-sort", at !== column ? "none" : way > 0 ? "ascending" : "descending");
      });
      if (column !== undefined) {
        const rows = [...body.rows].map((row) => [keyOf(row.cells[column]), row]);
        rows.sort((one, other) => way * compare(one[0], other[0]));
        body.append(...rows.map((pair) => pair[1]));
      }
      const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of body.rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    });
    if (!local) return;
    const two = (number) => String(number).padStart(2, "0");
    const today = new Date().toDateString();
    for (const one of root.querySelectorAll("time")) {
      const at = new Date(one.dateTime);
      const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
      const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
      one.textContent = one.textContent.length < 10 && at.toDateString() === today ? clock : `${day} ${clock}`;
    }
  };

  const zone = document.getElementById("zone");
  const button = document.createElement("button");
  const sayZone = () => {
    const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
    zone.textContent = local ? `Times are ${name}. ` : "Times are UTC. ";
    button.textContent = local ? "Show UTC" : `Show ${name}`;
    zone.append(button);
  };
  const differs = new Date().getTimezoneOffset() !== 0;
  if (zone && (differs || local) && document.querySelector("time")) {
    sayZone();
    button.addEventListener("click", () => {
      local = !local;
      chosen(localStorage, "zone", local ? "local" : "UTC");
      if (main) show(fresh);
      else location.reload();
      sayZone();
    });
  }

  let fresh = ""; // the page as it came
  const show = (text) => {
    main.innerHTML = text;
    arrange(main);
  };
  if (main) {
    fresh = main.innerHTML;
    const search = document.createElement("input");
    Object.assign(search, { type: "search", id: "search", placeholder: "Search rows", value: wanted });
    search.setAttribute("aria-label", "Search the rows of the tables");
    const offer = () => {
      search.hidden = !wanted && main.querySelectorAll(".wide tbody tr").length < 2;
    };
    document.querySelector("header").insertBefore(search, note);
    search.addEventListener("input", () => {
      wanted = chosen(sessionStorage, here("search"), search.value);
      arrange(main);
    });
    const sortBy = (event) => {
      const title = event.target.closest("th");
      if (!title || !main.contains(title)) return;
      if (event.type === "keydown" && event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      const number = [...main.querySelectorAll(".wide > table")].indexOf(title.closest("table"));
      const [column, way] = order[number] || [];
      const first = title.classList.contains("num") ? -1 : 1; // the largest numbers first
      if (column !== title.cellIndex) order[number] = [title.cellIndex, first];
      else if (way === first) order[number] = [column, -first];
      else delete order[number];
      chosen(sessionStorage, here("order"), JSON.stringify(order));
      show(fresh);
      const again = main.querySelectorAll(".wide > table")[number].tHead.rows[0].cells[title.cellIndex];
      if (event.type === "keydown") again.focus({ preventScroll: true });
    };
    main.addEventListener("click", sortBy);
    main.addEventListener("keydown", sortBy);
    arrange(main);
    offer();

    const every = Number(main.dataset.every) || 1000;
    let last = "";
    let lostAt = 0;
    const refresh = async () => {
      if (!document.hidden && !isBusy(main)) {
        try {
          const answer = await fetch(location.href, {
            headers: { "X-Fragment": "1" },
            cache: "no-store",
            signal: AbortSignal.timeout(10000),
          });
          if (answer.status === 403) {
            say("this link is no longer valid: `yopp status` prints the present one", true);
            return;
          }
          if (!answer.ok) throw new Error(String(answer.status));
          const text = await answer.text();
          if (text !== last && !isBusy(main)) {
            const at = [...main.querySelectorAll(".wide")].map((one) => one.scrollLeft);
            const focused = document.activeElement && document.activeElement.getAttribute("href");
            fresh = text;
            show(text);
            offer();
            [...main.querySelectorAll(".wide")].forEach((one, i) => (one.scrollLeft = at[i] || 0));
            const again = focused && [...main.querySelectorAll("a")].find((a) => a.getAttribute("href") === focused);
            if (again) again.focus({ preventScroll: true });
            last = text;
          }
          lostAt = 0;
          say("live", false);
        } catch (error) {
          lostAt = lostAt || Date.now();
          say(`no answer for ${Math.round((Date.now() - lostAt) / 1000)} s`, true);
        }
      }
      setTimeout(refresh, every);
    };
    setTimeout(refresh, every);
  }

  const KEPT = 2000000; // characters of a log that stay on the page
  for (const log of document.querySelectorAll("pre[data-log]")) {
    let position = Number(log.dataset.position) || 0;
    const follow = async () => {
      let pause = 1000;
      try {
        if (!document.hidden || !log.textContent) {
          const answer = await fetch(`${log.dataset.log}?start=${position}`, {
            cache: "no-store",
            signal: AbortSignal.timeout(10000),
          });
          if (!answer.ok) throw new Error(String(answer.status));
          const text = await answer.text();
          const end = Number(answer.headers.get("X-Log-Position"));
          if (end < position) log.textContent = "";
          position = end;
          if (text) {
            const below = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
            log.append(text);
            if (log.textContent.length > KEPT) log.textContent = log.textContent.slice(-KEPT / 2);
            if (below) log.scrollTop = log.scrollHeight;
            pause = 100;
          }
          log.classList.remove("lost");
          if (answer.headers.get("X-Log-Ended") === "1") {
            log.classList.add("ended");
            return;
          }
        }
      } catch (error) {
        log.classList.add("lost");
      }
      setTimeout(follow, pause);
    };
    follow();
  }
})();
