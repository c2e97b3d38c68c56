// The service worker: shows the page while its server is away, and opens it from notifications. It keeps nothing
// personal, only the files in SHELL, which the server writes before this text. The page itself comes from
// the server whenever it answers, and says its version. Other files do not, if they are of that version.

const { scope } = registration;
const OURS = `usher ${scope} `; // another program's pages may share the origin
const KEPT = OURS + SHELL.version;
const addresses = new Set(SHELL.files.map((file) => new URL(file, scope).href));
const current = new Set(); // ids of the pages of this version; forgotten when the browser stops the worker
const TEXTS = /^texts\/([a-z]+)[^/]*\.json$/i;

addEventListener("install", (event) => event.waitUntil(keep()));
addEventListener("activate", (event) => event.waitUntil(dropOthers()));
addEventListener("fetch", (event) => {
  const address = event.request.method === "GET" && keptAs(event.request.url);
  if (address) event.respondWith(answer(event, address));
});
addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(showPage(event.notification.data));
});

async function keep() {
  const cache = await caches.open(KEPT);
  await cache.addAll([...addresses].map((address) => new Request(address, { cache: "no-cache" })));
  await skipWaiting();
}

async function dropOthers() {
  const names = await caches.keys();
  await Promise.all(names.filter((name) => name.startsWith(OURS) && name !== KEPT).map((name) => caches.delete(name)));
  await clients.claim();
}

/** Return the address under which a file is kept, or null: of everything else, and of links with a token. */
function keptAs(url) {
  const address = url.split("#")[0];
  const locale = TEXTS.exec(address.slice(scope.length))?.[1].toLowerCase();
  if (!address.startsWith(scope) || !locale) return addresses.has(address) ? address : null;
  const texts = (language) => new URL(`texts/${language}.json`, scope).href;
  return addresses.has(texts(locale)) ? texts(locale) : texts("en");
}

async function answer({ request, clientId, resultingClientId }, address) {
  const cache = await caches.open(KEPT);
  const kept = () => cache.match(address, { ignoreVary: true });
  let response = current.has(clientId) ? await kept() : null;
  if (response) return response;
  try {
    response = await fetch(request);
    if (response.headers.get("X-Shell-Version") === SHELL.version) current.add(resultingClientId);
    if (response.status < 500) return response; // else a proxy's, or a process about to stop
  } catch {
    // no network, or no server
  }
  return (await kept()) ?? response ?? Response.error();
}

/** Show a conversation, in a page that is open or in a new one. */
async function showPage(conversation) {
  const pages = await clients.matchAll({ type: "window", includeUncontrolled: true });
  const page = pages.find(({ url }) => url.startsWith(scope));
  if (!page) return clients.openWindow(`${scope}#chat/${conversation}`);
  page.postMessage({ conversation });
  return page.focus();
}
