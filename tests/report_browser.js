// Looks at a page of psring as a browser shows it.
//
//   node report_browser.js PLAYWRIGHT CHROMIUM PAGE FOLDER
//
// Screenshots and the printed page go to FOLDER. Each thing that is wrong is a line on
// stdout; the exit code is 1 where there is one. The last line counts what was looked at.
"use strict";
const fs = require("fs");
const path = require("path");
const { pathToFileURL } = require("url");

const [playwright, executablePath, page_path, folder] = process.argv.slice(2);
const { chromium } = require(path.resolve(playwright));
const problems = [];
const counts = { charts: 0, marks: 0, views: 0, pages: 0 };

// What the page itself can tell; runs in the browser.
function look() {
  const wrong = [];
  const { charts } = JSON.parse(document.getElementById("charts").textContent);
  let marks = 0;
  for (const [id, spec] of Object.entries(charts)) {
    const place = document.getElementById(id);
    if (!place || place.dataset.drawn !== "yes") {
      wrong.push(`chart ${id} is not drawn: ${place && place.textContent}`);
      continue;
    }
    // Of each layer: the items that its mark should have drawn of its data.
    const layers = spec.layer || [spec];
    for (const layer of layers) {
      const type = layer.mark.type;
      const rows = spec.datasets[(layer.data || spec.data).name];
      const selector = {
        bar: ".mark-rect", rect: ".mark-rect", tick: ".mark-rect", rule: ".mark-rule", line: ".mark-line",
        area: ".mark-area", point: ".mark-symbol", text: ".mark-text",
      }[type];
      const drawn = place.querySelectorAll(
        `${selector}.role-mark path, ${selector}.role-mark line, ${selector}.role-mark text`);
      const expected = ["line", "area"].includes(type)
        ? new Set(rows.map((row) => row.arm)).size : rows.length;
      const boxes = ["bar", "rect", "tick"];
      const layers_alike = layers.filter(
        (other) => boxes.includes(type) ? boxes.includes(other.mark.type)
          : other.mark.type === type);
      const all = layers_alike.reduce((sum, other) => {
        const data = spec.datasets[(other.data || spec.data).name];
        return sum + (["line", "area"].includes(type)
          ? new Set(data.map((row) => row.arm)).size : data.length);
      }, 0);
      if (rows.length === 0 || expected === 0) wrong.push(`chart ${id} has an empty ${type}`);
      if (drawn.length !== all) {
        wrong.push(`chart ${id} (${spec.description}) has ${drawn.length} marks like ${type}, not ${all}`);
      }
      marks += expected;
    }
    // Names and numbers at the axes must not be cut off, nor lie beside the page.
    const box = place.getBoundingClientRect();
    for (const text of place.querySelectorAll("svg text")) {
      const own = text.getBoundingClientRect();
      if (own.width === 0 || text.closest("[opacity='0']")) continue;
      if (own.left < box.left - 2 || own.right > box.right + 2) {
        wrong.push(`in chart ${id} the text "${text.textContent}" sticks out`);
      }
      if (getComputedStyle(text).fill === getComputedStyle(document.documentElement).backgroundColor) {
        wrong.push(`in chart ${id} the text "${text.textContent}" has the paper's colour`);
      }
    }
  }
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) {
    const wide = [...document.querySelectorAll("body *")]
      .filter((one) => one.getBoundingClientRect().right > width + 1 && !one.closest(".wide"))
      .map((one) => `${one.tagName}.${one.className}`);
    wrong.push(`the page is ${document.documentElement.scrollWidth} wide: ${wide.slice(0, 3)}`);
  }
  const paper = getComputedStyle(document.documentElement).backgroundColor.match(/\d+/g);
  return { wrong, charts: Object.keys(charts).length, marks, light: Number(paper[0]) > 128 };
}

async function view(browser, width, colorScheme) {
  const name = `${width}-${colorScheme}`;
  const say = (text) => problems.push(`${name}: ${text}`);
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
  const page = await context.newPage();
  const url = pathToFileURL(path.resolve(page_path)).href;
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) say(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => say(`error: ${error.message}`));
  page.on("request", (request) => {
    if (request.url() !== url && !request.url().startsWith("data:")) {
      say(`asks for ${request.url()}`);
    }
  });
  await page.goto(url);
  await page.waitForSelector("html[data-drawn=yes]", { state: "attached", timeout: 120000 });
  const seen = await page.evaluate(look);
  seen.wrong.forEach(say);
  if (seen.light !== (colorScheme === "light")) say("the paper has the other theme's colour");
  counts.charts = seen.charts;
  counts.marks = seen.marks;
  counts.views += 1;
  await page.screenshot({ path: path.join(folder, `${name}.png`), fullPage: true });
  if (width > 1000 && colorScheme === "dark") await print(page, say);
  await context.close();
}

// From the dark page: on paper it is light.
async function print(page, say) {
  const pdf = await page.pdf({ path: path.join(folder, "print.pdf"), format: "A4" });
  counts.pages = (pdf.toString("latin1").match(/\/Type\s*\/Page\b/g) || []).length;
  if (counts.pages < 2) say(`the printed page has ${counts.pages} sheets`);
  await page.setViewportSize({ width: 720, height: 1000 });
  await page.emulateMedia({ media: "print" });
  const wrong = await page.evaluate(() => {
    const wrong = [];
    for (const section of document.querySelectorAll("section")) {
      const box = section.getBoundingClientRect();
      if (box.height < 20) wrong.push(`section ${section.id} is not printed`);
    }
    const ink = getComputedStyle(document.documentElement).backgroundColor;
    if (ink !== "rgb(255, 255, 255)") wrong.push(`the printed paper is ${ink}`);
    if (document.documentElement.scrollWidth > document.documentElement.clientWidth) {
      wrong.push("the printed page is wider than the paper");
    }
    return wrong;
  });
  wrong.forEach(say);
}

(async () => {
  fs.mkdirSync(folder, { recursive: true });
  const browser = await chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  });
  for (const width of [1400, 390]) {
    for (const scheme of ["light", "dark"]) await view(browser, width, scheme);
  }
  await browser.close();
  problems.forEach((problem) => console.log(problem));
  console.log(`looked at ${counts.charts} charts with ${counts.marks} marks in ` +
    `${counts.views} views, and ${counts.pages} printed sheets`);
  process.exitCode = problems.length === 0 ? 0 : 1;
})().catch((error) => {
  console.log(`the page could not be looked at: ${error.stack}`);
  process.exitCode = 1;
});
