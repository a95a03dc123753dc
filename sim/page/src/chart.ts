// The timeline: a lane for each node, faults behind, promise, belief and effects apart, what
// one led another to as lines with their slope, the violation in a bracket. Far away it
// shows bars and counts, near by each event and its words.

import type { Event, FaultBand, Lane } from "./data";
import { at, s } from "./dom";
import { category, say, shape, signed, type Shape } from "./events";
import type { Model } from "./state";
import { between, seconds, told, word } from "./words";

const TOP = 46;
const HEIGHT = { client: 80, server: 60, sentinel: 34, resource: 50, other: 30 } as const;
/** Where a lane's signs are, below its top; its pins are above them, what faults are called below. */
const SIGNS = { client: 60, server: 41, sentinel: 22, resource: 34, other: 20 } as const;
/** Signs closer than this are drawn as one with a number. */
const CLOSE = 9;
/** In a view longer than this, µs, of messages only those are drawn that led to something, or were lost. */
const NEAR = 1_000_000;
/** In a view longer than this the ends of messages have no signs: their lines say it. */
const NEAREST = 100_000;
/** Beyond so many lines only those of the cause are drawn. */
const MOST_LINES = 250;

interface Frame { model: Model; width: number; gutter: number; height: number; tops: number[]; x(t: number): number; from: number; to: number }

export class Chart {
  private readonly svg: SVGSVGElement;
  private readonly overview: SVGSVGElement;
  private frame: Frame | null = null;

  constructor(private readonly model: Model) {
    this.svg = s("svg", { role: "img", "aria-labelledby": "chart-text" });
    this.overview = s("svg", { height: 34, "aria-hidden": "true" });
    at("chart").replaceChildren(this.svg);
    at("overview").replaceChildren(this.overview);
    this.drag(this.svg, (moved, frame) => -moved / (frame.width - frame.gutter) * (frame.to - frame.from));
    this.drag(this.overview, (moved, frame) => moved / frame.width * this.model.end);
    this.svg.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    new ResizeObserver(() => this.draw()).observe(at("chart"));
  }

  private wheel(event: WheelEvent): void {
    const frame = this.frame;
    if (!frame) return;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const within = (event.offsetX - frame.gutter) / (frame.width - frame.gutter);
      this.model.zoom(Math.exp(event.deltaY / 300), frame.from + within * (frame.to - frame.from));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.pan((event.deltaX || event.deltaY) / frame.width * (frame.to - frame.from));
    }
  }

  private pan(by: number): void {
    const [from, to] = this.model.state.view;
    this.model.set({ view: this.model.bounded(from + by, to + by) });
  }

  private drag(on: SVGSVGElement, by: (moved: number, frame: Frame) => number): void {
    let last: number | null = null;
    on.addEventListener("pointerdown", (event) => { if (event.button === 0) last = event.clientX; });
    on.addEventListener("pointermove", (event) => {
      if (last === null || event.buttons === 0 || !this.frame) { last = null; return; }
      if (Math.abs(event.clientX - last) < 2) return;
      on.setPointerCapture(event.pointerId);
      this.pan(by(event.clientX - last, this.frame));
      last = event.clientX;
    });
    on.addEventListener("pointerup", () => { last = null; });
  }

  draw(): void {
    const { model } = this;
    const { lanes } = model.data;
    const width = Math.max(at("chart").clientWidth, 280);
    const gutter = width < 600 ? 70 : 92;
    const tops: number[] = [];
    let y = TOP;
    for (const lane of lanes) { tops.push(y); y += HEIGHT[lane.role]; }
    const [from, to] = model.state.view;
    const frame: Frame = {
      model, width, gutter, height: y + 6, tops, from, to,
      x: (t) => gutter + ((t - from) / (to - from)) * (width - gutter - 8),
    };
    this.frame = frame;
    this.svg.setAttribute("width", String(width));
    this.svg.setAttribute("height", String(frame.height));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${frame.height}`);
    const clip = s("g", { "clip-path": "url(#inside)" });
    clip.append(...bands(frame), ...violation(frame), ...lanes.flatMap((lane, n) => laneTracks(frame, lane, n)),
      ...bars(frame), ...lines(frame), ...signs(frame));
    this.svg.replaceChildren(
      s("defs", {}, s("clipPath", { id: "inside" }, s("rect", { x: gutter, y: 0, width: width - gutter, height: frame.height })), ...hatches()),
      ...axis(frame), ...names(frame), clip, ...bracket(frame));
    this.drawOverview(frame);
  }

  private drawOverview({ width, from, to }: Frame): void {
    const { data, end, state } = this.model;
    const x = (t: number): number => (t / end) * width;
    const box = (a: number, b: number, y: number, height: number, kind: string): SVGElement =>
      s("rect", { x: x(a), y, width: Math.max(x(b) - x(a), 2), height, class: kind });
    const parts: SVGElement[] = [s("rect", { x: 0, y: 0, width, height: 34, class: "overview-back" })];
    for (const fault of data.faults) parts.push(box(fault.from, fault.to ?? end, 22, 8, fault.blamed ? "overview-blamed" : "overview-fault"));
    for (const bar of data.bars) if (bar.belief) parts.push(box(bar.belief[0], bar.belief[1] ?? end, bar.party ? 8 : 12, bar.party ? 10 : 4, bar.party ? "overview-party" : "overview-belief"));
    if (data.subject) parts.push(box(data.subject.from, data.subject.to, 2, 30, "overview-wrong"));
    for (const step of data.story) parts.push(s("line", { x1: x(step.at), x2: x(step.at), y1: 2, y2: 8, class: "overview-step" }));
    parts.push(s("rect", { x: x(Math.max(from, 0)), y: 1, width: Math.max(x(to) - x(Math.max(from, 0)), 4), height: 32, class: "overview-view" }));
    void state;
    this.overview.setAttribute("width", String(width));
    this.overview.replaceChildren(...parts);
  }
}

function hatches(): SVGElement[] {
  const hatch = (id: string, angle: number, step: number): SVGElement =>
    s("pattern", { id, width: step, height: step, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${angle})` },
      s("line", { x1: 0, y1: 0, x2: 0, y2: step, class: id }));
  return [hatch("hatch-fault", 45, 8), hatch("hatch-blamed", 45, 6), hatch("hatch-promise", -45, 5), hatch("hatch-down", 90, 4)];
}

