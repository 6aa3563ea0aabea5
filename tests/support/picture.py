"""Turns a captured terminal screen into an SVG picture for the documentation.

    tmux capture-pane -e -p -t SESSION | python3 tests/support/picture.py COLUMNS ROWS > docs/pictures/NAME.svg

Reads SGR sequences only (what capture-pane writes): bold, dim, reverse, 16, 256 and true colours.
"""

import html
import re
import sys

CELL_W, CELL_H, FONT = 8.4, 18, 14
BACK, FRONT = "#16181d", "#d5d8df"
BASE = [
    "#2b2e36", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#c8ccd4",
    "#6b7280", "#ff7b86", "#b5e890", "#ffd88a", "#7cc3ff", "#dd94f3", "#7ad7e0", "#ffffff",
]


def indexed(n):
    if n < 16:
        return BASE[n]
    if n >= 232:
        level = 8 + (n - 232) * 10
        return f"#{level:02x}{level:02x}{level:02x}"
    n -= 16
    steps = [0, 95, 135, 175, 215, 255]
    return "#%02x%02x%02x" % (steps[n // 36], steps[n // 6 % 6], steps[n % 6])


def apply(style, codes):
    codes = list(codes)
    while codes:
        code = codes.pop(0)
        if code == 0:
            style.clear()
        elif code in (1, 2, 4, 7):
            style[{1: "bold", 2: "dim", 4: "line", 7: "reverse"}[code]] = True
        elif code == 22:
            style.pop("bold", None), style.pop("dim", None)
        elif code in (24, 27):
            style.pop({24: "line", 27: "reverse"}[code], None)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            style["fg"] = BASE[code - 30 if code < 40 else code - 82]
        elif 40 <= code <= 47 or 100 <= code <= 107:
            style["bg"] = BASE[code - 40 if code < 50 else code - 92]
        elif code in (39, 49):
            style.pop("fg" if code == 39 else "bg", None)
        elif code in (38, 48) and codes:
            kind = codes.pop(0)
            if kind == 5:
                colour = indexed(codes.pop(0))
            else:
                colour = "#%02x%02x%02x" % (codes.pop(0), codes.pop(0), codes.pop(0))
            style["fg" if code == 38 else "bg"] = colour


def main():
    columns, rows = int(sys.argv[1]), int(sys.argv[2])
    lines = sys.stdin.read().split("\n")[:rows]
    width, height = columns * CELL_W + 24, rows * CELL_H + 24
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'font-family="ui-monospace,DejaVu Sans Mono,Menlo,Consolas,monospace" font-size="{FONT}">',
        f'<rect width="100%" height="100%" rx="8" fill="{BACK}"/>',
    ]
    style = {}
    for y, line in enumerate(lines):
        x = 0
        for part in re.split(r"(\x1b\[[0-9;:]*m)", line):
            if part.startswith("\x1b["):
                codes = [int(n or 0) for n in re.split("[;:]", part[2:-1])]
                apply(style, codes)
                continue
            part = re.sub(r"\x1b[()][A-Z0-9]|[\x0e\x0f]", "", part)
            if not part:
                continue
            fg, bg = style.get("fg", FRONT), style.get("bg")
            if style.get("reverse"):
                fg, bg = bg or BACK, fg
            left, top, length = 12 + x * CELL_W, 12 + y * CELL_H, len(part) * CELL_W
            if bg:
                out.append(f'<rect x="{left:.1f}" y="{top}" width="{length:.1f}" height="{CELL_H}" fill="{bg}"/>')
            if part.strip():
                extra = ' font-weight="bold"' if style.get("bold") else ""
                extra += ' opacity="0.6"' if style.get("dim") else ""
                # Every character has its own place: the columns stand whatever font is there.
                text = part.rstrip()
                places = " ".join(f"{12 + (x + i) * CELL_W:.1f}" for i in range(len(text)))
                out.append(
                    f'<text x="{places}" y="{top + 13.5}" fill="{fg}" xml:space="preserve"{extra}>'
                    f"{html.escape(text)}</text>"
                )
            x += len(part)
    out.append("</svg>")
    print("\n".join(out))


main()
