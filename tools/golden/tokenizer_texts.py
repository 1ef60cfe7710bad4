"""The strings that the tokenizer goldens encode: seeded, so that every run makes the same ones."""

import random

# Every special token of the three vocabularies, so that each text also meets the others' as plain text.
SPECIAL_TOKENS = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<reponame>", "<file_sep>", "<filename>", "<gh_stars>",
    "<issue_start>", "<jupyter_code>", "<empty_output>", "<|object_ref_start|>", "<|box_end|>", "<|vision_pad|>",
    "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_suffix|>", "<|repo_name|>", "<|file_sep|>", "[PAD151665]",
    "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>",
    "<|python_tag|>", "<|reserved_special_token_0|>", "<|reserved_special_token_7|>", "<think>", "</think>"]
TOKEN_PIECES = ["<|", "|>", "<", ">", "|", "im_start", "<|im_start", "im_end|>", "<|im_|>", "<|im_end|", "<|endoftext",
                "< |im_end|>", "<|IM_END|>", "<|endoftext|", "<<|im_end|>>", "<tool_call", "tool_call>"]

SPACES = [chr(c) for c in [9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F,
                           0x205F, 0x3000]]
NOT_SPACES = [chr(c) for c in [0, 1, 7, 8, 0x1B, 0x1C, 0x1D, 0x1E, 0x1F, 0x7F, 0x80, 0x84, 0x86, 0x9F, 0xAD, 0x180E,
                               0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x202A, 0x202E, 0x2060, 0x2066, 0xFEFF, 0xFFF9,
                               0xFFFC, 0xFFFD, 0xFFFE, 0xFFFF, 0x10FFFF, 0xE0001, 0xE0020, 0xE007F, 0xFE0F, 0xE0100]]
DIGITS = list("0123456789") + [chr(c) for c in [
    0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE, 0x660, 0x669, 0x6F5, 0x7C3, 0x966, 0x9E6, 0x9F4, 0xB72, 0xD58, 0xE54, 0xF2A,
    0x1040, 0x1369, 0x16EE, 0x17E0, 0x1810, 0x19DA, 0x2070, 0x2074, 0x2080, 0x2153, 0x2160, 0x217F, 0x2188, 0x2460, 0x24EA,
    0x2776, 0x3007, 0x3021, 0x3192, 0x3220, 0x3251, 0x3280, 0xA620, 0xA6E6, 0xA830, 0xA9D0, 0xFF10, 0xFF19, 0x10107,
    0x10140, 0x102E1, 0x10320, 0x1034A, 0x103D1, 0x10D30, 0x10E60, 0x11066, 0x12400, 0x1D360, 0x1D7CE, 0x1D7FF,
    0x1E8C7, 0x1F100, 0x1F10C, 0x1FBF0, 0x10D40, 0x116D0, 0x1CCF0, 0x11F50, 0x11DE0, 0x11DE9, 0x16FF4, 0x16FF6]]
MARKS = [chr(c) for c in [0x300, 0x301, 0x302, 0x303, 0x304, 0x306, 0x307, 0x308, 0x30A, 0x30B, 0x30C, 0x315, 0x31B,
                          0x321, 0x323, 0x327, 0x328, 0x32D, 0x331, 0x334, 0x337, 0x338, 0x340, 0x341, 0x343, 0x344,
                          0x345, 0x34F, 0x358, 0x35C, 0x360, 0x483, 0x591, 0x5B0, 0x5BC, 0x5C1, 0x610, 0x64B, 0x64E,
                          0x651, 0x653, 0x654, 0x655, 0x670, 0x6DC, 0x730, 0x7FD, 0x898, 0x8D3, 0x93C, 0x94D, 0x951,
                          0x9BC, 0x9BE, 0x9D7, 0x9FE, 0xB3E, 0xB56, 0xB57, 0xBBE, 0xBD7, 0xC3C, 0xC56, 0xCC2, 0xCD5,
                          0xCD6, 0xD3B, 0xD3E, 0xD57, 0xDCA, 0xDCF, 0xDDF, 0xE38, 0xE48, 0xEBA, 0xF71, 0xF72, 0xF74,
                          0xF80, 0x102E, 0x1039, 0x135D, 0x1714, 0x1715, 0x17D2, 0x18A9, 0x1939, 0x1AB0, 0x1AC0, 0x1B34,
                          0x1B35, 0x1CD0, 0x1DC0, 0x1DF5, 0x1DF6, 0x1DFA, 0x20D0, 0x20DD, 0x20E3, 0x20F0, 0x302A, 0x302E,
                          0x3099, 0x309A, 0xA66F, 0xA69E, 0xA806, 0xA8E0, 0xA953, 0xAAB0, 0xABED, 0xFB1E, 0xFE20, 0xFE2F,
                          0x101FD, 0x10A0D, 0x11046, 0x110BA, 0x1112B, 0x1133E, 0x11357, 0x114BA, 0x114B0, 0x115AF,
                          0x11930, 0x1D165, 0x1D16D, 0x1D16E, 0x1D172, 0x1D17B, 0x1D1AA, 0x1E000, 0x1E8D0, 0x1E944,
                          0x1E94A, 0x10EFD, 0x897, 0x113C2, 0x113C5, 0x16D67]]
