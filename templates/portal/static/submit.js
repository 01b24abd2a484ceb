"use strict";
/* While somebody types: the YAML of the form, and what the server says of it. A later question makes an older answer void. */
document.addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("job");
  const text = document.getElementById("yaml");
  const findings = document.getElementById("findings");
  const forecast = document.getElementById("forecast");
  const PAUSE = 400;
  let edited = text.value.trim() !== "" && form.elements.name.value === "";
  let timer = 0, asked = 0;

  function line(tag, style, words) {
    const element = document.createElement(tag);
    element.className = style;
    element.textContent = words;
    return element;
  }

  function finding(one) {
    const item = line("li", one.severity, " " + one.message + " ");
    const place = document.createElement("button");
    place.type = "button";
    place.className = "place";
    place.textContent = `${one.line}:${one.column}`;
    place.addEventListener("click", () => go(one));
    item.prepend(place);
    item.append(line("span", "quiet", one.rule + (one.hint ? " – " + one.hint : "")));
    return item;
  }

  function go(one) {
    const lines = text.value.split("\n");
    const start = lines.slice(0, one.line - 1).reduce((sum, part) => sum + part.length + 1, 0) + one.column - 1;
    const length = one.endLine === one.line ? Math.max(one.endColumn - one.column, 1) : 1;
    text.focus();
    text.setSelectionRange(start, start + length);
  }

  function show(found) {
    const list = document.createElement("ul");
    list.className = "findings";
    list.append(...found.findings.map(finding));
    findings.replaceChildren(list);
    if (found.refusal) findings.prepend(line("p", "error", found.refusal));
    if (found.sound && !found.findings.length) findings.append(line("p", "yes", findings.dataset.clean));
    if (found.forecast.length) forecast.replaceChildren(...found.forecast.map((one) => line("p", "pre line", one)));
    else forecast.replaceChildren(line("p", "quiet", forecast.dataset.unsound));
  }

  async function ask() {
    const number = ++asked;
    if (!edited) {
      const fields = Object.fromEntries(new FormData(form));
      delete fields.yaml;
      const answer = await portal.send("/submit/draft", JSON.stringify(fields));
      if (number !== asked || answer.status !== 200) return;
      text.value = answer.data.yaml;
    }
    const answer = await portal.send("/submit/check", JSON.stringify({ yaml: text.value }));
    if (number !== asked) return;
    if (answer.status === 200) show(answer.data);
    else findings.replaceChildren(line("p", "error", answer.data.message));
  }

  const soon = () => { clearTimeout(timer); timer = setTimeout(() => ask().catch(() => {}), PAUSE); };
  form.addEventListener("input", (event) => {
    if (event.target.name === "stop") return;
    edited = event.target === text;
    soon();
  });
  document.getElementById("draft").addEventListener("click", (event) => { event.preventDefault(); edited = false; soon(); });
  document.getElementById("check").addEventListener("click", (event) => { event.preventDefault(); soon(); });
});
