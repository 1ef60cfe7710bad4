"""What the program refuses, and how: one line on standard error that says what is wrong, the documented exit code, nothing left behind.

Usage: refusals.py PATH_OF_ZEROULP SOURCE_FOLDER [--no-mpi] [--sanitized]

--no-mpi: the program was built without MPI. --sanitized: it reserves terabytes of address space, so that no limit can be set to that.
"""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ZEROULP, SOURCE = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
TINY = SOURCE / "tests/golden/tiny/qwen2"
failures = []


def run(*arguments, launcher=(), stdin="", before=None):
    words = [*launcher, ZEROULP, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, input=stdin, timeout=300, check=False, encoding="utf-8", errors="surrogateescape",
                          preexec_fn=before)


def expect(code, words, *arguments, stdin="", lines=1):
    """Runs the program: the exit code, every one of `words` (text or list) in standard error, and so many lines there."""
    done = run(*arguments, stdin=stdin)
    errors = done.stderr.strip().splitlines()
    wanted = [words] if isinstance(words, str) else words
    good = done.returncode == code and len(errors) == lines and all(w in done.stderr for w in wanted) and "json.exception" not in done.stderr
    if not good:
        failures.append(f"{' '.join(map(str, arguments))}\n  wanted {code} and {wanted} in {lines} line(s)\n  gave {done.returncode}: {done.stderr.strip()}")
    return done


def options_without_effect(model, text, out):
    expect(2, ["--system has no effect without --chat"], "run", model, "--prompt", "x", "--system", "s")
    for option, value in (("--seed", 3), ("--top-k", 4), ("--top-p", 0.5)):
        expect(2, f"{option} has no effect without --temperature above 0", "run", model, "--prompt", "x", option, value)
    expect(2, "--no-digests has no effect with --json", "run", model, "--prompt", "x", "--no-digests", "--json", "-")
    expect(2, "--no-graphs has no effect without a GPU", "digest", "seeded:llama", "--no-graphs")
    expect(2, "--batch-size has no effect without --batch", "run", model, "--prompt", "x", "--batch-size", 2)
    expect(2, "exactly one of --prompt, --file, --batch", "run", model)
    expect(2, "exactly one of --prompt, --file, --batch", "run", model, "--prompt", "x", "--file", text)
    expect(2, "--force has no effect", "run", model, "--prompt", "x", "--force")
    expect(2, "--force has no effect", "run", model, "--prompt", "x", "--json", "-", "--force")
    for arguments in (("diff", text, text, "--html", "-"), ("cases", "emit", "argmax", "--format", "safetensors", "-o", "-"), ("run", model, "--prompt", "x", "--save-kv", "-")):
        expect(2, "does not go to standard output", *arguments)
    expect(2, "MODEL has no effect with --sources", "peers", "--sources", model)
    expect(2, "--json has no effect with --sources", "peers", "--sources", "--json", out)
    expect(2, "STREAM has no effect with --cases", "cases", "check", text, "--cases", text, "--answers", text)
    expect(2, "--text has no effect with --workload", "digest", model, "--workload", "w.json", "--text", text)
    expect(2, "--decode has no effect with --workload", "digest", model, "--workload", "w.json", "--decode", 3)
    expect(2, "--text has no effect without a model folder", "digest", "seeded:llama", "--text", text)
    expect(2, "--decode has no effect without a model folder", "digest", "seeded:llama", "--decode", 2)
    expect(2, "--ranks has no effect with --mpi", "digest", "seeded:llama", "--mpi", "--ranks", 2)
    expect(2, "--rows has no effect with --json", "diff", model, model, "--json", "--rows", 3)
    expect(2, "--force has no effect", "diff", model, model, "--force")
    expect(2, "--force has no effect", "doctor", "--force")
    expect(2, "--tensors has no effect with --json", "info", model, "--json", "--tensors")
    expect(2, "--kernel has no effect without a quantised model", "quality", TINY, "--text", text, "--kernel", "reference")
    expect(2, "--f32 has no effect without a Hugging Face folder", "quality", model, "--text", text, "--f32")
    for option in ("--calibration-tokens", "--calibration-from", "--calibration-window"):
        expect(2, f"{option} has no effect without --calibration", "quantize", TINY, out, option, 64)
    expect(2, "--resume has no effect without an interrupted conversion", "quantize", TINY, out, "--resume")
    expect(2, "--calibration has no effect without GPTQ", "quantize", TINY, out, "--calibration", text, "--no-gptq", "--smooth", "off")
    expect(2, "--gptq has no effect with --no-gptq", "quantize", TINY, out, "--gptq", "--no-gptq")
    expect(2, "--absorb has no effect with --no-absorb", "quantize", TINY, out, "--absorb", "--no-absorb")
    expect(2, "--skip-special has no effect without --decode", "tokenize", TINY, "--text", "x", "--skip-special")
    for option in ("--no-special", "--plain"):
        for mode in ("--decode", "--chat", "--messages"):
            expect(2, f"{option} has no effect with {mode}", "tokenize", TINY, "--text", "x", option, mode)
    expect(2, "--decode has no effect with --chat", "tokenize", TINY, "--text", "x", "--decode", "--chat")
    expect(2, "--chat has no effect with --messages", "tokenize", TINY, "--text", "x", "--messages", "--chat")
    expect(2, "exactly one of --text, --file", "tokenize", TINY, "--text", "x", "--file", text)
    expect(2, "--record has no effect with --replay", "verify", model, "--record", out, "--replay", text)
    expect(2, "--text has no effect with --replay", "verify", model, "--replay", text, "--text", text)
    for option in ("--quick", "--html"):
        expect(2, f"{option} has no effect with --record", "verify", model, "--record", out, option, *(["x"] if option == "--html" else []))
    expect(2, "--key has no effect without --record or --replay", "verify", model, "--key", text)
    expect(2, "--kernel has no effect without --record or --replay", "verify", model, "--kernel", "reference")
    expect(2, "--decode has no effect without --record", "verify", model, "--replay", text, "--decode", 3)
    expect(2, "--seed has no effect without --temperature above 0", "verify", model, "--record", out, "--seed", 3)
    expect(2, "--ranks", "run", model, "--prompt", "x", "--ranks", 65)
    expect(2, "1024 threads can be had in all", "run", model, "--prompt", "x", "--ranks", 64, "--threads", 17)


