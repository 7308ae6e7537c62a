// Makes two files of the packages that npm has put into the working folder:
//   chart_library.js  what draws charts, minified, in the order in which it has to run
//   licences.txt      what a program that carries it owes its authors: each package of
//                     the lock file with version and licence, then every licence's text
//                     once. Packages that only tests use are in no program.
"use strict";
const fs = require("fs");
const path = require("path");

const scripts = ["vega", "vega-lite", "vega-embed"].map((name) =>
  fs.readFileSync(`node_modules/${name}/build/${name}.min.js`, "utf8"));
// A page has nothing beside it, maps of sources neither.
fs.writeFileSync("chart_library.js", scripts.map((script) =>
  `${script.replace(/^\/\/# sourceMappingURL=.*$/gm, "").trim()}\n;\n`).join(""));

const lock = JSON.parse(fs.readFileSync("package-lock.json", "utf8"));
const lines = [];
const texts = new Map(); // From a text to the packages that have it.
for (const [place, entry] of Object.entries(lock.packages).sort()) {
  if (place === "" || entry.dev || entry.optional) continue;
  const name = place.slice(place.lastIndexOf("node_modules/") + "node_modules/".length);
  const title = `${name} ${entry.version}`;
  lines.push(`${title}: ${entry.license}`);
  const file = fs.readdirSync(place).find((file) => /^licen[cs]e/i.test(file));
  if (!file) continue;
  const text = fs.readFileSync(path.join(place, file), "utf8").trim();
  texts.set(text, [...(texts.get(text) || []), title]);
}
for (const [text, titles] of texts) lines.push(`\n---- ${titles.join(", ")}\n\n${text}`);
fs.writeFileSync("licences.txt", `${lines.join("\n")}\n`);
