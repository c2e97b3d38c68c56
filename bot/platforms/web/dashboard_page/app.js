// Assembles the operator's page: the live state, the last hours, people, and admin actions.

import { byId } from "../../static/dom.js";
import { keyed, write } from "../../static/keyed.js";
import { language, speak, tell } from "../../static/texts.js";
import { number } from "../../static/units.js";
import { Acts } from "./acts.js";
import { History } from "./history.js";
import { HostGpu } from "./hosts.js";
import { JobDialog } from "./job.js";
import { Log } from "./log.js";
import { QueueRow, Preload, isQuiet } from "./queues.js";
import { nameModels } from "./nodes.js";
import { People } from "./people.js";
import { Live } from "./socket.js";

const acts = new Acts();
const people = new People(acts);
const preload = new Preload(acts);
const history = new History();
const log = new Log();
let everythingPaused = false;
let showedHistory = false;

const live = new Live({
  state: showState,
  now: ({ body }) => showNow(body),
  people: ({ body }) => people.draw(body),
  readable: ({ readable }) => (byId("unreadable").hidden = readable),
  language: (message) => speak(message.language),
  taken: (message) => acts.taken(message),
  refused: (message) => acts.refused(message),
  answer: (message) => acts.answer(message),
  lost: (key) => acts.lost(key),
});
acts.live = live;

function showState(state) {
  const node = byId("connection");
  if (state === "connecting" && node.dataset.state === "lost") return; // show one long outage, not many short ones
  node.dataset.state = state;
  document.documentElement.dataset.connection = state; // countdowns run only while connected
  write(byId("connection-text"), tell(state));
  byId("sheet").classList.toggle("stale", state === "lost");
  if (state === "unknown") leave();
}

/** Clear the page, because the viewer may no longer see it. */
function leave() {
  history.stop();
  people.stop();
  log.stop();
  byId("sheet").replaceChildren();
  byId("outcomes").replaceChildren();
  byId("confirm").close();
  byId("job").close();
}

function showNow(body) {
  nameModels([...body.queues.map((queue) => queue.model), ...body.idle_models].sort());
  keyed(byId("hosts"), body.hosts, (host) => host.name, (host) => new HostGpu(host, acts));
  const queues = [...body.queues].sort((one, other) => isQuiet(one) - isQuiet(other));
  keyed(byId("queues"), queues, (queue) => queue.model, (queue) => new QueueRow(queue, acts));
  byId("no-queues").hidden = body.queues.length > 0;
  const sum = (name) => body.queues.reduce((total, queue) => total + queue[name], 0);
  write(byId("summary"), tell("summary_now", { running: number(sum("running")), waiting: number(sum("waiting")) }));
  preload.draw([...body.queues.map((queue) => queue.model), ...body.idle_models].sort(), body.hosts.map((host) => host.name));
  showPaused(body.mode === "paused");
  showCluster(body.cluster);
  if (!showedHistory) history.read(); // after the models have been given their hues
  showedHistory = true;
}

function showPaused(paused) {
  everythingPaused = paused;
  byId("all-paused").hidden = !paused;
  byId("everything").hidden = false;
  write(byId("everything"), tell(paused ? "resume_all" : "pause_all"));
}

function showCluster(cluster) {
  byId("cluster").hidden = !cluster;
  if (cluster) write(byId("cluster"), tell(cluster.queue ? "cluster_here" : "cluster_none", cluster));
}

byId("everything").addEventListener("click", () =>
  acts.perform(everythingPaused ? "resume" : "pause", { said: { what: tell("everything") } }));

const TEXTS = {
  skip: "skip", "to-chat": "chat", "to-now": "now", "to-hours": "hours", "to-people": "people", "to-log": "log", "now-title": "now",
  "queues-title": "queues", "no-queues": "no_lines", "hours-title": "hours", "people-title": "people", "log-title": "log",
  "outcomes-title": "outcomes", unreadable: "unreadable", "all-paused": "all_paused",
};
for (const [id, key] of Object.entries(TEXTS)) write(byId(id), tell(key));
byId("ways").setAttribute("aria-label", tell("ways"));
document.title = tell("title");
document.documentElement.lang = language;
live.connect();
log.read();
new JobDialog();
