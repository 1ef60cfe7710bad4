"""Tables of numbers as constexpr C++ arrays, for the generated .inc files."""


def braces(row):
    return "{" + ",".join(braces(v) if isinstance(v, list) else f"0x{v:X}" if v > 9 else str(v) for v in row) + "}"


def write_array(out, name, kind, rows, comment=""):
    """`rows` as `constexpr kind name[]`, filled to lines of at most 120 characters."""
    out.write(f"\n// {comment}" if comment else "")
    out.write(f"\nconstexpr {kind} {name}[] = {{")
    line = ""
    for row in rows:
        cell = braces(row) + ","
        if len(line) + len(cell) > 118:
            out.write("\n  " + line)
            line = ""
        line += cell
    out.write("\n  " + line + "\n};\n")
