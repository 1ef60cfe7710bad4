#!/usr/bin/env python3
"""Tokenizer goldens: what Hugging Face's `tokenizers` makes of some 12,000 strings, and of token ids.

    python tools/golden/tokenizer.py tests/golden/tokenizer --smollm2 FOLDER --qwen FOLDER [--train NOVEL.txt]

The folders hold the tokenizer.json files that make_oracle_folders.py writes. --train makes the small Llama-3-like
vocabulary anew, from the novels that english_text.py extracts; without it the committed one is used.
"""

import argparse
import json
import os
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from golden_common import LLAMA3_PATTERN, QWEN2_PATTERN, provenance, write_json, write_jsonl_zst
import tokenizer_texts as texts

LLAMA3_SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
                  "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"]
# In the vocabulary, but no merge leads to them: only ignore_merges finds them, and only as a whole pre-token.
UNREACHABLE = ["zqj", "zqjx", " zqjxv", "supercalifragilistic", " antidisestablishment", "abc", "123", "000", "1234", "7 8",
               "\u65e5\u672c\u8a9e", " \u0915\u093f", "...\n\n", "\n\n\n\n", "  \t", "'S", "\u00bd\u00b2"]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def split(pattern):
    return {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}, BYTE_LEVEL]}


def to_byte_alphabet(text):
    """A string in GPT-2's byte alphabet, as it stands in a vocabulary."""
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)[0][0]


def train_llama3_like(novel):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3_PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=3000, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    with open(novel, encoding="utf-8") as f:
        english = f.read(400_000)
    tokenizer.train_from_iterator([english] + (texts.SENTENCES + texts.CODE) * 4, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    vocab, merges = model["vocab"], model["merges"]
    for word in map(to_byte_alphabet, UNREACHABLE):
        if word not in vocab:
            vocab[word] = len(vocab)
    special = [{"id": len(vocab) + i, "content": t, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True} for i, t in enumerate(LLAMA3_SPECIAL)]
    bos = LLAMA3_SPECIAL[0]
    piece = lambda kind, name, type_id: {kind: {"id": name, "type_id": type_id}}
    template = {
        "type": "TemplateProcessing",
        "single": [piece("SpecialToken", bos, 0), piece("Sequence", "A", 0)],
        "pair": [piece("SpecialToken", bos, 0), piece("Sequence", "A", 0),
                 piece("SpecialToken", bos, 1), piece("Sequence", "B", 1)],
        "special_tokens": {bos: {"id": bos, "ids": [special[0]["id"]], "tokens": [bos]}}}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
        "pre_tokenizer": split(LLAMA3_PATTERN),
        "post_processor": {"type": "Sequence", "processors": [{**BYTE_LEVEL, "trim_offsets": False}, template]},
        "decoder": BYTE_LEVEL,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
                  "vocab": vocab, "merges": merges}}


def encode_goldens(path, tokenizers):
    rows = []
    for text in texts.strings():
        row = {"text": text, **{name: t.encode(text).ids for name, t in tokenizers.items()}}
        plain = {}
        for name, t in tokenizers.items():
            t.encode_special_tokens = True
            ids = t.encode(text).ids
            t.encode_special_tokens = False
            if ids != row[name]:
                plain[name] = ids
        if plain:
            row["plain"] = plain
        rows.append(row)
    write_jsonl_zst(path, {"provenance": provenance("tokenizers"), "rows": len(rows)}, rows)


def streamed(tokenizer, ids):
    """What DecodeStream hands out after each id (None: nothing yet)."""
    stream = decoders.DecodeStream(skip_special_tokens=False)
    return [stream.step(tokenizer, i) for i in ids]


