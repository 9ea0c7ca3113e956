// The script of the pages. Every page is complete without it, except for timelines, charts and
// buttons of decisions. It sends requests only to the server of the page.

import { showAges } from "./ages.js";
import { focusBoxes } from "./boxes.js";
import { drawCharts } from "./charts.js";
import { copyOnClick } from "./copy.js";
import { decideOnSubmit } from "./decide.js";
import { drawTimelines } from "./gantt.js";
import { follow, visitOnClick } from "./live.js";
import { sortTables } from "./sort.js";

// Adds to a part of the page what only a script can add.
function enhance(part) {
  showAges(part);
  sortTables(part);
  focusBoxes(part);
  drawTimelines(part);
  drawCharts(part);
}

const main = document.getElementById("main");
copyOnClick();
decideOnSubmit();
visitOnClick(main);
follow(main, enhance);
