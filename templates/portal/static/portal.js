"use strict";
/* What all pages share. An element with data-live="ADDRESS" is fetched anew every few seconds while somebody looks;
   a form with data-ask="TEXT" asks before it is sent. */
(() => {
  const EVERY = 4000;

  async function refresh(element) {
    const answer = await fetch(element.dataset.live, { headers: { Accept: "text/html" } });
    if (answer.redirected) { location.reload(); return; }
    if (!answer.ok) return;
    const text = await answer.text();
    if (element.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")) return;
    if (text === element.dataset.last) return;
    element.dataset.last = text;
    const held = document.activeElement && element.contains(document.activeElement) ? document.activeElement.id : "";
    const parsed = new DOMParser().parseFromString(text, "text/html");
    element.replaceChildren(...parsed.body.childNodes);
    if (held) document.getElementById(held)?.focus();
  }

  function live() {
    const elements = document.querySelectorAll("[data-live]");
    if (!elements.length) return;
    const look = async () => {
      if (!document.hidden) {
        for (const element of elements) await refresh(element).catch(() => {});
      }
      setTimeout(look, EVERY);
    };
    setTimeout(look, EVERY);
  }

  function asking() {
    document.addEventListener("submit", (event) => {
      const form = event.target;
      if (form.dataset.ask && !confirm(form.dataset.ask)) event.preventDefault();
    });
  }

  window.portal = {
    /* A request that changes something or needs a body: JSON or text out, JSON in. */
    async send(address, body, type) {
      const token = document.querySelector("meta[name=csrf]").content;
      const headers = { "Content-Type": type || "application/json", "X-CSRF-Token": token, Accept: "application/json" };
      const answer = await fetch(address, { method: "POST", headers, body });
      return { status: answer.status, data: await answer.json() };
    },
    say(text) { document.getElementById("said").textContent = text; },
  };

  document.addEventListener("DOMContentLoaded", () => { live(); asking(); });
})();