def names_that_are_empty(model, text, out):
    words = "needs a name that is not empty"
    for arguments in (("run", ""), ("run", model, "--file"), ("run", model, "--batch"), ("digest", model, "--text"), ("digest", model, "--workload"),
                      ("quality", model, "--text"), ("quality", model, "--text", text, "--against"), ("verify", model, "--text"),
                      ("verify", model, "--reference"), ("verify", model, "--replay"), ("verify", model, "--record"),
                      ("quantize", TINY, out, "--calibration"), ("tokenize", TINY, "--file"), ("info",), ("diff", model)):
        rest = ["--prompt", "x"] if arguments == ("run", "") else [""]
        expect(2, words, *arguments, *rest)


def outputs(model, text, folder):
    """Told before the work: a day's conversion must not end in 'no such folder'."""
    verbs = [("run", model, "--prompt", "x", "--json"), ("digest", model, "--json"), ("verify", model, "--quick", "--json"),
             ("verify", model, "--quick", "--html"), ("diff", model, model, "--html"), ("doctor", "--json")]
    taken = folder / "taken"
    taken.write_text("mine")
    for verb in verbs:
        expect(2, "needs a name that is not empty", *verb, "")
        began = time.monotonic()
        done = expect(3, "there is no folder", *verb, folder / "absent" / "x")
        if verb[0] in ("verify", "digest") and (done.stdout or time.monotonic() - began > 20):
            failures.append(f"{verb}: an output that cannot be made is told after the work")
        expect(3, "exists already", *verb, taken)
        expect(3, "is not the name of something", *verb, f"{folder}/..")
        for line in run(*verb, folder / "absent" / "x").stderr.splitlines():
            if ".tmp-" in line:
                failures.append(f"a temporary name is shown: {line}")
    expect(2, "give them different names", "verify", model, "--quick", "--json", folder / "same", "--html", f"{folder}/./same")
    expect(2, "needs a name that is not empty", "quantize", TINY, "")
    expect(3, "exists already", "quantize", TINY, taken)
    expect(3, "is not a folder", "quantize", TINY, taken / "below")
    expect(2, "needs a name that is not empty", "import", "x.gguf", "")
    if os.geteuid() != 0:
        locked = folder / "locked"
        locked.mkdir(mode=0o500)
        expect(3, "cannot be made in", "doctor", "--json", locked / "x")
        expect(3, "cannot be made in", "quantize", TINY, locked / "x")
    if taken.read_text() != "mine":
        failures.append("an existing file was written to")


