"use strict";
// Sends the form to /v1/score and shows the steps. Text is only ever set as text, never as HTML.
(() => {
  const by = (id) => document.getElementById(id);
  const element = (tag, text, className) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
  };
  const number = (value) => (value === null ? "not scored" : Number(value.toPrecision(4)).toString());
  const headers = () => {
    const token = by("token").value;
    return token ? { "Content-Type": "application/json", Authorization: "Bearer " + token } : { "Content-Type": "application/json" };
  };

  const scorers = async () => {
    const answer = await fetch("/v1/models", { headers: headers() });
    if (!answer.ok) return;
    const found = (await answer.json()).data;
    by("scorer").replaceChildren(...found.map((s) => new Option(`${s.id} (${s.kind})`, s.id)));
  };

  // Five colours: of 0 to 1 for probabilities, else between the smallest and largest value shown.
  const colour = (value, result) => {
    if (value === null) return "";
    const known = result.values.filter((v) => v !== null), low = Math.min(...known), high = Math.max(...known);
    const share = ["correctness", "value"].includes(result.kind) ? value : high > low ? (value - low) / (high - low) : 0.5;
    return "s" + Math.min(4, Math.max(0, Math.floor(share * 5)));
  };

  const show = (result, steps) => {
    const facts = [`status: ${result.status}`, `aggregate: ${number(result.aggregate)}`];
    if (result.summary.message || result.summary.reason) facts.push(result.summary.message || result.summary.reason);
    by("result").replaceChildren(element("p", facts.join("; "), "facts"));
    result.values.forEach((value, index) => {
      const first = result.first_error === index ? ", first wrong step" : "";
      const label = value === null ? `not scored: ${result.reasons[index]}` : number(value);
      const node = element("div", undefined, "step " + colour(value, result));
      node.append(element("span", `${index}: ${label}${first}`, "score"), element("span", steps[index]));
      by("result").append(node);
    });
  };

  by("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const steps = by("text").value.split(/\n+/).map((step) => step.trim()).filter(Boolean);
    const rollout = { problem: by("problem").value, steps };
    if (by("gold").value) rollout.gold = by("gold").value;
    const body = { rollouts: [rollout] };
    if (by("scorer").value) body.scorer = by("scorer").value;
    by("result").replaceChildren(element("p", "scoring …", "facts"));
    try {
      const answer = await fetch("/v1/score", { method: "POST", headers: headers(), body: JSON.stringify(body) });
      const found = await answer.json();
      if (answer.ok) show(found.results[0], steps);
      else by("result").replaceChildren(element("p", `${answer.status}: ${JSON.stringify(found.detail)}`, "facts"));
    } catch (error) {
      by("result").replaceChildren(element("p", `no answer: ${error.message}`, "facts"));
    }
  });
  by("token").addEventListener("change", scorers);
  scorers();
})();
