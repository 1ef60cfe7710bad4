#!/usr/bin/env python3
"""The repository's own rules, checked: tidy.py [--root FOLDER]. Exit code 1 names every breach as file:line: rule: text.

include     src/<module> includes only itself and modules before it in src/CMakeLists.txt; io and report not each other; the
            features after engine each other only when their CMakeLists name the library
rounding    rounding and saturating calls stand in src/num or an op's contract.h alone, or are listed below with a reason
dead        every .cpp under src, tools and tests is named by the CMakeLists.txt beside it
place       no address of a network host and no path of somebody's machine
mark        no note to finish something later
text        UTF-8, a final newline, no trailing blanks, no tabs in code, #pragma once in headers
link        relative links of Markdown files lead to files
size        more than 700 lines of code: a warning; a file above 2 MiB: an error
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FEATURES_AFTER = "engine"
APART = {("io", "report"), ("report", "io")}
LINES_WARNED, BYTES_ALLOWED = 700, 2 << 20

# Folders whose code is wrong on purpose: rounding by other rules is what it is there for.
WRONG_ON_PURPOSE = ("src/ops/mutants/",)
# File and call -> why it may stand outside src/num and contract.h.
ROUNDING_ALLOWED = {
    ("src/model/rope.cpp", "clamp"): "part of the YaRN formula, evaluated once per model",
}
# Paths whose content speaks of hosts or of a machine's folders with reason.
PLACE_ALLOWED = {
    "LICENSE": "the licence names its own address",
    "tools/ci/chroot.sh": "paths inside the chroot",
}
# Data made by programs: nobody reads or edits it line by line.
GENERATED = (".inc", ".json", ".jsonl", ".bin", ".zst", ".html", ".svg", ".png")
CODE = (".cpp", ".h", ".cu", ".cuh", ".py", ".sh")
C_FAMILY = (".cpp", ".h", ".cu", ".cuh")

ROUNDING = re.compile(r"\bstd::(round|lround|llround|rint|lrint|llrint|nearbyint|clamp)[fl]?\s*\("
                      r"|(?<![\w.:>])(lround|llround|rint|lrint|llrint|nearbyint)[fl]?\s*\(")
HOST = re.compile(r"https?://(?!(localhost|127\.0\.0\.1)\b)[\w.-]+|\b(?:[a-z0-9-]+\.)+(?:org|com|net|io)\b(?![\w(.])")
MACHINE = re.compile(r"(?<![\w.$}/-])/(?:work|root|home|opt|Users)/\w")
MARK = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
FOUND_BY_FUZZING = re.compile(r"tests/fuzz/\w+/found/")  # bytes as the fuzzer left them


class Tidy:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.errors, self.warnings, self.rounding_seen = [], [], set()
        self.modules = self.module_order()

    def error(self, path, line, rule, text):
        self.errors.append(f"{path}:{line}: {rule}: {text}")

    def module_order(self):
        lists = self.root / "src/CMakeLists.txt"
        found = re.search(r"foreach\(module ([^)]*)\)", lists.read_text()) if lists.exists() else None
        return found.group(1).split() if found else []

    def files(self):
        listed = subprocess.run(["git", "-C", str(self.root), "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
                                capture_output=True, text=True)
        if listed.returncode == 0:
            names = [n for n in listed.stdout.split("\0") if n]
        else:  # an unpacked archive
            names = [str(p.relative_to(self.root)) for p in self.root.rglob("*")
                     if not re.match(r"(build|models|out|\.cache|\.git)", p.relative_to(self.root).parts[0])]
        return sorted(n for n in names if (self.root / n).is_file())

    def run(self):
        names = self.files()
        for name in names:
            self.check(name)
        for name, call in ROUNDING_ALLOWED.keys() - self.rounding_seen:
            if name in names:
                self.error(name, 1, "rounding", f"tidy.py still allows {call} here, but it is gone")
        return len(names)

    def check(self, name):
        data = (self.root / name).read_bytes()
        if len(data) > BYTES_ALLOWED:
            self.error(name, 1, "size", f"{len(data)} bytes; the limit is {BYTES_ALLOWED}")
        if name.endswith(GENERATED) or b"\0" in data or FOUND_BY_FUZZING.match(name):
            return
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as e:
            self.error(name, 1, "text", f"not UTF-8 at byte {e.start}")
            return
        lines = text.splitlines()
        self.check_text(name, text, lines)
        self.check_words(name, lines)
        if name.endswith(C_FAMILY):
            self.check_includes(name, lines)
            self.check_rounding(name, lines)
        if name.endswith((".cpp", ".cu")):
            self.check_listed(name)
        if name.endswith(".md"):
            self.check_links(name, lines)

    def check_text(self, name, text, lines):
        if text and not text.endswith("\n"):
            self.error(name, len(lines), "text", "no newline at the end")
        if name.endswith(CODE) and len(lines) > LINES_WARNED:
            self.warnings.append(f"{name}: {len(lines)} lines; above {LINES_WARNED} a file is hard to hold in mind")
        if name.endswith(".h") and "#pragma once" not in text:
            self.error(name, 1, "text", "a header without #pragma once")
        for number, line in enumerate(lines, 1):
            if line != line.rstrip():
                self.error(name, number, "text", "blanks at the end")
            if name.endswith(CODE) and "\t" in line:
                self.error(name, number, "text", "a tab")

    def check_words(self, name, lines):
        for number, line in enumerate(lines, 1):
            if found := MARK.search(line):
                self.error(name, number, "mark", found.group())
            if name in PLACE_ALLOWED or name == "tools/tidy.py" or name.startswith("tools/golden/"):
                continue
            for pattern in (HOST, MACHINE):
                if found := pattern.search(line):
                    self.error(name, number, "place", found.group())

    def check_includes(self, name, lines):
        parts = name.split("/")
        if parts[0] != "src" or len(parts) < 3 or parts[1] not in self.modules:
            return
        own = parts[1]
        for number, line in enumerate(lines, 1):
            found = INCLUDE.match(line)
            if not found or "/" not in found.group(1):
                continue
            other = found.group(1).split("/")[0]
            if other not in self.modules or other == own:
                continue
            if (own, other) in APART or self.modules.index(other) > self.modules.index(own):
                self.error(name, number, "include", f"{own} must not use {other}: dependencies point downwards only")
            elif self.is_feature(own) and self.is_feature(other) and f"zeroulp_{other}" not in self.cmake_text(f"src/{own}"):
                self.error(name, number, "include", f"{own} uses the feature {other}, but src/{own}/CMakeLists.txt does not say so")

    def is_feature(self, module):
        return FEATURES_AFTER in self.modules and self.modules.index(module) > self.modules.index(FEATURES_AFTER)

    def cmake_text(self, folder):
        path = self.root / folder / "CMakeLists.txt"
        return path.read_text() if path.exists() else ""

    def check_rounding(self, name, lines):
        if not name.startswith("src/") or name.startswith(("src/num/", *WRONG_ON_PURPOSE)) or name.endswith("/contract.h"):
            return
        for number, line in enumerate(lines, 1):
            for found in ROUNDING.finditer(line.split("//")[0]):
                call = found.group(1) or found.group(2)
                self.rounding_seen.add((name, call))
                if (name, call) not in ROUNDING_ALLOWED:
                    self.error(name, number, "rounding", f"{call} belongs in src/num or a contract.h")

    def check_listed(self, name):
        """In the CMakeLists.txt of its folder or of one above: by its name, or as a test or fuzz target by its stem."""
        path = pathlib.PurePosixPath(name)
        stem = path.stem.removesuffix("_test")
        for folder in path.parents:
            text = self.cmake_text(folder)
            relative = str(path.relative_to(folder))
            if re.search(rf"(?<![\w/]){re.escape(relative)}(?!\w)", text):
                return
            if name.startswith("tests/") and re.search(rf"(?<!\w){re.escape(stem)}(?!\w)", text):
                return
        if name.startswith(("src/", "tools/zeroulp/", "tests/")):
            self.error(name, 1, "dead", "no CMakeLists.txt names it, so it is never built")

    def check_links(self, name, lines):
        for number, line in enumerate(lines, 1):
            for target in LINK.findall(line):
                if "://" not in target and not os.path.exists(self.root / os.path.dirname(name) / target):
                    self.error(name, number, "link", f"{target} does not exist")


def self_test():
    """Each rule must reject a breach of it, and a clean tree must pass."""
    clean = {
        "src/CMakeLists.txt": "foreach(module base io report engine quant verify)\n",
        "src/base/CMakeLists.txt": "zeroulp_module(base SOURCES a.cpp)\n",
        "src/model/CMakeLists.txt": "zeroulp_module(model SOURCES rope.cpp)\n",
        "src/base/a.cpp": '#include "base/a.h"\n// std::round( in a comment\nint b = my.rint(3);\n',
        "src/base/a.h": "#pragma once\n",
        "src/quant/CMakeLists.txt": "zeroulp_module(quant DEPS zeroulp_engine)\n",
        "src/engine/contract.h": "#pragma once\nint x = std::lrint(2.5f);\n",
        "README.md": "[a](src/base/a.h)\n",
    }
    breaches = {
        "include": [("src/base/b.h", '#pragma once\n#include "io/x.h"\n'), ("src/report/b.h", '#pragma once\n#include "io/x.h"\n'),
                    ("src/verify/b.h", '#pragma once\n#include "quant/x.h"\n')],
        "rounding": [("src/base/b.h", "#pragma once\nint x = std::lrint(2.5f);\n"), ("src/base/b.h", "#pragma once\nint x = nearbyintf(y);\n"),
                     ("src/model/rope.cpp", "// no call left\n")],
        "dead": [("src/base/dead.cpp", "int x;\n"), ("tests/base/dead_test.cpp", "int x;\n")],
        "place": [("a.md", "see https:" + "//example.net/x\n"), ("a.sh", "cd /ho" + "me/me\n"), ("b.md", "from packages.example" + ".org\n")],
        "mark": [("a.py", "# TO" + "DO later\n")],
        "text": [("a.md", "x"), ("b.md", "x \n"), ("c.py", "\tx\n"), ("d.h", "int x;\n"), ("e.md", b"\xff\n")],
        "link": [("a.md", "[x](absent.md)\n")],
        "size": [("a.json", " " * (BYTES_ALLOWED + 1))],
    }
    def findings(extra):
        with tempfile.TemporaryDirectory() as root:
            for name, content in {**clean, **extra}.items():
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
            tidy = Tidy(root)
            tidy.run()
            return tidy.errors
    failures = [f"the clean tree is refused: {e}" for e in findings({})]
    for rule, cases in breaches.items():
        for name, content in cases:
            found = findings({name: content})
            if len(found) != 1 or f": {rule}: " not in found[0]:
                failures.append(f"{rule}: {name} gave {found}")
    print("\n".join(failures) or f"{sum(map(len, breaches.values()))} breaches rejected, the clean tree accepted")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true", help="check the rules themselves")
    args = parser.parse_args()
    if args.self_test:
        return self_test()
    tidy = Tidy(args.root)
    count = tidy.run()
    for line in tidy.warnings:
        print(f"warning: {line}")
    for line in tidy.errors:
        print(line)
    print(f"{count} files checked, {len(tidy.errors)} breaches")
    return 1 if tidy.errors or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