BASES = [chr(c) for c in [*range(0x41, 0x5B), *range(0x61, 0x7B), 0xA8, 0xC4, 0xC5, 0xD8, 0xE6, 0xF5, 0x131, 0x17F,
                          0x1A0, 0x1B0, 0x391, 0x3B1, 0x3C5, 0x3C9, 0x3D2, 0x415, 0x418, 0x438, 0x5D0, 0x5E9, 0x627,
                          0x648, 0x64A, 0x915, 0x928, 0x9A1, 0x9C7, 0xA32, 0xB21, 0xB47, 0xB92, 0xBC6, 0xC46, 0xCBF,
                          0xCC6, 0xD46, 0xDD9, 0xF40, 0xFB2, 0x1025, 0x1B05, 0x1B11, 0x1100, 0x1112, 0x1E63, 0x1F00,
                          0x2190, 0x2203, 0x2261, 0x226E, 0x304B, 0x306F, 0x30AB, 0x30CF, 0x30FD, 0x11099, 0x11131,
                          0x11347, 0x114B9, 0x115B8, 0x11935, 0x1D157, 0x1D1B9, 0x11382, 0x105D2, 0x16D67]]
# Canonically decomposable or otherwise changed by NFC, or looking so.
NFC_TRAPS = [chr(c) for c in [0x212A, 0x212B, 0x2126, 0x340, 0x37E, 0x387, 0x1F71, 0x1FBE, 0x1FEF, 0x2000, 0x2001, 0x2329,
                              0x232A, 0x2ADC, 0xF900, 0xFA10, 0xFA0E, 0x2F800, 0x2FA1D, 0x958, 0x95F, 0x9DC, 0xA33,
                              0xB5C, 0xF43, 0xF73, 0xF75, 0xF81, 0xFB1D, 0xFB2A, 0xFB4E, 0x1D15E, 0x1D1C0, 0x1E9B,
                              0x1E9B, 0x1EA5, 0x1F82, 0x1FF7, 0xAC00, 0xAC01, 0xD7A3, 0x11938, 0x105C9, 0x113C5,
                              0x16D6A, 0x1134B, 0x1112E, 0xFB03, 0xFF76, 0x2460, 0xBD, 0x1F14, 0x958]]
JAMO = [chr(c) for c in [0x1100, 0x1112, 0x1113, 0x115F, 0x1160, 0x1161, 0x1175, 0x1176, 0x11A7, 0x11A8, 0x11C2, 0x11C3,
                         0xA960, 0xD7B0, 0xD7CB, 0xAC00, 0xAC1C, 0xD788]]
# Unicode 14 to 17 gave these a class; they and their neighbours tell table versions apart.
CLASS_CHANGES = [chr(c) for c in [
    0x870, 0x887, 0x88E, 0x88F, 0x8C8, 0xC5C, 0xC5D, 0xCDC, 0xCDD, 0x171F, 0x1B4C, 0x1C89, 0x1C8A, 0x208F, 0x209D, 0xA7C0,
    0xA7CB, 0xA7CE, 0xA7D0, 0xA7D1, 0xA7D2, 0xA7D3, 0xA7D4, 0xA7DA, 0xA7DC, 0xA7F1, 0xA7F2, 0x10570, 0x105C0, 0x10780,
    0x107BB, 0x10940, 0x10D4A, 0x10EC2, 0x10EC5, 0x10F70, 0x11240, 0x11380, 0x113D1, 0x11AB0, 0x11B0A, 0x11BC0, 0x11DB0,
    0x11F02, 0x11F04, 0x12F90, 0x1342F, 0x13460, 0x14400, 0x16100, 0x16A70, 0x16D40, 0x16EA0, 0x187F7, 0x187F8, 0x18CFF,
    0x18D09, 0x18D80, 0x1AFF0, 0x1B132, 0x1B155, 0x1DF00, 0x1DF25, 0x1E030, 0x1E290, 0x1E4D0, 0x1E5D0, 0x1E6C0, 0x1E7E0,
    0x2A6DE, 0x2B739, 0x2B73A, 0x2B81E, 0x2EBF0, 0x31350, 0x323AF, 0x323B0, 0x33479]] + DIGITS[-10:]

