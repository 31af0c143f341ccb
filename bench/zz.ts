import { drain } from "./sqlite/drain.ts";
import { insert } from "./sqlite/insert.ts";
import { toTable } from "./report.ts";
process.stdout.write(toTable([...(await drain()), ...(await insert())]));
