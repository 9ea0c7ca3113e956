// The bars of a timeline by row, so that a drawing finds those of a time by binary search.

// Each step has a block of rows, one for each lane.
export class Bars {
  constructor(data) {
    const { bars, lanes } = data;
    this.data = data;
    this.first = [];
    let rows = 0;
    for (const count of lanes) {
      this.first.push(rows);
      rows += count;
    }
    this.rows = rows;
    const lists = Array.from({ length: rows }, () => []);
    for (let bar = 0; bar < bars.start.length; bar += 1) lists[this.rowOf(bar)]?.push(bar);
    // Bars of a row by begin, and the latest end of all bars up to each: both only grow.
    this.lists = lists.map((list) => Uint32Array.from(list).sort((a, b) => this.begin(a) - this.begin(b)));
    this.reach = this.lists.map((list) => {
      let latest = 0;
      return Float64Array.from(list, (bar) => (latest = Math.max(latest, bars.end[bar])));
    });
  }

  rowOf(bar) {
    const { step, lane } = this.data.bars;
    return this.first[step[bar]] + lane[bar];
  }

  begin(bar) {
    const { queued, start } = this.data.bars;
    return queued[bar] ?? start[bar];
  }

  end(bar) {
    return this.data.bars.end[bar];
  }

  // The part of the row's list that may be visible.
  between(row, from, to) {
    const list = this.lists[row];
    return [
      search(list.length, (n) => this.reach[row][n] >= from),
      search(list.length, (n) => this.begin(list[n]) > to),
    ];
  }

  // The bar of a row at a time, or the nearest within `near` seconds; null without one.
  at(row, time, near) {
    const list = this.lists[row] ?? [];
    const [low, high] = list.length ? this.between(row, time - near, time + near) : [0, 0];
    let best = null;
    let least = near;
    for (let n = high - 1; n >= low; n -= 1) {
      const away = Math.max(this.begin(list[n]) - time, time - this.end(list[n]), 0);
      if (away === 0) return list[n];
      if (away <= least) [best, least] = [list[n], away];
    }
    return best;
  }

  // The next or previous bar of the same row.
  beside(bar, way) {
    const list = this.lists[this.rowOf(bar)];
    return list[list.indexOf(bar) + way] ?? bar;
  }

  // The nearest bar of the next row that has one.
  above(bar, way) {
    const middle = (this.begin(bar) + this.end(bar)) / 2;
    for (let row = this.rowOf(bar) + way; row >= 0 && row < this.rows; row += way) {
      if (this.lists[row].length) return this.at(row, middle, Infinity);
    }
    return bar;
  }

  // The bar of a task by its number; null if it is not here.
  ofTask(task) {
    const at = this.data.bars.task.indexOf(task);
    return at < 0 ? null : at;
  }
}

// The first number that fulfils a condition which all later numbers fulfil, too.
export function search(count, isAfter) {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isAfter(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
