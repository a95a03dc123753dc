// The page: reads the data, draws, listens.

import { Chart } from "./chart";
import { read } from "./data";
import { at, h } from "./dom";
import { nameFaults } from "./events";
import * as panels from "./panels";
import { Model } from "./state";
import { filters, table } from "./table";
import { word } from "./words";

function start(): void {
  const model = new Model(read());
  nameFaults(model.data.faults);
  const chart = new Chart(model);
  let drawn = "";
  const draw = (): void => {
    const { language, theme, selected, view, page, hidden, onlyCause, search } = model.state;
    document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
    if (theme) document.documentElement.dataset["theme"] = theme;
    if (drawn !== language) {
      drawn = language;
      words(model);
    }
    chart.draw();
    const panelState = JSON.stringify([language, selected, page, [...hidden], onlyCause, search]);
    if (panelState !== shown) {
      shown = panelState;
      panels.story(model);
      panels.because(model);
      filters(model);
      table(model);
    }
    void view;
  };
  let shown = "";
  model.listen(draw);
  controls(model);
  draw();
  if (model.state.selected !== null) at("timeline").scrollIntoView({ block: "nearest" });
  document.documentElement.dataset["ready"] = "yes";
}

/** Whatever depends on the language alone. */
function words(model: Model): void {
  panels.verdict(model);
  panels.facts(model);
  panels.legend();
  panels.findings(model);
  panels.cliff(model);
  panels.help();
  const named: [string, Parameters<typeof word>[0]][] = [
    ["title", "title"], ["timeline-title", "timeline"], ["table-title", "table"], ["chart-text", "chart"], ["language", "language"], ["whole", "whole"], ["to-violation", "violation"], ["skip", "skip"], ["legend-title", "legend"], ["help-button", "help"], ["filters-title", "filters"], ["search-label", "search"],
  ];
  for (const [id, name] of named) at(id).textContent = word(name);
  const labelled: [string, Parameters<typeof word>[0]][] = [["zoom-in", "zoomIn"], ["zoom-out", "zoomOut"], ["theme", "theme"], ["overview", "overview"]];
  for (const [id, name] of labelled) { at(id).setAttribute("aria-label", word(name)); at(id).title = word(name); }
  at("search").setAttribute("placeholder", word("searchHint"));
  at("to-violation").hidden = !model.data.subject;
}

const other = (model: Model): void => model.set({ language: model.state.language === "en" ? "zh" : "en" });

function dim(model: Model): void {
  const dark = model.state.theme ? model.state.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  model.set({ theme: dark ? "light" : "dark" });
}

function toViolation(model: Model): void {
  const { subject } = model.data;
  if (!subject) return;
  const air = Math.max((subject.to - subject.from) * 0.2, 300);
  model.set({ view: model.bounded(subject.from - air, subject.to + air) });
}

function fault(model: Model, by: 1 | -1): void {
  const ids = model.data.faults.map((one) => one.event);
  const now = model.state.selected ?? -1;
  const next = by > 0 ? ids.find((id) => id > now) : ids.findLast((id) => id < now);
  if (next !== undefined) model.select(next);
}

function controls(model: Model): void {
  const search = at("search") as HTMLInputElement;
  search.value = model.state.search;
  const help = at("help") as HTMLDialogElement;
  const actions: Record<string, () => void> = {
    ArrowRight: () => panels.step(model, 1), j: () => panels.step(model, 1),
    ArrowLeft: () => panels.step(model, -1), k: () => panels.step(model, -1),
    n: () => fault(model, 1), p: () => fault(model, -1), v: () => toViolation(model),
    "+": () => model.zoom(0.5), "=": () => model.zoom(0.5), "-": () => model.zoom(2), "0": () => model.set({ view: [0, model.end] }),
    f: () => at("filters").querySelector("button")?.focus(), "/": () => search.focus(), w: () => panels.whyDialogue(model),
    l: () => other(model), d: () => dim(model), "?": () => help.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const writes = event.target instanceof HTMLInputElement;
    if (writes && event.key === "Escape") search.blur();
    const scrolls = event.target instanceof HTMLElement && event.target.closest(".scroll, pre, code") && event.key.startsWith("Arrow");
    const act = Object.hasOwn(actions, event.key) ? actions[event.key] : undefined;
    if (writes || scrolls || !act) return;
    event.preventDefault();
    act();
  });
  search.addEventListener("input", () => model.set({ search: search.value, page: 0 }));
  const clicks: [string, () => void][] = [
    ["language", () => other(model)], ["theme", () => dim(model)], ["help-button", () => help.showModal()], ["zoom-in", () => model.zoom(0.5)], ["zoom-out", () => model.zoom(2)],
    ["whole", () => model.set({ view: [0, model.end] })], ["to-violation", () => toViolation(model)],
  ];
  for (const [id, act] of clicks) at(id).addEventListener("click", act);
  at("chart").addEventListener("click", (event) => {
    const id = event.target instanceof Element ? event.target.closest("[data-event]")?.getAttribute("data-event") : null;
    if (id) model.touch(Number(id));
  });
  addEventListener("hashchange", () => { model.readAddress(); model.set({}); });
  addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.open = true; });
}

try {
  start();
} catch (error) {
  // What cannot be read says so: an empty page would look like a run without findings.
  at("verdict").replaceChildren(h("h1", {}, "This page cannot be shown."), h("p", {}, String(error)));
  throw error;
}