SCRIPT_BLOCKS = [
    (0x20, 0x7E), (0xA1, 0xFF), (0x100, 0x24F), (0x250, 0x2AF), (0x2B0, 0x2FF), (0x370, 0x3FF), (0x400, 0x52F),
    (0x531, 0x58F), (0x591, 0x5F4), (0x600, 0x6FF), (0x700, 0x74F), (0x780, 0x7B1), (0x7C0, 0x7FF), (0x800, 0x83E),
    (0x840, 0x85E), (0x8A0, 0x8FF), (0x900, 0x97F), (0x980, 0x9FE), (0xA01, 0xA76), (0xA81, 0xAFF), (0xB01, 0xB77),
    (0xB82, 0xBFA), (0xC00, 0xC7F), (0xC80, 0xCF3), (0xD00, 0xD7F), (0xD81, 0xDF4), (0xE01, 0xE5B), (0xE81, 0xEDF),
    (0xF00, 0xFDA), (0x1000, 0x109F), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x139F), (0x13A0, 0x13FD),
    (0x1400, 0x167F), (0x1680, 0x16F8), (0x1700, 0x1773), (0x1780, 0x17F9), (0x1800, 0x18AA), (0x1900, 0x19DF),
    (0x1A00, 0x1AAD), (0x1B00, 0x1BFF), (0x1C00, 0x1C7F), (0x1E00, 0x1EFF), (0x1F00, 0x1FFE), (0x2010, 0x205E),
    (0x2070, 0x209C), (0x20A0, 0x20C0), (0x2100, 0x218B), (0x2190, 0x23FF), (0x2460, 0x24FF), (0x2500, 0x27BF),
    (0x2800, 0x28FF), (0x2C00, 0x2DFF), (0x2E80, 0x2FD5), (0x3001, 0x303F), (0x3041, 0x30FF), (0x3105, 0x312F),
    (0x3131, 0x318E), (0x31F0, 0x33FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA000, 0xA4C6), (0xA500, 0xA62B),
    (0xA640, 0xA6F7), (0xA720, 0xA7FF), (0xA800, 0xA877), (0xA880, 0xA95F), (0xA980, 0xAAFF), (0xAB01, 0xABF9),
    (0xAC00, 0xD7A3), (0xF900, 0xFAD9), (0xFB00, 0xFDFF), (0xFE10, 0xFEFC), (0xFF01, 0xFFEE), (0x10000, 0x100FA),
    (0x10280, 0x103D5), (0x10400, 0x104AF), (0x10800, 0x1083F), (0x10900, 0x1095F), (0x10A00, 0x10A9F),
    (0x10B00, 0x10BAF), (0x10C80, 0x10CFF), (0x11000, 0x110C2), (0x11100, 0x111F4), (0x11400, 0x114D9),
    (0x11580, 0x116C9), (0x12000, 0x12399), (0x13000, 0x1342E), (0x16800, 0x16A6F), (0x17000, 0x187F7),
    (0x1B000, 0x1B12F), (0x1D000, 0x1D1EA), (0x1D400, 0x1D7FF), (0x1E800, 0x1E95F), (0x1EE00, 0x1EEF1),
    (0x1F000, 0x1F2FF), (0x1F300, 0x1F6FF), (0x1F700, 0x1FAFF), (0x20000, 0x2A6DF), (0x2F800, 0x2FA1D), (0x30000, 0x3134A)]

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.", "She said: \u201cI can\u2019t, won\u2019t, and shouldn\u2019t\u2026\u201d",
    "Das Gr\u00f6\u00dfte \u00dcbel w\u00e4re, nichts zu pr\u00fcfen.", "O\u00f9 est pass\u00e9e l\u2019\u00e9galit\u00e9 des bits ?",
    "\u00bfQu\u00e9 pas\u00f3 con el ni\u00f1o? \u00a1Nada!", "\u0427\u0438\u0441\u043b\u0430 \u043d\u0435 \u0434\u043e\u043b\u0436\u043d\u044b \u0437\u0430\u0432\u0438\u0441\u0435\u0442\u044c \u043e\u0442 \u043f\u043e\u0440\u044f\u0434\u043a\u0430.",
    "\u03a4\u03bf \u03ac\u03b8\u03c1\u03bf\u03b9\u03c3\u03bc\u03b1 \u03b4\u03b5\u03bd \u03b1\u03bb\u03bb\u03ac\u03b6\u03b5\u03b9.",
    "\u540c\u3058\u30d3\u30c3\u30c8\u3092\u8fd4\u3059\u30e2\u30c7\u30eb\u306f\u4fe1\u983c\u3067\u304d\u307e\u3059\u3002",
    "\u6bcf\u4e00\u4f4d\u90fd\u5fc5\u987b\u76f8\u540c\uff0c\u5426\u5219\u5c31\u662f\u53e6\u4e00\u4e2a\u6a21\u578b\u3002\u4ef7\u683c\uff1a\uffe51,234.50",
    "\uac19\uc740 \ubaa8\ub378\uc740 \uac19\uc740 \ube44\ud2b8\ub97c \ub0b8\ub2e4.",
    "\u0627\u0644\u0646\u062a\u064a\u062c\u0629 \u0646\u0641\u0633\u0647\u0627 \u0641\u064a \u0643\u0644 \u0645\u0631\u0651\u0629\u064d\u060c \u0663\u0664\u0665.",
    "\u05d4\u05ea\u05d5\u05e6\u05d0\u05d4 \u05d6\u05d4\u05d4 \u05ea\u05de\u05d9\u05d3; \u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd!",
    "\u0939\u0930 \u092c\u093e\u0930 \u0935\u0939\u0940 \u0909\u0924\u094d\u0924\u0930 \u092e\u093f\u0932\u0928\u093e \u091a\u093e\u0939\u093f\u090f\u0964 \u0967\u0968\u0969",
    "\u09aa\u09cd\u09b0\u09a4\u09bf\u09ac\u09be\u09b0 \u098f\u0995\u0987 \u09ab\u09b2\u0964", "\u0b92\u0bb0\u0bc7 \u0bb5\u0bbf\u0b9f\u0bc8 \u0bb5\u0bb0\u0bc1\u0bae\u0bcd.",
    "\u0e1c\u0e25\u0e25\u0e31\u0e1e\u0e18\u0e4c\u0e15\u0e49\u0e2d\u0e07\u0e40\u0e2b\u0e21\u0e37\u0e2d\u0e19\u0e40\u0e14\u0e34\u0e21", "K\u1ebft qu\u1ea3 ph\u1ea3i gi\u1ed1ng nhau m\u1ecdi l\u1ea7n.",
    "\u1200\u120d \u130a\u12dc \u12a0\u1295\u12f5 \u12cd\u1324\u1275\u1362", "\u10e7\u10dd\u10d5\u10d4\u10da\u10d7\u10d5\u10d8\u10e1 \u10d4\u10e0\u10d7\u10d8 \u10de\u10d0\u10e1\u10e3\u10ee\u10d8.",
    "\u0544\u056b\u0577\u057f \u0576\u0578\u0582\u0575\u0576 \u057a\u0561\u057f\u0561\u057d\u056d\u0561\u0576\u0568\u0589", "\u1019\u103c\u1014\u103a\u1019\u102c\u1005\u102c \u1041\u1042\u1043",
    "W\u015br\u00f3d nocnej ciszy \u017a\u00f3\u0142w gnie\u017cdzi\u0142 si\u0119.", "I\u0307stanbul'da \u0131\u015f\u0131k, \u011e\u00fcne\u015f\u2019in",
    "P\u0159\u00edli\u0161 \u017elu\u0165ou\u010dk\u00fd k\u016f\u0148", "\u00c6r\u00f8 og \u00c5land er \u00f8er", "\u1f08\u03c1\u03c7\u1f74 \u1f25\u03bc\u03b9\u03c3\u03c5 \u03c0\u03b1\u03bd\u03c4\u03cc\u03c2",
    "E = mc\u00b2, \u2211\u1d62 x\u1d62\u00b2 \u2264 \u221e, \u00bd \u2260 \u2153", "\U0001d54f \U0001d4ce \U0001d7d9\U0001d7da", "na\u00efve caf\u00e9 / nai\u0308ve cafe\u0301"]

