// Every word of the page itself, in English and Chinese. The compiler refuses a table that
// lacks a word of the other.

export type Language = "en" | "zh";

const en = {
  title: "lockstorm report",
  effect: "Effect", found: "Found", why: "Why", saved: "Saved by", tries: "Try", reproduce: "Reproduce", copy: "Copy", copied: "Copied",
  run: "This run", seed: "Seed", scenario: "Scenario", lock: "Lock", fence: "Fence", engine: "Engine", trace: "Trace", file: "File",
  confirmed: "Reference engine", repeated: "Repeated", length: "Length", plan: "Plan", capsule: "Capsule",
  advisory: "advisory", simulated: "{0} simulated", events: "{0} events", version: "lockstorm {0}",
  story: "What happened", previous: "Previous", next: "Next", whyButton: "Why?", step: "Step {0} of {1}", noStory: "There is no story: nothing was found.",
  because: "Why event {0}", noCause: "Nothing in the history led to it.", shownAt: "Event {0}, {1}", atNode: "at {0}",
  timeline: "Timeline", zoomIn: "Zoom in", zoomOut: "Zoom out", whole: "Whole run", violation: "Violation", overview: "The whole run; drag to move",
  promise: "promised by the servers", belief: "believed by the client", effectBar: "operations at the resource", fault: "fault", blamed: "blamed fault",
  overlap: "the violation", down: "down", cause: "led to", message: "message", lost: "lost", offset: "replication offset", clock: "clock",
  master: "master", replica: "replica", legend: "What the signs mean", until: "(goes on)",
  filters: "Show", all: "all", search: "Search events", searchHint: "words of an event, an owner, a node",
  grants: "grants", refusals: "refusals", effects: "effects", replication: "replication", cluster: "cluster", faults: "faults", clients: "clients", messages: "messages", books: "books",
  onlyCause: "only what led to it",
  table: "All events", number: "No.", time: "Time", node: "Node", what: "What", ledBy: "Because of", page: "{0} to {1} of {2}", times: "{0} times, until {1}", noRows: "No event is like that.",
  dropped: "The page carries {0} of {1} events: all that led to the violation, then faults, the cluster and what is near in time. The others are in the history: lockstorm run … --out FILE.ndjson.gz",
  collapsed: "Equal refusals stand once with their number.",
  droppedBars: "{0} grants are not drawn.",
  findings: "Everything found", parted: "what parted them", more: "and {0} more",
  cliff: "When it was settled", cliffText: "Of {0} runs that are the same up to a step and drawn anew from there, so many fail in the same way.",
  stormy: "the storm goes on", calm: "no fault begins any more", start: "start",
  decisive: "Decisive: {0}, at {1}. Drawn anew, until just before it {2} of {4} runs fail, from it on {3} of {4}.", gradual: "It rises between {0} and {1}, at no single event: drawn anew, {2} of {4} runs fail from {0} on and {3} from {1} on. Of the events between the two none was found that makes more of it than chance may do.", theStart: "the start", undecided: "No single event settles it: the share nowhere rises by a quarter.",
  notDecided: "Not decided: the share rises most between {0} and {1}: {2} of {4} runs fail from {0} on and {3} from {1} on. With so few draws that may be chance.", notDecidedAnew: "Not decided: the share seemed to rise most between {0} and {1}; drawn anew, {2} of {4} runs fail from {0} on and {3} from {1} on. With so few draws that may be chance.", leastDraws: "If the shares stay so, fewer than about {0} draws (lockstorm explain --reseeds) would not tell.",
  tried: "Tried, over the same {0} draws", asItIs: "as it is", nearest: "The nearest plan that passes", failingFirst: "the one that fails has first", passingFirst: "the one that passes has first",
  violations: "{0} of {1} fail", saysNothing: "{0} say nothing", proof: "A measure that changes nothing here may help elsewhere; one that helps in each of these runs is not thereby proved.",
  nothing: "Nothing is wrong: {0} handovers, {1} faults took effect.", nothingKnown: "Nothing can be said of this run.", goals: "Not met: {0}", failedCheckers: "Failed checkers: {0}", undecidedOverlaps: "{0} overlaps are shorter than the clocks are uncertain.", inertFaults: "Without effect: {0}", stuck: "The run came to no end: {0}",
  language: "中文", theme: "Light or dark", help: "Keys", close: "Close",
  keyStep: "next or previous step", keyFault: "next or previous fault", keyViolation: "to the violation", keyZoom: "nearer, farther, whole run", keyFilter: "filters", keySearch: "search", keyWhy: "why?", keyLanguage: "language", keyTheme: "light or dark", keyHelp: "this help",
  skip: "To the story", selected: "selected", marked: "wrong", held: "held off by the fence", chart: "Time from left to right, a lane for each node. The table below has the same events as text.",
  ahead: "wall {0}", rate: "rate {0}", standing: "wall clock stands still",
};

