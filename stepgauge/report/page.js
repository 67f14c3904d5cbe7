"use strict";
// Shows one problem at a time. Model text is only ever set as text, never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const by = (id) => document.getElementById(id);
  const list = by("list"), more = by("more"), view = by("problem"), search = by("search"), filter = by("filter"), chooser = by("scorer");
  const PAGE = 200;
  let shown = [], listed = 0, current = -1;

  const element = (tag, text, className) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
  };
  const status = (problem, wanted) => problem.candidates.some((c) => Object.values(c.scores).some((s) => s.status === wanted));
  const filters = {
    all: () => true,
    wrong: (p) => p.correct === false,
    right: (p) => p.correct === true,
    missed: (p) => p.correct === false && p.candidates.some((c) => c.correct),
    disagreed: (p) => Object.keys(p.disagreed).length > 0,
    error: (p) => status(p, "error"),
    abstain: (p) => status(p, "abstain"),
  };
  const haystack = data.problems.map((p) =>
    [p.problem_id, p.problem, p.answer, p.gold, ...p.candidates.flatMap((c) => [c.id, c.answer, ...c.steps])].join("\n").toLowerCase());
  const number = (value) => (value === null || value === undefined ? "not scored" : Number(value.toPrecision(4)).toString());

  // Five colours: of 0 to 1 for probabilities, else between the smallest and largest value of the problem.
  const colour = (value, kind, low, high) => {
    if (value === null) return "";
    const share = kind === "correctness" || kind === "value" ? value : high > low ? (value - low) / (high - low) : 0.5;
    return "s" + Math.min(4, Math.max(0, Math.floor(share * 5)));
  };

  const step = (text, index, scores, kind, low, high) => {
    const value = scores.values[index];
    const node = element("div", undefined, "step " + colour(value, kind, low, high));
    const label = value === null ? `not scored: ${scores.reasons[index]}` : number(value);
    const first = scores.first_error === index ? ", first wrong step" : "";
    node.append(element("span", `${index}: ${label}${first}`, "score"), element("span", text));
    node.title = `step ${index}: ${label}${first}`;
    if (Object.keys(scores.details[index] || {}).length) {
      const evidence = element("details");
      evidence.append(element("summary", "evidence"), element("pre", JSON.stringify(scores.details[index], null, 1)));
      node.append(evidence);
    }
    return node;
  };

  const candidate = (one, problem, kind, low, high) => {
    const scores = one.scores[chooser.value];
    const node = element("section", undefined, "candidate" + (one.id === problem.picked ? " picked" : ""));
    const verdict = one.correct === null ? "" : one.correct ? ", right" : ", wrong";
    node.append(element("h3", `${one.id}${one.id === problem.picked ? " (picked)" : ""}`));
    node.append(element("p", `answer: ${one.answer ?? "none"}${verdict}`, "facts"));
    const each = Object.entries(one.scores).map(([name, s]) => `${name}: ${s.status === "ok" ? number(s.aggregate) : s.status}`);
    node.append(element("p", each.join(" · "), "facts"));
    if (scores.status !== "ok") node.append(element("p", scores.summary.message || scores.summary.reason || "", "facts"));
    one.steps.forEach((text, index) => node.append(step(text, index, scores, kind, low, high)));
    return node;
  };

  const open = (position, focus) => {
    if (position < 0 || position >= shown.length) return;
    while (position >= listed) extend();
    list.children[current]?.firstChild.removeAttribute("aria-current");
    current = position;
    const button = list.children[current].firstChild;
    button.setAttribute("aria-current", "true");
    if (focus) button.scrollIntoView({ block: "nearest" });
    const problem = data.problems[shown[current]];
    const kind = data.scorers.find((s) => s.name === chooser.value).kind;
    const values = problem.candidates.flatMap((c) => c.scores[chooser.value].values).filter((v) => v !== null);
    const low = Math.min(...values), high = Math.max(...values);
    const row = element("div", undefined, "candidates");
    row.tabIndex = 0;
    row.setAttribute("role", "group");
    row.setAttribute("aria-label", "Candidates");
    problem.candidates.forEach((one) => row.append(candidate(one, problem, kind, low, high)));
    const disagreed = Object.entries(problem.disagreed).map(([rule, answer]) => `${rule}: ${answer ?? "none"}`);
    view.replaceChildren(
      element("h3", problem.problem_id === problem.problem ? "Problem" : problem.problem_id),
      element("p", problem.problem, "problem-text"),
      element("p", `gold: ${problem.gold ?? "unknown"}; picked: ${problem.answer ?? "none"} by ${problem.rule}`, "facts"),
      element("p", disagreed.length ? `disagreed: ${disagreed.join("; ")}` : "all rules agree", "facts"),
      row);
    history.replaceState(null, "", "#" + shown[current]);
  };

  const extend = () => {
    const end = Math.min(shown.length, listed + PAGE);
    for (; listed < end; listed++) {
      const position = listed, problem = data.problems[shown[position]];
      const mark = problem.correct === null ? "" : problem.correct ? "✓ " : "✗ ";
      const button = element("button", mark + (problem.problem || problem.problem_id).slice(0, 120));
      button.type = "button";
      button.addEventListener("click", () => open(position, false));
      const item = element("li");
      item.append(button);
      list.append(item);
    }
    more.hidden = listed >= shown.length;
  };

  const refresh = () => {
    const words = search.value.toLowerCase().trim();
    shown = data.problems.map((_, i) => i).filter((i) => filters[filter.value](data.problems[i]) && haystack[i].includes(words));
    by("count").textContent = `${shown.length} of ${data.problems.length} problems`;
    list.replaceChildren();
    listed = 0;
    current = -1;
    extend();
    if (shown.length) open(0, false);
    else view.replaceChildren(element("p", "No problem matches.", "facts"));
  };

  data.scorers.forEach((scorer) => chooser.append(new Option(scorer.name, scorer.name)));
  search.addEventListener("input", refresh);
  filter.addEventListener("change", refresh);
  chooser.addEventListener("change", () => open(current, false));
  more.addEventListener("click", extend);
  by("theme").addEventListener("click", () => {
    const root = document.documentElement.classList;
    const dark = root.contains("dark") || (!root.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);
    root.toggle("dark", !dark);
    root.toggle("light", dark);
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "j") open(current + 1, true);
    else if (event.key === "k") open(current - 1, true);
    else if (event.key === "/") { event.preventDefault(); search.focus(); }
  });
  const wanted = Number(location.hash.slice(1));
  refresh();
  if (location.hash && shown.includes(wanted)) open(shown.indexOf(wanted), true);
})();