const near = (frame: Frame, from: number, to: number): boolean => to >= frame.from && from <= frame.to;
const mid = (frame: Frame, lane: number): number => frame.tops[lane]! + SIGNS[frame.model.data.lanes[lane]!.role];

/** Times below which there is a line, at round distances. */
function axis(frame: Frame): SVGElement[] {
  const room = Math.max(2, Math.floor((frame.width - frame.gutter) / (frame.width < 600 ? 75 : 110)));
  const least = (frame.to - frame.from) / room;
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least) ?? power * 10;
  const parts: SVGElement[] = [];
  for (let t = Math.ceil(Math.max(frame.from, 0) / step) * step; t <= frame.to; t += step) {
    const x = frame.x(t);
    parts.push(s("line", { x1: x, x2: x, y1: TOP - 10, y2: frame.height, class: "tick" }));
    if (x < frame.width - 40) parts.push(s("text", { x: x + 3, y: 12, class: "axis" }, seconds(Math.round(t), step < 1_000)));
  }
  return parts;
}

function names(frame: Frame): SVGElement[] {
  return frame.model.data.lanes.flatMap((lane, n) => {
    const top = frame.tops[n]!;
    const letters = Math.floor((frame.gutter - 8) / 7);
    const name = lane.name.length > letters ? `${lane.name.slice(0, letters - 3)}…${lane.name.slice(-2)}` : lane.name;
    return [
      s("line", { x1: 0, x2: frame.width, y1: top, y2: top, class: "lane-line" }),
      s("text", { x: 4, y: top + 17, class: `lane-name lane-${lane.role}` }, name, s("title", {}, lane.name)),
    ];
  });
}