CODE = [
    "for (int i = 0; i < n; ++i) {\n\ts += a[i] * b[i];\n}\n", "def f(x, *, y=None):\n    return x if y is None else (x, y)\n\n\n",
    "template <typename T, std::size_t N>\nstruct tensor final : base<T> { T v[N]{}; };", "#include <vector>\r\n\r\nint main(){return 0;}\r\n",
    "SELECT a.id, COUNT(*) FROM t AS a WHERE x >= 10 AND name LIKE '%o''k%' GROUP BY 1;", "<div class=\"a b\" id='c'>&nbsp;&lt;x&gt;</div><!-- end -->",
    "{\"key\": [1, 2.5e-3, null, true], \"s\": \"\\u00e9\\n\"}", "if err != nil {\n\t\treturn fmt.Errorf(\"%w: %q\", err, s)\n\t}",
    "x = lambda a: {**a, 'b': [*range(0, 1_000_000, 7)]}  # it's fine", "$ curl -sS -H 'A: b' \"http://localhost:8080/v1?x=1&y=2\" | jq .",
    "fn main() -> Result<(), Box<dyn Error>> { let v: Vec<_> = (0..10).map(|i| i * i).collect(); Ok(()) }",
    "\\begin{equation}\n  \\frac{\\partial L}{\\partial w_{ij}} = \\sum_k x_k^{2}\n\\end{equation}", "0x7F800001u 0b1010 1e-5f 3.14159265358979 1'000'000 .5 5.",
    "@@ -12,7 +12,9 @@\n-old line\n+new line\n context\n", "|a|b|\n|:-|-:|\n|1|2|\n\n* item\n  * nested\n\n```cpp\nint x;\n```\n",
    "\t\t\tdeep\n\t\t  mixed\n    four\n        eight\n             thirteen\n", "    \n\n\n    x\n \n \n", "a\\b\\\\c\\\"d\\u0041", "!!!???...,,,;;;:::---___===+++***///",
    "#!/bin/sh\nset -eu; [ -z \"${X:-}\" ] || exit 1 # don't\n", "std::cout << \"it's\" << '\\'' << std::endl;", "====================\n--------------------\n"]

