// What stands around the chart: the verdict, the story with its way through it, why an
// event came about, the cliff, the findings, the legend, the help.

import { at, h, s } from "./dom";
import type { Both } from "./data";
import { say } from "./events";
import type { Model } from "./state";
import { seconds, told, word, type Word } from "./words";

const button = (name: string, act: () => void, more: Record<string, string | boolean | null> = {}): HTMLButtonElement =>
  h("button", { type: "button", ...more, click: act }, name);

/** A link to an event. */
const link = (model: Model, id: number, text: string): HTMLElement =>
  h("a", { href: `#event-${id}`, click: (event: Event) => { event.preventDefault(); model.select(id); } }, text);

function copied(text: string): HTMLElement {
  const copy = button(word("copy"), () => {
    void navigator.clipboard?.writeText(text).then(() => { copy.textContent = word("copied"); }, () => select());
    if (!navigator.clipboard) select();
  });
  const code = h("code", { tabindex: "0" }, text);
  const select = (): void => { getSelection()?.selectAllChildren(code); };
  return h("div", { class: "command" }, code, copy);
}

export function verdict({ data }: Model): void {
  const tone = data.verdict === "violation" || data.verdict === "nondeterminism" || data.verdict === "internal" ? "bad" : data.verdict.startsWith("safe") ? "good" : "unsure";
  const kinds = data.kinds.map((kind) => h("span", { class: kind.violation ? "kind" : "kind kind-advisory" },
    told(kind.word), kind.count > 1 ? ` ×${kind.count}` : "", kind.violation ? "" : ` (${word("advisory")})`));
  const said = data.sentence ? told(data.sentence) : missing(data.missing, data.verdict);
  at("verdict").className = `verdict ${tone}`;
  const row = (name: Word, text: string | Node | null): (HTMLElement | null)[] => text ? [h("dt", {}, word(name)), h("dd", {}, text)] : [];
  at("verdict").replaceChildren(
    h("div", { class: "badges" }, h("strong", { class: "badge" }, told(data.verdict_word)), ...kinds),
    h("h1", {}, said),
    ...(data.effect ? [h("p", { class: "effect" }, h("span", { class: "label" }, `${word("effect")} `), told(data.effect))] : []),
    h("dl", { class: "why" }, ...row("why", told(data.why)), ...row("saved", told(data.saved)), ...data.tries.flatMap((one) => row("tries", told(one))),
      ...row("confirmed", told(data.run.confirmation)), ...row("reproduce", data.run.reproduce ? copied(data.run.reproduce) : null)));
  document.title = `${told(data.verdict_word)}: ${said}`;
}

function missing(of: Model["data"]["missing"], verdict: string): string {
  const parts = [
    of.stuck ? word("stuck", of.stuck) : "", of.failed.length ? word("failedCheckers", of.failed.join("; ")) : "",
    of.goals.length ? word("goals", of.goals.map(told).join(", ")) : "", of.undecided ? word("undecidedOverlaps", of.undecided) : "",
  ].filter(Boolean);
  if (verdict.startsWith("safe")) return word("nothing", of.handovers, of.touched);
  return [word("nothingKnown"), ...parts, of.inert.length ? word("inertFaults", of.inert.map(told).join("; ")) : ""].filter(Boolean).join(" ");
}

export function facts({ data }: Model): void {
  const { run } = data;
  const all: [Word, string | null][] = [
    ["seed", run.seed], ["scenario", run.scenario], ["lock", run.lock], ["fence", run.fence], ["engine", run.engine], ["length", word("simulated", seconds(run.ended))],
    ["trace", run.trace], ["file", run.file], ["repeated", told(run.repeated)],
  ];
  at("facts").replaceChildren(
    h("h2", {}, word("run")),
    h("dl", { class: "facts" }, ...all.filter(([, value]) => value).flatMap(([name, value]) => [h("dt", {}, word(name)), h("dd", {}, value)])),
    ...(run.plan ? [h("details", {}, h("summary", {}, word("plan")), h("pre", { tabindex: "0" }, run.plan), ...(run.capsule ? [h("p", {}, word("capsule")), copied(run.capsule)] : []))] : []),
    h("p", { class: "faint" }, `${word("version", data.lockstorm)} · ${word("events", data.events_in_all)}`));
}

/** Moves along the story; without a selection to its first step, or its last. */
export function step(model: Model, by: 1 | -1): void {
  const ids = model.data.story.flatMap((one) => (one.event === null ? [] : [one.event]));
  if (ids.length === 0) return;
  const now = ids.indexOf(model.state.selected ?? -1);
  if (now >= 0) return model.select(ids[Math.min(Math.max(now + by, 0), ids.length - 1)]!);
  // From an event of no step to the step after or before it.
  const { selected } = model.state;
  if (selected === null) return model.select(by > 0 ? ids[0]! : ids.at(-1)!);
  model.select((by > 0 ? ids.find((id) => id > selected) : ids.findLast((id) => id < selected)) ?? selected);
}