def prompts(model, folder):
    expect(3, "--prompt: a prompt without tokens", "run", model, "--prompt", "")
    done = run("run", model, "--prompt", "a\udcffb\udcff", "--max-tokens", 2)
    if done.returncode != 0 or "--prompt: 2 invalid UTF-8 sequences were read as U+FFFD" not in done.stderr:
        failures.append(f"invalid UTF-8 in a prompt is not announced: {done.stderr}")
    batch = folder / "batch"
    batch.write_bytes(b'one\n\n"two\nthree\n[4]\n"\\u00e9"\n' + b"x " * 300 + b"\n\xffsix\n")
    done = expect(3, [f"{batch}:3: a JSON string: ", f"{batch}:7: a prompt of", "it is left out", f"{batch}:8: 1 invalid UTF-8"], "run", model, "--batch",
                  batch, "--max-tokens", 3, "--context", 64, "-q", "--json", folder / "batch.json", lines=3)
    # The others run, under their own numbers, as if alone.
    if [line for line in done.stdout.splitlines() if line.startswith("---")] != [f"--- {n} ---" for n in (1, 3, 4, 5, 7)]:
        failures.append(f"the good prompts of a batch: {done.stdout}")
    report = json.loads((folder / "batch.json").read_text())
    if [r["id"] for r in report["requests"]] != [0, 2, 3, 4, 6] or [r["id"] for r in report["left_out"]] != [1, 5]:
        failures.append("the JSON of a batch with bad prompts")
    alone = run("run", model, "--prompt", "three", "--max-tokens", 3, "-q").stdout.rstrip("\n")
    if done.returncode == 3 and f"--- 3 ---\n{alone}\n" not in done.stdout:
        failures.append("a prompt's text depends on the bad ones beside it")
    batch.write_text('"a\n3\n')
    expect(3, [":1: a JSON string"], "run", model, "--batch", batch, "--max-tokens", 1, "-q")
    batch.write_text('"a\n"b\n')
    expect(3, "none of its 2 prompts can be run", "run", model, "--batch", batch, lines=3)
    # Nothing on standard output, not even a line break, when nothing was generated.
    if run("run", model, "--prompt", "").stdout:
        failures.append("a failing run prints")


