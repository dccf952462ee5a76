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
  if (main) {
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
          if (!answer.ok) throw new Error(String(answer.status));
          const text = await answer.text();
          if (text !== last && !isBusy(main)) {
            const at = [...main.querySelectorAll(".wide")].map((one) => one.scrollLeft);
            const focused = document.activeElement && document.activeElement.getAttribute("href");
            main.innerHTML = text;
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
