/**
 * The queues in random order, drawn one by one without replacement, each with a probability proportional to its weight: under
 * load each queue comes first in its share of claims, and an idle queue leaves its share to the others.
 */
export function weightedOrder(
  queues: readonly string[],
  weights: ReadonlyMap<string, number>,
  random: () => number,
): string[] {
  const left = [...queues];
  const order: string[] = [];
  while (left.length > 0) {
    const total = left.reduce((sum, queue) => sum + (weights.get(queue) ?? 1), 0);
    let ticket = random() * total;
    const drawn = left.findIndex((queue) => {
      ticket -= weights.get(queue) ?? 1;
      return ticket < 0;
    });
    // Rounding may leave a ticket just beyond the last queue.
    order.push(...left.splice(drawn === -1 ? left.length - 1 : drawn, 1));
  }
  return order;
}