/** Faults behind the lanes that they strike. */
function bands(frame: Frame): SVGElement[] {
  const { faults, lanes } = frame.model.data;
  const parts: SVGElement[] = [];
  const labelled = new Map<number, number>();
  for (const fault of faults.filter((one) => near(frame, one.from, one.to ?? frame.to))) {
    const from = Math.max(frame.x(fault.from), frame.gutter), to = Math.min(frame.x(fault.to ?? frame.to), frame.width);
    const width = Math.max(to - from, 2);
    for (const target of fault.targets) {
      const y = frame.tops[target]! + 1, height = HEIGHT[lanes[target]!.role] - 2;
      parts.push(s("rect", { x: from, y, width, height, class: fault.blamed ? "band band-blamed" : "band", fill: `url(#hatch-${fault.blamed ? "blamed" : "fault"})` }));
    }
    const first = fault.targets[0];
    if (first === undefined) continue;
    const taken = labelled.get(first) ?? -Infinity;
    const text = `⚡ ${told(fault.word)}`;
    if (from >= taken && frame.width - from > 60) {
      parts.push(s("text", { x: from + 3, y: frame.tops[first]! + HEIGHT[lanes[first]!.role] - 3, class: "band-text" }, text, s("title", {}, faultTitle(fault))));
      labelled.set(first, from + text.length * 8 + 10);
    }
  }
  return parts;
}

const faultTitle = (fault: FaultBand): string => [told(fault.text), told(fault.how)].filter(Boolean).join("\n");

function violation(frame: Frame): SVGElement[] {
  const { subject } = frame.model.data;
  if (!subject || !near(frame, subject.from, subject.to)) return [];
  const from = frame.x(subject.from), to = frame.x(subject.to);
  return [s("rect", { x: from, y: TOP - 8, width: Math.max(to - from, 2), height: frame.height - TOP + 6, class: "overlap" })];
}

/** The bracket above the violation, with its name and length; at an edge where it is out of sight. */
function bracket(frame: Frame): SVGElement[] {
  const { subject } = frame.model.data;
  if (!subject) return [];
  const text = `${told(subject.kind)} · ${between(subject.from, subject.to)}`;
  if (!near(frame, subject.from, subject.to)) {
    const left = subject.to < frame.from;
    return [s("text", { x: left ? frame.gutter + 4 : frame.width - 4, y: 30, class: "bracket-text", "text-anchor": left ? "start" : "end" }, left ? `← ${text}` : `${text} →`)];
  }
  const from = Math.max(frame.x(subject.from), frame.gutter), to = Math.min(Math.max(frame.x(subject.to), from + 2), frame.width - 2);
  const middle = (from + to) / 2, half = text.length * 4.2;
  const x = Math.min(Math.max(middle, frame.gutter + half), frame.width - half);
  return [
    s("path", { d: `M${from} 43V36H${to}V43`, class: "bracket" }),
    s("text", { x, y: 30, class: "bracket-text", "text-anchor": "middle" }, text),
  ];
}

/** Down times, roles, offsets and clocks of a lane. */
function laneTracks(frame: Frame, lane: Lane, n: number): SVGElement[] {
  const top = frame.tops[n]!, height = HEIGHT[lane.role];
  const parts: SVGElement[] = [];
  for (const [from, end] of lane.downs.filter(([a, b]) => near(frame, a, b ?? frame.to))) {
    const x = Math.max(frame.x(from), frame.gutter), to = Math.min(frame.x(end ?? frame.to), frame.width);
    parts.push(s("rect", { x, y: top + 2, width: Math.max(to - x, 2), height: height - 4, class: "down", fill: "url(#hatch-down)" }));
    if (to - x > 50) parts.push(s("text", { x: x + 6, y: top + 15, class: "down-text" }, word("down")));
  }
  if (lane.role === "server") parts.push(...roles(frame, lane, top));
  parts.push(...offsets(frame, lane, top + height), ...clocks(frame, lane, top));
  return parts;
}

function roles(frame: Frame, lane: Lane, top: number): SVGElement[] {
  const parts: SVGElement[] = [];
  lane.masters.forEach(([from, master], n) => {
    const to = lane.masters[n + 1]?.[0] ?? frame.model.end * 1.1;
    const before = lane.masters[n - 1]?.[1];
    const start = Math.max(frame.x(from), frame.gutter), width = Math.min(frame.x(to), frame.width) - start;
    if (width <= 0) return;
    if (master) parts.push(s("rect", { x: start, y: top + 1, width, height: 3, class: "master" }));
    const isDown = lane.downs.some(([a, b]) => frame.x(a) <= start + 40 && frame.x(b ?? frame.model.end) > start);
    if (width > 50 && !isDown && (before !== master || frame.x(from) < frame.gutter)) {
      parts.push(s("text", { x: start + 4, y: top + 15, class: "role" }, word(master ? "master" : "replica")));
    }
  });
  return parts;
}