EMOJI = ["\U0001f600", "\U0001f44d\U0001f3fd", "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f3f3\ufe0f\u200d\U0001f308",
         "\u2764\ufe0f\u200d\U0001f525", "\U0001f1e9\U0001f1ea", "\U0001f1fa\U0001f1f8\U0001f1eb", "1\ufe0f\u20e3", "#\ufe0f\u20e3",
         "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", "\u263a", "\u263a\ufe0f", "\u2603\ufe0e", "\U0001f9d1\U0001f3ff\u200d\U0001f680",
         "\U0001f468\u200d\U0001f9b0", "\U0001f976", "\U0001fae0", "\U0001fae8", "\U0001fac6", "\u2714", "\u2b50", "\u00a9\ufe0f", "\u200d", "\ufe0f"]

CONTRACTIONS = ["s", "t", "re", "ve", "m", "ll", "d", "S", "T", "RE", "VE", "M", "LL", "D", "Re", "rE", "vE", "Ve", "Ll", "lL",
                "\u017f", "\u017fe", "\u212a", "l", "r", "v", "e", "n", "'", "st", "\ufb06", "dd", "re3", "s\u0301", "\u017f\u0301"]
APOSTROPHES = ["'", "'", "'", "'", "\u2019", "\u02bc", "`", "''", " '", "' "]
WORDS = ["I", "you", "don", "we", "THEY", "it", "x", "", "\u00e9t\u00e9", "\u65e5", "3", "!", " ", "\n", "name", "O", "Rock", "ca", "\u0915"]
HARD = [
    "\u0915\u093f\u0924\u093e\u092c", "a  b", "a\n\nb", "a\n\n b", "a \n \n b", "12345", "a 12", "a 1234567 8", "x\u00b2\u00bd", "I'M I'\u017f", "x != y 'm'",
    "\u20ac", "", " ", "  ", "   ", "\n", "\r\n", "\r", "\n\r", "\r\n\r\n", " \n", "\n ", "\t\n\t", "a ", "a  ", "a   ", " a", "  a", "\na", "a\n",
    "\u00a0a", "a\u00a0b", "a\u00a0\u00a0b", "a\u3000b", "a\u200bb", "!\n", "!\r\n\r\n", "! \n", "!!\n\n\nx", "?\n?", "...\r\r\r", "a!\nb", "'\n", "'s\n",
    "\ufeffa", "\u0000", "a\u0000b", "\u0301", "\u0301a", "a\u0301", "e\u0301e\u0301", "\u00e9", "!\u0301", " \u0301", "1\u0301", "\n\u0301a", "\u200da",
    "<image>tail", "<|u|>Hi", "<|im_end|>", "<|im_end|><|im_end|>", " <|im_end|> ", "a<|im_end|>b", "<|im_end|>\n", "\n<|im_start|>user\nhi<|im_end|>\n",
    "\u00c5", "A\u030a", "\u212b", "\u1e69", "s\u0323\u0307", "s\u0307\u0323", "\u1100\u1161\u11a8", "\uac00\u11a8", "\uac01", "\u1100\u1161\u11a7", "\u0344",
    "\u0958", "\u0915\u093c", "\u2adc", "\uf900", "\U0002f800", "\U0001d15e", "\u0fb2\u0f71\u0f80", "\u0cc6\u0cc2\u0cd5", "a\u0315\u0300\u05ae\u0300b",
    "<|begin_of_text|>", "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>", "1234 12345 123456", "1,234,567.89", "00000000",
    "zq zqj zqjx zqjxv", " zqjxv", "zqjxvzqjxv", "supercalifragilistic", " antidisestablishment", "abc", "ab c", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]


