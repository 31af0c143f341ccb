/** Every run breaks a promise at its end: to see that it is reported. */
import { History, Violation } from "../../../sim/run/history.ts";

History.prototype.end = () => {
  throw new Violation("S0", "a canary has died");
};
