/** A rejection that nobody handles. */
import { Server } from "kiln";

Server.prototype.run = async () => {
  throw new TypeError("planted");
};
