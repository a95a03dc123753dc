// All events as a table: what the chart shows, as text, with filters and search.

import { at, h } from "./dom";
import { CATEGORIES, category, say } from "./events";
import { PAGE, type Model } from "./state";
import { seconds, word } from "./words";

export function filters(model: Model): void {
  const { state, data } = model;
  const there = CATEGORIES.filter((one) => data.events.some((event) => category(event) === one));
  const toggle = (text: string, pressed: boolean, act: () => void): HTMLElement =>
    h("button", { type: "button", class: "chip", "aria-pressed": String(pressed), click: act }, text);
  const focused = document.activeElement instanceof HTMLElement && document.activeElement.closest("#filters") ? document.activeElement.textContent : null;
  at("filters").replaceChildren(
    ...there.map((one) => toggle(word(one), !state.hidden.has(one), () => {
      const hidden = new Set(state.hidden);
      if (!hidden.delete(one)) hidden.add(one);
      model.set({ hidden, page: 0 });
    })),
    data.events.some((event) => event.k === 1) ? toggle(word("onlyCause"), state.onlyCause, () => model.set({ onlyCause: !state.onlyCause, page: 0 })) : "");
  if (focused) [...at("filters").querySelectorAll("button")].find((one) => one.textContent === focused)?.focus();
}

export function table(model: Model): void {
  const { data, state } = model;
  const rows = model.rows();
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  const page = Math.min(state.page, pages - 1);
  const shown = rows.slice(page * PAGE, (page + 1) * PAGE);
  const turn = (by: number, text: string, name: string): HTMLElement =>
    h("button", { type: "button", "aria-label": name, disabled: page + by < 0 || page + by >= pages, click: () => model.set({ page: page + by }) }, text);
  const link = (id: number): HTMLElement =>
    h("a", { href: `#event-${id}`, click: (event: Event) => { event.preventDefault(); model.select(id); } }, `#${id}`);
  const left = data.events.length < data.events_in_all
    ? [h("p", { class: "note" }, word("dropped", data.events.reduce((sum, event) => sum + (event.x ?? 1), 0), data.events_in_all), " ", word("collapsed"))] : [];
  at("table").replaceChildren(
    ...left,
    ...(data.bars_left_out ? [h("p", { class: "note" }, word("droppedBars", data.bars_left_out))] : []),
    h("div", { class: "controls" }, turn(-1, "←", word("previous")), turn(1, "→", word("next")),
      h("span", { "aria-live": "polite" }, rows.length === 0 ? word("noRows") : word("page", page * PAGE + 1, page * PAGE + shown.length, rows.length))),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": word("table") }, h("table", { class: "events" },
      h("thead", {}, h("tr", {}, ...(["number", "time", "node", "what", "ledBy"] as const).map((name) => h("th", { scope: "col" }, word(name))))),
      h("tbody", {}, ...shown.map((event) => h("tr", {
        id: `event-${event.i}`, class: event.k ? "in-cause" : null, "aria-current": event.i === state.selected ? "true" : null,
      }, h("th", { scope: "row" }, link(event.i)), h("td", { class: "time" }, seconds(event.t, true)), h("td", {}, data.lanes[event.n ?? -1]?.name ?? ""),
        h("td", {}, say(event), event.x ? ` (${word("times", event.x, seconds(event.u ?? event.t))})` : ""),
        h("td", {}, ...(event.c ?? []).flatMap((id, n) => [n ? ", " : "", model.byId.has(id) ? link(id) : `#${id}`]))))))));
}