def names_that_steer_a_terminal(model, folder):
    """Names of files, tensors and words may hold anything: what is said of them stays one line and steers no terminal."""
    evil, seen = "x\x1b]0;owned\x07\r\nzeroulp: all is well\x7f\u009b2J\u202e", "x\\x1b]0;owned\\x07\\x0d\\x0azeroulp: all is well\\x7f\\u009b2J\\u202e"

    def steers(text):
        return any((c < " " and c != "\n") or "\x7f" <= c < "\xa0" or "\u2028" <= c <= "\u202e" for c in text)

    for code, arguments in ((3, ("info", folder / evil)), (3, ("run", folder / evil, "--prompt", "x")), (3, ("run", model, "--file", folder / evil)), (2, (evil,)),
                            (3, ("run", model, "--prompt", "x", "--json", folder / evil / "y")), (2, ("run", model, "--" + evil)), (2, ("digest", "seeded:" + evil)),
                            (2, ("run", model, "--prompt", "x", "--kernel", evil)), (3, ("diff", folder / evil, model)), (3, ("import", folder / evil, folder / "never"))):
        if steers(expect(code, seen, *arguments).stderr):
            failures.append(f"{arguments[0]}: a name steers the terminal")
    tensors = folder / (evil + ".safetensors")
    header = json.dumps({evil: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    tensors.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    other = folder / "other.safetensors"
    other.write_bytes(len(header).to_bytes(8, "little") + header + b"\x01\0\0\0")
    for arguments in (("info", tensors, "--tensors"), ("diff", tensors, other)):
        done = run(*arguments)
        if steers(done.stdout + done.stderr) or "x\\x1b" not in done.stdout or "\nzeroulp" in done.stdout:
            failures.append(f"{arguments[0]}: the name of a tensor or file steers the terminal: {done.stdout!r} {done.stderr!r}")
    tensors.unlink()
    other.unlink()
    expect(2, ['--stop "\\xff"', "is not UTF-8"], "run", model, "--prompt", "x", "--stop", "\udcff")
    expect(2, ['--stop "caf\\xc3"', "is not UTF-8"], "run", model, "--prompt", "x", "--stop", "ok", "--stop", "caf\udcc3")


def workloads(model, folder):
    file = folder / "w.json"
    for content, words in (("null", "null is not a JSON object"), ("[]", "[] is not a JSON object"), ("{}", "prompts: is missing"),
                           ('{"prompts": [[1]]}', "decode_tokens: is missing"), ('{"prompts": [[1]], "decode_tokens": 1.5}', "decode_tokens: 1.5 is not an integer"),
                           ('{"prompts": [[1]], "decode_tokens": 1e30}', "decode_tokens"), ('{"prompts": [[1]], "decode_tokens": 1048577}', "1048577 is not an integer"),
                           ('{"prompts": [[1]], "decode_tokens": 9000}', "the model has"), ('{"prompts": [], "decode_tokens": 1}', "holds no prompt"),
                           ('{"prompts": [[]], "decode_tokens": 1}', "prompt 0 has no tokens"), ('{"prompts": [3], "decode_tokens": 1}', "prompt 0: 3 is not an array"),
                           ('{"prompts": [["a"]], "decode_tokens": 1}', '"a" is not an integer'), ('{"prompts": [[1e3]], "decode_tokens": 1}', "not an integer"),
                           ('{"prompts": [[99999]], "decode_tokens": 1}', "outside the model's vocabulary")):
        file.write_text(content)
        expect(3, words, "digest", model, "--workload", file)


def models(model, text, folder):
    """A model that was changed after it was written is used by no verb."""
    bad = folder / "bad"
    shutil.copytree(model, bad)
    tensors = bytearray((bad / "model.safetensors").read_bytes())
    tensors[-1] ^= 1
    (bad / "model.safetensors").write_bytes(tensors)
    words = "the files were changed after they were written"
    done = expect(3, words, "run", bad, "--prompt", "x")
    if done.stdout:
        failures.append("text of a damaged model was shown")
    expect(3, words, "info", bad)
    expect(3, words, "digest", bad)
    expect(3, words, "verify", bad, "--quick")
    expect(3, words, "quality", bad, "--text", text, "--window", 64)
    expect(1, words, "diff", bad, model)
    for content, said in (("null", "null is not a JSON object"), ("[]", "[] is not a JSON object"), ("{}", "format: is missing")):
        (bad / "zeroulp.json").write_text(content)
        for verb in (("run", bad, "--prompt", "x"), ("info", bad), ("digest", bad), ("verify", bad, "--quick"), ("quality", bad, "--text", text)):
            expect(3, said, *verb)
    broken = folder / "broken-tokenizer"
    shutil.copytree(TINY, broken)
    tokenizer = json.loads((broken / "tokenizer.json").read_text())
    tokenizer["model"]["type"] = "WordPiece"
    (broken / "tokenizer.json").write_text(json.dumps(tokenizer))
    expect(3, "tokenizer.json", "info", broken)
    (folder / "short.txt").write_text("a")
    expect(4, ["short.txt", "has 1 tokens", "nothing to measure"], "quality", model, "--text", folder / "short.txt", "--start", "none")


def full_disk(model, folder):
    """No file may grow beyond a few bytes: writes fail as they do when the disk is full. Nothing appears under the final name."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))

    for name, arguments in (("log.zlog", ("verify", model, "--record")), ("run.json", ("run", model, "--prompt", "x", "--max-tokens", 3, "-q", "--json")),
                            ("digest.json", ("digest", model, "--json")), ("page.html", ("diff", model, model, "--html")), ("converted", ("quantize", TINY))):
        done = run(*arguments, folder / name, before=limit)
        if done.returncode != 3 or "cannot write" not in done.stderr or (folder / name).exists():
            failures.append(f"full disk, {arguments[0]}: {done.returncode}, {done.stderr}, left {(folder / name).exists()}")
    shutil.rmtree(folder / ".converted.partial", ignore_errors=True)


def inputs_are_kept(model, text, folder):
    """--force replaces an earlier output, and never what the command reads or something that is not a model."""
    source = folder / "around" / "source"
    shutil.copytree(TINY, source)
    words = "would replace what"
    for out in (source, source.parent, folder / "around" / ".." / "around" / "source", f"{source}/../source"):
        expect(2, words, "quantize", source, out, "--force")
    expect(2, words, "digest", model, "--json", model / "zeroulp.json", "--force")
    expect(2, words, "diff", model, model, "--html", model / "model.safetensors", "--force")
    home = folder / "home"
    (home / "docs").mkdir(parents=True)
    (home / "docs" / "thesis.txt").write_text("mine")
    expect(3, "there are folders in it", "quantize", TINY, home, "--force")
    (folder / "pictures").mkdir()
    (folder / "pictures" / "1.png").write_text("mine")
    expect(3, "no model is in it", "quantize", TINY, folder / "pictures", "--force")
    (folder / "link").symlink_to(folder / "pictures")
    expect(3, "is not a folder", "quantize", TINY, folder / "link", "--force")
    if not (source / "config.json").exists() or not (home / "docs" / "thesis.txt").exists():
        failures.append("--force took something away")
    again = folder / "again"
    for _ in range(2):
        done = run("quantize", TINY, f"{again}/../again" if again.exists() else again, "--force")
        if done.returncode != 0 or not (again / "zeroulp.json").exists():
            failures.append(f"an earlier output is not replaced: {done.stderr}")
    for name in ("around", "home", "pictures", "again"):
        shutil.rmtree(folder / name)
    (folder / "link").unlink()


def threads_that_cannot_be_had(model, folder):
    if "--sanitized" in sys.argv:
        return

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))

    for arguments in (("digest", model, "--threads", 1000), ("quantize", TINY, folder / "never", "--threads", 1000), ("digest", model, "--ranks", 60)):
        done = run(*arguments, before=limit)
        if done.returncode not in (0, 4) or done.returncode == 4 and len(done.stderr.strip().splitlines()) != 1 or "terminate" in done.stderr:
            failures.append(f"threads that cannot be had, {arguments}: {done.returncode}, {done.stderr}")
        if done.returncode == 4 and "threads" not in done.stderr and "memory" not in done.stderr:
            failures.append(f"threads that cannot be had, {arguments}: {done.stderr}")
    shutil.rmtree(folder / "never", ignore_errors=True)
    shutil.rmtree(folder / ".never.partial", ignore_errors=True)


def schedules(model, folder):
    """The digest that `run` prints is of the bits, and not of the order in which sequences took their steps."""
    batch = folder / "schedule.txt"
    batch.write_bytes(b"\xef\xbb\xbfone\r\ntwo words\r\nthree\n")
    seen = set()
    for size in (1, 2, 3):
        done = run("run", model, "--batch", batch, "--batch-size", size, "--max-tokens", 6, "--json", "-", "-q")
        body = json.loads(done.stdout)
        seen.add((body["digest"], json.dumps(body["digests"])))
        if [r["prompt"] for r in body["requests"]] != [r["prompt"] for r in json.loads(run(
                "run", model, "--batch", "-", "--max-tokens", 6, "--json", "-", "-q", stdin="one\ntwo words\nthree\n").stdout)["requests"]]:
            failures.append("a byte order mark or CRLF becomes part of a prompt")
    if len(seen) != 1:
        failures.append(f"run's digest depends on --batch-size: {[s[0] for s in seen]}")
    batch.unlink()


def killed(model, folder):
    """Killed at any time: the log is there whole, or not there."""
    began = time.monotonic()
    assert run("verify", model, "--record", folder / "whole.zlog").returncode == 0
    took, whole, there = time.monotonic() - began, (folder / "whole.zlog").stat().st_size, 0
    for step in range(12):
        target = folder / f"killed-{step}.zlog"
        process = subprocess.Popen([ZEROULP, "verify", model, "--record", target], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(took * (step + 1) / 10)
        process.kill()
        process.wait()
        if target.exists():
            there += 1
            if run("verify", model, "--replay", target).returncode != 0 or abs(target.stat().st_size - whole) > 200:
                failures.append(f"a log that was killed in the making is there and is not whole: {target.stat().st_size} bytes of {whole}")
    # What they left under temporary names goes with the next run of the same target.
    left = sorted(folder.glob(".killed-*"))
    for scrap in left:
        run("verify", model, "--record", folder / scrap.name[1:scrap.name.index(".tmp-")], "--force")
    if list(folder.glob(".killed-*")):
        failures.append(f"left by killed runs, and not swept: {list(folder.glob('.killed-*'))}")
    print(f"{len(left)} temporary files were left and swept")
    print(f"killed 12 times, the log was there {there} times")


def interrupted(*arguments, after, within, stdin=subprocess.DEVNULL):
    """Ctrl-C ends the program soon, with 130 and one line. stdin=subprocess.PIPE: while it waits for input that does not come."""
    process = subprocess.Popen([ZEROULP, *map(str, arguments)], stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(after)
    if process.poll() is not None:
        failures.append(f"{arguments[0]}: ended by itself before it could be interrupted")
        return
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.wait(timeout=120)
    errors = process.stderr.read()
    if process.returncode != 130 or len(errors.strip().splitlines()) != 1:
        failures.append(f"{arguments[0]}: Ctrl-C gives {process.returncode}: {errors}")
    if time.monotonic() - sent > within:
        failures.append(f"{arguments[0]}: Ctrl-C took {time.monotonic() - sent:.1f} s")


def under_mpi(model):
    if "--no-mpi" in sys.argv or not shutil.which("mpirun"):
        print("no MPI: its errors are not checked")
        return
    launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader", "-n", "3"]
    for code, words, arguments in ((2, "--ranks has no effect without one process", ("digest", "seeded:llama", "--ranks", "2")),
                                   (2, "is one process; under mpirun use zeroulp digest", ("run", model, "--prompt", "x")),
                                   (3, "there is no such folder", ("digest", "no-such-model")),
                                   (2, "seeded model", ("digest", "seeded:nothing"))):
        done = run(*arguments, launcher=launcher)
        said = [line for line in done.stderr.splitlines() if line.startswith("zeroulp")]
        if len(said) != 1 or words not in said[0] or done.returncode != code:
            failures.append(f"under mpirun, {arguments}: {done.returncode}, {done.stderr}")


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="zeroulp-test-"))
    try:
        model, text = folder / "model", folder / "text.txt"
        text.write_text("The wind had gone round to the north. " * 60)
        made = run("quantize", TINY, model)
        assert made.returncode == 0, made.stderr
        before = set(folder.iterdir())
        options_without_effect(model, text, folder / "never")
        names_that_are_empty(model, text, folder / "never")
        if set(folder.iterdir()) != before:
            failures.append(f"a refused command left {set(folder.iterdir()) - before}")
        outputs(model, text, folder)
        prompts(model, folder)
        names_that_steer_a_terminal(model, folder)
        workloads(model, folder)
        models(model, text, folder)
        inputs_are_kept(model, text, folder)
        threads_that_cannot_be_had(model, folder)
        schedules(model, folder)
        full_disk(model, folder)
        killed(model, folder)
        interrupted("doctor", "--conformance", after=1.0, within=60)
        interrupted("bench", "codec", "--mib", 256, after=2.0, within=60)
        for waiting in (("cases", "check"), ("cases", "answer"), ("run", model, "--file", "-")):
            interrupted(*waiting, after=1.0, within=30, stdin=subprocess.PIPE)
        os.mkfifo(folder / "pipe")
        interrupted("cases", "check", folder / "pipe", after=1.0, within=30)
        (folder / "pipe").unlink()
        under_mpi(model)
        left = [p.name for p in folder.iterdir() if ".tmp-" in p.name or "partial" in p.name]
        if left:
            failures.append(f"left behind: {left}")
    finally:
        shutil.rmtree(folder)
    for failure in failures:
        print(failure)
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
