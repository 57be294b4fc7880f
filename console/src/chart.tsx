// Bands over time: areas from the bottom, lines above, amounts at the right edge, the readout in the card's header.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { JSX } from "preact";
import uPlot from "uplot";
import { amount, BANDS, bandName, clock, count, moment, percent, type Band } from "./format";
import { useWidth } from "./parts";
import type { Series } from "./shapes";
import { colour, theme } from "./theme";

const RIGHT = 96;
const LEFT = 44;
const scaleOf = (series: Series): number => (series.unit === "bytes" ? 2 ** 30 : 1000);

interface Layers {
  bands: Band[];
  x: number[];
  /** Sums from the bottom up to each band. */
  tops: (number | null)[][];
  asked: (number | null)[] | null;
  held: (number | null)[] | null;
  capacity: number;
  most: number;
}

function layersOf(series: Series, withHeld: boolean): Layers {
  const unit = scaleOf(series);
  const n = series.prod.length;
  const x = Array.from({ length: n }, (_, i) => series.t0AtS + i * series.stepS);
  const bands = BANDS.filter((band) => band === "prod" || band === "batch" || band === "system" || series[band].some((v) => v));
  const sums: (number | null)[] = new Array(n).fill(0);
  const tops = bands.map((band) =>
    series[band].map((value, i) => (sums[i] = value === null || sums[i] === null ? null : sums[i]! + value / unit)),
  );
  const asked = series.askedProd.some((v) => v) && !withHeld ? series.askedProd.map((v) => (v === null ? null : v / unit)) : null;
  const held =
    withHeld && series.heldBack.some((v) => v) ? series.heldBack.map((v, i) => (v === null || sums[i] === null ? null : sums[i]! + v / unit)) : null;
  const capacity = Math.max(0, ...series.capacity.map((v) => (v ?? 0) / unit));
  const drawn = [...tops.flat(), ...(asked ?? []), ...(held ?? [])].map((v) => v ?? 0);
  return { bands, x, tops, asked, held, capacity, most: Math.max(capacity, ...drawn) };
}

/** Times of the axis, each once, and with days where there are several. At the right end there is room for "now". */
function timesOf(splits: number[], before: number): string[] {
  const span = splits.length ? splits.at(-1)! - splits[0]! : 0;
  const texts = splits.map((at) => (span > 86400 ? moment(at) : clock(at, span < 240)));
  return texts.map((text, i) => (text === texts[i - 1] || splits[i]! > before ? "" : text));
}

function ticksOf(most: number): number[] {
  const rough = most / 4 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 4, 5, 8, 10].map((s) => s * power).find((s) => s >= rough * 0.999)!;
  return [0, 1, 2, 3, 4].map((i) => i * step);
}

export interface Line {
  value: number;
  text: string;
  colour: string;
}

