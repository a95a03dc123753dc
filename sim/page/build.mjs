// Bundles src/ into dist/page.html: one file, whose policy names its script and its style by
// their hashes. `node build.mjs --check` only says whether dist/ is what src/ gives.

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const here = (name) => new URL(name, import.meta.url);
const bundled = async (entry) => {
  const result = await build({
    entryPoints: [here(entry).pathname], bundle: true, write: false, minify: true, format: "iife", target: ["es2023", "chrome110", "firefox115", "safari16.4"],
    legalComments: "none", charset: "utf8",
  });
  return result.outputFiles[0].text.trim();
};
const hash = (text) => `sha256-${createHash("sha256").update(text).digest("base64")}`;

const script = await bundled("src/main.ts");
const style = await bundled("src/page.css");
if (/<\/(script|style)|<!--/i.test(script + style)) throw new Error("the bundle would close its own element");
const places = { "SCRIPT-HASH": hash(script), "STYLE-HASH": hash(style), STYLE: style, SCRIPT: script };
const page = readFileSync(here("src/page.html"), "utf8").replace(/%([A-Z-]+)%/g, (place, name) => places[name] ?? place);

const out = here("dist/page.html");
if (process.argv.includes("--check")) {
  if (readFileSync(out, "utf8") !== page) {
    console.error("sim/page/dist/page.html is not what sim/page/src gives: run `npm run build` in sim/page");
    process.exit(1);
  }
  console.log("sim/page/dist/page.html is what sim/page/src gives");
} else {
  writeFileSync(out, page);
  console.log(`dist/page.html: ${(page.length / 1024).toFixed(1)} KiB`);
}
