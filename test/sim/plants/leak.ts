/** What the engine draws is truly random, so that no run is like another. */
import { Incarnation } from "../../../sim/process.ts";

const real = Math.random;
Incarnation.prototype.random = () => real();