def decode_goldens(path, tokenizer, rows):
    """rows is the number of embedding rows: ids that no token has, up to there, decode to nothing."""
    r = random.Random(7)
    special = [i for i, t in tokenizer.get_added_tokens_decoder().items()]
    samples = []
    for text in r.sample(texts.strings(), 500):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        samples.append((ids, True))
        if len(ids) > 2:
            a = r.randrange(len(ids) - 1)
            samples.append((ids[a:a + r.randint(1, 8)], False))
    for _ in range(500):
        source = lambda: r.choice(special) if r.random() < 0.2 else r.randrange(rows if r.random() < 0.1 else 600)
        samples.append(([source() for _ in range(r.randint(1, 8))], False))
    for _ in range(200):
        samples.append(([r.randrange(rows) for _ in range(r.randint(1, 6))], False))
    for i in special + [rows - 1]:
        samples.append(([i], False))
    out = []
    for ids, whole in samples:
        row = {"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=False)}
        skipped = tokenizer.decode(ids, skip_special_tokens=True)
        if skipped != row["text"]:
            row["skip_special"] = skipped
        if whole:
            row["stream"] = streamed(tokenizer, ids)
        out.append(row)
    write_jsonl_zst(path, {"provenance": provenance("tokenizers"), "rows": len(out)}, out)


def added_token_goldens(path):
    """Flags and overlaps of added tokens, on a byte vocabulary with a few merges and an NFC normaliser."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {c: i for i, c in enumerate(alphabet)}
    merges = []
    for a, b in [("a", "b"), ("ab", "c"), ("t", "a"), ("i", "l"), ("ta", "il"), ("\u0120", "a"), ("w", "o"), ("\u00c3", "\u00a9")]:
        vocab[a + b] = len(vocab)
        merges.append([a, b])
    added = [
        dict(content="<image>"), dict(content="<image>tail"), dict(content="<|u|>", rstrip=True),
        dict(content="<|l|>", lstrip=True), dict(content="<|b|>", lstrip=True, rstrip=True),
        dict(content="word", single_word=True), dict(content="<|s|>", special=True),
        dict(content="<|sl|>", special=True, lstrip=True), dict(content="abcd"), dict(content="bcd"), dict(content="bcde"),
        dict(content="caf\u00e9", normalized=True), dict(content="A\u030angstrom", normalized=True),
        dict(content="nai\u0308ve"), dict(content="\u212b"), dict(content="two words"), dict(content="   "),
        dict(content="\n\n", normalized=True), dict(content="<|sw|>", single_word=True, lstrip=True, rstrip=True)]
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    spec = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": len(vocab) + i, "content": t["content"], **{f: t.get(f, False) for f in flags}}
                         for i, t in enumerate(added)],
        "normalizer": {"type": "NFC"}, "pre_tokenizer": split(QWEN2_PATTERN), "post_processor": None, "decoder": BYTE_LEVEL,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab, "merges": merges}}
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    r = random.Random(11)
    parts = [t["content"] for t in added] * 2 + [
        "<image", "tail", ">tail", "<|", "|>", "wor", "words", "sword", "Word", "_word", "word_", "word1", "word\u0301", "word-",
        "e", "de", "a", "abc", "cafe\u0301", "caf", "cafe", "\u00e9", "\u00c5ngstrom", "\u212bngstrom", "Angstrom", "na\u00efve",
        "\u00c5", "A\u030a", "two", " words", "two  words", " ", "  ", "    ", "\n", "\t", "\u00a0", "\u3000", "\u200b", "\u0301", "!", "1"]
    cases = dict.fromkeys(parts)
    while len(cases) < 900:
        cases["".join(r.choice(parts) for _ in range(r.randint(2, 5)))] = None
    for t in added:
        for left in ["", "x", " ", "  ", "_", "1", "\u00e9", "\u0301", "!", "\n", "\u00b2", "\u24b6"]:
            for right in ["", "x", " ", "  ", "\u00e9", "\u0301"]:
                cases[left + t["content"] + right] = None
    write_json(path, {
        "provenance": provenance("tokenizers"), "tokenizer": spec,
        "cases": [{"text": c, "ids": tokenizer.encode(c).ids} for c in cases]})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--smollm2", required=True)
    parser.add_argument("--qwen", required=True)
    parser.add_argument("--train", metavar="NOVEL")
    args = parser.parse_args()
    llama = os.path.join(args.out, "llama3-like", "tokenizer.json")
    if args.train:
        os.makedirs(os.path.dirname(llama), exist_ok=True)
        with open(llama, "w", encoding="utf-8") as f:
            json.dump(train_llama3_like(args.train), f, ensure_ascii=False, indent=0)
    tokenizers = {"smollm2": Tokenizer.from_file(os.path.join(args.smollm2, "tokenizer.json")),
                  "qwen2.5": Tokenizer.from_file(os.path.join(args.qwen, "tokenizer.json")),
                  "llama3-like": Tokenizer.from_file(llama)}
    encode_goldens(os.path.join(args.out, "encode.jsonl.zst"), tokenizers)
    for name, rows in [("smollm2", 49152), ("qwen2.5", 151936), ("llama3-like", 3328)]:
        decode_goldens(os.path.join(args.out, f"decode-{name}.jsonl.zst"), tokenizers[name], rows)
    added_token_goldens(os.path.join(args.out, "added-tokens.json"))


if __name__ == "__main__":
    main()
