// Asks the search of a built site, as its pages do: node search.cjs SITE PHRASE…
// Prints a JSON list with the addresses that each phrase finds, the best first.
const fs = require("fs");
const path = require("path");

const [site, ...phrases] = process.argv.slice(2);
const workers = path.join(site, "assets/javascripts/workers");
const worker = fs.readdirSync(workers).find((file) => file.startsWith("search") && file.endsWith(".js"));
const index = JSON.parse(fs.readFileSync(path.join(site, "search.json")));

let answer;
global.self = { postMessage: (message) => answer(message) };
(0, eval)(fs.readFileSync(path.join(workers, worker), "utf8"));

const ask = (type, data) => new Promise((resolve) => {
  answer = resolve;
  self.onmessage({ data: { type, data } });
});

(async () => {
  await ask(0, index);
  const found = [];
  for (const input of phrases) {
    const { data } = await ask(2, { input, filter: { input: [], aggregation: { input: [] } } });
    found.push(data.items.map((item) => index.items[item.id].location));
  }
  console.log(JSON.stringify(found));
})();