const zh: typeof en = {
  title: "lockstorm 报告",
  effect: "后果", found: "发现", why: "原因", saved: "何以无害", tries: "可尝试", reproduce: "复现", copy: "复制", copied: "已复制",
  run: "本次运行", seed: "种子", scenario: "场景", lock: "锁", fence: "栅栏", engine: "引擎", trace: "轨迹", file: "文件",
  confirmed: "参考引擎", repeated: "重复运行", length: "时长", plan: "计划", capsule: "胶囊",
  advisory: "提示", simulated: "模拟 {0}", events: "{0} 个事件", version: "lockstorm {0}",
  story: "经过", previous: "上一步", next: "下一步", whyButton: "为什么？", step: "第 {0} 步，共 {1} 步", noStory: "没有经过可讲：什么也没有发现。",
  because: "事件 {0} 的原因", noCause: "历史中没有导致它的事件。", shownAt: "事件 {0}，{1}", atNode: "在 {0}",
  timeline: "时间线", zoomIn: "放大", zoomOut: "缩小", whole: "整个运行", violation: "违反处", overview: "整个运行；拖动以移动",
  promise: "服务器的承诺", belief: "客户端的认知", effectBar: "对资源的操作", fault: "故障", blamed: "被归因的故障",
  overlap: "违反", down: "宕机", cause: "导致", message: "消息", lost: "丢失", offset: "复制偏移量", clock: "时钟",
  master: "主", replica: "从", legend: "图例", until: "（持续）",
  filters: "显示", all: "全部", search: "搜索事件", searchHint: "事件、持有者、节点中的字词",
  grants: "授予", refusals: "拒绝", effects: "操作", replication: "复制", cluster: "集群", faults: "故障", clients: "客户端", messages: "消息", books: "账目",
  onlyCause: "只看导致它的",
  table: "全部事件", number: "编号", time: "时间", node: "节点", what: "内容", ledBy: "由何导致", page: "第 {0} 至 {1} 条，共 {2} 条", times: "{0} 次，直到 {1}", noRows: "没有这样的事件。",
  dropped: "本页带有 {1} 个事件中的 {0} 个：先是导致违反的全部事件，再是故障、集群以及时间相近者。其余在历史文件中：lockstorm run … --out FILE.ndjson.gz",
  collapsed: "相同的拒绝只列一次并注明次数。",
  droppedBars: "有 {0} 次授予未画出。",
  findings: "全部发现", parted: "分歧所在", more: "另有 {0} 项",
  cliff: "何时成定局", cliffText: "到某一步为止完全相同、之后重新抽取的 {0} 次运行中，以同样方式失败的次数。",
  stormy: "风暴继续", calm: "不再有新的故障", start: "起点",
  decisive: "决定性事件：{0}，在 {1}。另行抽取：在它之前 {4} 次运行中有 {2} 次失败，从它起有 {3} 次。", gradual: "比例在 {0} 与 {1} 之间上升，却不在任何单一事件上：另行抽取，从 {0} 起 {4} 次运行中有 {2} 次失败，从 {1} 起有 {3} 次。两者之间没有找到哪一个事件的上升超出偶然。", theStart: "起点", undecided: "没有单一事件成为定局：比例在任何一处都没有上升四分之一。",
  notDecided: "尚无定论：比例在 {0} 与 {1} 之间上升最多：从 {0} 起 {4} 次运行中有 {2} 次失败，从 {1} 起有 {3} 次。抽取次数这么少，这可能只是偶然。", notDecidedAnew: "尚无定论：比例看似在 {0} 与 {1} 之间上升最多；另行抽取，从 {0} 起 {4} 次运行中有 {2} 次失败，从 {1} 起有 {3} 次。抽取次数这么少，这可能只是偶然。", leastDraws: "若比例保持如此，少于约 {0} 次抽取（lockstorm explain --reseeds）无法断定。",
  tried: "在同样的 {0} 次抽取上试过", asItIs: "原样", nearest: "最近的能通过的计划", failingFirst: "失败的一方先有", passingFirst: "通过的一方先有",
  violations: "{1} 次中 {0} 次失败", saysNothing: "{0} 次无结论", proof: "在此无效的措施在别处可能有用；在这些运行中都有效的措施也并未因此得到证明。",
  nothing: "一切正常：{0} 次锁交接，{1} 个故障已生效。", nothingKnown: "对这次运行无法下结论。", goals: "未达到：{0}", failedCheckers: "失败的检查器：{0}", undecidedOverlaps: "有 {0} 处重叠短于时钟的不确定度。", inertFaults: "没有效果：{0}", stuck: "运行没有结束：{0}",
  language: "English", theme: "浅色或深色", help: "按键", close: "关闭",
  keyStep: "下一步或上一步", keyFault: "下一个或上一个故障", keyViolation: "到违反处", keyZoom: "放大、缩小、整个运行", keyFilter: "筛选", keySearch: "搜索", keyWhy: "为什么？", keyLanguage: "语言", keyTheme: "浅色或深色", keyHelp: "本帮助",
  skip: "跳到经过", selected: "选中", marked: "错误", held: "被栅栏挡住", chart: "时间从左到右，每个节点一条泳道。下方的表格以文字列出同样的事件。",
  ahead: "墙钟 {0}", rate: "速率 {0}", standing: "墙钟停走",
};

