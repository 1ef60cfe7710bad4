#include "report/html.h"

namespace zeroulp::report {

// Colours stand once, as variables; s0 to s5 are the series of charts, distinct also for readers who confuse red and green.
std::string_view page_style() {
  return R"css(:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --text: #1c2330; --soft: #5a6578; --line: #dfe3ea; --grid: #e8ebf0;
  --accent: #2458c5; --good: #14784a; --good-bg: #e6f5ec; --bad: #b3261e; --bad-bg: #fdecea; --warn: #8a5a00; --warn-bg: #fff4dc;
  --s0: #2f6fdb; --s1: #e07b1a; --s2: #14906a; --s3: #8b55c9; --s4: #cc3f66; --s5: #6b7688;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #11151c; --card: #191f29; --text: #e6eaf1; --soft: #9aa6b8; --line: #2d3543; --grid: #262e3b;
    --accent: #84adff; --good: #5fd49b; --good-bg: #15301f; --bad: #ff8f86; --bad-bg: #3a1a18; --warn: #f0c05a; --warn-bg: #352a10;
    --s0: #6ea3ff; --s1: #f5a350; --s2: #43c79a; --s3: #b78cf0; --s4: #f07a9a; --s5: #94a0b3;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", "DejaVu Sans", sans-serif; }
main { max-width: 880px; margin: 0 auto; padding: 40px 24px 56px; }
header h1 { font-size: 30px; line-height: 1.2; letter-spacing: -0.015em; margin: 0; }
.subtitle { color: var(--soft); margin: 6px 0 0; font-size: 17px; }
h2 { font-size: 21px; line-height: 1.3; letter-spacing: -0.01em; margin: 0 0 6px; }
h3 { font-size: 16px; margin: 26px 0 4px; }
p { margin: 8px 0; overflow-wrap: anywhere; }
.lead { color: var(--soft); margin: 0 0 14px; max-width: 68ch; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 24px 28px; margin: 20px 0; }
.verdict { display: flex; gap: 16px; align-items: flex-start; border-radius: 12px; padding: 18px 22px; margin: 24px 0 16px; border: 1px solid var(--line); background: var(--card); }
.verdict strong { font-size: 20px; line-height: 1.3; }
.verdict p { margin: 3px 0 0; color: var(--text); }
.verdict .mark { flex: none; width: 32px; height: 32px; border-radius: 50%; font-weight: 700; font-size: 18px; line-height: 32px; text-align: center; color: var(--card); background: var(--soft); }
.verdict .mark:empty { display: none; }
.verdict.good { background: var(--good-bg); border-color: var(--good); } .verdict.good .mark { background: var(--good); }
.verdict.bad { background: var(--bad-bg); border-color: var(--bad); } .verdict.bad .mark { background: var(--bad); }
.verdict.warn { background: var(--warn-bg); border-color: var(--warn); } .verdict.warn .mark { background: var(--warn); }
nav { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 14px 2px; font-size: 15px; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 16px 0; }
.facts > div { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 16px; }
section .facts > div { background: var(--page); }
.facts dt { color: var(--soft); font-size: 13.5px; }
.facts dd { margin: 2px 0 0; font-size: 23px; font-weight: 600; line-height: 1.25; letter-spacing: -0.01em; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.facts dd.remark { font-size: 13.5px; font-weight: 400; color: var(--soft); letter-spacing: 0; }
.facts .good dd:not(.remark) { color: var(--good); } .facts .bad dd:not(.remark) { color: var(--bad); } .facts .warn dd:not(.remark) { color: var(--warn); }
.note { border-left: 4px solid var(--soft); padding: 8px 14px; border-radius: 0 8px 8px 0; background: var(--page); }
.note.good { border-color: var(--good); background: var(--good-bg); } .note.bad { border-color: var(--bad); background: var(--bad-bg); } .note.warn { border-color: var(--warn); background: var(--warn-bg); }
ul { margin: 8px 0; padding-left: 22px; }
pre { font: 13.5px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", "DejaVu Sans Mono", monospace; background: var(--page); border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: 14px 0; background: linear-gradient(to right, var(--card) 24px, transparent) left / 48px 100% no-repeat local, linear-gradient(to left, var(--card) 24px, transparent) right / 48px 100% no-repeat local, linear-gradient(to right, var(--line), transparent) left / 14px 100% no-repeat, linear-gradient(to left, var(--line), transparent) right / 14px 100% no-repeat; }
table { border-collapse: collapse; width: 100%; font-size: 14.5px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: 13px; border-bottom: 2px solid var(--line); padding: 6px 12px 6px 0; vertical-align: bottom; }
td { border-bottom: 1px solid var(--line); padding: 7px 12px 7px 0; vertical-align: top; }
th.right, td.right { text-align: right; } td.right { white-space: nowrap; }
th:last-child, td:last-child { padding-right: 2px; }
.tone { font-weight: 600; } .tone.good { color: var(--good); } .tone.bad { color: var(--bad); } .tone.warn { color: var(--warn); } .tone.muted { color: var(--soft); font-weight: 400; }
details { margin: 14px 0; } summary { cursor: pointer; color: var(--accent); font-weight: 500; }
figure { margin: 22px 0 8px; } figure.table figcaption { margin: 0 0 -6px; } figcaption { font-weight: 600; font-size: 15px; margin: 0 0 12px; }
figure svg { display: block; width: 100%; height: auto; } .narrow { display: none; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", "DejaVu Sans", sans-serif; fill: var(--text); font-variant-numeric: tabular-nums; }
svg text.tick, svg text.label { fill: var(--soft); } svg text.value, svg text.reference-label { stroke: var(--card); stroke-width: 3px; stroke-linejoin: round; paint-order: stroke; } svg text.muted { fill: var(--soft); } svg text.good { fill: var(--good); }
svg text.on-heat { fill: var(--card); } svg text.reference-label { fill: var(--soft); font-style: italic; }
.grid { stroke: var(--grid); } .axis { stroke: var(--soft); } .reference { stroke: var(--soft); stroke-dasharray: 5 4; stroke-width: 1.3; } .break { stroke: var(--text); stroke-width: 2; }
.s0 { fill: var(--s0); } .s1 { fill: var(--s1); } .s2 { fill: var(--s2); } .s3 { fill: var(--s3); } .s4 { fill: var(--s4); } .s5 { fill: var(--s5); }
.s0.curve { stroke: var(--s0); } .s1.curve { stroke: var(--s1); } .s2.curve { stroke: var(--s2); } .s3.curve { stroke: var(--s3); } .s4.curve { stroke: var(--s4); } .s5.curve { stroke: var(--s5); }
path.curve { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; } .dot { fill-opacity: 0.75; } .faded { fill-opacity: 0.16; }
.heat { fill: var(--s0); } .heat-none { fill: var(--grid); }
footer { color: var(--soft); font-size: 13.5px; margin: 32px 4px 0; } footer h2 { font-size: 15px; color: var(--text); }
footer dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(230px, 1fr)); gap: 4px 24px; margin: 6px 0; }
footer dl div { display: flex; gap: 8px; } footer dt::after { content: ":"; } footer dd { margin: 0; color: var(--text); overflow-wrap: anywhere; }
@media (max-width: 620px) {
  main { padding: 24px 14px 40px; } section { padding: 18px 16px; } header h1 { font-size: 25px; } .verdict { padding: 14px 16px; gap: 12px; }
  .facts { grid-template-columns: 1fr 1fr; } .facts dd { font-size: 20px; }
  .wide { display: none; } .narrow { display: block; }
}
@media print {
  :root {
    color-scheme: light;
    --page: #ffffff; --card: #ffffff; --text: #000000; --soft: #444b57; --line: #c6ccd6; --grid: #e4e7ec;
    --accent: #000000; --good: #14784a; --good-bg: #eef8f2; --bad: #b3261e; --bad-bg: #fdf0ee; --warn: #8a5a00; --warn-bg: #fff8e8;
    --s0: #2f6fdb; --s1: #e07b1a; --s2: #14906a; --s3: #8b55c9; --s4: #cc3f66; --s5: #6b7688;
  }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  body { font-size: 11pt; } main { max-width: none; padding: 0; } nav { display: none; }
  section { border: 0; border-top: 1px solid var(--line); border-radius: 0; padding: 14px 0; margin: 0; }
  figure:not(.table), .facts, .verdict, tr, .note { break-inside: avoid; } h2, h3, figcaption { break-after: avoid; }
  .scroll { overflow: visible; background: none; } .wide { display: block; } .narrow { display: none; }
  details > summary { list-style: none; color: var(--text); } details::details-content { content-visibility: visible; }
}
)css";
}

}  // namespace zeroulp::report