/** How far replication is, as steps in the lower part of the lane. */
function offsets(frame: Frame, lane: Lane, bottom: number): SVGElement[] {
  const { lanes } = frame.model.data;
  const most = Math.max(...lanes.flatMap((one) => one.offsets.map(([, offset]) => offset)), 1);
  if (lane.offsets.length === 0 || most <= 1) return [];
  const y = (offset: number): number => bottom - 3 - (offset / most) * 14;
  let path = "";
  let last = 0;
  for (const [t, offset] of lane.offsets) {
    path += path === "" ? `M${frame.x(t)} ${y(offset)}` : `H${frame.x(t)}V${y(offset)}`;
    last = offset;
  }
  path += `H${frame.x(frame.model.end)}`;
  const text = `${word("offset")} ${last}`;
  return [s("path", { d: path, class: "offset" }, s("title", {}, text)),
    last > 0 ? s("text", { x: frame.width - 6, y: y(last) - 2, class: "offset-text", "text-anchor": "end" }, String(last)) : s("g")];
}

function clocks(frame: Frame, lane: Lane, top: number): SVGElement[] {
  return lane.clocks.flatMap(([from, ahead, ppm], n) => {
    const to = lane.clocks[n + 1]?.[0] ?? frame.model.end;
    if (!near(frame, from, to)) return [];
    const x = Math.max(frame.x(from), frame.gutter);
    const rate = `${ppm < 0 ? "−" : "+"}${+(Math.abs(ppm) / 1e4).toFixed(3)} %`;
    const said = ppm <= -1_000_000 ? word("standing") : [ahead ? word("ahead", signed(ahead)) : "", ppm ? word("rate", rate) : ""].filter(Boolean).join(", ");
    if (!said) return [];
    return [s("line", { x1: x, x2: Math.min(frame.x(to), frame.width), y1: top + 6, y2: top + 6, class: "clock" }),
      s("text", { x: x + 4, y: top + 26, class: "clock-text" }, `◷ ${said}`)];
  });
}

/** Promise above, belief below it, operations below both. */
function bars(frame: Frame): SVGElement[] {
  const parts: SVGElement[] = [];
  const box = (from: number, end: number | null, y: number, kind: string, title: string): number => {
    const x = Math.max(frame.x(from), frame.gutter - 2), to = Math.min(frame.x(end ?? frame.model.end * 1.02), frame.width + 2);
    parts.push(s("rect", { x, y, width: Math.max(to - x, 1.5), height: 11, rx: 2, class: kind }, s("title", {}, title)));
    return to - x;
  };
  for (const bar of frame.model.data.bars) {
    const top = frame.tops[bar.lane];
    if (top === undefined) continue;
    const until = (end: number | null): string => (end === null ? word("until") : seconds(end));
    const named = bar.token === null ? bar.owner : `${bar.owner} · ${bar.token}`;
    for (const [from, end] of bar.promise.filter(([a, b]) => near(frame, a, b ?? frame.to))) {
      const width = box(from, end, top + 7, bar.party ? "promise party" : "promise", `${bar.owner}: ${word("promise")}, ${seconds(from)} … ${until(end)}`);
      if (width > named.length * 7 + 8) parts.push(s("text", { x: Math.max(frame.x(from), frame.gutter) + 4, y: top + 16, class: "bar-text bar-text-promise" }, named));
    }
    if (bar.belief && near(frame, bar.belief[0], bar.belief[1] ?? frame.to)) {
      const [from, end] = bar.belief;
      const width = box(from, end, top + 21, bar.party ? "belief party" : "belief", `${bar.owner}: ${word("belief")}, ${seconds(from)} … ${until(end)}`);
      if (width > named.length * 7 + 8) parts.push(s("text", { x: Math.max(frame.x(from), frame.gutter) + 4, y: top + 30, class: "bar-text" }, named));
    }
    const times = bar.effects.map(([t]) => t);
    if (times.length > 0 && near(frame, times[0]!, times.at(-1)!)) {
      const from = frame.x(times[0]!), to = frame.x(times.at(-1)!);
      parts.push(s("line", { x1: from, x2: to, y1: top + 42, y2: top + 42, class: "effects" }, s("title", {}, `${bar.owner}: ${word("effectBar")}`)));
      for (const [t, accepted] of bar.effects) if (near(frame, t, t)) parts.push(sign("diamond", frame.x(t), top + 42, 4, accepted ? "effect-mark" : "effect-mark refused"));
    }
  }
  return parts;
}