const TABLES = { en, zh };
export type Word = keyof typeof en;

let language: Language = "en";
export const current = (): Language => language;
export const speak = (to: Language): void => { language = to; };

/** A word of the page, with its places filled. */
export function word(name: Word, ...places: (string | number)[]): string {
  return TABLES[language][name].replace(/\{(\d)\}/g, (_, n: string) => String(places[Number(n)] ?? ""));
}

/** A text of the data in the current language. */
export const told = (text: { en: string; zh?: string } | null | undefined): string =>
  text ? (language === "zh" ? text.zh ?? text.en : text.en) : "";

/** `4.816 s`; with µs where that says more. */
export function seconds(us: number, fine = false): string {
  const whole = Math.floor(us / 1e6);
  const rest = String(us % 1e6).padStart(6, "0");
  return `${whole}.${fine ? rest : rest.slice(0, 3)} s`;
}

/** A length of time in the unit that suits it. */
export function span(us: number): string {
  if (us < 1_000) return `${us} µs`;
  if (us < 1_000_000) return `${+(us / 1e3).toFixed(us < 10_000 ? 2 : 0)} ms`;
  return `${+(us / 1e6).toFixed(3)} s`;
}

/** The length of a stretch as its ends are shown: in whole ms where they differ by some. */
export function between(from: number, to: number): string {
  const shown = (Math.floor(to / 1e3) - Math.floor(from / 1e3)) * 1e3;
  return span(shown > 0 ? shown : to - from);
}
