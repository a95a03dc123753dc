// Opens real reports in headless Chromium: each renders, keys, language and links work, the
// console is silent, nothing is asked of any network, axe finds nothing serious; a page of
// 100,000 events opens in time, and a hostile one runs nothing.
//
//   node test/browser.mjs FOLDER-OF-PAGES [FOLDER-FOR-SCREENSHOTS]
//
// Pages whose name begins with `hostile` or `large` are held to what their names say.

import axe from "axe-core";
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [folder, shots] = process.argv.slice(2);
if (!folder) throw new Error("name a folder of pages");
const chromium = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
if (!chromium) throw new Error("no Chromium: name it in CHROMIUM");
const pages = readdirSync(folder).filter((name) => name.endsWith(".html")).map((name) => resolve(folder, name));
assert.ok(pages.length >= 3, "three pages at least");
if (shots) mkdirSync(shots, { recursive: true });

/** After the next picture. */
const drawn = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
const press = async (page, key) => { await page.keyboard.press(key); await drawn(page); };
const hash = (page) => page.evaluate(() => decodeURIComponent(location.hash));
const text = (page, selector) => page.$eval(selector, (element) => element.textContent);

const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args: ["--no-sandbox"] });
try {
  for (const path of pages) await one(path);
} finally {
  await browser.close();
}

async function opened(path, { hash = "", width = 1280, height = 900, scheme = "light" } = {}) {
  const page = await browser.newPage();
  const said = [], asked = [];
  page.on("console", (message) => said.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => said.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => { said.push(`dialog: ${dialog.message()}`); void dialog.dismiss(); });
  page.on("request", (request) => asked.push(request.url()));
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.setViewport({ width, height });
  const start = Date.now();
  await page.goto(pathToFileURL(path).href + hash);
  await page.waitForSelector("[data-ready]", { timeout: 30_000 });
  return { page, said, asked, took: Date.now() - start };
}

async function one(path) {
  const name = basename(path, ".html");
  const { page, said, asked, took: first } = await opened(path, { hash: "#lang=en" });
  const data = await page.$eval("#data", (element) => JSON.parse(element.textContent));

  // It renders: the sentence, a lane for each node, the steps, the rows.
  if (data.sentence) assert.equal(await text(page, "h1"), data.sentence.en);
  assert.equal(await page.$$eval("#chart .lane-name", (all) => all.length), data.lanes.length);
  assert.equal(await page.$$eval("#story .step", (all) => all.length), data.story.length);
  assert.equal(await page.$$eval("#table tbody tr", (all) => all.length), Math.min(data.events.length, 200));
  // The quickest of some: the time is to be the page's, whatever else the machine does.
  let took = first;
  for (let again = 0; name.startsWith("large") && again < 4; again += 1) {
    const seen = await opened(path, { hash: "#lang=en" });
    took = Math.min(took, seen.took);
    await seen.page.close();
  }
  if (name.startsWith("large")) assert.ok(took < 2_000, `${name} opened in ${took} ms`);

  // Keys: steps, faults, the violation, zoom, help, theme, language.
  if (data.story.length > 1) {
    await press(page, "j");
    assert.match(await hash(page), new RegExp(`event-${data.story[0].event}(&|$)`));
    await press(page, "ArrowRight");
    await press(page, "k");
    assert.match(await hash(page), new RegExp(`event-${data.story[0].event}(&|$)`));
    assert.equal(await page.$$eval("#story [aria-current]", (all) => all.length), 1);
    assert.ok(await page.$eval("#because", (element) => !element.hidden));
    assert.ok(await page.$(".ring"), "the selected event has a ring");
  }
  if (data.faults.length > 0 && data.events.some((event) => event.i === data.faults[0].event)) {
    await press(page, "p");
    const before = await hash(page);
    for (let n = 0; n < data.faults.length; n += 1) await press(page, "p");
    await press(page, "n");
    assert.ok(before.includes("view="));
  }
  await press(page, "0");
  const whole = await hash(page);
  await press(page, "+");
  assert.notEqual(await hash(page), whole);
  if (data.subject) { await press(page, "v"); assert.ok(await page.$(".overlap"), "the violation is in sight"); }
  await page.keyboard.type("?");
  await drawn(page);
  assert.ok(await page.$eval("#help", (element) => element.open));
  await press(page, "Escape");
  await press(page, "l");
  assert.equal(await page.$eval("html", (element) => element.lang), "zh-CN");
  if (data.sentence?.zh) assert.equal(await text(page, "h1"), data.sentence.zh);
  await press(page, "l");
  await press(page, "d");
  assert.equal(await page.$eval("html", (element) => element.dataset.theme), "dark");
  await press(page, "d");

  // Search and filters change the rows and nothing else.
  await page.keyboard.press("/");
  await page.keyboard.type("no event has these words");
  await drawn(page);
  assert.equal(await page.$$eval("#table tbody tr", (all) => all.length), 0);
  await page.$eval("#search", (input) => { input.value = ""; input.dispatchEvent(new Event("input")); });
  await drawn(page);
  await page.click("#filters .chip");
  await drawn(page);
  assert.match(await hash(page), /hide=/);
  await page.click("#filters .chip");
  await drawn(page);

  // Links: of a row, and from outside.
  const linked = data.story.find((step) => step.event !== null)?.event ?? data.events[0].i;
  const deep = await opened(path, { hash: `#event-${linked}&lang=zh&theme=dark` });
  assert.equal(await deep.page.$eval("html", (element) => element.lang), "zh-CN");
  assert.ok(await deep.page.$eval("#because", (element) => !element.hidden));
  await deep.page.close();

  // No serious complaint of axe, in both themes and at the width of a telephone.
  for (const scheme of ["light", "dark"]) {
    for (const width of [1280, 390]) {
      const seen = await opened(path, { hash: `#event-${linked}&lang=${width === 390 ? "zh" : "en"}`, width, scheme });
      assert.ok(await seen.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is wider than ${width}`);
      // Its own realm: the policy of the page lets no script in.
      const frame = seen.page.mainFrame();
      const found = await frame.evaluate(`${axe.source}; axe.run({ resultTypes: ["violations"] })`);
      const grave = found.violations.filter((one) => one.impact === "serious" || one.impact === "critical");
      assert.deepEqual(grave.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`).join("; ")}`), [], `${name} ${scheme} ${width}`);
      if (shots) await seen.page.screenshot({ path: join(shots, `${name}-${scheme}-${width}.png`) });
      assert.deepEqual(seen.said, []);
      await seen.page.close();
    }
  }

  assert.deepEqual(said, [], `${name}: the console`);
  assert.deepEqual(asked.filter((url) => !url.startsWith("file://") || !url.includes(encodeURI(basename(path)))), [], `${name}: requests`);
  if (name.startsWith("hostile")) assert.equal(await page.$$eval("script", (all) => all.length), 2);
  await page.close();
  console.log(`${name}: ${data.events_in_all} events, opened in ${took} ms`);
}