/** From what led to an event to it, where the two are in different lanes; a message is
 * drawn solid, one that was lost ends in a cross. */
function lines(frame: Frame): SVGElement[] {
  const { model } = frame;
  const { selected } = model.state;
  const chain = selected === null ? null : model.ancestors(selected);
  const pairs: [Event, Event][] = [];
  for (const event of model.data.events) {
    if (!model.isShown(event) || event.n === undefined) continue;
    for (const id of event.c ?? []) {
      const cause = model.byId.get(id);
      if (cause?.n === undefined || cause.n === event.n && event.what !== "message-lost" || !near(frame, cause.t, event.t)) continue;
      // Where a message brought it, the message is drawn.
      if (carried(model, cause, event)) continue;
      if (cause.what === "message-sent" && event.what === "message-delivered" && event.k !== 1 && frame.to - frame.from > NEAR) continue;
      // One request is refused many times: only what matters of that is drawn.
      if (event.what === "record-refused" && event.k !== 1 && !chain?.has(event.i)) continue;
      pairs.push([cause, event]);
    }
  }
  const few = pairs.length <= MOST_LINES ? pairs : pairs.filter(([cause, event]) => event.k === 1 && cause.k === 1 || chain?.has(event.i));
  return few.flatMap(([cause, event]) => {
    const led = chain?.has(event.i) && chain.has(cause.i) ? " chain" : "";
    const lost = event.what === "message-lost";
    const kind = cause.what === "message-sent" ? "line message" : "line";
    let x1 = frame.x(cause.t), y1 = mid(frame, cause.n!);
    const x2 = frame.x(event.t);
    let y2 = mid(frame, event.n!);
    if (lost) { // It left, and came nowhere: half-way to whom it was for.
      const to = frame.model.data.lanes.findIndex((lane) => lane.name === cause["to"]);
      if (to >= 0) y2 = (y1 + mid(frame, to)) / 2;
    } else { y1 += Math.sign(y2 - y1) * 8; y2 -= Math.sign(y2 - y1) * 8; }
    if (x1 < frame.gutter - 4000) x1 = frame.gutter - 4000;
    const slope = Math.atan2(y2 - y1, x2 - x1);
    const tip = (angle: number): string => `L${x2 - 7 * Math.cos(slope + angle)} ${y2 - 7 * Math.sin(slope + angle)}`;
    const head = lost ? `M${x2 - 5} ${y2 - 5}L${x2 + 5} ${y2 + 5}M${x2 + 5} ${y2 - 5}L${x2 - 5} ${y2 + 5}` : `M${x2} ${y2}${tip(0.4)}M${x2} ${y2}${tip(-0.4)}`;
    return [s("path", { d: `M${x1} ${y1}L${x2} ${y2}${head}`, class: `${kind}${led}${lost ? " lost" : ""}` }, s("title", {}, say(cause)))];
  });
}

/** Whether what `cause` led to came with a message that the page has. */
function carried(model: Model, cause: Event, event: Event): boolean {
  const from = model.data.lanes[cause.n!]!.name;
  return cause.n !== event.n && (event.c ?? []).some((id) => {
    const message = model.byId.get(id);
    return message?.what === "message-delivered" && message["from"] === from;
  });
}

/** What lines and tracks show already, from afar. */
const isQuiet = (frame: Frame, event: Event): boolean =>
  (event.what === "replication-position" || event.what === "message-sent" || event.what === "message-delivered") &&
  frame.to - frame.from > NEAREST && event.i !== frame.model.state.selected;

