// What events are called and to which filter they belong. The one table: a kind that is not
// here is shown by its name.

import type { Both, Event, FaultBand } from "./data";
import { current, told, type Word } from "./words";

export const CATEGORIES = ["grants", "effects", "faults", "cluster", "replication", "refusals", "clients", "messages", "books"] as const satisfies readonly Word[];
export type Category = (typeof CATEGORIES)[number];
/** The sign that a category is drawn with. */
export type Shape = "circle" | "square" | "diamond" | "triangle" | "bolt" | "bar";

type Say = (e: Event) => string;
interface Kind { category: Category; shape: Shape; en: Say; zh: Say }

const text = (value: unknown): string => {
  if (value && typeof value === "object") {
    const attempt = value as { client?: unknown; ordinal?: unknown };
    if ("client" in attempt) return `${attempt.client}/${attempt.ordinal}`;
    return JSON.stringify(value);
  }
  return value === undefined || value === null ? "" : String(value);
};
const us = (value: unknown): string => (typeof value === "number" ? `${+(value / 1000).toFixed(3)} ms` : "∞");
const host = (value: unknown): string => text(value).replace(/:\d+$/, "");
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const records = (value: unknown, none: string): string =>
  list(value).map((pair) => list(pair).map(text).join(" = ")).join(", ") || none;

const OUTCOMES: Record<string, [string, string]> = {
  granted: ["granted", "已授予"], busy: ["busy", "被占用"], "timed-out": ["gave up waiting", "放弃等待"],
  indeterminate: ["no reply", "无应答"], failed: ["failed", "失败"], released: ["released", "已释放"],
  "not-held": ["no longer held", "已不再持有"], renewed: ["renewed", "已续期"],
  deadline: ["its deadline passed", "期限已过"], told: ["it was told", "被告知"], died: ["it died", "已死亡"], dropped: ["its guard was dropped", "守卫被丢弃"],
  resync: ["by a full resynchronisation", "因全量同步"], crash: ["in a crash", "因崩溃"], deleted: ["deleted by somebody else", "被他人删除"], overwritten: ["overwritten by somebody else", "被他人覆盖"],
  accepted: ["accepted", "已成交"], "sold-out": ["sold out", "售罄"], refused: ["refused", "被拒绝"],
};
const outcome = (value: unknown, at: 0 | 1): string => OUTCOMES[text(value)]?.[at] ?? text(value);
const reason = (e: Event): string => (e["reason"] ? `: ${text(e["reason"])}` : "");
const token = (e: Event, words: string): string => (e["token"] === undefined ? "" : words + text(e["token"]));
const released = (e: Event, at: 0 | 1): string => {
  const release = e["release"] as { outcome?: unknown; reason?: unknown } | string | undefined;
  if (typeof release !== "object") return outcome(release, at);
  return outcome(release.outcome, at) + (release.reason ? `: ${text(release.reason)}` : "");
};

/** What a fault is and does stands in its band, in both languages. */
const faults = new Map<number, FaultBand>();
export const nameFaults = (bands: FaultBand[]): void => bands.forEach((band) => faults.set(band.fault, band));
const fault = (e: Event, which: "text" | "how"): string => {
  const said: Both | null | undefined = faults.get(Number(e["fault"]))?.[which];
  return said ? `: ${told(said)}` : "";
};

const kind = (category: Category, shape: Shape, en: Say, zh: Say): Kind => ({ category, shape, en, zh });

