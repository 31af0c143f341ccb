/** Timers fire a little late, as they do in the real world, so that no run is like another. */
import { Incarnation } from "../../../sim/world/process.ts";

const random = Math.random;
const real = Incarnation.prototype.timer;
Incarnation.prototype.timer = function (ms, fn): ReturnType<typeof real> {
  return real.call(this, ms + random(), fn);
};
