// Opens the exported lessons in headless Chromium: every page draws, in either language, asks
// for nothing outside of its folder, says nothing on the console, and axe finds nothing serious.
//
//   node test/site.mjs FOLDER-OF-THE-SITE [FOLDER-FOR-SCREENSHOTS]

import axe from "axe-core";
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [folder, shots] = process.argv.slice(2);
if (!folder) throw new Error("name the folder of a site");
const chromium = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
if (!chromium) throw new Error("no Chromium: name it in CHROMIUM");
const base = pathToFileURL(resolve(folder)).href;
const pages = readdirSync(folder).filter((name) => name.endsWith(".html"));
assert.ok(pages.length >= 4 && pages.includes("index.html") && pages.includes("index.zh.html"));
if (shots) mkdirSync(shots, { recursive: true });

const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args: ["--no-sandbox"] });
try {
  for (const name of pages) {
    for (const [scheme, width] of [["light", 1280], ["dark", 390]]) {
      const page = await browser.newPage();
      const said = [], asked = [];
      page.on("console", (message) => said.push(`${message.type()}: ${message.text()}`));
      page.on("pageerror", (error) => said.push(`error: ${error.message}`));
      page.on("request", (request) => asked.push(request.url()));
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await page.setViewport({ width, height: 900 });
      await page.goto(`${base}/${name}`);
      assert.equal(await page.$eval("html", (element) => element.lang), name.endsWith(".zh.html") ? "zh-CN" : "en");
      // What is folded is opened, as a reader would.
      for (const summary of await page.$$("summary")) await summary.evaluate((element) => element.click());
      assert.equal(await page.$$eval("details:not([open])", (all) => all.length), 0);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is wider than ${width}`);
      const found = await page.mainFrame().evaluate(`${axe.source}; axe.run({ resultTypes: ["violations"] })`);
      const grave = found.violations.filter((one) => one.impact === "serious" || one.impact === "critical");
      assert.deepEqual(grave.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.target).join("; ")}`), [], `${name} ${scheme}`);
      if (shots) await page.screenshot({ path: join(shots, `${name}-${scheme}-${width}.png`), fullPage: true });
      assert.deepEqual(said, [], name);
      assert.deepEqual(asked.filter((url) => !url.startsWith(`${base}/`)), [], name);
      await page.close();
    }
  }
} finally {
  await browser.close();
}
console.log(`${pages.length} pages of lessons`);
