import "uplot/dist/uPlot.min.css";
import { render } from "preact";
import { App } from "./app";
import { begin } from "./theme";

begin();
render(<App />, document.getElementById("app")!);
