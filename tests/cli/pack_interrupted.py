"""pack_interrupted.py ZEROULP: pack and unpack that are killed, or meet a full disk, leave no target and no harm; what follows works."""

import json
import pathlib
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile

ZEROULP = sys.argv[1]
MIB = 12


def source(path):
    data = random.Random(1).randbytes(MIB << 20)
    header = json.dumps({"x": {"dtype": "F32", "shape": [len(data) // 4], "data_offsets": [0, len(data)]}}).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


def full_disk():
    """Writes behind 4 MiB fail, as they do when a disk is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))


def run(*arguments, **options):
    return subprocess.run([ZEROULP, *map(str, arguments)], capture_output=True, text=True, **options)


def check(condition, what):
    if not condition:
        sys.exit(f"pack_interrupted: {what}")


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    plain, packed, back = folder / "plain.safetensors", folder / "packed.safetensors", folder / "back.safetensors"
    source(plain)
    before = plain.read_bytes()
    pack, unpack = ("pack", plain, packed, "--level", "rest"), ("unpack", packed, back)

    def fails_without_room(command, target):
        done = run(*command, preexec_fn=full_disk)
        check(done.returncode in (3, 4) and done.stderr.count("\n") == 1, f"{command[0]} on a full disk: code {done.returncode}, {done.stderr!r}")
        check(not target.exists() and plain.read_bytes() == before, f"{command[0]} on a full disk left its target")
        check(sorted(p.name for p in folder.iterdir() if p not in (plain, packed)) == [], f"{command[0]} on a full disk left a file")

    def survives_a_kill(command, target):
        """Killed at ever later moments until it is done before."""
        killed, delay = 0, 0.002
        while True:
            process = subprocess.Popen([ZEROULP, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                process.wait(timeout=delay)
                break
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if not target.exists():
                killed += 1
            elif command[0] == "unpack":  # whole, or not there
                check(target.read_bytes() == before, "a killed unpack left another file")
                target.unlink()
            else:
                target.unlink()
            delay *= 1.7
        check(killed > 0, f"{command[0]} was never killed")
        check(plain.read_bytes() == before, f"a killed {command[0]} changed its source")
        check(process.returncode == 0 and target.exists(), f"{command[0]} does not work after a kill: {process.returncode}")
        for leftover in folder.iterdir():
            if leftover not in (plain, packed, target):
                leftover.unlink()
        return killed

    fails_without_room(pack, packed)
    killed = survives_a_kill(pack, packed)
    fails_without_room(unpack, back)
    killed += survives_a_kill(unpack, back)
    check(back.read_bytes() == before, "what came back differs")
print(f"killed {killed} times and out of room twice, nothing was lost")
