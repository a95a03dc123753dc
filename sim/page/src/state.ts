// What is looked at: the selected event, the stretch of time, language, theme, filters. It
// is the page's address, so that a link shows the same again: #event-12&view=…&lang=zh.

import type { Document, Event } from "./data";
import { CATEGORIES, category, say, sought, type Category } from "./events";
import { speak, type Language } from "./words";

export interface State {
  selected: number | null;
  /** The stretch of time that the chart shows, µs. */
  view: [number, number];
  language: Language;
  theme: "light" | "dark" | null;
  hidden: Set<Category>;
  onlyCause: boolean;
  search: string;
  page: number;
}

export class Model {
  readonly byId = new Map<number, Event>();
  readonly end: number;
  state: State;
  private listeners: (() => void)[] = [];
  private planned = false;

  constructor(readonly data: Document) {
    for (const event of data.events) this.byId.set(event.i, event);
    const last = data.events.at(-1);
    this.end = Math.max(data.run.ended, last?.t ?? 0, 1);
    const chinese = navigator.language.toLowerCase().startsWith("zh");
    this.state = {
      selected: null, view: this.around(), language: chinese ? "zh" : "en", theme: null,
      hidden: new Set(), onlyCause: false, search: "", page: 0,
    };
    this.readAddress();
    speak(this.state.language);
  }

  /** The stretch from the story's first step to its last, or the whole run. */
  around(): [number, number] {
    const times = this.data.story.filter((step) => step.event !== null).map((step) => step.at);
    const { subject } = this.data;
    if (subject) times.push(subject.from, Math.min(subject.to, this.end));
    if (times.length === 0) return [0, this.end];
    const from = Math.min(...times), to = Math.max(...times);
    const air = Math.max((to - from) * 0.06, 500);
    return this.bounded(from - air, to + air);
  }

  bounded(from: number, to: number): [number, number] {
    const length = Math.min(Math.max(to - from, 20), this.end * 1.04);
    const start = Math.min(Math.max(from, -this.end * 0.02), this.end * 1.02 - length);
    return [start, start + length];
  }

  listen(listener: () => void): void { this.listeners.push(listener); }

  /** Changes the state; what shows it is drawn once before the next picture. */
  set(change: Partial<State>): void {
    Object.assign(this.state, change);
    speak(this.state.language);
    if (this.planned) return;
    this.planned = true;
    requestAnimationFrame(() => {
      this.planned = false;
      this.writeAddress();
      for (const listener of this.listeners) listener();
    });
  }

  /** The event of this id; of one that the page leaves out, the last before it. */
  nearest(id: number): Event | undefined {
    const exact = this.byId.get(id);
    if (exact) return exact;
    return this.data.events.findLast((event) => event.i <= id) ?? this.data.events[0];
  }

  select(id: number | null): void {
    const event = id === null ? undefined : this.nearest(id);
    if (!event) return this.set({ selected: null });
    this.set({ selected: event.i, view: this.viewOf(event), page: this.pageOf(event) });
  }

  /** Selects and leaves the stretch of time as it is. */
  touch(id: number): void {
    const event = this.byId.get(id);
    if (event) this.set({ selected: id, page: this.pageOf(event) });
  }

  /** The view in which the event and its nearest neighbours of the story can be told apart. */
  private viewOf(event: Event): [number, number] {
    const [from, to] = this.state.view;
    const gaps = this.data.story.map((step) => Math.abs(step.at - event.t)).filter((gap) => gap > 0);
    const gap = Math.min(...gaps);
    let length = to - from;
    if (Number.isFinite(gap)) {
      if (gap < length / 40) length = gap * 12;
      else if (gap > length / 2) length = gap * 2.5;
    }
    const inside = event.t > from + (to - from) * 0.05 && event.t < to - (to - from) * 0.05;
    if (inside && length === to - from) return this.state.view;
    return this.bounded(event.t - length / 2, event.t + length / 2);
  }

  zoom(factor: number, about?: number): void {
    const [from, to] = this.state.view;
    const chosen = this.state.selected === null ? undefined : this.byId.get(this.state.selected)?.t;
    const seen = chosen !== undefined && chosen >= from && chosen <= to ? chosen : (from + to) / 2;
    const centre = about ?? seen;
    this.set({ view: this.bounded(centre - (centre - from) * factor, centre + (to - centre) * factor) });
  }

  /** All that led to the event, itself included, nearest first, with how many steps back. */
  ancestors(id: number): Map<number, number> {
    const found = new Map<number, number>([[id, 0]]);
    const next = [id];
    while (next.length > 0 && found.size < 400) {
      const of = next.shift()!;
      for (const cause of this.byId.get(of)?.c ?? []) {
        if (found.has(cause) || !this.byId.has(cause)) continue;
        found.set(cause, found.get(of)! + 1);
        next.push(cause);
      }
    }
    return found;
  }

  isShown(event: Event): boolean {
    return !this.state.hidden.has(category(event)) && (!this.state.onlyCause || event.k === 1);
  }

  /** The events of the table. */
  rows(): Event[] {
    const sought_ = this.state.search.trim().toLowerCase();
    const name = (event: Event): string => this.data.lanes[event.n ?? -1]?.name ?? "";
    return this.data.events.filter((event) => this.isShown(event) &&
      (sought_ === "" || sought(event).includes(sought_) || name(event).toLowerCase().includes(sought_) || `#${event.i}` === sought_));
  }

  private pageOf(event: Event): number {
    const at = this.rows().findIndex((row) => row.i === event.i);
    return at < 0 ? this.state.page : Math.floor(at / PAGE);
  }

  readAddress(): void {
    const change: Partial<State> = {};
    for (const part of decodeURIComponent(location.hash.slice(1)).split("&")) {
      const [name, value] = part.split("=");
      const id = /^event-(\d+)$/.exec(part);
      if (id) change.selected = this.nearest(Number(id[1]))?.i ?? null;
      else if (name === "view") {
        const [from, to] = (value ?? "").split("-").map(Number);
        if (from! < to!) change.view = this.bounded(from!, to!);
      } else if (name === "lang" && (value === "en" || value === "zh")) change.language = value;
      else if (name === "theme" && (value === "light" || value === "dark")) change.theme = value;
      else if (name === "hide") change.hidden = new Set(CATEGORIES.filter((one) => value?.split(",").includes(one)));
      else if (name === "only") change.onlyCause = true;
      else if (name === "search") change.search = value ?? "";
    }
    Object.assign(this.state, change);
    const chosen = this.state.selected === null ? undefined : this.byId.get(this.state.selected);
    if (chosen) {
      if (!change.view) this.state.view = this.viewOf(chosen);
      this.state.page = this.pageOf(chosen);
    }
  }

  private writeAddress(): void {
    const { selected, view, language, theme, hidden, onlyCause, search } = this.state;
    const parts = [
      selected === null ? "" : `event-${selected}`,
      `view=${Math.max(0, Math.round(view[0]))}-${Math.round(view[1])}`, `lang=${language}`, theme ? `theme=${theme}` : "",
      hidden.size ? `hide=${[...hidden].join(",")}` : "", onlyCause ? "only=cause" : "", search ? `search=${encodeURIComponent(search)}` : "",
    ];
    history.replaceState(null, "", `#${parts.filter(Boolean).join("&")}`);
  }
}

/** Rows of one page of the table. */
export const PAGE = 200;
export { say };
