#!/usr/bin/env python3
"""codec_plot.py RESULTS.jsonl > docs/codec-speed.svg: ratio against speed on a GPU, from the lines of bench_codec_cuda and of the peers
(512 MiB of Gaussian data without a table)."""

import json
import sys

SVG = "/".join(("http:", "", ".".join(("www", "w3", "org")), "2000", "svg"))
BOUND = 1.517  # of N(0,1): 16 / (8 + 2.545), the rest of a value kept whole


def x_of(speed):
    return 60 + speed * 550 / 2500


def y_of(ratio):
    return 310 - (ratio - 1.25) * 900


def text(x, y, words, anchor="middle", more=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"{more}>{words}</text>'


def main():
    rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8") if line.strip()]
    found = {}
    for r in rows:  # a later line of the same level or peer replaces what it names
        if r.get("data") == "gaussian" and r.get("mib") == 512 and r.get("period", 0) == 0:
            found.setdefault((r.get("peer"), r.get("level")), {}).update(r)
    rows = found.values()
    out = [f'<svg xmlns="{SVG}" viewBox="0 0 640 360" font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>']
    for speed in range(0, 2501, 500):
        out.append(f'<line x1="{x_of(speed):.0f}" y1="310" x2="{x_of(speed):.0f}" y2="40" stroke="#ddd"/>' + text(x_of(speed), 328, speed))
    for step in range(7):
        ratio = 1.25 + 0.05 * step
        out.append(f'<line x1="60" y1="{y_of(ratio):.0f}" x2="610" y2="{y_of(ratio):.0f}" stroke="#ddd"/>' + text(52, y_of(ratio) + 4, f"{ratio:.2f}", "end"))
    out.append(f'<line x1="60" y1="{y_of(BOUND):.0f}" x2="610" y2="{y_of(BOUND):.0f}" stroke="#888" stroke-dasharray="4 3"/>')
    out.append(text(610, y_of(BOUND) - 5, "entropy of the exponents", "end", ' fill="#666"'))
    for r in rows:
        peer = r.get("peer")
        name, colour = (peer, "#b0413e") if peer else (r["level"], "#1b6ca8")
        for way, below in (("encode", False), ("decode", True)):
            x, y = x_of(r[f"{way}_gbs"]), y_of(r["ratio"])
            out.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="5" fill="{colour}"/>' + text(x, y + ((34 if peer else 20) if below else -10), f"{name}, {way}"))
    out.append(text(320, 350, "GB of uncompressed BF16 per second, one H200, 512 MiB of N(0,1)"))
    out.append(text(14, 180, "ratio", more=' transform="rotate(-90 14 180)"') + "</svg>")
    print("\n".join(out))


if __name__ == "__main__":
    main()