export function BandChart(props: {
  series: Series;
  height: number;
  line?: Line | undefined;
  held?: boolean;
  /** Where the figures come from. */
  note: string;
  onRead: (text: string) => void;
}): JSX.Element {
  const { series } = props;
  const [box, width] = useWidth();
  const read = useRef(props.onRead);
  read.current = props.onRead;
  const layers = useMemo(() => layersOf(series, !!props.held), [series, props.held]);
  const [asTable, setAsTable] = useState(false);
  const now = useRef({ layers, series, line: props.line });
  now.current = { layers, series, line: props.line };
  const plot = useRef<uPlot | null>(null);
  const shape = layers.bands.join() + (layers.asked ? "a" : "") + (layers.held ? "h" : "");

  const readout = (i: number | null): string => {
    const { layers: seen, series: of } = now.current;
    const last = seen.tops.at(-1) ?? [];
    let at = i ?? last.length - 1;
    while (i === null && at > 0 && last[at] === null) at--;
    const all = last[at];
    if (at < 0 || all == null) return at < 0 ? "" : `${clock(seen.x[at]!)} no report`;
    const parts = seen.bands.map((band) => `${bandName(band)} ${amount((of[band][at] ?? 0) / scaleOf(of))}`).reverse();
    return `${clock(seen.x[at]!)}  ${parts.join(" · ")} · all ${percent(all, (of.capacity[at] ?? 0) / scaleOf(of))}`;
  };

  useEffect(() => {
    if (!width) return;
    const font = "11px Inter, ui-sans-serif, system-ui, sans-serif";
    const [line, dim, text] = [colour("soft"), colour("dim"), colour("text")];
    const area = Math.round(Number(colour("area")) * 255).toString(16);
    const axis: uPlot.Axis = { stroke: dim, font, ticks: { show: false }, grid: { stroke: line, width: 1 } };
    const hidden = { show: false };
    const ends = (u: uPlot): void => {
      const { layers: seen, series: of, line: rule } = now.current;
      const context = u.ctx;
      const ratio = devicePixelRatio;
      const right = u.bbox.left + u.bbox.width;
      context.save();
      context.font = font.replace("11px", `${11 * ratio}px`);
      context.textBaseline = "middle";
      context.textAlign = "left";
      const dashed = (value: number, said: string, stroke: string): void => {
        const y = u.valToPos(value, "y", true);
        context.strokeStyle = stroke;
        context.lineWidth = 1.5 * ratio;
        context.setLineDash([5 * ratio, 4 * ratio]);
        context.beginPath();
        context.moveTo(u.bbox.left, y);
        context.lineTo(right, y);
        context.stroke();
        context.setLineDash([]);
        context.fillStyle = dim;
        context.fillText(said, u.bbox.left + 6 * ratio, y + 10 * ratio);
      };
      if (rule) dashed(rule.value, rule.text, colour(rule.colour));
      let at = seen.x.length - 1;
      context.fillStyle = dim;
      context.textAlign = "right";
      context.fillText("now", right, u.bbox.top + u.bbox.height + 10 * ratio);
      context.textAlign = "left";
      const last = seen.tops.at(-1) ?? [];
      while (at > 0 && last[at] == null) at--;
      if (seen.asked && seen.asked[at] != null) {
        const y = u.valToPos(seen.asked[at]!, "y", true);
        context.fillStyle = dim;
        context.fillText(`services asked for ${count(Math.round(seen.asked[at]!))}`, u.bbox.left + 6 * ratio, y + 10 * ratio);
      }
      let lowest = Infinity;
      seen.bands.forEach((band, i) => {
        const [low, high] = [i ? seen.tops[i - 1]![at] : 0, seen.tops[i]![at]];
        if (low == null || high == null) return;
        const y = Math.min(u.valToPos((low + high) / 2, "y", true), lowest - 14 * ratio);
        lowest = y;
        const figure = amount((of[band][at] ?? 0) / scaleOf(of));
        context.fillStyle = text;
        context.fillText(figure, right + 8 * ratio, y);
        const wide = context.measureText(figure).width;
        context.fillStyle = dim;
        context.fillText(bandName(band), right + 13 * ratio + wide, y);
      });
      context.restore();
    };
    const made = new uPlot(
      {
        width,
        height: props.height,
        padding: [8, RIGHT, 0, 0],
        legend: hidden,
        cursor: { y: false, points: hidden, drag: { x: false, y: false } },
        scales: { x: { time: true }, y: { range: () => [0, ticksOf(now.current.layers.most).at(-1)!] } },
        axes: [
          {
            ...axis,
            grid: hidden,
            size: 24,
            gap: 4,
            space: width < 480 ? 72 : 96,
            values: (u, splits) => timesOf(splits, u.posToVal(u.bbox.width / devicePixelRatio - 64, "x")),
          },
          { ...axis, size: LEFT, gap: 6, splits: () => ticksOf(now.current.layers.most), values: (_, all) => all.map((v) => count(v)) },
        ],
        series: [
          {},
          ...layers.bands.map((band) => ({
            stroke: colour(band),
            width: 1.5,
            fill: band === layers.bands[0] ? colour(band) + area : undefined,
            points: hidden,
          })),
          ...(layers.asked ? [{ stroke: colour("prod"), width: 1.5, dash: [5, 4], points: hidden }] : []),
          ...(layers.held ? [{ stroke: colour("batch"), width: 1.5, dash: [1.5, 3], points: hidden }] : []),
        ] as uPlot.Series[],
        bands: layers.bands.slice(1).map((band, i) => ({ series: [i + 2, i + 1] as [number, number], fill: colour(band) + area })),
        hooks: { draw: [ends], setCursor: [(u) => read.current(readout(u.cursor.idx ?? null))] },
      },
      dataOf(layers),
      box.current!.querySelector<HTMLDivElement>(".plot")!,
    );
    plot.current = made;
    return () => {
      plot.current = null;
      made.destroy();
    };
  }, [width, props.height, shape, theme.value]);

  useEffect(() => {
    plot.current?.setData(dataOf(layers));
    if (plot.current?.cursor.idx == null) read.current(readout(null));
  }, [layers]);

  const first = layers.x[0];
  const summary = `Bands over time${first ? ` from ${moment(first)}` : ""}. ${readout(null)}`;
  return (
    <div class="chart" ref={box}>
      <div class="plot" role="img" aria-label={summary} style={{ height: `${props.height}px` }} />
      <p class="small dim">
        {props.note}{" "}
        <button class="link" aria-expanded={asTable} onClick={() => setAsTable(!asTable)} style={{ minHeight: "24px" }}>
          {asTable ? "Hide the table" : "As a table"}
        </button>
      </p>
      {asTable && <SeriesTable series={series} layers={layers} />}
    </div>
  );
}

function SeriesTable({ series, layers }: { series: Series; layers: Layers }): JSX.Element {
  const step = Math.max(1, Math.ceil(layers.x.length / 24));
  const rows = layers.x.map((_, i) => i).filter((i) => i % step === 0);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Bands over time">
      <table>
        <thead>
          <tr>
            <th>Time</th>
            {layers.bands.map((band) => (
              <th class="n" key={band}>
                {bandName(band)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((i) => (
            <tr key={i}>
              <td>{moment(layers.x[i]!)}</td>
              {layers.bands.map((band) => (
                <td class="n" key={band}>
                  {amount(series[band][i] == null ? null : series[band][i]! / scaleOf(series))}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const dataOf = (layers: Layers): uPlot.AlignedData => {
  const lines = [layers.asked, layers.held].filter((line) => line !== null);
  return [layers.x, ...layers.tops, ...lines] as uPlot.AlignedData;
};