export function story(model: Model): void {
  const { data, state } = model;
  const fine = data.story.some((one, n) => n > 0 && one.at !== data.story[n - 1]!.at && Math.floor(one.at / 1e3) === Math.floor(data.story[n - 1]!.at / 1e3));
  const now = data.story.findIndex((one) => one.event !== null && one.event === state.selected);
  const steps = data.story.map((one, n) => {
    const current = n === now;
    const sign = { fault: "⚡", wrong: "✗", held: "✓", "": "" }[one.mark];
    return h("li", { class: `step step-${one.mark || "plain"}` },
      h("button", { type: "button", "aria-current": current ? "step" : null, click: () => model.select(one.event) },
        h("span", { class: "step-head" }, h("span", { class: "step-number" }, String(n + 1)), h("span", { class: "step-time" }, seconds(one.at, fine)), h("span", { class: "step-who" }, told(one.who)), sign ? h("span", { class: "step-sign", "aria-hidden": "true" }, sign) : ""),
        h("span", { class: "step-what" }, told(one.what)),
        one.outcome ? h("span", { class: "step-outcome" }, told(one.outcome)) : "",
        one.remark ? h("span", { class: "step-remark" }, `← ${told(one.remark)}`) : ""));
  });
  const focused = document.activeElement?.closest("#story li") !== null && document.activeElement?.closest("#story") !== null;
  at("story").replaceChildren(
    h("h2", { id: "story-title", tabindex: "-1" }, word("story")),
    ...(steps.length === 0 ? [h("p", { class: "faint" }, word("noStory"))] : [
      h("div", { class: "controls" }, button(`← ${word("previous")}`, () => step(model, -1)), button(`${word("next")} →`, () => step(model, 1)),
        button(word("whyButton"), () => whyDialogue(model)), h("span", { class: "faint", "aria-live": "polite" }, now >= 0 ? word("step", now + 1, steps.length) : "")),
      h("ol", { class: "steps" }, ...steps)]));
  const chosen = at("story").querySelector<HTMLElement>("[aria-current]");
  if (chosen) {
    const list = chosen.closest("ol")!;
    const top = chosen.offsetTop - list.offsetTop;
    if (top < list.scrollTop || top + chosen.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top - list.clientHeight / 3;
    if (focused) chosen.focus({ preventScroll: true });
  }
}

/** The selected event and all that led to it, the nearest first. */
export function because(model: Model): void {
  const { selected } = model.state;
  const event = selected === null ? undefined : model.byId.get(selected);
  const box = at("because");
  box.hidden = !event;
  if (!event) return box.replaceChildren();
  const where = (n: number | undefined): string => model.data.lanes[n ?? -1]?.name ?? "";
  // That a message arrived says no more than that it was sent.
  const says = ([id]: [number, number]): boolean => model.byId.get(id)!.what !== "message-delivered";
  const chain = [...model.ancestors(event.i)].slice(1).filter(says).sort((a, b) => b[0] - a[0]).slice(0, 24);
  box.replaceChildren(
    h("h3", { tabindex: "-1", id: "because-title" }, word("because", event.i)),
    h("p", {}, h("strong", {}, where(event.n)), ` ${say(event)}`, h("span", { class: "faint" }, ` ${seconds(event.t, true)}${event.x ? ` ${word("times", event.x, seconds(event.u ?? event.t))}` : ""}`)),
    chain.length === 0 ? h("p", { class: "faint" }, word("noCause")) : h("ol", { class: "chain" }, ...chain.map(([id, depth]) => {
      const cause = model.byId.get(id)!;
      return h("li", { class: `depth-${Math.min(depth, 4)}` }, link(model, id, `#${id}`), ` ${seconds(cause.t, true)} `, h("strong", {}, where(cause.n)), ` ${say(cause)}`);
    })));
}

export function whyDialogue(model: Model): void {
  if (model.state.selected === null) step(model, -1);
  requestAnimationFrame(() => requestAnimationFrame(() => {
    const title = document.getElementById("because-title");
    title?.scrollIntoView({ block: "nearest" });
    title?.focus({ preventScroll: true });
  }));
}

export function legend(): void {
  const box = (kind: string, fill?: string): SVGElement => s("svg", { width: 26, height: 12, "aria-hidden": "true" }, s("rect", { x: 1, y: 1, width: 24, height: 10, rx: 2, class: kind, fill: fill ?? null }));
  const line = (kind: string): SVGElement => s("svg", { width: 26, height: 12, "aria-hidden": "true" }, s("path", { d: "M1 2L22 9M22 9l-6 0M22 9l-3 -5", class: kind }));
  const mark = (kind: string, d: string): SVGElement => s("svg", { width: 16, height: 12, "aria-hidden": "true" }, s("path", { d, class: kind }));
  const all: [SVGElement, Word][] = [
    [box("promise"), "promise"], [box("belief"), "belief"], [mark("effect-mark", "M8 1l5 5l-5 5l-5 -5z"), "effectBar"], [box("band", "url(#hatch-fault)"), "fault"],
    [box("band band-blamed", "url(#hatch-blamed)"), "blamed"], [box("overlap"), "overlap"], [box("down", "url(#hatch-down)"), "down"], [line("line"), "cause"], [line("line message"), "message"],
    [mark("line message lost", "M3 2l9 9M12 2l-9 9"), "lost"],
  ];
  at("legend").replaceChildren(...all.map(([sign, name]) => h("li", {}, sign, word(name))));
}

/** So many findings stand open. */
const SOME = 8;

export function findings({ data }: Model): void {
  at("findings").hidden = data.findings.length === 0;
  const list = (some: typeof data.findings): HTMLElement => h("ul", { class: "finding-list" }, ...some.map((one) =>
    h("li", { class: one.violation ? "" : "faint" }, h("strong", {}, told(one.kind)), one.violation ? " " : ` (${word("advisory")}) `, told(one.sentence), h("span", { class: "faint" }, ` ${word("parted")}: ${told(one.parted)}`))));
  const rest = data.findings.slice(SOME);
  at("findings").replaceChildren(h("h2", {}, word("findings")), list(data.findings.slice(0, SOME)),
    rest.length ? h("details", {}, h("summary", {}, word("more", rest.length)), list(rest)) : "",
    data.findings_left_out ? h("p", { class: "faint" }, word("more", data.findings_left_out)) : "");
}

export function cliff(model: Model): void {
  const { cliff: of } = model.data;
  at("cliff").hidden = !of;
  if (!of) return;
  const { decisive, gradual, not_decided: open } = of;
  const step = (number: number | null): string => (number === null ? word("theStart") : `#${number + 1}`);
  const settled = decisive ? word("decisive", told(decisive.what), seconds(decisive.at), decisive.before, decisive.after, of.draws)
    : gradual ? word("gradual", step(gradual.from), step(gradual.to), gradual.before, gradual.after, of.draws)
    : open ? word(open.anew ? "notDecidedAnew" : "notDecided", step(open.from), step(open.to), open.before, open.after, of.draws) : word("undecided");
  const least = open && open.least !== null ? ` ${word("leastDraws", open.least)}` : "";
  const bar = (failed: number, kind: string): HTMLElement => h("td", {}, s("svg", { width: 100, height: 10, "aria-hidden": "true" }, s("rect", { width: 100, height: 10, class: "share-back" }), s("rect", { width: of.draws ? (failed / of.draws) * 100 : 0, height: 10, class: kind })), ` ${failed}`);
  const side = (name: Word, one: { at: number; what: Both } | null): HTMLElement | string => (one ? h("li", {}, `${word(name)}: ${told(one.what)}, ${seconds(one.at, true)}`) : "");
  at("cliff").replaceChildren(
    h("h2", {}, word("cliff")), h("p", {}, word("cliffText", of.draws)),
    h("p", { class: "effect" }, settled, least, decisive ? " " : "", decisive ? link(model, decisive.event, `#${decisive.event}`) : ""),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": word("cliff") }, h("table", { class: "shares" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, word("number")), h("th", { scope: "col" }, word("time")), h("th", { scope: "col" }, word("stormy")), h("th", { scope: "col" }, word("calm")))),
      h("tbody", {}, ...of.points.map((point) => h("tr", {}, h("th", { scope: "row" }, point.step === null || point.event === null ? word("start") : link(model, point.event, String(point.step + 1))), h("td", {}, seconds(point.at)), bar(point.stormy, "share"), bar(point.calm, "share share-calm")))))),
    h("h3", {}, word("nearest")), h("p", {}, told(of.nearest)), h("ul", {}, side("failingFirst", of.failing), side("passingFirst", of.passing)),
    h("h3", {}, word("tried", of.draws)), h("ul", { class: "measures" }, ...of.measures.map((one) => h("li", {}, one.flags ? h("code", {}, one.flags) : word("asItIs"), ` ${word("violations", one.violations, of.draws)}`, one.inconclusive ? `, ${word("saysNothing", one.inconclusive)}` : ""))),
    h("p", { class: "faint" }, word("proof")));
}

export function help(): void {
  const keys: [string, Word][] = [["← →  j k", "keyStep"], ["n p", "keyFault"], ["v", "keyViolation"], ["+ − 0", "keyZoom"], ["w", "keyWhy"], ["f", "keyFilter"], ["/", "keySearch"], ["l", "keyLanguage"], ["d", "keyTheme"], ["?", "keyHelp"]];
  at("help").replaceChildren(h("h2", { id: "help-title" }, word("help")), h("dl", {}, ...keys.flatMap(([key, name]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, word(name))])),
    h("form", { method: "dialog" }, h("button", {}, word("close"))));
}