const KINDS: Record<string, Kind> = {
  "acquire-invoked": kind("clients", "circle", (e) => `asks for ${text(e["key"])} as ${text(e["attempt"])}`, (e) => `以 ${text(e["attempt"])} 请求 ${text(e["key"])}`),
  "acquire-returned": kind("grants", "circle", (e) => `acquire as ${text(e["attempt"])}: ${outcome(e["outcome"], 0)}${token(e, ", token ")}${reason(e)}`, (e) => `以 ${text(e["attempt"])} 获取：${outcome(e["outcome"], 1)}${token(e, "，令牌 ")}${reason(e)}`),
  "belief-ended": kind("grants", "circle", (e) => `${text(e["attempt"])} stops believing: ${outcome(e["reason"], 0)}`, (e) => `${text(e["attempt"])} 不再以为持有：${outcome(e["reason"], 1)}`),
  "release-invoked": kind("clients", "circle", (e) => `releases as ${text(e["attempt"])}`, (e) => `以 ${text(e["attempt"])} 释放`),
  "release-returned": kind("clients", "circle", (e) => `release as ${text(e["attempt"])}: ${released(e, 0)}`, (e) => `以 ${text(e["attempt"])} 释放：${released(e, 1)}`),
  "renew-invoked": kind("clients", "circle", (e) => `asks to renew ${text(e["attempt"])}`, (e) => `请求续期 ${text(e["attempt"])}`),
  "renew-returned": kind("clients", "circle", (e) => `renewal of ${text(e["attempt"])}: ${outcome(e["outcome"], 0)}${reason(e)}`, (e) => `${text(e["attempt"])} 的续期：${outcome(e["outcome"], 1)}${reason(e)}`),
  "record-set": kind("grants", "square", (e) => `grants ${text(e["key"])} to ${text(e["owner"])} for ${us(e["lease_us"])}`, (e) => `把 ${text(e["key"])} 授予 ${text(e["owner"])}，租约 ${us(e["lease_us"])}`),
  "wait-ended": kind("clients", "square", (e) => `${text(e["owner"])} waits for ${text(e["key"])} no more`, (e) => `${text(e["owner"])} 不再排队等待 ${text(e["key"])}`),
  "wait-began": kind("clients", "square", (e) => `${text(e["owner"])} waits for ${text(e["key"])}`, (e) => `${text(e["owner"])} 排队等待 ${text(e["key"])}`),
  "record-refused": kind("refusals", "bar", (e) => `refuses ${text(e["owner"])}: ${text(e["held_by"])} has ${text(e["key"])}`, (e) => `拒绝 ${text(e["owner"])}：${text(e["held_by"])} 持有 ${text(e["key"])}`),
  "record-extended": kind("grants", "square", (e) => `renews ${text(e["key"])} of ${text(e["owner"])} for ${us(e["lease_us"])}`, (e) => `把 ${text(e["owner"])} 的 ${text(e["key"])} 续期 ${us(e["lease_us"])}`),
  "record-released": kind("grants", "square", (e) => `releases ${text(e["key"])} of ${text(e["owner"])}`, (e) => `释放 ${text(e["owner"])} 的 ${text(e["key"])}`),
  "record-expired": kind("grants", "square", (e) => `${text(e["key"])} of ${text(e["owner"])} expires`, (e) => `${text(e["owner"])} 的 ${text(e["key"])} 过期`),
  "record-replicated": kind("replication", "square", (e) => `has ${text(e["key"])} of ${text(e["owner"])} from its master`, (e) => `从主节点得到 ${text(e["owner"])} 的 ${text(e["key"])}`),
  "record-loaded": kind("grants", "square", (e) => `has ${text(e["key"])} of ${text(e["owner"])} from its disk`, (e) => `从磁盘读到 ${text(e["owner"])} 的 ${text(e["key"])}`),
  "record-unreplicated": kind("replication", "square", (e) => `removes ${text(e["key"])} of ${text(e["owner"])} as its master did`, (e) => `随主节点删除 ${text(e["owner"])} 的 ${text(e["key"])}`),
  "record-lost": kind("grants", "square", (e) => `loses ${text(e["key"])} of ${text(e["owner"])} ${outcome(e["how"], 0)}`, (e) => `失去 ${text(e["owner"])} 的 ${text(e["key"])}：${outcome(e["how"], 1)}`),
  "session-expired": kind("cluster", "triangle", (e) => `session ${text(e["session"])} expires, with ${records(e["records"], "nothing")}`, (e) => `会话 ${text(e["session"])} 过期，持有：${records(e["records"], "无")}`),
  promoted: kind("cluster", "triangle", (e) => `becomes master at offset ${text(e["offset"])}, with ${records(e["records"], "no lock")}`, (e) => `升为主节点，偏移量 ${text(e["offset"])}，带有：${records(e["records"], "无锁")}`),
  demoted: kind("cluster", "triangle", (e) => `is to follow ${host(e["master"])}`, (e) => `改为跟随 ${host(e["master"])}`),
  resynchronised: kind("replication", "triangle", (e) => `takes over the data of ${host(e["master"])}, offset ${text(e["offset"])}`, (e) => `接收 ${host(e["master"])} 的全部数据，偏移量 ${text(e["offset"])}`),
  "master-down": kind("cluster", "triangle", (e) => `gives up on ${host(e["master"])} (+odown)`, (e) => `认定 ${host(e["master"])} 已下线（+odown）`),
  "leader-elected": kind("cluster", "triangle", (e) => `is elected in epoch ${text(e["epoch"])} by ${list(e["voters"]).map(text).join(", ")}`, (e) => `在纪元 ${text(e["epoch"])} 当选，投票者 ${list(e["voters"]).map(text).join(", ")}`),
  "master-switched": kind("cluster", "triangle", (e) => `names ${host(e["to"])} as master after ${host(e["from"])} (+switch-master)`, (e) => `宣布主节点由 ${host(e["from"])} 换为 ${host(e["to"])}（+switch-master）`),
  "replication-position": kind("replication", "bar", (e) => `is at offset ${text(e["offset"])}`, (e) => `偏移量 ${text(e["offset"])}`),
  effect: kind("effects", "diamond", (e) => {
    const done = e["operation"] === "read" ? `reads: ${text(e["left"])} left${e["next_unit"] === undefined ? "" : `, unit ${text(e["next_unit"])} next`}` : e["operation"] === "act" ? text(e["name"]) : `${text(e["operation"])}s unit ${text(e["unit"])}, order ${text(e["order"])}`;
    return `${text(e["owner"])} ${done}${token(e, ", token ")}: ${e["accepted"] ? "accepted" : `refused${e["refusal"] ? ` (${text(e["refusal"])})` : ""}`}`;
  }, (e) => {
    const verbs: Record<string, string> = { sell: "售出", reserve: "预留", cancel: "退回" };
    const done = e["operation"] === "read" ? `读取：剩 ${text(e["left"])} 件${e["next_unit"] === undefined ? "" : `，下一件 ${text(e["next_unit"])}`}` : e["operation"] === "act" ? text(e["name"]) : `${verbs[text(e["operation"])] ?? text(e["operation"])}第 ${text(e["unit"])} 件，订单 ${text(e["order"])}`;
    return `${text(e["owner"])} ${done}${token(e, "，令牌 ")}：${e["accepted"] ? "已接受" : `被拒绝${e["refusal"] ? `（${text(e["refusal"])}）` : ""}`}`;
  }),
  ledger: kind("books", "diamond", (e) => `the books: ${text(e["units"])} units, ${list(e["sales"]).map((sale) => list(sale).map(text).join(" → ")).join(", ") || "no sale"}`, (e) => `账目：${text(e["units"])} 件，${list(e["sales"]).map((sale) => list(sale).map(text).join(" → ")).join(", ") || "无成交"}`),
  "stock-counted": kind("books", "diamond", (e) => `the counter: ${text(e["left"])} of ${text(e["units"])} left, ${text(e["reserved"] ?? 0)} reserved`, (e) => `计数器：${text(e["units"])} 件剩 ${text(e["left"])} 件，预留 ${text(e["reserved"] ?? 0)} 件`),
  "order-returned": kind("effects", "circle", (e) => `order ${text(e["order"])}: ${outcome(e["answer"], 0)}`, (e) => `订单 ${text(e["order"])}：${outcome(e["answer"], 1)}`),
  "message-sent": kind("messages", "circle", (e) => `sends to ${text(e["to"])}: ${text(e["message"])}`, (e) => `发往 ${text(e["to"])}：${text(e["message"])}`),
  "message-delivered": kind("messages", "circle", (e) => `receives from ${text(e["from"])}`, (e) => `收到 ${text(e["from"])} 的消息`),
  "message-lost": kind("messages", "circle", (e) => `a message is lost: ${text(e["how"])}`, (e) => `消息丢失：${text(e["how"])}`),
  "node-started": kind("cluster", "triangle", (e) => (Number(e["incarnation"]) > 1 ? "starts again" : "starts"), (e) => (Number(e["incarnation"]) > 1 ? "重新启动" : "启动")),
  "node-crashed": kind("cluster", "triangle", (e) => (e["machine"] ? "is down with its machine" : "is down"), (e) => (e["machine"] ? "随机器一起宕机" : "宕机")),
  "program-ended": kind("cluster", "triangle", (e) => `ends by itself: ${text(e["how"])}`, (e) => `自行退出：${text(e["how"])}`),
  "clock-changed": kind("faults", "bolt", (e) => `its clock: wall ${signed(e["offset_us"])}, rate ${text(e["rate_ppm"])} ppm`, (e) => `时钟：墙钟 ${signed(e["offset_us"])}，速率 ${text(e["rate_ppm"])} ppm`),
  "fault-began": kind("faults", "bolt", (e) => `fault ${Number(e["fault"]) + 1} begins${fault(e, "text")}`, (e) => `故障 ${Number(e["fault"]) + 1} 开始${fault(e, "text")}`),
  "fault-ended": kind("faults", "bolt", (e) => `fault ${Number(e["fault"]) + 1} is over${fault(e, "text")}`, (e) => `故障 ${Number(e["fault"]) + 1} 结束${fault(e, "text")}`),
  "fault-touched": kind("faults", "bolt", (e) => `fault ${Number(e["fault"]) + 1} takes effect${fault(e, "how")}`, (e) => `故障 ${Number(e["fault"]) + 1} 生效${fault(e, "how")}`),
  healed: kind("faults", "bolt", () => "every fault has ended", () => "所有故障已结束"),
};

/** How far a clock is off, with its sign. */
export function signed(us: unknown): string {
  const value = Number(us);
  const size = Math.abs(value);
  const shown = size >= 1e6 ? `${+(size / 1e6).toFixed(3)} s` : `${+(size / 1e3).toFixed(3)} ms`;
  return `${value < 0 ? "−" : "+"}${shown}`;
}

const STRANGER: Kind = kind("clients", "circle", (e) => e.what, (e) => e.what);
const of = (e: Event): Kind => (Object.hasOwn(KINDS, e.what) ? KINDS[e.what]! : STRANGER);

/** What happened, in the current language. */
export const say = (e: Event): string => of(e)[current()](e);
export const category = (e: Event): Category => of(e).category;
export const shape = (e: Event): Shape => of(e).shape;
/** In both languages, for the search. */
export const sought = (e: Event): string => `${of(e).en(e)} ${of(e).zh(e)} ${e.what}`.toLowerCase();
