"""Converts the first lines of a command's output in a terminal into a page that looks like the terminal.

    COMMAND | python3 scripts/terminal_page.py LINES "COMMAND"

Only the sequences for bold, faint and colours that `ebb` prints are known; another one is an error, so
that a picture never shows less than the terminal does.
"""

import html
import re
import sys

COLOURS = {
    "1": "font-weight:700;color:#fff",
    "2": "color:#9aa6ad",
    "31": "color:#ff8f80",
    "32": "color:#7fd6a1",
    "33": "color:#ffd88a",
    "36": "color:#5cc3ce",
}
FONT_PX = 13
LINE_PX = 18
# Width of a character of DejaVu Sans Mono at FONT_PX.
CHARACTER_PX = 7.83
MARGIN_PX = 18


def span(codes):
    styles = [COLOURS[code] for code in codes.split(";") if code not in ("", "0")]
    return f'<span style="{";".join(styles)}">' if styles else ""


def marked_up(text):
    out, is_open = [], False
    for part in re.split(r"(\x1b\[[0-9;]*m)", text):
        found = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if not found:
            out.append(html.escape(part))
            continue
        if is_open:
            out.append("</span>")
        begin = span(found[1])
        is_open = bool(begin)
        out.append(begin)
    return "".join(out) + ("</span>" if is_open else "")


def main():
    most, command = int(sys.argv[1]), sys.argv[2]
    printed = sys.stdin.read().replace("\r", "").rstrip("\n").split("\n")
    text = "\n".join([f"\x1b[36m$\x1b[0m \x1b[1m{command}\x1b[0m", *printed[:most]]).rstrip("\n")
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).split("\n")
    if "\x1b" in "".join(lines):
        sys.exit("terminal_page: the output contains an unknown control sequence")
    width = round(max(map(len, lines)) * CHARACTER_PX) + 2 * MARGIN_PX
    height = len(lines) * LINE_PX + 2 * MARGIN_PX
    print(
        f'<!doctype html><meta charset="utf-8"><body data-size="{width},{height}" style="margin:0;background:#1a2125">'
        f'<pre style="margin:0;padding:{MARGIN_PX}px;color:#dfe4e7;'
        f"font:{FONT_PX}px/{LINE_PX}px 'DejaVu Sans Mono',monospace\">{marked_up(text)}</pre>"
    )


main()
