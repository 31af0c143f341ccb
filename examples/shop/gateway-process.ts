/** The gateway's process: answers HTTP requests until the shop that has started it is gone. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { untilParentIsGone } from "../shared/child.ts";
import { type ChargeRequest, Gateway, type GatewayNews, type GatewayReply } from "./gateway.ts";

/** How long a charge takes, milliseconds. */
const LATENCY = { min: 20, max: 60 } as const;

const stop = untilParentIsGone();
const [path = ""] = process.argv.slice(2);
const gateway = new Gateway(path);

const server = createServer((request, response) => {
  // Before anything else, because it is arrivals that are counted.
  const at = performance.timeOrigin + performance.now();
  if (request.method !== "POST") {
    response.writeHead(405).end();
    return;
  }
  charge(request, at).then(
    ({ status, ...body }) => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    },
    // Not a request that can be read.
    () => response.writeHead(400).end(),
  );
});

async function charge(request: IncomingMessage, at: number): Promise<GatewayReply> {
  const admitted = gateway.admit(at);
  const key = String(request.headers["idempotency-key"]);
  const { order, cents } = (await json(request)) as Omit<ChargeRequest, "key">;
  const reply = gateway.reply({ key, order, cents }, at, admitted);
  tell(gateway.statistics());
  if (admitted) await sleep(LATENCY.min + Math.random() * (LATENCY.max - LATENCY.min));
  return reply;
}

/** For the shop's table. */
function tell(news: GatewayNews): void {
  if (process.connected) process.send?.(news);
}

server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo;
  tell(`http://127.0.0.1:${port}`);
});

stop.addEventListener("abort", () => {
  server.close(() => gateway.close());
  server.closeAllConnections();
});
