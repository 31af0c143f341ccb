/** The engine looks at the real clock. */
import { Incarnation } from "../../../sim/process.ts";

const real = Incarnation.prototype.timer;
Incarnation.prototype.timer = function (...args): ReturnType<typeof real> {
  Date.now();
  return real.apply(this, args);
};