function sign(kind: Shape, x: number, y: number, r: number, name: string): SVGElement {
  const path = {
    circle: `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`,
    square: `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
    diamond: `M${x} ${y - r - 1}l${r + 1} ${r + 1}l${-r - 1} ${r + 1}l${-r - 1} ${-r - 1}z`,
    triangle: `M${x} ${y - r - 1}l${r + 1} ${2 * r}h${-2 * r - 2}z`,
    bolt: `M${x + 1} ${y - r - 2}l${-r} ${r + 3}h${r - 1}l-1 ${r + 1}l${r} ${-r - 3}h${-r + 1}z`,
    bar: `M${x - 1} ${y - r}h2v${2 * r}h-2z`,
  }[kind];
  return s("path", { d: path, class: name });
}

/** The events, each with its sign; those too close for that as one with their number. */
function signs(frame: Frame): SVGElement[] {
  const { model } = frame;
  const { data, state } = model;
  const steps = new Map<number, number>();
  data.story.forEach((step, n) => { if (step.event !== null && !steps.has(step.event)) steps.set(step.event, n); });
  const chain = state.selected === null ? null : model.ancestors(state.selected);
  const lanes: Event[][] = data.lanes.map(() => []);
  for (const event of data.events) {
    if (event.n !== undefined && near(frame, event.t, event.t) && model.isShown(event) && !isQuiet(frame, event)) lanes[event.n]!.push(event);
  }
  const parts: SVGElement[] = [], above: SVGElement[] = [];
  lanes.forEach((events, n) => {
    const y = mid(frame, n);
    let at = 0;
    while (at < events.length) {
      const first = events[at]!;
      const x = frame.x(first.t);
      let end = at + 1;
      while (end < events.length && frame.x(events[end]!.t) - x < CLOSE) end += 1;
      const group = events.slice(at, end);
      const told_ = group.find((one) => one.i === state.selected) ?? group.find((one) => steps.has(one.i)) ?? group.find((one) => one.k === 1) ?? first;
      const many = group.reduce((sum, one) => sum + (one.x ?? 1), 0);
      const room = (events[end] ? frame.x(events[end]!.t) : frame.width) - x;
      parts.push(mark(frame, told_, group, x, y, many, room, chain));
      for (const one of group) if (steps.has(one.i)) above.push(...pin(frame, one, steps.get(one.i)!, y));
      at = end;
    }
  });
  return [...parts, ...spread(above)];
}

function mark(frame: Frame, event: Event, group: Event[], x: number, y: number, many: number, room: number, chain: Map<number, number> | null): SVGElement {
  const { model } = frame;
  const step = model.data.story.find((one) => one.event === event.i);
  const kinds = ["sign", `sign-${category(event)}`];
  if (step?.mark) kinds.push(`sign-${step.mark}`);
  if (event["accepted"] === false) kinds.push("refused");
  if (chain?.has(event.i)) kinds.push("chain");
  const parts = s("g", { class: kinds.join(" "), "data-event": event.i });
  if (event.i === model.state.selected) parts.append(s("circle", { cx: x, cy: y, r: 11, class: "ring" }));
  parts.append(s("rect", { x: x - 6, y: y - 11, width: 13, height: 22, class: "touch" }), sign(shape(event), x, y, 4, "shape"));
  const words = say(event);
  if (many > 1 && room > 14 + 7 * String(many).length) parts.append(s("text", { x: x + 7, y: y + 4, class: "count" }, `×${many}`));
  // A cross says that something is lost.
  else if (many === 1 && room > 110 && !step && event.what !== "message-lost") parts.append(s("text", { x: x + 8, y: y + 4, class: "words" }, words.length * 6 < room - 10 ? words : `${words.slice(0, Math.floor((room - 18) / 6))}…`));
  parts.append(s("title", {}, group.slice(0, 8).map((one) => `#${one.i} ${seconds(one.t, true)} ${say(one)}`).join("\n") + (group.length > 8 ? "\n…" : "")));
  return parts;
}

/** The number of a step of the story above its sign. */
function pin(frame: Frame, event: Event, n: number, y: number): SVGElement[] {
  const x = frame.x(event.t);
  const kind = frame.model.data.story[n]!.mark;
  return [s("g", { class: `pin pin-${kind || "plain"}${event.i === frame.model.state.selected ? " pin-selected" : ""}`, "data-event": event.i, "data-x": x, "data-y": y - 15 },
    s("rect", { x: -8, y: -7, width: 16, height: 14, rx: 7 }), s("text", { x: 0, y: 3.5, "text-anchor": "middle" }, String(n + 1)))];
}

/** Pins side by side where they would lie on each other. */
function spread(pins: SVGElement[]): SVGElement[] {
  const last = new Map<string, number>();
  for (const one of pins) {
    const y = one.getAttribute("data-y")!;
    const x = Math.max(Number(one.getAttribute("data-x")), (last.get(y) ?? -Infinity) + 17);
    last.set(y, x);
    one.setAttribute("transform", `translate(${x} ${y})`);
  }
  return pins;
}