def strings():
    """About 12,000 different strings, in a fixed order."""
    r = random.Random(20240607)
    pick, upto = r.choice, lambda n: r.randint(1, n)
    join = lambda source, n, sep="": sep.join(pick(source) for _ in range(n))
    out = dict.fromkeys(HARD + SENTENCES + CODE + EMOJI + SPECIAL_TOKENS + TOKEN_PIECES + SPACES + NOT_SPACES + DIGITS + MARKS
                        + NFC_TRAPS + JAMO + CLASS_CHANGES + [chr(c) for c in range(256)])

    def add(count, make):
        goal = len(out) + count
        while len(out) < goal:
            out[make()] = None

    def one(block):
        while True:
            c = r.randint(*block)
            if not 0xD800 <= c <= 0xDFFF:
                return chr(c)

    def script():
        block = pick(SCRIPT_BLOCKS)
        return "".join(pick(["", "", "", "", " ", " ", "\n", "1", "."]) + one(block) for _ in range(upto(10)))

    def cut():
        text = pick(SENTENCES + CODE)
        a = r.randrange(len(text))
        return text[a:a + upto(40)]

    def spaces():
        common = [" ", " ", " ", "\n", "\n", "\t", "\r", "a", "b", "!", "1"]
        return join(common + (SPACES + NOT_SPACES if r.random() < 0.5 else []), upto(9))

    def numbers():
        run = lambda: join(DIGITS[:10] if r.random() < 0.6 else DIGITS, upto(8))
        return join(["", " ", "  ", "a", "-", ".", ",", "\n", "\u00e9", "'"], 1).join(run() for _ in range(upto(3)))

    def contraction():
        return "".join(pick(WORDS) + pick(APOSTROPHES) + pick(CONTRACTIONS) for _ in range(upto(3))) + pick(["", "", " x", "a", "\n", "1"])

    def special():
        parts = [pick(SPECIAL_TOKENS), pick(TOKEN_PIECES), pick(WORDS), pick(["", " ", "\n", "  ", "\u0301"])]
        return join(parts + [pick(SPECIAL_TOKENS)], upto(5))

    def marked():
        return "".join(pick(BASES + JAMO + NFC_TRAPS + [" ", "!", "1", ""]) + join(MARKS, r.choice([0, 1, 1, 2, 2, 3, 4]))
                       for _ in range(upto(3)))

    def ascii_soup():
        return "".join(chr(r.randint(32, 126)) for _ in range(upto(16)))

    def soup():
        sources = [script, cut, spaces, numbers, contraction, special, marked, ascii_soup, lambda: pick(EMOJI), lambda: pick(HARD)]
        return "".join(pick(sources)() for _ in range(r.randint(2, 4)))[:120]

    add(2000, script)
    add(1100, cut)
    add(1500, spaces)
    add(800, numbers)
    add(900, contraction)
    add(900, special)
    add(1300, marked)
    add(800, ascii_soup)
    add(300, lambda: "".join(pick(["", "a", " ", "1"]) + pick(EMOJI) for _ in range(upto(4))))
    add(500, lambda: pick(["a", "1", "!", " ", "\n", "A "]) + pick(CLASS_CHANGES) + pick(["a", "1", "!", " ", "\n", "\u0301"]))
    add(1000, soup)
    return list(out)
